// SPDX-License-Identifier: Apache-2.0
// What the costs leave is the compiler's: aligned groups of four registers find no room between the weights, and what
// it computes ahead is more or less. It is not monotonic: a number of weights may spill 2 registers where more weights
// spill none. So the formula says where it is in doubt (Footprint::registers_in_doubt), the compiler's report decides,
// and a plan that spills is refused.
#include "model/sparse/registers.hpp"

#include "model/chip/occupancy.hpp"
#include "model/sparse/instructions.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

bool has_half_pair(const SparseGeometry& geometry) {
  return geometry.network.precision == Precision::fp32 && geometry.storage == Storage::packed_pair &&
         std::ranges::any_of(geometry.slots, [](int slots) { return slots % 2 != 0; });
}

// Rows stored dense whose loads the compiler shares, with the words of several of them at once, beyond what rows in
// turn need: looked for with `measure --compile-only` in about a dozen shapes on sm_90 and eight on other
// architectures. By the costs above alone plans of up to 221 registers spilled in none of them, of 225 in one (LSTM,
// fp16, batch 8); but LSTMs in fp16 with four samples a plane on sm_90 from 197 on.
double shared_load_registers(const Chip& chip, const RegisterCosts& costs, const SparseGeometry& geometry) {
  if (rows_per_load(geometry) == 1) {
    return 0;
  }
  const bool is_worst = static_cast<int>(chip.compute_capability_major) == 9 && geometry.network.cell == Cell::lstm &&
                        sums_in_half(geometry) && geometry.plane_unit_bytes == 8;
  return costs[is_worst ? RegisterCost::shared_loads_of_lstm : RegisterCost::shared_loads];
}

std::size_t architecture_of(int compute_capability_major) {
  const int major = compute_capability_major;
  return major <= 8 ? 0 : major == 9 ? 1 : major <= 11 ? 2 : 3;
}

bool multiplies_pairs_together(const SparseGeometry& geometry) {
  return geometry.pass_planes > 1 && geometry.gates == 1 && geometry.network.precision != Precision::fp8 &&
         geometry.storage == Storage::packed_pair && !geometry.has_overflow() && geometry.row_splits == 0;
}

constexpr int kFewFetched = 4;  // words in flight of a producer warp that keeps few registers

}  // namespace

RegisterCosts register_costs(int compute_capability_major) {
  return {architecture_of(compute_capability_major)};
}

int working_registers(const RegisterCosts& costs, const SparseGeometry& geometry) {
  const int all_planes = geometry.planes;
  const int row_tiles = geometry.tiles;
  const std::int64_t state_words = geometry.exchange_bytes / 16;
  const int words_in_flight = std::min(geometry.loads_in_flight, geometry.fetched_words);
  const bool keeps_addresses = geometry.producer_warps == 0 && all_planes <= 2 && row_tiles <= 2 &&
                               state_words <= std::int64_t{geometry.threads} * geometry.loads_in_flight;
  const bool narrow = geometry.network.precision != Precision::fp32;  // values and state are unpacked

  const double half_pair = geometry.pass_planes > 2 && has_half_pair(geometry) ? costs[RegisterCost::half_pair] : 0;
  const double kept = costs[RegisterCost::base] + half_pair +
                      (row_tiles == 2  ? costs[RegisterCost::two_tiles]
                       : row_tiles > 2 ? costs[RegisterCost::more_tiles]
                                       : 0);
  const double staging = 4 * words_in_flight + (all_planes > 1 ? costs[RegisterCost::staged_planes] : 0) +
                         (geometry.ring_chunks > 0 ? costs[RegisterCost::staged_ring] : 0);

  const int gates = geometry.gates;
  const int passes = all_planes / geometry.pass_planes;
  const int samples = geometry.batch_padded / passes;  // of a pass
  const int rows = std::min(geometry.rows_per_group, geometry.tile_height);
  const int sums = rows * samples;
  const int outputs = std::max(1, geometry.tile_rows * samples / geometry.lanes_per_row);
  const int chunks = geometry.has_overflow() ? geometry.chunks_in_flight * geometry.chunk_words : 0;
  double gather = sums + costs[RegisterCost::output] * (outputs - 1);
  gather += geometry.row_splits > 0 ? geometry.row_splits * samples + rows + costs[RegisterCost::row_splits] : 0;
  gather += geometry.ring_chunks > 0 ? costs[RegisterCost::ring] : 0;
  gather += geometry.storage == Storage::dense && geometry.has_overflow() ? costs[RegisterCost::dense_overflow] : 0;
  gather += geometry.network.cell == Cell::lstm  ? costs[RegisterCost::lstm]
            : geometry.network.cell == Cell::gru ? costs[RegisterCost::gru]
                                                 : 0;
  gather += narrow ? costs[RegisterCost::loaded_word] * std::max(1, geometry.plane_unit_bytes / 4) : 0;
  gather += narrow && all_planes > 1 ? costs[RegisterCost::several_planes] : 0;
  gather += narrow && gates > 1 ? costs[RegisterCost::gated_pass] * std::max(0, passes - 2) : 0;
  if (geometry.pass_planes > 1) {
    const bool unpacked_once = geometry.storage == Storage::packed_pair || keeps_addresses || row_tiles > 2 ||
                               (geometry.storage == Storage::dense && geometry.network.precision == Precision::bf16);
    // Further planes of bf16 take more only with overflow.
    const bool more = narrow && (geometry.network.precision != Precision::bf16 || geometry.has_overflow());
    gather += std::max(costs[RegisterCost::chunk_word_together] * chunks,
                       narrow && unpacked_once ? costs[RegisterCost::unpacked_together] : 0);
    gather += more ? costs[RegisterCost::more_together] * (geometry.pass_planes / 2 - 1) : 0;
    gather += !narrow && geometry.pass_planes > 2 ? costs[RegisterCost::wide_together] : 0;
    gather += narrow && gates == 1 ? costs[RegisterCost::together_pass] * (passes - 1) : 0;
  }
  // GRUs of four pipelined passes: 45 words of weights and more spill with 224 registers, 42 do not; why is not known.
  constexpr int kManyPasses = 4;
  gather += geometry.network.cell == Cell::gru && geometry.producer_warps > 0 && passes >= kManyPasses
                ? costs[RegisterCost::gru_of_many_passes]
                : 0;
  gather +=
      keeps_addresses ? costs[RegisterCost::kept_addresses] + costs[RegisterCost::kept_per_word] * words_in_flight : 0;
  return static_cast<int>(std::ceil(kept + std::max(staging, gather)));
}

int working_registers(const Chip& chip, const SparseGeometry& geometry) {
  const int major = static_cast<int>(chip.compute_capability_major);
  const RegisterCosts costs = register_costs(major);
  const double together = multiplies_pairs_together(geometry) ? costs[RegisterCost::pairs_together] : 0;
  return working_registers(costs, geometry) + static_cast<int>(shared_load_registers(chip, costs, geometry) + together);
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
