// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: the larger of its two phases, beside the weights it keeps.
//
//   staging   16 + 4 per word in flight; 8 more if that takes several rounds
//   gather    22 (fp32, fp8, several planes: more) + the fp32 sums of a tile's pass, at least 4
//   both      for the cell of gated networks, for quads of weights outside registers, for places that are kept
//
// Fitted to what NVRTC 13.0 compiles for sm_80, sm_90, sm_100 and sm_120 without a spill, with the further attempts
// that kernels/compiler.cpp makes. It is no proof: the compiler is not monotonic, a number of weights may spill 2
// registers where more weights spill none. The compiler's report decides, and a plan that spills is refused.
#include "model/footprint.hpp"

#include <algorithm>
#include <array>

namespace onchip {
namespace {

constexpr int kStaging = 16, kPerLoadInFlight = 4, kSeveralRounds = 8;
constexpr int kGather = 22, kLeastSums = 4;
constexpr std::array kOfPrecision{0, 2, 4, 6};                       // by Precision
constexpr int kSeveralPlanes = 10, kManyPlanes = 8, kTogether = 10;  // planes; more than two; several in one pass
constexpr int kGated = 6, kTwoTiles = 14, kMoreTiles = 4, kSeveralRows = 6;
constexpr int kKeptPlaces = 20;
constexpr int kSharedQuads = 4, kStreamedQuads = 10;
constexpr int kPerOutput = 2;  // that a lane finishes beyond the first

}  // namespace

int working_registers(const Network& network, const Plan& plan) {
  const bool gated = info(network.cell).gates > 1;
  const std::int64_t words = exchange_bytes(network, plan) / 16;
  const auto words_per_thread = static_cast<int>((words + plan.threads - 1) / plan.threads);
  // With two planes, or two tiles, the compiler keeps from step to step where each word and output goes; with more it
  // is kept from that (kManyAddresses in the kernel).
  const int row_tiles = tiles(network, plan);
  const bool keeps_places = planes(network, plan) == 2 && words_per_thread <= plan.loads_in_flight && row_tiles <= 2;
  const int staging = kStaging + kPerLoadInFlight * std::min(plan.loads_in_flight, words_per_thread) +
                      (words_per_thread > plan.loads_in_flight ? kSeveralRounds : 0);
  const int sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan);
  const int outputs = std::max(1, sums / plan.lanes_per_row);
  const int gather = kGather + std::max(kLeastSums, sums) + (planes(network, plan) > 1 ? kSeveralPlanes : 0) +
                     (plan.pass_planes > 1 ? kTogether : 0) + kPerOutput * (outputs - 1) +
                     (plan.streamed_quads > 0 ? kStreamedQuads
                      : plan.shared_quads > 0 ? kSharedQuads
                                              : 0);
  const int cell = (gated                     ? kGated
                    : plan.rows_per_group > 1 ? kSeveralRows
                                              : 0) +
                   (row_tiles == 2  ? kTwoTiles
                    : row_tiles > 2 ? kMoreTiles
                                    : 0) +
                   (keeps_places ? kKeptPlaces : 0) + (planes(network, plan) > 2 ? kManyPlanes : 0);
  return std::max(staging, gather) + cell + kOfPrecision[static_cast<std::size_t>(network.precision)];
}

}  // namespace onchip
