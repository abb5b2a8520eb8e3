// SPDX-License-Identifier: Apache-2.0
// A question as JSON text, and its answer as JSON: for C, Python and everything else that is no command line.
//
//   {"ask": "predict",                  fit, predict, rank or what_if
//    "network": {"cell": "lstm", "hidden": 2304, "batch": 4, "density": 0.1, "precision": "fp16", "steps": 256},
//    "mask": "uniform", "seed": 1,
//    "constraints": {"family": "sparse_persistent", "tier": "registers", "sms": 64, ...},
//    "plan": "sparse_persistent packed_pair ...",
//    "granule": 32,
//    "layers": 2, "bidirectional": true, "input": 512,
//    "set": ["sm.count=+10%"],
//    "target": ["hidden=8192"], "vary": ["shared_memory.per_sm"], "price": ["shared_memory.per_sm=1/KiB"]}
//
// Mask and seed are of a generated mask; where a matrix is given it has the density, too. Layers, bidirectional and
// input ask predict for a whole network. Set changes the chip that is asked about; what_if compares both.
// Target, vary and price ask what_if for the least of the chip that reaches the target.
//
// What is left out is as in the commands: relu, batch 4, density 0.1, fp16, 256 steps; fit and what_if without a hidden
// size seek the largest that fits.
#pragma once

#include "model/answer/json.hpp"
#include "model/workload/mask.hpp"

#include <string_view>

namespace onchip {

// Throws InputError for text that is no such question, and wherever the commands do.
Json ask(const ChipFile& chip, std::string_view question, const SparseMatrix* weights = nullptr);

}  // namespace onchip
