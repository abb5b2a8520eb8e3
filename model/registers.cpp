// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: the larger of its two phases, beside its weights.
//
//   staging   14 + 6 per word in flight: 4 hold it, 2 its address and test
//   gather    23 (dense: 24) + fp32 sums + fp16 partial sums + one unit's state; most of the 23 are loads that the
//             compiler moves ahead of their use
//   both      the input of the rows that a lane finishes
//
// Fitted to spills seen on sm_80, sm_90, sm_100 and sm_120, the worst of the four. The compiler is not monotonic: a
// number of weights may spill 2 registers where more weights spill none. So this is no proof: rarely a plan that fits
// here does spill, often one that does not would compile. The report of the compiler decides.
#include "model/footprint.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kStagingBase = 14;
constexpr int kPerLoadInFlight = 6;
constexpr int kGatherBase[] = {23, 24};  // by Storage
constexpr int kSeveralPlanes = 5;
constexpr int kSeveralPlanesAndOutputs = 13;  // planes of the next row, or the next output, started ahead

// At 64 registers a thread (blocks of more than 896 threads) staging was seen to spill 3 earlier.
constexpr int kSmallestCapThreads = 896;
constexpr int kSmallestCap = 3;

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  const int outputs = plan.rows_per_group * std::max(1, plan.batch_padded / plan.lanes_per_row);
  const int staging =
      kStagingBase + kPerLoadInFlight * plan.loads_in_flight + (plan.threads > kSmallestCapThreads ? kSmallestCap : 0);

  const int unit_words = (unit_bytes(network, plan) + 3) / 4;
  const bool promotes = network.precision == Precision::fp16 && plan.promote_every > 1;
  const bool several_planes = planes(network, plan) > 1;
  const int gather = kGatherBase[static_cast<int>(plan.storage)] + plan.batch_padded + (promotes ? unit_words : 0) +
                     unit_words + (several_planes ? kSeveralPlanes : 0) +
                     (several_planes && outputs > 1 ? kSeveralPlanesAndOutputs : 0);

  return std::max(staging, gather) + outputs - 1;  // the bases hold one output's input
}

}  // namespace onchip
