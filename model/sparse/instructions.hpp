// SPDX-License-Identifier: Apache-2.0
// Machine instructions of a sparse kernel's step: what the compiler makes of kernels/sparse/gather.cuh and
// kernels/sparse/cell.cuh for sm_90, counted from a plan. A step is one loop without calls, unrolled but for the
// overflow of rows.
#pragma once

#include "model/chip/instructions.hpp"
#include "model/sparse/geometry.hpp"

namespace onchip {

// Whether products of fp16 values are first summed in fp16, see SparsePlan::promote_every.
bool sums_in_half(const SparseGeometry& geometry);

// A slot of one plane, but for its state; and one load of the state, with what makes it fp32 where products are.
Instructions per_slot(const SparseGeometry& geometry);
Instructions per_load(const SparseGeometry& geometry);

// Rows of a tile that a load serves: where rows are stored dense they read the same columns, and the compiler loads
// each of them once for all rows, unless the overflow of one stands before the next.
int rows_per_load(const SparseGeometry& geometry);

// Loads of the state by a lane, for one plane: one for each of its slots, or of the slots that rows share.
double state_loads(const SparseGeometry& geometry);

// One promotion of a lane's fp16 sums of one row and plane to fp32.
Instructions promotion(const SparseGeometry& geometry);

// The reduction of so many rows together in one pass: stages, one after another, in which a lane gives half of its
// values away while it has more than one.
struct Reduction {
  int stages = 0;
  Instructions count;
};
Reduction reduction(const SparseGeometry& geometry, int rows);

// Tiles of a group's rows, in passes over the planes.
double passes_over_tiles(const SparseGeometry& geometry);

// Of a tile's sums in one pass, that one lane finishes.
double lane_outputs(const SparseGeometry& geometry);

// The loop of a step, with what polls, stages and publishes. Against disassembled loops, sm_90: 6 % off on average, at
// worst a third too few or too many.
double step_instructions(const SparseGeometry& geometry, const CostValues& cost = kCostDefaults);

// Within it, the loops over the chunks of a row's overflow, in one pass: what they unroll. 0 without overflow.
double overflow_loop_instructions(const SparseGeometry& geometry);

}  // namespace onchip
