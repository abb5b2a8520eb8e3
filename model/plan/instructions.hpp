// SPDX-License-Identifier: Apache-2.0
// Machine instructions of the kernels' steps: what the compiler makes of kernels/sparse/gather.cuh, cell.cuh, multiply.cuh and
// combine.cuh for sm_90, counted from a plan. A step is one loop without calls, unrolled but for the tails of rows.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/plan.hpp"

namespace onchip {

inline constexpr int kInstructionBytes = 16;

// Of one warp, by the pipe that takes them.
struct Instructions {
  double integer = 0;     // LOP3, SHF, PRMT, SEL
  double half2 = 0;       // HFMA2
  double conversion = 0;  // HADD2.F32: half to float
  double fp32 = 0;        // FFMA, FADD
  double load = 0;        // LDS, SHFL

  double all() const { return integer + half2 + conversion + fp32 + load; }
  friend Instructions operator+(const Instructions& a, const Instructions& b) {
    return {a.integer + b.integer, a.half2 + b.half2, a.conversion + b.conversion, a.fp32 + b.fp32, a.load + b.load};
  }
  friend Instructions operator*(double factor, const Instructions& i) {
    return {factor * i.integer, factor * i.half2, factor * i.conversion, factor * i.fp32, factor * i.load};
  }
};

// ---- sparse persistent ----------------------------------------------------------------------------------------------

// Whether products of fp16 values are first summed in fp16, see Plan::promote_every.
bool sums_in_half(const Network& network, const Plan& plan);

// A slot of one plane, but for its state; and one load of the state, with what makes it fp32 where products are.
Instructions per_slot(const Network& network, const Plan& plan);
// Of a slot that two rows share, the second row's product, which needs no index.
Instructions per_product(const Network& network, const Plan& plan);
Instructions per_load(const Network& network, const Plan& plan);

// Rows of a tile that a load serves: where rows are stored dense they read the same columns, and the compiler loads
// each of them once for all rows, unless the tail of one stands before the next.
int rows_per_load(const Network& network, const Plan& plan);

// Loads of the state by a lane, for one plane: one for each of its slots, or of the slots that rows share.
double state_loads(const Network& network, const Plan& plan);

// One promotion of a lane's fp16 sums of one row and plane to fp32.
Instructions promotion(const Network& network, const Plan& plan);

// The reduction of so many rows together in one pass: stages, one after another, in which a lane gives half of its
// values away while it has more than one.
struct Reduction {
  int stages = 0;
  Instructions count;
};
Reduction reduction(const Network& network, const Plan& plan, int rows);

// Tiles of a group's rows, in passes over the planes.
double passes_over_tiles(const Network& network, const Plan& plan);

// Of a tile's sums in one pass, that one lane finishes.
double lane_outputs(const Network& network, const Plan& plan);

// ---- dense persistent -----------------------------------------------------------------------------------------------

// A tile that comes from shared memory, until it can be multiplied.
Instructions per_shared_tile(const Plan& plan);

// ---- the loop of a step ---------------------------------------------------------------------------------------------

// How long it is, sparse or dense, with what polls, stages and emits. Against disassembled loops of 839 plans, sm_90: 6
// % on average, at worst a third too few or too many (dense persistent plans, which are 13 % off on average).
double step_instructions(const Network& network, const Plan& plan);

// What the instruction caches have to hold: that loop, and where samples take turns the loops of the exchange warps
// beside it.
double cached_instructions(const Network& network, const Plan& plan);

// Within it, the loops over the chunks of a row's tail, in one pass: what they unroll. 0 without a tail.
double tail_loop_instructions(const Network& network, const Plan& plan);

// Cycles that a partition takes at least for each instruction of a loop of so many, however many of its warps issue it:
// they come from the SM's instruction cache or from beyond it. 0 where the loop stays in the partition's own.
double instruction_supply_cycles(const Chip& chip, double loop_instructions);

}  // namespace onchip
