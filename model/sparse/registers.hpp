// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: what a thread needs beside its weights.
//
//   kept      from step to step: pointers and counters, more with several tiles
//   staging   4 for each 16-byte word in flight
//   gather    the fp32 sums of a tile's pass; what one load fetches; the outputs that a lane finishes; addresses that
//             the compiler computes once for all steps, unless the kernel forbids it (kManyAddresses in
//             kernels/sparse/sparse_persistent.cu); where several planes are gathered together, what all of them
//             multiply
//
//   working = kept + max(staging, gather)
//
// The costs are fitted to the compiler, architecture by architecture.
#pragma once

#include "model/chip/chip.hpp"
#include "model/sparse/geometry.hpp"

#include <optional>

namespace onchip {

// In registers.
struct RegisterCosts {
  // Kept, by the number of tiles.
  double base = 0, two_tiles = 0, more_tiles = 0;
  // Staging, beside the words in flight: where the state has several planes; where chunks are streamed.
  double staged_planes = 0, staged_ring = 0;
  // Gather, beside the sums.
  double loaded_word = 0;     // of narrow values, each word that a load fetches
  double output = 0;          // that a lane finishes, each after the first
  double ring = 0;            // streamed chunks
  double dense_overflow = 0;  // overflow of rows stored dense
  double lstm = 0, gru = 0;   // cells
  double kept_addresses = 0;  // where addresses are kept
  double kept_per_word = 0;   // there, in addition, each word in flight
  double several_planes = 0;  // of narrow values
  double gated_pass = 0;      // of narrow values and gated cells, each pass after the second
  // Gather of several planes together.
  double chunk_word_together = 0;  // each word of the chunks in flight; or, where that is more:
  double unpacked_together = 0;    // narrow values, if the compiler unpacks once for all planes
  double more_together = 0;        // narrow values, each two planes after the first two
  double wide_together = 0;        // fp32, more than two planes
  double together_pass = 0;        // narrow values of cells without gates, each pass after the first
};

const RegisterCosts& register_costs(int compute_capability_major);

int working_registers(const RegisterCosts& costs, const SparseGeometry& geometry);
// The same with what the formula is careful about; the chip says the architecture.
int working_registers(const Chip& chip, const SparseGeometry& geometry);

// Where producer warps make up a whole warpgroup, beside warpgroups that compute, they hand most of their registers
// over (setmaxnreg, from compute capability 9.0 on): how many of them a thread of either kind then has. Nothing for
// other plans.
struct RegisterSplit {
  int computing = 0, fetching = 0;
};
std::optional<RegisterSplit> register_split(const SparsePlan& plan);

// The most registers of a computing thread with which a block fits on an SM.
int registers_available(const Chip& chip, const SparsePlan& plan);

}  // namespace onchip
