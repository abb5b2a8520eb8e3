// SPDX-License-Identifier: Apache-2.0
#include "sim/training/recurrence_cell.hpp"

#include <array>

namespace onchip {
namespace {

constexpr int kFetchRegisters = 408, kMostFetched = 7;  // of each of the thread's items
constexpr int kSectorUnits = 16;
// Arrays of rows [steps][batch].
constexpr int kArrayBits = 34;
constexpr std::int64_t kArrays = std::int64_t{1} << 42;

}  // namespace

RecurrenceCell::RecurrenceCell(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, int warp)
    : size_(size),
      plan_(plan),
      shape_(recurrence_shape(size, plan, is_backward)),
      is_backward_(is_backward),
      is_lstm_(size.cell == Cell::lstm),
      warp_(warp),
      threads_(kWarpLanes * plan.warps),
      items_(plan.units * shape_.samples) {}

std::int64_t RecurrenceCell::state(std::int64_t step, int turn, int span, int sample) const {
  const std::int64_t tile = (step * plan_.sub_batches + turn) * shape_.sample_tiles + sample / kTileSamples;
  return static_cast<std::int64_t>(kStates) + tile * tile_bytes() +
         (std::int64_t{span} * kTileSamples + sample % kTileSamples) * kSampleBytes;
}

std::int64_t RecurrenceCell::partials_bytes() const {
  return std::int64_t{4} * kTileSamples * shape_.sample_tiles * (16 * shape_.row_tiles + 4);
}
std::int64_t RecurrenceCell::carry(int turn, int i) const {
  const int of_thread = (items_ + threads_ - 1) / threads_;
  return partials_begin() + 2 * plan_.warp_groups * plan_.warps * partials_bytes() +
         std::int64_t{4} * (turn * of_thread * threads_ + i);
}

std::int64_t RecurrenceCell::element(Array of, int plane, int step, int turn, int i) const {
  const std::int64_t row = std::int64_t{step} * size_.batch + turn * shape_.samples + sample(i);
  const int planes = of == kGates ? 4 : 1;
  return kArrays + (std::int64_t{of} << kArrayBits) + row * planes * size_.hidden * kElementBytes +
         std::int64_t{kElementBytes} * (plane * size_.hidden + unit(i));
}
void RecurrenceCell::store(Array of, int plane, int value, int step, int turn, int round) {
  of_items(Operation::global_store, kElementBytes, kNoRegister, value, round,
           [&](int i) { return element(of, plane, step, turn, i); });
}

void RecurrenceCell::keep(int value, int turn, int round) {
  of_items(Operation::shared_store, 4, kNoRegister, value, round, [&](int i) { return carry(turn, i); });
}

std::vector<RecurrenceCell::Input> RecurrenceCell::inputs() const {
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
int RecurrenceCell::fetched(int round, int i) const {
  return kFetchRegisters + (round * kMostFetched + i) % (kRegisters - kFetchRegisters);
}

// For the next turn; and that of four steps later from DRAM, a lane for each sector.
void RecurrenceCell::fetch(int step, int turn, int round) {
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
void RecurrenceCell::await_fetched() {
  const int last = static_cast<int>(inputs().size()) - 1;
  for (int round = 0; round < rounds(); ++round) {
    out_.operate(Operation::other, fetched(round, last));
  }
}

void RecurrenceCell::finish_item(const std::vector<int>& sums, int carried, int step, int turn, int round) {
  is_backward_ ? differentiate(sums[0], carried, step, turn, round) : apply(sums, carried, step, turn, round);
}

// Words of the next state: of a lane's unit, or of two lanes'.
void RecurrenceCell::publish(int step, int turn, int round, int plane, int value) {
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

void RecurrenceCell::apply(const std::vector<int>& sums, int carried, int step, int turn, int round) {
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

void RecurrenceCell::differentiate(int sum, int carried, int step, int turn, int round) {
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

}  // namespace onchip
