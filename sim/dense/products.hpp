// SPDX-License-Identifier: Apache-2.0
// What one warp multiplies, as kernels/dense/multiply.cuh does it: words of the state go from L2 into registers, one
// group of spans after another; the next one is asked for once the one before has been looked at, and multiplied with
// tiles of weights, of which those in shared memory are loaded ahead.
#pragma once

#include "sim/machine/warp_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace onchip {

struct ProductShape {
  int samples = 0, sample_tiles = 0;  // of the state; of 8 samples
  int spans = 0, warp_spans = 0;      // of the state; of a warp, the last ones have fewer
  int group_spans = 0;                // that are awaited together
  int span_tiles = 2, row_tiles = 0;
  int tiles = 0, shared_tiles = 0, tiles_ahead = 0;  // of a warp; of these in shared memory, and on their way at once
  int chains = 1;                                    // independent sums of the same rows and samples
  bool awaits_first = false;                         // the first two groups are looked at, too; else they are there

  int groups() const { return (warp_spans + group_spans - 1) / group_spans; }
};

class Products {
 public:
  // Where the 16 bytes are that a lane has of a span and a tile of samples, in a state; negative: nowhere.
  using StateAddress = std::function<std::int64_t(int span, int sample)>;
  // Writes down the load of tile i of those in shared memory into four registers from `to` on.
  using FetchTile = std::function<void(int i, int to)>;

  Products(WarpWriter& out, const ProductShape& shape, int warp, StateAddress address, FetchTile fetch)
      : out_(out), shape_(shape), warp_(warp), address_(std::move(address)), fetch_(std::move(fetch)) {}

  void poll(int group) const;
  // The first two groups.
  void ask() const;
  // The first tiles are on their way before the words are there.
  void fetch_first() const;
  // All groups, of which the first two have been asked for.
  void multiply() const;
  // The sums of all chains, two rows of a sample at once; `address`: of a row and a sample in shared memory.
  void store_partials(const std::function<std::int64_t(int row, int sample)>& address) const;

 private:
  int group_loads(int group) const {
    return std::min(shape_.group_spans, shape_.warp_spans - group * shape_.group_spans) * shape_.sample_tiles;
  }
  int sum(int chain, int row, int samples) const {
    return WarpWriter::sum((chain * shape_.row_tiles + row) * shape_.sample_tiles + samples);
  }
  int state_register(int group, int load) const;
  static int tile_register(int shared_tile);
  void look(int group) const;
  void multiply(int tile, int& fetched) const;

  WarpWriter& out_;
  ProductShape shape_;
  int warp_;
  StateAddress address_;
  FetchTile fetch_;
};

}  // namespace onchip
