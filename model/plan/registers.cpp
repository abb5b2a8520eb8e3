// SPDX-License-Identifier: Apache-2.0
// The costs are fitted to the most weights that NVRTC 13.0 compiles without a spill in 480 random shapes of sparse plans
// on sm_80, sm_90, sm_100 and sm_120 (docs/notebook/registers.md): nothing too little, the least that is too much.
//
// What is left is the compiler's: aligned groups of four registers find no room between the weights, and what it
// computes ahead is more or less. It is not monotonic: a number of weights may spill 2 registers where more weights
// spill none. So the formula says where it is in doubt (Footprint::registers_in_doubt), the compiler's report decides,
// and a plan that spills is refused.
#include "model/plan/registers.hpp"

#include "model/plan/footprint.hpp"
#include "model/plan/instructions.hpp"
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

constexpr std::array<RegisterCosts, 4> kCosts{{
    // sm_80
    {
        .base = 17.75,
        .two_tiles = 7.75,
        .more_tiles = 4.75,
        .staged_planes = 0.25,
        .staged_ring = 1.5,
        .loaded_word = 0,
        .output = 4.75,
        .ring = 9.5,
        .dense_tail = 3,
        .lstm = 5.5,
        .gru = 5.25,
        .kept_addresses = 3.25,
        .kept_per_word = 1.25,
        .several_planes = 9.25,
        .gated_pass = 23.25,
        .chunk_word_together = 1.5,
        .unpacked_together = 18.5,
        .more_together = 23.5,
        .wide_together = 0,
        .together_pass = 0.5,
    },
    // sm_90
    {
        .base = 17.5,
        .two_tiles = 5.25,
        .more_tiles = 1.5,
        .staged_planes = 0,
        .staged_ring = 1.75,
        .loaded_word = 0.25,
        .output = 7.5,
        .ring = 10.25,
        .dense_tail = 2.5,
        .lstm = 1.75,
        .gru = 5.75,
        .kept_addresses = 7.75,
        .kept_per_word = 0.25,
        .several_planes = 13.75,
        .gated_pass = 19.25,
        .chunk_word_together = 0.75,
        .unpacked_together = 18.75,
        .more_together = 22,
        .wide_together = 19.75,
        .together_pass = 1,
    },
    // sm_100
    {
        .base = 17.25,
        .two_tiles = 3,
        .more_tiles = 5.5,
        .staged_planes = 0.75,
        .staged_ring = 1.25,
        .loaded_word = 1.25,
        .output = 3.75,
        .ring = 9.25,
        .dense_tail = 2.75,
        .lstm = 10.75,
        .gru = 6.75,
        .kept_addresses = 0.25,
        .kept_per_word = 2.75,
        .several_planes = 3.75,
        .gated_pass = 4.25,
        .chunk_word_together = 2.25,
        .unpacked_together = 15.75,
        .more_together = 26.25,
        .wide_together = 16,
        .together_pass = 6.5,
    },
    // sm_120
    {
        .base = 16.25,
        .two_tiles = 5.5,
        .more_tiles = 6,
        .staged_planes = 2.75,
        .staged_ring = 1.5,
        .loaded_word = 1,
        .output = 3.5,
        .ring = 10.5,
        .dense_tail = 2,
        .lstm = 10,
        .gru = 9.25,
        .kept_addresses = 3.75,
        .kept_per_word = 2,
        .several_planes = 5.75,
        .gated_pass = 4.5,
        .chunk_word_together = 1.5,
        .unpacked_together = 15.25,
        .more_together = 0.75,
        .wide_together = 0,
        .together_pass = 2.25,
    },
}};

// A pair of fp32 values of which only one is there, where more than two planes are multiplied together: in the one
// shape in which it was looked for such plans spill from 110 words on on every architecture, others from 117 to 126 on.
constexpr int kHalfPair = 10;

bool has_half_pair(const Network& network, const Plan& plan) {
  return network.precision == Precision::fp32 && plan.storage == Storage::packed_pair &&
         std::ranges::any_of(plan.slots, [](int slots) { return slots % 2 != 0; });
}

// Rows stored dense whose loads the compiler shares, with the words of several of them at once, beyond what rows in
// turn need: looked for with `measure --compile-only` in about a dozen shapes on sm_90 and eight on other
// architectures. By the costs above alone plans of up to 221 registers spilled in none of them, of 225 in one (LSTM,
// fp16, batch 8); but LSTMs in fp16 with four samples a plane on sm_90 from 197 on.
constexpr int kSharedLoads = 34, kSharedLoadsOfLstm = 60;

int shared_load_registers(const Chip& chip, const Network& network, const Plan& plan) {
  if (rows_per_load(network, plan) == 1) {
    return 0;
  }
  const bool is_worst = static_cast<int>(chip.compute_capability_major) == 9 && network.cell == Cell::lstm &&
                        sums_in_half(network, plan) && plane_unit_bytes(network, plan) == 8;
  return is_worst ? kSharedLoadsOfLstm : kSharedLoads;
}

