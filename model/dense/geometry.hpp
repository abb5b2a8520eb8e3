// SPDX-License-Identifier: Apache-2.0
// Everything that follows from a network and a dense plan: spans, tiles, and the map of shared memory. Derived once;
// price, footprint, layout, definitions and tests read it.
#pragma once

#include "model/dense/plan.hpp"
#include "model/exchange/state.hpp"
#include "model/plan/shared_memory.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

// Of a block's shared memory, in this order. Sizes: geometry.cpp.
enum class DenseRegion : std::uint8_t {
  tiles,     // [warps][shared_tiles] tiles, or of bitmap storage [bank_words][32 banks]
  partials,  // the warps' sums of a step, between the tensor cores and the cells
  items,     // [finished_items] of 16 bytes: what each item is of
  input,     // [2][finished_items]: this step's and the next's
  carry,     // gated cells: float [finished_items]
  bias,      // GRU: float [finished_items]
  cluster,   // in a cluster: the states of two steps, and their barriers
  end
};
inline constexpr std::array<std::string_view, 7> kDenseRegionNames{"tiles", "partials", "items",  "input",
                                                                   "carry", "bias",     "cluster"};

// The state lies in spans of kSpanUnits units, the last of which may reach beyond the last SM's units. A warp takes
// warp_spans of them, the last warps fewer or none, and multiplies each with its rows in row_tiles of 16 for
// sample_tiles of 8 samples.
struct DenseGeometry : DensePlan, StateGeometry {
  // Expects a plan whose numbers are within their ranges (check()).
  DenseGeometry(const Recurrent& of_network, const DensePlan& plan);

  Recurrent network;
  int gates = 1;

  int group_batch = 1;  // samples of a batch group
  int sample_tiles = 1;
  bool has_part_tile = false;  // beside whole tiles of samples, one that is not
  int spans = 0, warp_spans = 0;
  bool has_uneven_spans = false;  // warps have spans in different numbers
  int span_tiles = 2;             // halves of a span, each in tiles of its own; structured_2_4: 1, the whole
  int row_tiles = 0;
  int warp_tiles = 0;  // of weights: [warp_spans, span_tiles, row_tiles]
  // Words that a thread keeps beside its weights. structured_2_4: each for two tiles; bitmap: each for eight tiles in
  // shared memory, and where the thread's first word of those is.
  int metadata_words = 0;
  int register_words = 0;  // 32-bit words of weights and metadata per thread
  int register_weights() const { return 2 * (register_words - metadata_words); }
  // Independent sums of the same rows and samples: several where there are few, or each product would wait for the
  // last.
  int product_chains = 1;
  // What an SM's threads finish, one each or several: a sample of two units, of gated cells of one
  // (kernels/dense/combine.cuh).
  int finished_items = 0;

  SharedMemory<DenseRegion> memory;
  std::int64_t shared_bytes() const { return memory.bytes(); }
};

inline DenseGeometry geometry(const Recurrent& network, const DensePlan& plan) {
  return {network, plan};
}

}  // namespace onchip
