// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: the larger of its two phases, beside the weights it keeps.
//
//   staging   16 (fp32: 20) + 4 per word in flight
//   gather    22 (fp32, fp8, several planes: more) + the fp32 sums of a tile's pass, at least 4
//   both      for the cell of gated networks, and for quads of weights outside registers
//
// Fitted to what NVRTC 13.0 compiles for sm_80, sm_90, sm_100 and sm_120 without a spill, with the second attempt at
// -O1 that kernels/compiler.cpp makes. It is no proof: the compiler is not monotonic, a number of weights may spill 2
// registers where more weights spill none. The compiler's report decides, and a plan that spills is refused.
#include "model/footprint.hpp"

#include <algorithm>
#include <array>

namespace onchip {
namespace {

constexpr int kStaging = 16, kPerLoadInFlight = 4;
constexpr int kGather = 22, kLeastSums = 4;
constexpr std::array kOfPrecision{0, 2, 4, 4};  // by Precision
constexpr int kSeveralPlanes = 4;
constexpr int kGated = 6, kSeveralTiles = 4;
constexpr int kManyGatedSums = 28, kMany = 32;  // sm_80 takes so many more for the cells of 32 sums and more
constexpr int kSharedQuads = 4, kStreamedQuads = 10;
constexpr int kPerOutput = 2;  // that a lane finishes beyond the first

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  const bool gated = info(network.cell).gates > 1;
  const std::int64_t words = exchange_bytes(network, plan) / 16;
  const auto words_per_thread = static_cast<int>((words + plan.threads - 1) / plan.threads);
  const int staging = kStaging + kPerLoadInFlight * std::min(plan.loads_in_flight, words_per_thread);
  const int sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan);
  const int outputs = std::max(1, sums / plan.lanes_per_row);
  const int gather = kGather + std::max(kLeastSums, sums) + (planes(network, plan) > 1 ? kSeveralPlanes : 0) +
                     kPerOutput * (outputs - 1) +
                     (plan.streamed_quads > 0 ? kStreamedQuads : plan.shared_quads > 0 ? kSharedQuads : 0);
  const int cell = (gated ? kGated : 0) + (gated && sums >= kMany ? kManyGatedSums : 0) +
                   (tiles(network, plan) > 2 ? kSeveralTiles : 0);
  return std::max(staging, gather) + cell + kOfPrecision[static_cast<std::size_t>(network.precision)];
}

}  // namespace onchip