// Beside the sums of pieces and the number of those of each row: with it none of the plans with pieces in
// validation.csv spills on sm_90, nor four others on sm_80, sm_90, sm_100 and sm_120.
constexpr int kPieces = 6;

constexpr int kDenseBase = 24;
constexpr int kStructuredBase = 16, kUneven = 13, kFewSpans = 3, kOfPartBefore90 = 8;
constexpr int kTilesAhead = 2;  // kernels/dense/multiply.cuh
constexpr int kDecoding = 2, kDecodingBefore90 = 6, kAskingForSpans = 20, kAndSamples = 20;

// Dense persistent: sums, words and tiles from shared memory in flight, and what the addresses and the cells take. For
// structured_2_4 with few spans in a group a fit of its own, to the most tiles, of four words, that NVRTC 13.0 compiles
// without a spill in 60 shapes, most of them on all four architectures: nowhere too many, in most at most two too few.
// Where the spans are uneven over warps that are no power of two, or over any and batches leave a tile of samples in
// part empty, it takes up to 13 registers more; why is not known. On sm_80 such batches take some with even spans, too:
// of 110 plans drawn at random (`measure --compile-only`) these were the three that spilled; of 60 more three spilled
// 1, 7 and 9 words, for which `measure` takes other plans. Bitmaps: looked for in about 80 plans on four architectures.
// Where warps ask at run time which spans they have, and lanes which samples, the compiler takes more, up to so many
// registers, and not always. Before sm_90 the further tiles that are expanded ahead take some in few plans: one of
// LSTM, batch 8, spilled 16 bytes.
int dense_working_registers(const Chip& chip, const Network& network, const Plan& plan) {
  const int products = row_tiles(network, plan) * sample_tiles(network, plan);
  const int sums = 4 * products * product_chains(network, plan);
  const int loads = std::min(plan.loads_in_flight, (warp_spans(network, plan) + 1) * sample_tiles(network, plan));
  const int others = sums + 4 * std::min(plan.shared_tiles, kTilesAhead);
  if (plan.storage == Storage::structured_2_4) {
    const bool has_part = has_part_tile(network, plan);
    const bool is_uneven =
        has_uneven_spans(network, plan) && (has_part || !std::has_single_bit(static_cast<unsigned>(plan.warps())));
    const bool has_few = plan.loads_in_flight <= 2 * kFewSpans * sample_tiles(network, plan);
    const int asking = is_uneven ? kUneven : has_part && chip.compute_capability_major < 9 ? kOfPartBefore90 : 0;
    return others + (has_few ? kStructuredBase + (8 * loads + 2) / 3 : kDenseBase + 4 * loads) + asking;
  }
  const bool decodes = plan.storage == Storage::bitmap && plan.shared_tiles > 0;
  const bool is_uneven = has_uneven_spans(network, plan);
  const bool has_part = team_batch(network, plan) % 8 != 0;
  const int uneven = is_uneven ? kAskingForSpans + (has_part ? kAndSamples * sample_tiles(network, plan) : 0) : 0;
  const int decoding = chip.compute_capability_major < 9 ? kDecodingBefore90 : kDecoding;
  return kDenseBase + others + 4 * loads + (decodes ? decoding + uneven : 0);
}

std::size_t architecture_of(int compute_capability_major) {
  const int major = compute_capability_major;
  return major <= 8 ? 0 : major == 9 ? 1 : major <= 11 ? 2 : 3;
}

// Several planes multiplied together, of cells without gates whose rows are pairs in registers: without so many more the
// formula would allow too much in 86 of 765 measured shapes, with them in 7.
constexpr int kPairsTogether = 20;

bool multiplies_pairs_together(const Network& network, const Plan& plan) {
  return plan.pass_planes > 1 && info(network.cell).gates == 1 && network.precision != Precision::fp8 &&
         plan.storage == Storage::packed_pair && !plan.has_tail() && plan.pieces == 0;
}

constexpr int kFewFetched = 4;  // words in flight of an exchange warp that keeps few registers

}  // namespace

const RegisterCosts& register_costs(int compute_capability_major) {
  return kCosts[architecture_of(compute_capability_major)];
}

