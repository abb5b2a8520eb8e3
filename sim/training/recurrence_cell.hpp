// SPDX-License-Identifier: Apache-2.0
// What one warp does with the sums of its items, a unit of a sample each, as lstm_*.cuh, gru_*.cuh, publish.cuh and
// bias.cuh of kernels/training do it: the cell or its derivative, what is published, what the products read, and the
// fetch of what a later turn needs.
#pragma once

#include "model/dense/plan.hpp"
#include "model/training/training_plan.hpp"
#include "sim/machine/warp_writer.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

inline constexpr int kElementBytes = 2, kTileSamples = 8;        // of all states; samples that are read together
inline constexpr int kSampleBytes = kSpanUnits * kElementBytes;  // of a span
// Where states begin, [steps][turns][sample tiles][spans][8 samples][32 values]: far from shared memory and from all
// other arrays.
inline constexpr std::uint64_t kStates = std::uint64_t{1} << 40;

class RecurrenceCell {
 public:
  RecurrenceCell(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, int warp)
      : size_(size),
        plan_(plan),
        shape_(recurrence_shape(size, plan, is_backward)),
        is_backward_(is_backward),
        is_lstm_(size.cell == Cell::lstm),
        warp_(warp),
        threads_(kWarpLanes * plan.warps),
        items_(plan.units * shape_.samples) {}

 protected:
  // A thread's items follow one another at a distance of all threads.
  int rounds() const { return std::max(0, (items_ - warp_ * kWarpLanes + threads_ - 1) / threads_); }
  int index(int round, int lane) const { return warp_ * kWarpLanes + lane + round * threads_; }
  int unit(int i) const { return i % plan_.units; }
  int sample(int i) const { return i / plan_.units; }
  template <typename Address>
  void of_items(Operation operation, int width, int destination, int source, int round, Address&& address) {
    out_.access(operation, width, destination, source,
                [&](int lane) { return index(round, lane) < items_ ? address(index(round, lane)) : -1; });
  }
  int fp32(int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) {
    return out_.operate(Operation::fp32, a, b, c);
  }

  std::int64_t tile_bytes() const { return std::int64_t{shape_.spans} * kTileSamples * kSampleBytes; }
  std::int64_t state(std::int64_t step, int turn, int span, int sample) const {
    const std::int64_t tile = (step * plan_.sub_batches + turn) * shape_.sample_tiles + sample / kTileSamples;
    return static_cast<std::int64_t>(kStates) + tile * tile_bytes() +
           (std::int64_t{span} * kTileSamples + sample % kTileSamples) * kSampleBytes;
  }

  // Shared memory: behind the weights two turns' sums of each warp group, then the carries.
  std::int64_t partials_begin() const { return std::int64_t{kTileBytes} * plan_.warps * plan_.shared_tiles; }
  // of a warp
  std::int64_t partials_bytes() const {
    return std::int64_t{4} * kTileSamples * shape_.sample_tiles * (16 * shape_.row_tiles + 4);
  }

  std::int64_t carry(int turn, int i) const {
    const int of_thread = (items_ + threads_ - 1) / threads_;
    return partials_begin() + 2 * plan_.warp_groups * plan_.warps * partials_bytes() +
           std::int64_t{4} * (turn * of_thread * threads_ + i);
  }

  // `sums`: the rows of the round's item; `carried`: what it keeps from step to step.
  void finish_item(const std::vector<int>& sums, int carried, int step, int turn, int round) {
    is_backward_ ? differentiate(sums[0], carried, step, turn, round) : apply(sums, carried, step, turn, round);
  }

  // For the next turn; and that of four steps later from DRAM, a lane for each sector.
  void fetch(int step, int turn, int round) {
    const std::vector<Input> all = inputs();
    out_.integers(5);
    out_.fill(2 * static_cast<int>(all.size()));
    out_.branch();
    out_.fill(2 * static_cast<int>(all.size()));  // addresses
    for (std::size_t i = 0; i < all.size(); ++i) {
      of_items(Operation::global_load, kElementBytes, fetched(round, static_cast<int>(i)), kNoRegister, round,
               [&](int of) { return element(all[i].of, all[i].plane, step, turn, of); });
    }
    const int prefetched = static_cast<int>(all.size()) - (is_backward_ && is_lstm_ ? 1 : 0);
    const int at = out_.integers(9);
    of_items(Operation::global_load, kElementBytes, kNoRegister, at, round, [&](int of) {
      const int lane = unit(of) % kSectorUnits;
      return lane < prefetched ? element(all[lane].of, all[lane].plane, step + 4, turn, of) : -1;
    });
    out_.converge();
  }

