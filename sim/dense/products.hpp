// SPDX-License-Identifier: Apache-2.0
// What one warp multiplies, as kernels/dense/multiply.cuh does it: words of the state go from L2 into registers, one
// group of spans after another; the next one is asked for once the one before has been looked at, and multiplied with
// tiles of weights, of which those in shared memory are loaded ahead.
#pragma once

#include "model/dense/fragments.hpp"
#include "sim/machine/warp_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace onchip {

struct ProductShape {
  int samples = 0, sample_tiles = 0;  // of the state; of 8 samples
  int spans = 0, warp_spans = 0;      // of the state; of a warp, the last ones have fewer
  int group_spans = 0;                // that are awaited together
  int span_tiles = 2, row_tiles = 0;
  int tiles = 0, shared_tiles = 0, tiles_ahead = 0;  // of a warp; of these in shared memory, and on their way at once
  int chains = 1;                                    // independent sums of the same rows and samples
  bool awaits_first = false;                         // the first two groups are looked at, too; else they are there
  int source_warps = kWarpLanes;                     // that share the spans out; further ones have the same again

  int groups() const { return (warp_spans + group_spans - 1) / group_spans; }
};

// Where warps' sums are in shared memory: float [warps][8 * sample tiles][rows with a gap].
struct Partials {
  std::int64_t begin = 0;
  int row_tiles = 0, sample_tiles = 0;

  int rows() const { return 16 * row_tiles + 4; }
  std::int64_t warp_bytes() const { return std::int64_t{4} * 8 * sample_tiles * rows(); }
  std::int64_t at(int warp, int sample, int row) const {
    return begin + warp * warp_bytes() + std::int64_t{4} * (sample * rows() + row);
  }
};

// An item's rows of the sums of `count` warps from warp `first` on, added up, halves first: their registers. `address`:
// where a lane's first row is in a warp's sums, of three rows, which are loaded one by one, row i. Negative: nowhere.
template <typename Address>
std::vector<int> add_partials(WarpWriter& out, int first, int count, int rows, const Address& address) {
  std::vector<int> sums;
  if (count > 1) {
    sums = add_partials(out, first, count / 2, rows, address);
    const std::vector<int> others = add_partials(out, first + count / 2, count - count / 2, rows, address);
    std::ranges::transform(sums, others, sums.begin(), [&](int sum, int other) { return out.fp32(sum, other); });
    return sums;
  }
  const int loads = rows == 3 ? 3 : 1;
  for (int i = 0; i < loads; ++i) {
    const int to = out.load(4 * rows / loads, kNoRegister, [&](int lane) { return address(first, lane, i); });
    for (int row = 0; row < rows / loads; ++row) {
      sums.push_back(to + row);
    }
  }
  return sums;
}

class Products {
 public:
  // Where the 16 bytes are that a lane has of a span and a tile of samples, in a state; negative: nowhere.
  using StateAddress = std::function<std::int64_t(int span, int sample)>;
  // Writes down the load of tile i of those in shared memory into four registers from `to` on.
  using FetchTile = std::function<void(int i, int to)>;

  Products(WarpWriter& out, const ProductShape& shape, int warp, StateAddress address, FetchTile fetch)
      : out_(out), shape_(shape), warp_(warp), address_(std::move(address)), fetch_(std::move(fetch)) {}

  void poll(int group) const {
    for (int i = 0; i < group_loads(group); ++i) {
      const int place =
          warp_ % shape_.source_warps * shape_.warp_spans + group * shape_.group_spans + i / shape_.sample_tiles;
      out_.access(Operation::global_load, kStateLoadBytes, state_register(group, i), kNoRegister, [&](int lane) {
        const int sample = i % shape_.sample_tiles * kTileSamples + lane / 4;
        const bool is_there = place < shape_.spans && sample < shape_.samples;
        return is_there ? address_(place, sample) + kStateLoadBytes * (lane % 4) : -1;
      });
    }
  }

  // The first two groups.
  void ask() const {
    for (int group = 0; group < std::min(2, shape_.groups()); ++group) {
      poll(group);
    }
  }

  // The first tiles are on their way before the words are there.
  void fetch_first() const {
    for (int tile = 0; tile < shape_.tiles_ahead; ++tile) {
      fetch_(tile, tile_register(tile));
    }
  }