int working_registers(const RegisterCosts& costs, const Network& network, const Plan& plan) {
  const int all_planes = planes(network, plan);
  const int row_tiles = tiles(network, plan);
  const std::int64_t state_words = exchange_bytes(network, plan) / 16;
  const int words_in_flight = std::min(plan.loads_in_flight, fetched_words(network, plan));
  const bool keeps_addresses = plan.exchange_warps == 0 && all_planes <= 2 && row_tiles <= 2 &&
                               state_words <= std::int64_t{plan.threads} * plan.loads_in_flight;
  const bool narrow = network.precision != Precision::fp32;  // values and state are unpacked

  const int half_pair = plan.pass_planes > 2 && has_half_pair(network, plan) ? kHalfPair : 0;
  const double kept = costs.base + half_pair +
                      (row_tiles == 2  ? costs.two_tiles
                       : row_tiles > 2 ? costs.more_tiles
                                       : 0);
  const double staging =
      4 * words_in_flight + (all_planes > 1 ? costs.staged_planes : 0) + (plan.ring_chunks > 0 ? costs.staged_ring : 0);

  const int gates = info(network.cell).gates;
  const int passes = all_planes / plan.pass_planes;
  const int samples = plan.batch_padded / passes;  // of a pass
  const int rows = std::min(plan.rows_per_group, tile_height(network, plan));
  const int sums = rows * samples;
  const int outputs = std::max(1, plan.tile_rows * samples / plan.lanes_per_row);
  const int chunks = plan.has_tail() ? plan.chunks_in_flight * chunk_words(network, plan) : 0;
  double gather = sums + costs.output * (outputs - 1);
  gather += plan.pieces > 0 ? plan.pieces * samples + rows + kPieces : 0;
  gather += plan.ring_chunks > 0 ? costs.ring : 0;
  gather += plan.storage == Storage::dense && plan.has_tail() ? costs.dense_tail : 0;
  gather += network.cell == Cell::lstm ? costs.lstm : network.cell == Cell::gru ? costs.gru : 0;
  gather += narrow ? costs.loaded_word * std::max(1, plane_unit_bytes(network, plan) / 4) : 0;
  gather += narrow && all_planes > 1 ? costs.several_planes : 0;
  gather += narrow && gates > 1 ? costs.gated_pass * std::max(0, passes - 2) : 0;
  if (plan.pass_planes > 1) {
    const bool unpacked_once = plan.storage == Storage::packed_pair || keeps_addresses || row_tiles > 2 ||
                               (plan.storage == Storage::dense && network.precision == Precision::bf16);
    // Further planes of bf16 take more only with a tail.
    const bool more = narrow && (network.precision != Precision::bf16 || plan.has_tail());
    gather += std::max(costs.chunk_word_together * chunks, narrow && unpacked_once ? costs.unpacked_together : 0);
    gather += more ? costs.more_together * (plan.pass_planes / 2 - 1) : 0;
    gather += !narrow && plan.pass_planes > 2 ? costs.wide_together : 0;
    gather += narrow && gates == 1 ? costs.together_pass * (passes - 1) : 0;
  }
  // GRUs of four turns: 45 words of weights and more spill with 224 registers, 42 do not; why is not known.
  constexpr int kManyTurns = 4, kGruOfManyTurns = 74;
  gather += network.cell == Cell::gru && plan.exchange_warps > 0 && passes >= kManyTurns ? kGruOfManyTurns : 0;
  gather += keeps_addresses ? costs.kept_addresses + costs.kept_per_word * words_in_flight : 0;
  return static_cast<int>(std::ceil(kept + std::max(staging, gather)));
}

int working_registers(const Chip& chip, const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {
    return dense_working_registers(chip, network, plan);
  }
  const int major = static_cast<int>(chip.compute_capability_major);
  return working_registers(register_costs(major), network, plan) + shared_load_registers(chip, network, plan) +
         (multiplies_pairs_together(network, plan) ? kPairsTogether : 0);
}

std::optional<RegisterSplit> register_split(const Plan& plan) {
  constexpr int kGroup = 4;                          // warps of a warpgroup, one of each partition
  constexpr int kOfPartition = 512;                  // registers of a lane, of all its warps
  constexpr int kFetching = 40, kFetchingMore = 56;  // for a few, and for as many as there may be
  constexpr int kMost = 248;
  const int groups = plan.warps() / kGroup, fetching_groups = plan.exchange_warps / kGroup;
  if (fetching_groups == 0 || plan.exchange_warps % kGroup != 0 || plan.warps() % kGroup != 0 || groups < 2) {
    return std::nullopt;
  }
  const int fetching = plan.loads_in_flight <= kFewFetched ? kFetching : kFetchingMore;
  const int at_launch = kOfPartition / (groups + fetching_groups) / 8 * 8;
  const int computing = (at_launch * (groups + fetching_groups) - fetching_groups * fetching) / groups / 8 * 8;
  if (computing <= at_launch) {
    return std::nullopt;
  }
  return RegisterSplit{std::min(computing, kMost), fetching};
}

int registers_available(const Chip& chip, const Plan& plan) {
  // Compute capabilities. On sm_120 kernels that copy in bulk get no more than before warps hand registers over: in all
  // five that were looked at, with the number for which they are launched the model is within 6 words, with the other
  // 24 to 64 too many.
  constexpr int kFirstThatSplits = 9, kFirstThatDoesNotWithBulk = 12;
  const int alike = max_registers_per_thread(chip, plan.block_threads());
  const bool splits =
      chip.compute_capability_major >= kFirstThatSplits &&
      !(plan.exchange == ExchangeProtocol::bulk_copy && chip.compute_capability_major >= kFirstThatDoesNotWithBulk);
  if (const auto split = register_split(plan); split && splits && alike > 0) {
    return split->computing;
  }
  return alike;
}

}  // namespace onchip