  // What the cells need was asked for behind the state, and shares a barrier of the scoreboard with it: the first look
  // waits for both.
  void await_fetched() {
    const int last = static_cast<int>(inputs().size()) - 1;
    for (int round = 0; round < rounds(); ++round) {
      out_.operate(Operation::other, fetched(round, last));
    }
  }

  const TrainingSize& size_;
  const RecurrencePlan& plan_;
  RecurrenceShape shape_;
  bool is_backward_, is_lstm_;
  int warp_, threads_, items_;  // of the warp group; of a turn
  WarpWriter out_{CompilerView{}};

 private:
  static constexpr int kFetchRegisters = 408, kMostFetched = 7;  // of each of the thread's items
  static constexpr int kSectorUnits = 16;
  // Arrays of rows [steps][batch].
  static constexpr int kArrayBits = 34;
  static constexpr std::int64_t kArrays = std::int64_t{1} << 42;
  enum Array : std::uint8_t { kGates, kNewCells, kLastCells, kOutput, kGradient, kLater };
  // What a cell reads beside the sums: of an array, a plane.
  struct Input {
    Array of;
    int plane;
  };
  std::vector<Input> inputs() const {
    std::vector<Input> all;
    for (int gate = 0; gate < (is_backward_ || is_lstm_ ? 4 : 3); ++gate) {
      all.push_back({kGates, gate});
    }
    if (is_backward_) {
      all.push_back({is_lstm_ ? kNewCells : kOutput, 0});
      all.push_back({kGradient, 0});
      if (is_lstm_) {
        all.push_back({kLastCells, 0});
      }
    }
    return all;
  }

  int fetched(int round, int i) const {
    return kFetchRegisters + (round * kMostFetched + i) % (kRegisters - kFetchRegisters);
  }

  int read(int round, int i) { return out_.operate(Operation::conversion, fetched(round, i)); }
  std::int64_t element(Array of, int plane, int step, int turn, int i) const {
    const std::int64_t row = std::int64_t{step} * size_.batch + turn * shape_.samples + sample(i);
    const int planes = of == kGates ? 4 : 1;
    return kArrays + (std::int64_t{of} << kArrayBits) + row * planes * size_.hidden * kElementBytes +
           std::int64_t{kElementBytes} * (plane * size_.hidden + unit(i));
  }

  void store(Array of, int plane, int value, int step, int turn, int round) {
    of_items(Operation::global_store, kElementBytes, kNoRegister, value, round,
             [&](int i) { return element(of, plane, step, turn, i); });
  }

  // Words of the next state: of a lane's unit, or of two lanes'.
  void publish(int step, int turn, int round, int plane, int value) {
    const int unit_values = is_backward_ && is_lstm_ ? 4 : 1;
    if (unit_values == 1) {
      const int neighbour = out_.operate(Operation::shuffle, value);
      out_.branch();
      value = out_.operate(Operation::integer, value, out_.operate(Operation::integer, neighbour));
    } else {
      out_.branch();
    }
    const int to = out_.integers(2, out_.operate(Operation::integer, value));
    out_.integers(3);
    const int planes = is_backward_ && !is_lstm_ ? 3 : 1;
    const auto words = [&](int i) {
      const int first = unit(i) * unit_values;
      return unit_values == 1 && unit(i) % 2 != 0
                 ? -1
                 : state(step + 1, turn, plane * shape_.spans / planes + first / kSpanUnits, sample(i)) +
                       std::int64_t{kElementBytes} * (first % kSpanUnits);
    };
    const int width = unit_values == 1 ? 4 : 8;
    of_items(Operation::global_store, width, kNoRegister, to, round, words);
    of_items(Operation::global_store, width, kNoRegister, kNoRegister, round, [&](int i) {
      const std::int64_t word = words(i);
      return word < 0 ? word : word + (std::int64_t{kLater} << kArrayBits);
    });
    out_.converge();
  }

  void keep(int value, int turn, int round) {
    of_items(Operation::shared_store, 4, kNoRegister, value, round, [&](int i) { return carry(turn, i); });
  }