  // All groups, of which the first two have been asked for.
  void multiply() const {
    int fetched = shape_.tiles_ahead;
    for (int group = 0; group < shape_.groups(); ++group) {
      if (group > 0 || shape_.awaits_first) {
        look(group);
      }
      if (group > 0 && group + 1 < shape_.groups()) {
        poll(group + 1);
      }
      const int of_group = shape_.group_spans * shape_.span_tiles * shape_.row_tiles;
      for (int tile = group * of_group; tile < std::min((group + 1) * of_group, shape_.tiles); ++tile) {
        multiply(tile, fetched);
      }
    }
    out_.flush();
  }

  // The sums of all chains, two rows of a sample at once.
  void store_partials(const Partials& partials) const {
    for (int row = 0; row < shape_.row_tiles; ++row) {
      for (int j = 0; j < shape_.sample_tiles; ++j) {
        int total = sum(0, row, j);
        for (int chain = 1; chain < shape_.chains; ++chain) {
          for (int k = 0; k < 4; ++k) {
            const int added = out_.fp32(total, sum(chain, row, j));
            total = k == 3 ? added : total;
          }
        }
        for (int k = 0; k < 2; ++k) {
          out_.access(Operation::shared_store, 8, kNoRegister, total, [&](int lane) {
            return partials.at(warp_, lane % 4 * 2 + kTileSamples * j + k, lane / 4 * 2 + 16 * row);
          });
        }
      }
    }
  }

 private:
  static constexpr int kTileSamples = 8;
  static constexpr int kStateWordBytes = 4, kStateLoadBytes = 16;
  // Registers of what outlives a line: what was asked for of the state, tiles from shared memory.
  static constexpr int kStateRegisters = 256, kMostOfGroup = 16;
  static constexpr int kTileRegisters = kStateRegisters + 2 * 4 * kMostOfGroup, kMostAhead = 4;

  int group_loads(int group) const {
    return std::min(shape_.group_spans, shape_.warp_spans - group * shape_.group_spans) * shape_.sample_tiles;
  }
  int sum(int chain, int row, int samples) const {
    return WarpWriter::sum((chain * shape_.row_tiles + row) * shape_.sample_tiles + samples);
  }
  int state_register(int group, int load) const {
    return kStateRegisters + 4 * (group % 2 * kMostOfGroup + load % kMostOfGroup);
  }

  static int tile_register(int shared_tile) { return kTileRegisters + 4 * (shared_tile % kMostAhead); }

  // The largest of all words, two of them at once, but not before the last products of the group before have begun; a
  // vote.
  void look(int group) const {
    const int row = std::max(0, group * shape_.group_spans * shape_.span_tiles - shape_.chains);
    const int after = group == 0 ? kNoRegister : sum(row % shape_.chains, 0, 0);
    const bool is_there = group < 2 && !shape_.awaits_first;
    int largest = kNoRegister;
    for (int i = 0; i < group_loads(group); ++i) {
      int of_load = after;
      for (int word = 0; word < kStateLoadBytes / kStateWordBytes; word += 2) {
        const int from = is_there ? kNoRegister : state_register(group, i) + word;
        of_load = out_.integer(of_load, from, is_there ? kNoRegister : from + 1);
      }
      largest = i % 2 == 0 ? out_.integer(largest, of_load) : out_.integer(largest, of_load);
    }
    out_.branch(out_.operate(Operation::other, largest));
  }

  void multiply(int tile, int& fetched) const {
    const int shared = shared_tiles_before(tile, shape_.shared_tiles, shape_.tiles);
    const bool in_shared = is_in_shared(tile, shape_.shared_tiles, shape_.tiles);
    const int weights = in_shared ? tile_register(shared) : kNoRegister;
    const int chain = tile / shape_.row_tiles % shape_.chains;
    for (int j = 0; j < shape_.sample_tiles; ++j) {
      const int to = sum(chain, tile % shape_.row_tiles, j);
      out_.operate(Operation::tensor, to,
                   {to, weights, weights == kNoRegister ? kNoRegister : weights + 3, kNoRegister});
    }
    if (in_shared && fetched < shape_.shared_tiles) {
      fetch_(fetched, tile_register(fetched));
      ++fetched;
    }
  }

  WarpWriter& out_;
  ProductShape shape_;
  int warp_;
  StateAddress address_;
  FetchTile fetch_;
};

}  // namespace onchip
