// SPDX-License-Identifier: Apache-2.0
// From a warp's sums of a tile to the next state, as kernels/sparse/cell.cuh does it: fetch what the cell needs,
// find the gates, reduce, finish.
#pragma once

#include "sim/sparse/warp_place.hpp"

#include <array>
#include <vector>

namespace onchip {

class CellTrace {
 public:
  CellTrace(WarpWriter& writer, const WarpPlace& place);

  // What the lanes need beside their sums of a tile in one pass; and what they do with both.
  void fetch_tile(int tile, int pass);
  void finish_tile();

  // Splits of rows: their sums reduced; the registers that hold them of each pass.
  std::vector<int> reduce_splits();
  void store_splits(int pass, const std::vector<int>& sums);
  // Where the splits of a tile's rows are; and their sums added to the tile's, once all warps have stored theirs.
  void find_splits(int tile);
  void add_splits(int tile, int pass);

 private:
  struct Output {
    std::array<int, kWarpLanes> unit, sample, place;
    std::array<bool, kWarpLanes> writes;
    int x = kNoRegister, scale = kNoRegister, carry = kNoRegister, length = kNoRegister, bias = kNoRegister;
  };
  enum class Squash { sigmoid, tanh, either };  // either: as the lane's gate says

  Output fetch(int tile, int pass, int number, const Output* same_row);
  int find_gates(int tile);
  std::vector<int> reduce(std::vector<int> values);
  // This lane's row of the tile, of whose splits the table has as many; none: -1.
  int table_place(int lane, int tile, int row) const;
  int squash(int value, Squash to);
  void finish(const Output& output, int sum, int gates);

  WarpWriter& out_;
  const WarpPlace& place_;
  const SparseGeometry& geometry_;
  int state_bytes_;              // of an element
  std::vector<Output> outputs_;  // of the tile
  int gates_ = kNoRegister;      // the register with the lanes that hold its gates
};

}  // namespace onchip
