// SPDX-License-Identifier: Apache-2.0
// A question as JSON text, and its answer as JSON: for C, Python and everything else that is no command line.
//
//   {"ask": "predict",                  fit, predict, rank or what_if; sweep and pareto: below
//    "network": {"cell": "lstm", "hidden": 2304, "batch": 4, "density": 0.1, "precision": "fp16", "steps": 256},
//    "mask": "uniform", "seed": 1, "rows": "exact",
//    "constraints": {"family": "sparse_persistent", "tier": "registers", "sms": 64, ...},
//    "plan": "sparse_persistent packed_pair ...",
//    "granule": 32,
//    "layers": 2, "bidirectional": true, "input": 512,
//    "set": ["sm.count=+10%"],
//    "target": ["hidden=8192"], "vary": ["shared_memory.per_sm"], "price": ["shared_memory.per_sm=1/KiB"]}
//
// Mask and seed are of a generated mask; where a matrix is given it has the density, too. Rows that are "expected" have
// the lengths that are expected of a random mask: no mask is generated, and a longer row of it may change the plan.
// Layers, bidirectional and input ask predict for a whole network, fit and what_if for a stack whose layers are on the
// SMs at once; with "streams": 1 predict for a stack that stays on the chip, of which a request is one step
// (model/answer/stream.hpp). Set changes the chip that is asked about; what_if compares both.
// Target, vary and price ask what_if for the least of the chip that reaches the target.
//
// What is left out is as in the commands: relu, batch 4, density 0.3, fp16, 256 steps; fit, what_if and sweep without a
// hidden size seek the largest that fits. The same is asked of other workloads:
//
//   {"ask": "predict", "mode": "train", "stash": "gates", "layers": 2, "network": {"cell": "lstm", "hidden": 1024}}
//   {"ask": "predict", "network": "spdnn:1024x120", "images": "digits:60000", "gpus": 2}
//
// A training is of a dense network unless a density is given; of its constraints there is the family. A feed-forward
// network is asked with "alive", a share of its images, or with "sample", so many of which are computed, as the
// command is.
//
//   {"ask": "sweep",                    -> {"rows": [{...}, ...]}, the values of onchip sweep --format jsonl
//    "axis": ["hidden=512:4096:512", {"batch": [1, 4], "sm.clock": ["1.7 GHz", "+0%"]}],
//    "network": {"cell": "lstm"}, "constraints": {"family": "sparse_persistent"}, "seed": 1, "set": ["sm.count=+10%"],
//    "column": ["us_per_sample=step_us/batch"], "where": "fits", "keep_front": "step_us:min,hidden:max",
//    "rows": "exact", "granule": 32}
//   {"ask": "pareto",                   -> as onchip pareto --format json
//    "rows": [{"hidden": 512, "step_us": 0.7}, ...],    or what a sweep is asked
//    "objectives": "step_us:min,hidden:max", "within": "2%", "by": "chip", "where": "batch == 4"}
//
// Keys of a sweep that stand in no object are fixed, too: {"weights": "pruned.mtx"}, or {"network": "spdnn:1024x120",
// "gpus": 2}. Rows are at most kMostAskedRows, before `where`.
#pragma once

#include "model/answer/json.hpp"
#include "model/explore/rows.hpp"
#include "model/workload/mask.hpp"

#include <cstdint>
#include <functional>
#include <string_view>

namespace onchip {

inline constexpr int kMostAskedRows = 100'000;  // which are kept in memory

// Throws InputError for text that is no such question, and wherever the commands do.
Json ask(const ChipFile& chip, std::string_view question, const SparseMatrix* weights = nullptr);

// The rows of a sweep as columns, with the numbers that they have as JSON, as many as there are. `watch` is told how
// many rows there are before `where`, and returns what is asked before each. Throws InputError as ask().
ColumnTable ask_table(const ChipFile& chip, std::string_view question,
                      const std::function<MayGoOn(std::uint64_t rows)>& watch);

}  // namespace onchip
