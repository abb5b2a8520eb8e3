// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: the larger of its two phases, beside its weights.
//
//   staging   14 (several planes: 22) + 6 per word in flight: 4 hold it, 2 its address and test
//   gather    23 (dense: 26; fp32: 2 more, with several planes 5) + fp32 sums, at least 4; the 23 are addresses and
//             loads that the compiler moves ahead of their use
//   both      the input of the rows that a lane finishes
//
// Fitted to what NVRTC 13.0 compiles for sm_80, sm_90, sm_100 and sm_120 without a spill, with the second attempt at
// -O1 that kernels/compiler.cpp makes. It is no proof: the compiler is not monotonic, a number of weights may spill 2
// registers where more weights spill none. The compiler's report decides, and a plan that spills is refused.
#include "model/footprint.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kStagingBase[] = {14, 22};  // with one plane and with several
constexpr int kPerLoadInFlight = 6;
constexpr int kGatherBase[] = {23, 26};  // by Storage
constexpr int kWideValues[] = {2, 5};    // fp32, with one plane and with several
constexpr int kLeastSums = 4;
constexpr int kTwoPlanes = 5, kMorePlanes = 23;
constexpr int kSeveralPlanesAndOutputs = 8;  // planes of the next row, or the next output, started ahead

// At 64 and 72 registers a thread (blocks of more than 768 threads) spills were seen 3 earlier.
constexpr int kSmallestCapThreads = 768;
constexpr int kSmallestCap = 3;

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  const int outputs = plan.rows_per_group * std::max(1, plan.batch_padded / plan.lanes_per_row);
  const bool several_planes = planes(network, plan) > 1;
  const int staging = kStagingBase[several_planes] + kPerLoadInFlight * plan.loads_in_flight;
  const int gather = kGatherBase[static_cast<int>(plan.storage)] + std::max(kLeastSums, plan.batch_padded) +
                     (network.precision == Precision::fp32 ? kWideValues[several_planes] : 0) +
                     (several_planes ? (planes(network, plan) > 2 ? kMorePlanes : kTwoPlanes) : 0) +
                     (several_planes && outputs > 1 ? kSeveralPlanesAndOutputs : 0);
  const int smallest_cap = plan.threads > kSmallestCapThreads ? kSmallestCap : 0;
  return std::max(staging, gather) + smallest_cap + outputs - 1;  // the bases hold one output's input
}

}  // namespace onchip
