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

constexpr int kStagingBase = 16;
constexpr int kPerLoadInFlight = 6;
constexpr int kGatherBase = 26;
constexpr int kLeastSums = 4;

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  const int staging = kStagingBase + kPerLoadInFlight * plan.loads_in_flight;
  const int sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan);
  const int gather = kGatherBase + std::max(kLeastSums, sums);
  const int quads = plan.streamed_quads > 0 ? 10 : plan.shared_quads > 0 ? 5 : 0;
  return std::max(staging, gather + quads);
}

}  // namespace onchip
