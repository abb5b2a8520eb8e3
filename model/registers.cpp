// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: the larger of its two phases, beside the weights it keeps.
//
//   staging   13 + 6 per word in flight
//   gather    16 + the fp32 sums of a tile's pass, at least 4 + what one load fetches
//   each      more for gated cells, several planes and tiles, weights outside registers
//
// Fitted (linear programming: the least sum of what is too much, nothing too little) to the most weights that
// NVRTC 13.0 compiles without a spill in 154 shapes on the worst of sm_80, sm_90, sm_100 and sm_120, with the further
// attempts that kernels/compiler.cpp makes, of the kernels of that time. Today's need less: of 357 other limits
// (experiments/data/register_limits.csv, `register_limits score`) it is within 8 words of 59, on average 18 too
// careful, and allows more than was kept in 13. It is no proof: the compiler is not monotonic, a number of weights may
// spill 2 registers where more weights spill none. The compiler's report decides, and a plan that spills is refused.
#include "model/footprint.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace onchip {
namespace {

struct Phase {
  int base, gated, several_planes, two_tiles, more_tiles, tail, ring;
};
constexpr Phase kStaging{13, 7, 5, 0, 7, 4, 4};
constexpr Phase kGather{16, 4, 1, 13, 10, 3, 9};
constexpr int kPerLoadInFlight = 6;
constexpr int kLeastSums = 4;
constexpr int kTogether = 26, kTogetherTail = 2, kTogetherPerChunk = 3;  // several planes in one pass; of a tail, too
constexpr int kFp8 = 3;
constexpr int kDelta = 3;
constexpr std::array kLoaded{0, 2, 3, 4, 6};  // by words that a load fetches
constexpr int kPerOutput = 4;                 // that a lane finishes beyond the first

int common(const Network& network, const Plan& plan, const Phase& phase) {
  const int row_tiles = tiles(network, plan);
  return phase.base + (info(network.cell).gates > 1 ? phase.gated : 0) +
         (planes(network, plan) > 1 ? phase.several_planes : 0) +
         (row_tiles == 2  ? phase.two_tiles
          : row_tiles > 2 ? phase.more_tiles
                          : 0) +
         (plan.has_tail() ? phase.tail : 0) + (plan.ring_chunks > 0 ? phase.ring : 0);
}

constexpr int kDenseBase = 24;
constexpr int kStructuredBase = 16, kUneven = 13, kFewSpans = 3;
constexpr int kTilesAhead = 2;  // kernels/multiply.cuh

// Dense persistent: sums, words and tiles from shared memory in flight, and what the addresses and the cells take. For
// structured_2_4 with few spans in a group a fit of its own, to the most tiles, of four words, that NVRTC 13.0 compiles
// without a spill in 60 shapes, most of them on all four architectures: nowhere too many, in most at most two too few.
// Where the spans are uneven over warps that are no power of two, it takes up to 13 registers more; why is not known.
int dense_working_registers(const Network& network, const Plan& plan) {
  const int products = row_tiles(network, plan) * sample_tiles(network, plan);
  const int sums = 4 * products * product_chains(network, plan);
  const int loads = std::min(plan.loads_in_flight, (warp_spans(network, plan) + 1) * sample_tiles(network, plan));
  const int others = sums + 4 * std::min(plan.shared_tiles, kTilesAhead);
  if (plan.storage == Storage::structured_2_4) {
    const bool is_uneven =
        spans(network, plan) % plan.warps() != 0 && !std::has_single_bit(static_cast<unsigned>(plan.warps()));
    const bool has_few = plan.loads_in_flight <= 2 * kFewSpans * sample_tiles(network, plan);
    return others + (has_few ? kStructuredBase + (8 * loads + 2) / 3 : kDenseBase + 4 * loads) +
           (is_uneven ? kUneven : 0);
  }
  return kDenseBase + others + 4 * loads;
}

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {
    return dense_working_registers(network, plan);
  }
  const std::int64_t words = exchange_bytes(network, plan) / 16;
  const auto words_per_thread = static_cast<int>((words + plan.threads - 1) / plan.threads);
  const int staging =
      common(network, plan, kStaging) + kPerLoadInFlight * std::min(plan.loads_in_flight, words_per_thread);
  const int sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan);
  const int outputs = std::max(1, sums / plan.lanes_per_row);
  const int gather =
      common(network, plan, kGather) + std::max(kLeastSums, sums) +
      kLoaded[std::max(1, plane_unit_bytes(network, plan) / 4)] +
      (plan.pass_planes > 1
           ? kTogether + (plan.has_tail() ? kTogetherTail + kTogetherPerChunk * plan.chunks_in_flight : 0)
           : 0) +
      (network.precision == Precision::fp8 ? kFp8 : 0) + (plan.storage == Storage::packed_delta ? kDelta : 0) +
      kPerOutput * (outputs - 1);
  return std::max(staging, gather);
}

}  // namespace onchip
