// SPDX-License-Identifier: Apache-2.0
// From a warp's sums of a tile to the next state, as kernels/sparse/cell.cuh does it: fetch what the cell needs,
// find the gates, reduce, finish.
#pragma once

#include "sim/machine/warp_writer.hpp"
#include "sim/sparse/warp_place.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace onchip {

class CellTrace {
 public:
  CellTrace(WarpWriter& writer, const WarpPlace& place)
      : out_(writer),
        place_(place),
        geometry_(place.geometry),
        state_bytes_(info(place.geometry.network.precision).bytes) {}

  // What the lanes need beside their sums of a tile in one pass; and what they do with both.
  void fetch_tile(int tile, int pass) {
    outputs_.clear();
    const int count = std::max(1, place_.values() / geometry_.lanes_per_row);
    for (int i = 0; i < count; ++i) {
      const bool same_row = i > 0 && geometry_.lanes_per_row % geometry_.tile_rows == 0;
      outputs_.push_back(fetch(tile, pass, i, same_row ? &outputs_.front() : nullptr));
    }
    gates_ = geometry_.gates > 1 ? find_gates(tile) : kNoRegister;
  }

  void finish_tile() {
    std::vector<int> values;
    for (int value = 0; value < place_.values(); ++value) {
      values.push_back(WarpWriter::sum(value));
    }
    const std::vector<int> sums = reduce(std::move(values));
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      finish(outputs_[i], sums[i], gates_);
    }
  }

  // Splits of rows: their sums reduced; the registers that hold them of each pass.
  std::vector<int> reduce_splits() {
    std::vector<int> values;
    for (int value = 0; value < geometry_.row_splits * geometry_.pass_samples; ++value) {
      values.push_back(WarpWriter::sum(place_.values() + value));
    }
    return reduce(std::move(values));
  }

  void store_splits(int pass, const std::vector<int>& sums) {
    const int values = geometry_.row_splits * geometry_.pass_samples;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out_.access(Operation::shared_store, 4, kNoRegister, sums[i], [&](int lane) {
        const auto& [group, of_group] = place_.lanes[lane];
        const int value = (of_group & (values - 1)) + static_cast<int>(i) * geometry_.lanes_per_row;
        const int number = value % geometry_.row_splits * geometry_.groups() + group;
        const int sample = pass * geometry_.pass_samples + value / geometry_.row_splits;
        return of_group < values ? place_.at(SparseRegion::split_sums) + 4 * (number * geometry_.batch_padded + sample)
                                 : -1;
      });
    }
  }

  // Where the splits of a tile's rows are; and their sums added to the tile's, once all warps have stored theirs.
  void find_splits(int tile) {
    const auto load = [&](int width, int row) {
      return out_.load(width, kNoRegister, [&](int lane) {
        const int place = table_place(lane, tile, row);
        const int without_unit = geometry_.gates == 1 ? 0 : row;  // who has none looks there
        return place_.at(SparseRegion::split_table) + 4 * (place < 0 ? without_unit : place);
      });
    };
    constexpr int kTogether = 4;  // rows that are neighbours in the table: one load, of the compiler's
    if (out_.as_compiled() && geometry_.gates == kTogether) {
      const int loaded = load(16, 0);
      for (int row = 0; row < kTogether; ++row) {
        out_.integers(2, loaded + row);
      }
      return;
    }
    for (int row = 0; row < geometry_.tile_height; ++row) {
      out_.integers(2, load(4, row));
    }
  }

  void add_splits(int tile, int pass) {
    // Of each row of the tile, of every lane's group: the first split, and how many.
    std::array<std::array<std::int32_t, kWarpLanes>, kMaxTileRows> of{};
    std::array<int, kWarpLanes> most{};
    const std::size_t first_place = static_cast<std::size_t>(place_.sm) * geometry_.units_per_sm * geometry_.gates;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (int row = 0; row < geometry_.tile_height; ++row) {
        const int place = table_place(lane, tile, row);
        of[row][lane] = place < 0 ? 0 : place_.tables.splits[first_place + place];
        most[lane] = std::max(most[lane], of[row][lane] >> 16);
      }
    }
    const int all = *std::max_element(most.begin(), most.end());
    const int width = geometry_.pass_samples >= 4 ? 16 : 4;
    int first = 0;
    do {
      for (int row = 0; row < geometry_.tile_height; ++row) {
        const int at = out_.integers(3);
        for (int b = 0; b < geometry_.pass_samples; b += width / 4) {
          const int loaded = out_.load(width, at, [&](int lane) {
            const int i = first + place_.lanes[lane].lane, count = of[row][lane] >> 16;
            const int number = (of[row][lane] & 0xffff) + i;
            const int sample = pass * geometry_.pass_samples + b;
            return i < count ? place_.at(SparseRegion::split_sums) + 4 * (number * geometry_.batch_padded + sample)
                             : -1;
          });
          for (int k = 0; k < width / 4; ++k) {
            const int total = WarpWriter::sum((b + k) * geometry_.tile_rows + row);
            out_.operate(Operation::fp32, total, {total, loaded + k, kNoRegister, kNoRegister});
          }
        }
      }
      out_.branch(out_.integers(1));
      first += geometry_.lanes_per_row;
    } while (first < all);
    out_.converge();
  }

 private:
  struct Output {
    std::array<int, kWarpLanes> unit, sample, place;
    std::array<bool, kWarpLanes> writes;
    int x = kNoRegister, scale = kNoRegister, carry = kNoRegister, length = kNoRegister, bias = kNoRegister;
  };
  enum class Squash { sigmoid, tanh, either };  // either: as the lane's gate says

  Output fetch(int tile, int pass, int number, const Output* same_row) {
    Output out;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const auto& [group, of_group] = place_.lanes[lane];
      const int value = (of_group & (place_.values() - 1)) + number * geometry_.lanes_per_row;
      const int row = value % geometry_.tile_rows;
      const int unit = (geometry_.gates == 1 ? tile * geometry_.tile_rows + row : tile) * geometry_.groups() + group;
      const bool owned =
          unit < geometry_.units_per_sm &&
          (geometry_.gates > 1 ? row < geometry_.gates : tile * geometry_.tile_rows + row < geometry_.rows_per_group);
      out.sample[lane] = pass * geometry_.pass_samples + value / geometry_.tile_rows;
      const bool has_empty_row = geometry_.network.cell == Cell::gru;
      out.unit[lane] = has_empty_row ? std::min(unit, geometry_.units_per_sm - 1) : owned ? unit : 0;
      out.place[lane] = (has_empty_row ? row < geometry_.gates : owned && geometry_.gates > 1) ? row : 0;
      out.writes[lane] = owned && of_group < place_.values();
    }
    const int at = out_.integers(2);
    const auto load = [&](SparseRegion region, auto&& index) {
      return out_.load(4, at, [&](int lane) { return place_.at(region) + 4 * std::int64_t{index(lane)}; });
    };
    const int x = out_.load(state_bytes_, at, [&](int lane) {
      const int sample = out.sample[lane] < geometry_.network.batch ? out.sample[lane] : 0;
      const int index = (sample * geometry_.units_per_sm + out.unit[lane]) * geometry_.gates + out.place[lane];
      return place_.at(SparseRegion::input) + index * state_bytes_;
    });
    out.x = state_bytes_ == 4 ? x : out_.operate(Operation::conversion, x);
    if (geometry_.network.precision == Precision::fp8) {
      const auto index = [&](int lane) { return out.unit[lane] * geometry_.gates + out.place[lane]; };
      out.scale = same_row ? same_row->scale : load(SparseRegion::scales, index);
    }
    if (geometry_.gates > 1) {
      out.carry = load(SparseRegion::carry,
                       [&](int lane) { return out.unit[lane] * geometry_.batch_padded + out.sample[lane]; });
      out.length = load(SparseRegion::lengths, [&](int lane) { return out.sample[lane]; });
    }
    if (geometry_.network.cell == Cell::gru) {
      out.bias = same_row ? same_row->bias : load(SparseRegion::bias, [&](int lane) { return out.unit[lane]; });
    }
    return out;
  }

  // From a unit's packed places to the lanes that hold its gates: for each, the two bits and what they are worth.
  // Machine code for sm_90 has about three operations for a gate.
  int find_gates(int tile) {
    const int packed = out_.load(4, kNoRegister, [&](int lane) {
      const int unit = tile * geometry_.groups() + place_.lanes[lane].group;
      return place_.at(SparseRegion::gates) + 4 * std::int64_t{unit < geometry_.units_per_sm ? unit : 0};
    });
    out_.integers(2, packed);  // this lane's own gate
    int lane = kNoRegister;
    for (int gate = 0; gate < geometry_.gates; ++gate) {
      lane = out_.integers(3, packed);
    }
    return lane;
  }

  // While a lane has several values it gives half of them away.
  std::vector<int> reduce(std::vector<int> values) {
    for (int mask = 1; mask < geometry_.lanes_per_row; mask *= 2) {
      if (values.size() == 1) {
        values[0] = out_.operate(Operation::fp32, values[0], out_.operate(Operation::shuffle, values[0]));
        continue;
      }
      std::vector<int> half;
      for (std::size_t i = 0; i < values.size() / 2; ++i) {
        const int keep = out_.operate(Operation::integer, values[2 * i], values[2 * i + 1]);
        const int give = out_.operate(Operation::integer, values[2 * i], values[2 * i + 1]);
        half.push_back(out_.operate(Operation::fp32, keep, out_.operate(Operation::shuffle, give)));
      }
      values = std::move(half);
    }
    return values;
  }

  // This lane's row of the tile, of whose splits the table has as many; none: -1.
  int table_place(int lane, int tile, int row) const {
    const int unit = (geometry_.gates == 1 ? tile * geometry_.tile_rows + row : tile) * geometry_.groups() +
                     place_.lanes[lane].group;
    const bool exists = unit < geometry_.units_per_sm && tile * geometry_.tile_height + row < geometry_.rows_per_group;
    return exists ? unit * geometry_.gates + (geometry_.gates == 1 ? 0 : row) : -1;
  }

  // An exponential and a reciprocal, with the arithmetic around them.
  int squash(int value, Squash to) {
    if (to == Squash::either) {
      value = out_.operate(Operation::integer, out_.operate(Operation::fp32, value), value);
    } else if (to == Squash::tanh) {
      value = out_.operate(Operation::fp32, value);
    }
    const int y = out_.logistic(value);
    if (to == Squash::sigmoid) {
      return y;
    }
    const int scaled = out_.operate(Operation::fp32, y);
    return to == Squash::tanh ? scaled : out_.operate(Operation::integer, y, scaled);
  }

  // `gates`: the register with the lanes that hold the unit's gates.
  void finish(const Output& out, int sum, int gates) {
    const int product = out.scale == kNoRegister ? sum : out_.operate(Operation::fp32, sum, out.scale);
    const int total = out_.operate(Operation::fp32, product, out.x);
    const auto of_gate = [&](int y) { return out_.operate(Operation::shuffle, y, gates); };
    int h = total, next = kNoRegister, writing_gate = 0;
    switch (geometry_.network.cell) {
      case Cell::relu:
        h = out_.operate(Operation::integer, out_.operate(Operation::integer, total), total);
        break;
      case Cell::tanh:
        h = squash(total, Squash::tanh);
        break;
      case Cell::lstm: {
        const int y = squash(total, Squash::either);
        const int input = of_gate(y), candidate = of_gate(y), forget = of_gate(y), output = of_gate(y);
        next = out_.operate(Operation::fp32, forget, out.carry, out_.operate(Operation::fp32, input, candidate));
        h = out_.operate(Operation::fp32, output, squash(next, Squash::tanh));
        break;
      }
      case Cell::gru: {
        const int y = squash(total, Squash::sigmoid);
        const int reset = of_gate(y), update = of_gate(y);
        const int biased = out_.operate(Operation::fp32, product, out.bias);
        const int candidate = squash(out_.operate(Operation::fp32, reset, biased, out.x), Squash::tanh);
        next = h =
            out_.operate(Operation::fp32, update, out_.operate(Operation::fp32, out.carry, candidate), candidate);
        writing_gate = 2;
        break;
      }
    }
    const auto writes = [&](int lane) {
      const std::size_t unit = static_cast<std::size_t>(place_.sm * geometry_.units_per_sm + out.unit[lane]);
      const std::size_t place =
          unit * static_cast<std::size_t>(geometry_.gates) + static_cast<std::size_t>(out.place[lane]);
      return out.writes[lane] && place_.tables.gates[place] == writing_gate;
    };
    if (next != kNoRegister) {
      out_.access(Operation::shared_store, 4, kNoRegister, next, [&](int lane) {
        const int index = out.unit[lane] * geometry_.batch_padded + out.sample[lane];
        return writes(lane) ? place_.at(SparseRegion::carry) + 4 * index : -1;
      });
      out_.operate(Operation::integer, out.length);  // whether this was the sample's last step
    }
    h = state_bytes_ == 4 ? h : out_.operate(Operation::conversion, h);
    out_.access(Operation::shared_store, state_bytes_, kNoRegister, h, [&](int lane) {
      const std::int64_t index = place_.state.outbox_index(out.unit[lane], out.sample[lane]);
      return writes(lane) ? place_.at(SparseRegion::outbox) + index * state_bytes_ : -1;
    });
  }

  WarpWriter& out_;
  const WarpPlace& place_;
  const SparseGeometry& geometry_;
  int state_bytes_;              // of an element
  std::vector<Output> outputs_;  // of the tile
  int gates_ = kNoRegister;      // the register with the lanes that hold its gates
};

}  // namespace onchip