  int tanh(int value) { return fp32(out_.logistic(fp32(value))); }
  int rounded(int value) { return out_.operate(Operation::special, value); }  // F2F
  void apply(const std::vector<int>& sums, int carried, int step, int turn, int round) {
    std::vector<int> kept;
    int h = kNoRegister, c = kNoRegister;
    const auto input = [&](int gate) { return fp32(read(round, gate)); };
    if (is_lstm_) {
      for (int gate = 0; gate < 4; ++gate) {
        const int total = fp32(sums[gate], input(gate));
        kept.push_back(gate == 2 ? tanh(total) : out_.logistic(total));
      }
      c = fp32(kept[1], carried, fp32(kept[0], kept[2]));
      h = fp32(kept[3], tanh(c));
    } else {
      const int r = out_.logistic(fp32(sums[0], input(0))), z = out_.logistic(fp32(sums[1], input(1)));
      const int q = fp32(sums[2]), n = tanh(fp32(r, q, input(2)));
      h = c = fp32(z, fp32(carried, n), n);
      kept = {r, z, n, q};
    }
    keep(c, turn, round);
    const int bits = rounded(h);
    out_.flush();
    publish(step, turn, round, 0, bits);
    out_.branch();
    out_.integers(6);
    for (int gate = 0; gate < 4; ++gate) {
      store(kGates, gate,
            gate % 2 == 0 ? out_.operate(Operation::conversion, kept[gate]) : out_.operate(Operation::integer), step,
            turn, round);
    }
    store(kOutput, 0, bits, step, turn, round);
    if (is_lstm_) {
      store(kNewCells, 0, out_.operate(Operation::conversion, c), step, turn, round);
    }
    out_.converge();
    out_.branch();  // the last state
    out_.converge();
  }

  void differentiate(int sum, int carried, int step, int turn, int round) {
    out_.branch();  // the first state's gradient
    out_.converge();
    out_.branch();  // a step more than there are states
    const int gradient = fp32(sum, read(round, 5));
    out_.branch();  // the last state's gradient
    out_.converge();
    out_.fill(11);
    const int dh = is_lstm_ ? gradient : fp32(gradient, carried);
    std::array<int, 4> gates{}, gradients{};
    for (int gate = 0; gate < 4; ++gate) {
      gates[gate] = read(round, gate);
    }
    const int of_cell = read(round, 4);
    const auto slope = [&](int value) { return fp32(value, fp32(value)); };
    if (is_lstm_) {
      const int squashed = tanh(of_cell), last = read(round, 6);
      const int dc = fp32(fp32(dh, gates[3]), fp32(squashed), carried);
      gradients = {fp32(fp32(dc, gates[2]), slope(gates[0])), fp32(fp32(dc, last), slope(gates[1])),
                   fp32(fp32(dc, gates[0]), fp32(gates[2])), fp32(fp32(dh, squashed), slope(gates[3]))};
      keep(fp32(dc, gates[1]), turn, round);
    } else {
      const int dn = fp32(fp32(dh, fp32(gates[1])), fp32(gates[2]));
      gradients = {fp32(fp32(dn, gates[3]), slope(gates[0])), fp32(fp32(dh, fp32(of_cell, gates[2])), slope(gates[1])),
                   dn, fp32(dn, gates[0])};
      keep(fp32(dh, gates[1]), turn, round);
    }
    std::array<int, 4> bits{};
    for (int gate = 0; gate < 4; ++gate) {
      bits[gate] = rounded(gradients[gate]);
    }
    if (is_lstm_) {
      const int lower = out_.operate(Operation::integer, out_.operate(Operation::integer, bits[1]), bits[0]);
      const int upper = out_.operate(Operation::integer, out_.operate(Operation::integer, bits[3]), bits[2]);
      publish(step, turn, round, 0, out_.operate(Operation::integer, lower, upper));
    } else {
      for (int plane = 0; plane < 3; ++plane) {
        publish(step, turn, round, plane, bits[plane == 2 ? 3 : plane]);
      }
    }
    out_.branch();
    out_.integers(5);
    for (int gate = 0; gate < 4; ++gate) {
      fp32(gradients[gate]);  // biases
      store(kGates, gate, bits[gate], step, turn, round);
    }
    out_.converge();
    out_.branch();  // the first step's, elsewhere, too
    out_.converge();
  }
};

}  // namespace onchip
