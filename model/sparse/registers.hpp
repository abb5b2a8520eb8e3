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
// The costs (register_costs.hpp) are fitted to the compiler, architecture by architecture.
#pragma once

#include "model/chip/chip.hpp"
#include "model/sparse/geometry.hpp"
#include "model/sparse/register_costs.hpp"

#include <optional>

namespace onchip {

RegisterCosts register_costs(int compute_capability_major);

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
