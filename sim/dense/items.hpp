// SPDX-License-Identifier: Apache-2.0
// From the warps' sums to the next state, as kernels/dense/combine.cuh does it: what a thread needs of its items, the
// sums of the warps that have spans, the cell, the word that is published, the input of a later step.
#pragma once

#include "model/dense/layout.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/trace/step_shape.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

// Where sums are in shared memory: float [warps][8 * sample tiles][rows with a gap].
struct Partials {
  explicit Partials(const DenseGeometry& geometry)
      : begin(geometry.memory.at(DenseRegion::partials)),
        rows(16 * geometry.row_tiles + 4),
        warp_bytes(std::int64_t{4} * 8 * geometry.sample_tiles * rows) {}
  std::int64_t at(int warp, int sample, int row) const {
    return begin + warp * warp_bytes + std::int64_t{4} * (sample * rows + row);
  }
  std::int64_t begin;
  int rows;
  std::int64_t warp_bytes;
};

class Items {
 public:
  Items(WarpWriter& out, const DenseLayout& layout, const StepShape& step, int sm, int warp);

  // A thread's items follow one another at a distance of all threads.
  int rounds() const;
  // Registers of what is loaded before the barrier.
  struct Prepared {
    int input = kNoRegister, place = kNoRegister, carry = kNoRegister, bias = kNoRegister;
  };
  Prepared prepare(int round) const;
  void finish(int round, const Prepared& prepared) const;
  void fetch_input() const;

 private:
  // Of an SM.
  struct Item {
    int unit, sample;
    bool exists;
  };
  Item item(int i) const;
  int number(int round, int lane) const { return round * geometry_.threads + warp_ * kWarpLanes + lane; }
  bool has(int round) const { return number(round, 0) < geometry_.finished_items; }
  // The byte of the lane's item in a region with as many for each.
  std::int64_t at(DenseRegion region, int bytes, int round, int lane) const {
    const int i = number(round, lane);
    return i < geometry_.finished_items ? geometry_.memory.at(region) + std::int64_t{bytes} * i : -1;
  }
  std::vector<int> add_partials(int round, int first, int count) const;
  int cell(const std::vector<int>& sums, int first, const Prepared& prepared, int& carry) const;

  WarpWriter& out_;
  const DenseGeometry& geometry_;
  const StepShape& step_;
  int sm_, group_, warp_;
  bool gated_;
  int item_rows_, input_bytes_;  // of an item
};

}  // namespace onchip
