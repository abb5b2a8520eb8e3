// SPDX-License-Identifier: Apache-2.0
// How long one time step of a dense plan takes, in terms that sum to the total: exchange and staging as in
// sparse/price.hpp, and inside an SM:
//
//   waiting     a warp asks for two groups of its spans at once, which the exchange has, for each further one when the
//               one before it has come: a round trip of the exchange, its words' way, as for any further round, and a
//               look, while the products of the group before go on; in a cluster, one load from shared memory
//               training: and not before all words are there, at the rate at which an SM gets them
//   products    every warp that has spans multiplies them, group after group: tensor cores and weights from shared
//               memory overlap
//               structured_2_4: a product of 16 x 32 stored as 16 x 16 is taken to last as long as a dense one of
//               16 x 16, as the tensor cores' stated rates have it; it was not measured
//               alone, but steps of 12 networks are 6.1 % off (structured.csv of experiments/data)
//               bitmap: every word of a tile in shared memory is a load of a warp, of one wavefront unless no lane has
//               it; what expanding takes beside that overlaps with neither
//   reduction   the warps' sums through shared memory to the threads that finish units
//   activation  the cell's transcendental functions, the shuffle that joins two units, and what a partition takes to
//               finish the warps that have items; in a cluster words are on their way meanwhile, and its exchange has
//               the time of that, but where a thread finishes several items, half of the functions of each after the
//               first
//
// While tensor cores multiply, even those of one SM, all of this takes cycles of a slower clock (tensor_clock_share):
// on an H200 clock64 counts 1815 instead of 1980 million of them in a second, though nvidia-smi shows 1980 MHz.
#pragma once

#include "model/dense/geometry.hpp"
#include "model/plan/prediction.hpp"

namespace onchip {

// Allocates nothing.
Price price(const Chip& chip, const DenseGeometry& geometry);
// A time below those of all plans that differ from this one, whose loads are all in flight at once and whose tiles are
// all in registers, in both, and in how tiles are stored.
double least_step_us(const Chip& chip, const DenseGeometry& geometry);
// What the tensor cores of an SM take for its tiles of weights, spread evenly.
double least_products_us(const Chip& chip, const DenseGeometry& geometry, double tiles);

// The loop of a step, sm_90: 13 % off on average.
double step_instructions(const DenseGeometry& geometry, const CostValues& cost = kCostDefaults);

// The delay before the first poll. SMs are all done at nearly the same time, so it grows with the bytes that all of
// them together poll: the more a poll in vain moves. Steps take at most 6 % longer than with the best, 1 % on average
// (poll_delay.csv).
int best_poll_delay(const DenseGeometry& geometry);

}  // namespace onchip
