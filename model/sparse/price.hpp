// SPDX-License-Identifier: Apache-2.0
// How long one time step of a sparse plan takes, in terms that sum to the total.
//
//   exchange    latency of the all-to-all exchange: publish, L2, poll, both block barriers (exchange/exchange_time.hpp)
//   staging     copying the state from L2 to shared memory
//   gather      wavefronts of the state gathers, and of weights outside registers, one after another through the SM's
//               shared-memory pipe
//   arithmetic  what the busiest warp scheduler, or the chain of multiply-adds of one warp, takes beyond the gathers
//   reduction   shuffles over the lanes of a row, for each tile of a group; splits of rows
//   activation  the cell's transcendental functions
//   streaming   what copying the streamed weights from L2 takes
//
// With producer warps (kernels/sparse/pipeline.cuh) exchange and staging are what a step still waits for them.
#pragma once

#include "model/plan/prediction.hpp"
#include "model/sparse/geometry.hpp"

namespace onchip {

// What one SM computes in a step of a network without its cell: also of other matrices, whose columns are the network's
// units and whose mean row length is its density's.
struct BlockCycles {
  double gather = 0, arithmetic = 0, reduction = 0;
};
BlockCycles block_cycles(const Chip& chip, const SparseGeometry& geometry);

// Allocates nothing.
Price price(const Chip& chip, const SparseGeometry& geometry);

// What plans have at least that differ from one in how their weights are stored, split and streamed, and in loads in
// flight; with `any_tiles` also in tile_rows and pass_planes.
struct LeastWork {
  double slots = 0;     // of a lane over all its rows, on average over the warps
  bool splits = false;  // rows may be split
  bool any_tiles = true;
  double bytes_beyond = 0;  // of an SM's weights, that its registers have no room for
};
// A time below theirs: term by term what price() is at least.
double least_step_us(const Chip& chip, const SparseGeometry& geometry, const LeastWork& least);

// A time below that of all plans of the geometry's storage on as many SMs, for rows of so many non-zeros.
struct LeastWorkOfSms {
  double nonzeros = 0;
  double bytes_beyond = 0;                       // of an SM's weights, that its registers have no room for
  int fewest_threads = 32, most_threads = 1024;  // that compute
};
double least_us_of_sms(const Chip& chip, const SparseGeometry& geometry, const LeastWorkOfSms& least);

// Cycles that a step takes inside an SM, and those of its copying: what poll delays are chosen by.
int best_poll_delay(const Chip& chip, const SparseGeometry& geometry, const Terms& terms);

// What reading the states of all non-zeros takes, spread evenly over the SMs, without a conflict or a padded slot.
double conflict_free_reads_us(const Chip& chip, const SparseGeometry& geometry);

}  // namespace onchip
