// SPDX-License-Identifier: Apache-2.0
// The costs are fitted to the most weights that NVRTC 13.0 compiles without a spill in 480 random shapes of sparse
// plans on sm_80, sm_90, sm_100 and sm_120 (docs/notebook/registers.md): nothing too little, the least that is too
// much.
//
// What is left is the compiler's: aligned groups of four registers find no room between the weights, and what it
// computes ahead is more or less. It is not monotonic: a number of weights may spill 2 registers where more weights
// spill none. So the formula says where it is in doubt (Footprint::registers_in_doubt), the compiler's report decides,
// and a plan that spills is refused.
#include "model/sparse/registers.hpp"

#include "model/chip/occupancy.hpp"
#include "model/sparse/instructions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

constexpr std::array<RegisterCosts, 4> kRegisterCosts{{
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
        .dense_overflow = 3,
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
        .dense_overflow = 2.5,
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
        .dense_overflow = 2.75,
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
        .dense_overflow = 2,
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

bool has_half_pair(const SparseGeometry& geometry) {
  return geometry.network.precision == Precision::fp32 && geometry.storage == Storage::packed_pair &&
         std::ranges::any_of(geometry.slots, [](int slots) { return slots % 2 != 0; });
}

// Rows stored dense whose loads the compiler shares, with the words of several of them at once, beyond what rows in
// turn need: looked for with `measure --compile-only` in about a dozen shapes on sm_90 and eight on other
// architectures. By the costs above alone plans of up to 221 registers spilled in none of them, of 225 in one (LSTM,
// fp16, batch 8); but LSTMs in fp16 with four samples a plane on sm_90 from 197 on.
constexpr int kSharedLoads = 34, kSharedLoadsOfLstm = 60;

int shared_load_registers(const Chip& chip, const SparseGeometry& geometry) {
  if (rows_per_load(geometry) == 1) {
    return 0;
  }
  const bool is_worst = static_cast<int>(chip.compute_capability_major) == 9 && geometry.network.cell == Cell::lstm &&
                        sums_in_half(geometry) && geometry.plane_unit_bytes == 8;
  return is_worst ? kSharedLoadsOfLstm : kSharedLoads;
}

// Beside the sums of splits and the number of those of each row: with it none of the plans with splits in
// validation.csv spills on sm_90, nor four others on sm_80, sm_90, sm_100 and sm_120.
constexpr int kRowSplits = 6;

std::size_t architecture_of(int compute_capability_major) {
  const int major = compute_capability_major;
  return major <= 8 ? 0 : major == 9 ? 1 : major <= 11 ? 2 : 3;
}

// Several planes multiplied together, of cells without gates whose rows are pairs in registers: without so many more
// the formula would allow too much in 86 of 765 measured shapes, with them in 7.
constexpr int kPairsTogether = 20;

bool multiplies_pairs_together(const SparseGeometry& geometry) {
  return geometry.pass_planes > 1 && geometry.gates == 1 && geometry.network.precision != Precision::fp8 &&
         geometry.storage == Storage::packed_pair && !geometry.has_overflow() && geometry.row_splits == 0;
}

constexpr int kFewFetched = 4;  // words in flight of a producer warp that keeps few registers

}  // namespace

const RegisterCosts& register_costs(int compute_capability_major) {
  return kRegisterCosts[architecture_of(compute_capability_major)];
}

int working_registers(const RegisterCosts& costs, const SparseGeometry& geometry) {
  const int all_planes = geometry.planes;
  const int row_tiles = geometry.tiles;
  const std::int64_t state_words = geometry.exchange_bytes / 16;
  const int words_in_flight = std::min(geometry.loads_in_flight, geometry.fetched_words);
  const bool keeps_addresses = geometry.producer_warps == 0 && all_planes <= 2 && row_tiles <= 2 &&
                               state_words <= std::int64_t{geometry.threads} * geometry.loads_in_flight;
  const bool narrow = geometry.network.precision != Precision::fp32;  // values and state are unpacked

  const int half_pair = geometry.pass_planes > 2 && has_half_pair(geometry) ? kHalfPair : 0;
  const double kept = costs.base + half_pair +
                      (row_tiles == 2  ? costs.two_tiles
                       : row_tiles > 2 ? costs.more_tiles
                                       : 0);
  const double staging = 4 * words_in_flight + (all_planes > 1 ? costs.staged_planes : 0) +
                         (geometry.ring_chunks > 0 ? costs.staged_ring : 0);

  const int gates = geometry.gates;
  const int passes = all_planes / geometry.pass_planes;
  const int samples = geometry.batch_padded / passes;  // of a pass
  const int rows = std::min(geometry.rows_per_group, geometry.tile_height);
  const int sums = rows * samples;
  const int outputs = std::max(1, geometry.tile_rows * samples / geometry.lanes_per_row);
  const int chunks = geometry.has_overflow() ? geometry.chunks_in_flight * geometry.chunk_words : 0;
  double gather = sums + costs.output * (outputs - 1);
  gather += geometry.row_splits > 0 ? geometry.row_splits * samples + rows + kRowSplits : 0;
  gather += geometry.ring_chunks > 0 ? costs.ring : 0;
  gather += geometry.storage == Storage::dense && geometry.has_overflow() ? costs.dense_overflow : 0;
  gather += geometry.network.cell == Cell::lstm ? costs.lstm : geometry.network.cell == Cell::gru ? costs.gru : 0;
  gather += narrow ? costs.loaded_word * std::max(1, geometry.plane_unit_bytes / 4) : 0;
  gather += narrow && all_planes > 1 ? costs.several_planes : 0;
  gather += narrow && gates > 1 ? costs.gated_pass * std::max(0, passes - 2) : 0;
  if (geometry.pass_planes > 1) {
    const bool unpacked_once = geometry.storage == Storage::packed_pair || keeps_addresses || row_tiles > 2 ||
                               (geometry.storage == Storage::dense && geometry.network.precision == Precision::bf16);
    // Further planes of bf16 take more only with overflow.
    const bool more = narrow && (geometry.network.precision != Precision::bf16 || geometry.has_overflow());
    gather += std::max(costs.chunk_word_together * chunks, narrow && unpacked_once ? costs.unpacked_together : 0);
    gather += more ? costs.more_together * (geometry.pass_planes / 2 - 1) : 0;
    gather += !narrow && geometry.pass_planes > 2 ? costs.wide_together : 0;
    gather += narrow && gates == 1 ? costs.together_pass * (passes - 1) : 0;
  }
  // GRUs of four pipelined passes: 45 words of weights and more spill with 224 registers, 42 do not; why is not known.
  constexpr int kManyPasses = 4, kGruOfManyPasses = 74;
  gather +=
      geometry.network.cell == Cell::gru && geometry.producer_warps > 0 && passes >= kManyPasses ? kGruOfManyPasses : 0;
  gather += keeps_addresses ? costs.kept_addresses + costs.kept_per_word * words_in_flight : 0;
  return static_cast<int>(std::ceil(kept + std::max(staging, gather)));
}

int working_registers(const Chip& chip, const SparseGeometry& geometry) {
  const int major = static_cast<int>(chip.compute_capability_major);
  return working_registers(register_costs(major), geometry) + shared_load_registers(chip, geometry) +
         (multiplies_pairs_together(geometry) ? kPairsTogether : 0);
}

std::optional<RegisterSplit> register_split(const SparsePlan& plan) {
  constexpr int kGroup = 4;                          // warps of a warpgroup, one of each partition
  constexpr int kOfPartition = 512;                  // registers of a lane, of all its warps
  constexpr int kFetching = 40, kFetchingMore = 56;  // for a few, and for as many as there may be
  constexpr int kMost = 248;
  const int groups = plan.warps() / kGroup, fetching_groups = plan.producer_warps / kGroup;
  if (fetching_groups == 0 || plan.producer_warps % kGroup != 0 || plan.warps() % kGroup != 0 || groups < 2) {
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

int registers_available(const Chip& chip, const SparsePlan& plan) {
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
