// SPDX-License-Identifier: Apache-2.0
#include "sim/training/simulate_recurrence.hpp"

#include "model/dense/plan.hpp"
#include "model/training/training_plan.hpp"
#include "sim/dense/products.hpp"
#include "sim/exchange/exchange.hpp"
#include "sim/machine/sm.hpp"
#include "sim/machine/warp_writer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace onchip {
namespace {

constexpr int kElementBytes = 2, kTileSamples = 8;        // of all states; samples that are read together
constexpr int kSampleBytes = kSpanUnits * kElementBytes;  // of a span
// Where states begin, [steps][sub-batches][sample tiles][spans][8 samples][32 values]: far from shared memory and all
// other arrays.
constexpr std::uint64_t kStates = std::uint64_t{1} << 40;
constexpr std::int64_t kProgress = std::int64_t{1} << 43;  // how far the layers of a stack are
constexpr std::uint64_t kSums = std::uint64_t{1} << 24;    // those on their way in a cluster, beyond all shared memory

// What one warp does, sub-batch by sub-batch: products of the state, and with the sums of its items, a unit of a sample
// each, what lstm_*.cuh, gru_*.cuh, publish.cuh and bias.cuh of kernels/training do: the cell or its derivative, what
// is published, what the products read, and the fetch of what a later sub-batch needs.
class Writer {
 public:
  Writer(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, const ExchangeTimes& cycles,
         const LayerRole& role, int warp_group, int warp)
      : size_(size),
        plan_(plan),
        shape_(recurrence_shape(size, plan, is_backward)),
        is_backward_(is_backward),
        is_lstm_(size.cell == Cell::lstm),
        warp_(warp),
        threads_(kWarpLanes * plan.warps),
        item_threads_(threads_ / plan.units * plan.units),
        items_(plan.units * shape_.samples),
        thread_items_(items_of_thread(shape_.samples, plan)),
        cycles_(cycles),
        role_(role),
        group_(warp_group),
        gates_(is_backward       ? 1
               : plan.layers > 1 ? 4
                                 : info(size.cell).gates),
        busy_warps_(plan.warps - shape_.source_warps + (shape_.spans + shape_.warp_spans - 1) / shape_.warp_spans) {}

  WarpTrace write(int steps, std::vector<RecurrencePart>& parts) {
    parts_ = &parts;
    products(0, group_).ask();
    for (int step = 0; step < steps; ++step) {
      for (int sub_batch = group_; sub_batch < plan_.sub_batches; sub_batch += plan_.warp_groups) {
        write_sub_batch(step, sub_batch);
        ++count_;
      }
    }
    end_part(RecurrencePart::cell);
    return out_.take();
  }

 private:
  // A thread's items follow one another at a distance of all threads that have some.
  int rounds() const {
    return plan_.interleaved > 0 ? thread_items_
                                 : std::max(0, (items_ - warp_ * kWarpLanes + item_threads_ - 1) / item_threads_);
  }
  int index(int round, int lane) const {
    const int thread = warp_ * kWarpLanes + lane;
    return thread < item_threads_ ? thread + round * item_threads_ : items_;
  }
  int unit(int i) const { return i % plan_.units; }
  int sample(int i) const { return i / plan_.units; }
  template <typename Address>
  void of_items(Operation operation, int width, int destination, int source, int round, Address&& address) {
    out_.access(operation, width, destination, source,
                [&](int lane) { return index(round, lane) < items_ ? address(index(round, lane)) : -1; });
  }
  int fp32(int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) { return out_.fp32(a, b, c); }

  std::int64_t tile_bytes() const { return std::int64_t{shape_.spans} * kTileSamples * kSampleBytes; }
  std::int64_t state(std::int64_t step, int sub_batch, int span, int sample) const {
    const std::int64_t tile = (step * plan_.sub_batches + sub_batch) * shape_.sample_tiles + sample / kTileSamples;
    return static_cast<std::int64_t>(kStates) + tile * tile_bytes() +
           (std::int64_t{span} * kTileSamples + sample % kTileSamples) * kSampleBytes;
  }

  // Shared memory: behind the weights copies of a warp group's sums, of two sub-batches of each, then the carries.
  Partials partials(int copy) const {
    Partials of{std::int64_t{kTileBytes} * plan_.warps * plan_.shared_tiles, shape_.row_tiles, shape_.sample_tiles};
    of.begin += copy * plan_.warps * of.warp_bytes();
    return of;
  }

  std::int64_t carry(int sub_batch, int i) const {
    return partials(2 * plan_.warp_groups).begin + std::int64_t{4} * (sub_batch * thread_items_ * threads_ + i);
  }

  // For the next sub-batch; and that of four steps later from DRAM, a lane for each sector.
  void fetch(int step, int sub_batch, int round) {
    const std::vector<Input> all = inputs();
    out_.integers(5);
    if (!role_.is_first) {  // a stack's other layers have no products beforehand
      out_.branch();
      out_.converge();
      return;
    }
    out_.fill(2 * static_cast<int>(all.size()));
    out_.branch();
    out_.fill(2 * static_cast<int>(all.size()));  // addresses
    for (std::size_t i = 0; i < all.size(); ++i) {
      of_items(Operation::global_load, kElementBytes, fetched(round, static_cast<int>(i)), kNoRegister, round,
               [&](int of) { return element(all[i].of, all[i].plane, step, sub_batch, of); });
    }
    const int prefetched = static_cast<int>(all.size()) - (is_backward_ && is_lstm_ ? 1 : 0);
    const int at = out_.integers(9);
    of_items(Operation::global_load, kElementBytes, kNoRegister, at, round, [&](int of) {
      const int lane = unit(of) % kSectorUnits;
      return lane < prefetched ? element(all[lane].of, all[lane].plane, step + 4, sub_batch, of) : -1;
    });
    out_.converge();
  }

  // What the cells need was asked for behind the state, and shares a barrier of the scoreboard with it: the first poll
  // waits for both.
  void await_fetched() {
    const int last = static_cast<int>(inputs().size()) - 1;
    for (int round = 0; round < rounds(); ++round) {
      out_.operate(Operation::other, fetched(round, last));
    }
  }

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

  int read(int round, int i) { return out_.conversion(fetched(round, i)); }
  std::int64_t element(Array of, int plane, int step, int sub_batch, int i) const {
    const std::int64_t row = std::int64_t{step} * size_.batch + sub_batch * shape_.samples + sample(i);
    const int planes = of == kGates ? 4 : 1;
    return kArrays + (std::int64_t{of} << kArrayBits) + row * planes * size_.hidden * kElementBytes +
           std::int64_t{kElementBytes} * (plane * size_.hidden + unit(i));
  }

  void store(Array of, int plane, int value, int step, int sub_batch, int round) {
    of_items(Operation::global_store, kElementBytes, kNoRegister, value, round,
             [&](int i) { return element(of, plane, step, sub_batch, i); });
  }

  // Words of the next state: of a lane's unit, or of two lanes'.
  void publish(int step, int sub_batch, int round, int plane, int value) {
    const int unit_values = is_backward_ && is_lstm_ ? 4 : 1;
    if (unit_values == 1) {
      const int neighbour = out_.operate(Operation::shuffle, value);
      out_.branch();
      value = out_.integer(value, out_.integer(neighbour));
    } else {
      out_.branch();
    }
    const int to = out_.integers(2, out_.integer(value));
    out_.integers(3);
    const int planes = is_backward_ && !is_lstm_ ? 3 : 1;
    const auto words = [&](int i) {
      const int first = unit(i) * unit_values;
      return unit_values == 1 && unit(i) % 2 != 0
                 ? -1
                 : state(step + 1, sub_batch, plane * shape_.spans / planes + first / kSpanUnits, sample(i)) +
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

  void keep(int value, int sub_batch, int round) {
    of_items(Operation::shared_store, 4, kNoRegister, value, round, [&](int i) { return carry(sub_batch, i); });
  }

  int rounded(int value) { return out_.operate(Operation::special, value); }  // F2F
  struct Finished {
    int h, c;  // of a GRU h again
    std::vector<int> gates;
  };
  // `sums`: the rows of the round's item; `carried`: what it keeps from step to step.
  Finished next_state(const std::vector<int>& sums, int carried, int round) {
    const auto input = [&](int gate) { return fp32(read(round, gate)); };
    if (is_lstm_) {
      std::vector<int> gates;
      for (int gate = 0; gate < 4; ++gate) {
        const int total = fp32(sums[gate], input(gate));
        gates.push_back(gate == 2 ? out_.tanh(total) : out_.logistic(total));
      }
      const int c = fp32(gates[1], carried, fp32(gates[0], gates[2]));
      return {fp32(gates[3], out_.tanh(c)), c, gates};
    }
    const int r = out_.logistic(fp32(sums[0], input(0))), z = out_.logistic(fp32(sums[1], input(1)));
    const int of_input = sums.size() > 3 ? fp32(input(2), sums[3]) : input(2);
    const int q = fp32(sums[2]), n = out_.tanh(fp32(r, q, of_input));
    const int h = fp32(z, fp32(carried, n), n);
    return {h, h, {r, z, n, q}};
  }

  // What the caller, or a backward pass, reads.
  void leave(const Finished& item, int bits, int step, int sub_batch, int round) {
    out_.branch();
    if (role_.keeps) {
      out_.integers(6);
      for (int gate = 0; gate < 4; ++gate) {
        store(kGates, gate, gate % 2 == 0 ? out_.conversion(item.gates[gate]) : out_.integer(), step, sub_batch, round);
      }
    }
    if (role_.is_last) {
      store(kOutput, 0, bits, step, sub_batch, round);
    }
    if (role_.keeps && is_lstm_) {
      store(kNewCells, 0, out_.conversion(item.c), step, sub_batch, round);
    }
    out_.converge();
    out_.branch();  // the last state
    out_.converge();
  }

  void apply(const std::vector<int>& sums, int carried, int step, int sub_batch, int round) {
    const Finished item = next_state(sums, carried, round);
    keep(item.c, sub_batch, round);
    const int bits = rounded(item.h);
    out_.flush();
    publish(step, sub_batch, round, 0, bits);
    leave(item, bits, step, sub_batch, round);
  }

  // All items side by side, then what each publishes, then the rest.
  void finish_all(int step, int sub_batch) {
    std::vector<Finished> items;
    std::vector<int> bits;
    for (int round = 0; round < rounds(); ++round) {
      const int carried = carried_of(sub_batch, round);
      items.push_back(next_state(add_up(round, 0), carried, round));
      bits.push_back(rounded(items.back().h));
    }
    out_.flush();
    for (int round = 0; round < rounds(); ++round) {
      publish(step, sub_batch, round, 0, bits[static_cast<std::size_t>(round)]);
    }
    for (int round = 0; round < rounds(); ++round) {
      const auto at = static_cast<std::size_t>(round);
      keep(items[at].c, sub_batch, round);
      leave(items[at], bits[at], step, sub_batch, round);
    }
  }

  void differentiate(int sum, int carried, int step, int sub_batch, int round) {
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
      const int squashed = out_.tanh(of_cell), last = read(round, 6);
      const int dc = fp32(fp32(dh, gates[3]), fp32(squashed), carried);
      gradients = {fp32(fp32(dc, gates[2]), slope(gates[0])), fp32(fp32(dc, last), slope(gates[1])),
                   fp32(fp32(dc, gates[0]), fp32(gates[2])), fp32(fp32(dh, squashed), slope(gates[3]))};
      keep(fp32(dc, gates[1]), sub_batch, round);
    } else {
      const int dn = fp32(fp32(dh, fp32(gates[1])), fp32(gates[2]));
      gradients = {fp32(fp32(dn, gates[3]), slope(gates[0])), fp32(fp32(dh, fp32(of_cell, gates[2])), slope(gates[1])),
                   dn, fp32(dn, gates[0])};
      keep(fp32(dh, gates[1]), sub_batch, round);
    }
    std::array<int, 4> bits{};
    for (int gate = 0; gate < 4; ++gate) {
      bits[gate] = rounded(gradients[gate]);
    }
    if (is_lstm_) {
      const int lower = out_.integer(out_.integer(bits[1]), bits[0]);
      const int upper = out_.integer(out_.integer(bits[3]), bits[2]);
      publish(step, sub_batch, round, 0, out_.integer(lower, upper));
    } else {
      for (int plane = 0; plane < 3; ++plane) {
        publish(step, sub_batch, round, plane, bits[plane == 2 ? 3 : plane]);
      }
    }
    out_.branch();
    out_.integers(5);
    for (int gate = 0; gate < 4; ++gate) {
      fp32(gradients[gate]);  // biases
      store(kGates, gate, bits[gate], step, sub_batch, round);
    }
    out_.converge();
    out_.branch();  // the first step's, elsewhere, too
    out_.converge();
  }

  Products products(int step, int sub_batch) {
    const int rows_and_samples = shape_.row_tiles * shape_.sample_tiles;
    const ProductShape shape{.samples = shape_.samples,
                             .sample_tiles = shape_.sample_tiles,
                             .spans = shape_.spans,
                             .warp_spans = shape_.warp_spans,
                             .group_spans = plan_.loads_in_flight / (2 * shape_.sample_tiles),
                             .row_tiles = shape_.row_tiles,
                             .tiles = shape_.tiles,
                             .shared_tiles = plan_.shared_tiles,
                             .tiles_ahead = std::min(plan_.shared_tiles, 2),
                             .chains = rows_and_samples == 1   ? 4
                                       : rows_and_samples == 2 ? 2
                                                               : 1,
                             .awaits_first = true,
                             .source_warps = shape_.source_warps};
    const std::int64_t first = std::int64_t{kTileBytes} * warp_ * plan_.shared_tiles;
    return {out_, shape, warp_, [this, step, sub_batch](int span, int of) { return state(step, sub_batch, span, of); },
            [this, first](int i, int to) {
              out_.access(Operation::shared_load, 16, to, kNoRegister,
                          [&](int lane) { return first + std::int64_t{kTileBytes} * i + std::int64_t{16} * lane; });
            }};
  }

  void write_sub_batch(int step, int sub_batch) {
    const Products now = products(step, sub_batch);
    now.fetch_first();
    await_fetched();
    now.multiply();
    out_.branch();
    const bool has_fence = sub_batch < plan_.warp_groups && step % (plan_.ahead / 2) == 0;
    wait(cycles_.before_barrier + (has_fence ? cycles_.fence : 0));
    if (has_fence && plan_.layers > 1) {
      keep_pace();
    }
    end_part(RecurrencePart::multiply);
    const bool is_last = sub_batch + plan_.warp_groups >= plan_.sub_batches,
               is_alone = plan_.sub_batches == plan_.warp_groups;
    const int next_step = step + (is_last ? 1 : 0), next_sub_batch = is_last ? group_ : sub_batch + plan_.warp_groups;
    if (!is_alone) {
      ask(next_step, next_sub_batch);
    }
    now.store_partials(own_partials());
    end_part(RecurrencePart::sums);
    out_.barrier();
    end_part(RecurrencePart::barrier);
    out_.branch();  // warps without items
    if (plan_.split > 1 && rounds() > 0) {
      add_up_cluster();
    }
    if (plan_.interleaved > 0) {
      finish_all(step, sub_batch);
    }
    for (int round = 0; round < rounds(); ++round) {
      if (plan_.interleaved == 0) {
        finish(step, sub_batch, round);
      }
      fetch(next_step, next_sub_batch, round);
    }
    out_.converge();
    out_.fill(kLoopInstructions);
    out_.branch();
    if (is_alone) {
      wait(plan_.poll_delay > 0 ? plan_.poll_delay + kBehindWait : 0);
      ask(next_step, next_sub_batch);
    }
    end_part(RecurrencePart::cell);
  }

  void ask(int step, int sub_batch) {
    out_.integers(2);
    out_.fill(4 * std::min(plan_.loads_in_flight, shape_.warp_spans * shape_.sample_tiles));  // empty words
    products(step, sub_batch).ask();
    out_.flush();
  }

  // The first warp says how far the warp group is, and looks at how far those of the layer above are.
  void keep_pace() {
    if (warp_ > 0) {
      return;
    }
    out_.access(Operation::global_store, 4, kNoRegister, out_.integers(2),
                [](int lane) { return lane == 0 ? kProgress : -1; });
    const int groups = shape_.sms * plan_.warp_groups;
    for (int first = 0; !role_.is_last && first < groups; first += kWarpLanes) {
      const int above = out_.temporary();
      out_.access(Operation::global_load, 4, above, kNoRegister, [&](int lane) {
        return first + lane < groups ? kProgress + std::int64_t{4} * (groups + first + lane) : -1;
      });
      out_.branch(above);
    }
  }

  // As many passes of a loop that reads the clock.
  void wait(double cycles) {
    for (int pass = static_cast<int>(std::lround(cycles / kWaitPassCycles)); pass > 0; --pass) {
      out_.branch(out_.integer(out_.operate(Operation::other)));
    }
  }

  // ---- sums ---------------------------------------------------------------------------------------------------------

  Partials own_partials() const { return partials(2 * group_ + count_ % 2); }

  // An item's rows, from row `first_row` of the SM's on.
  std::vector<int> add_up(int round, int first_row) {
    return add_partials(out_, 0, busy_warps_, gates_, [&](int warp, int lane, int row) {
      const int of = index(round, lane);
      return of < items_ ? own_partials().at(warp, sample(of), first_row + unit(of) * gates_ + row) : -1;
    });
  }

  // A word of the sums of this sub-batch that are on their way between the SMs of the cluster.
  std::int64_t received(int from, int i) const {
    const std::int64_t of_sub_batch = std::int64_t{4} * plan_.split * items_;
    const int sub_batch = count_ * plan_.warp_groups + group_;
    return static_cast<std::int64_t>(kSums) + of_sub_batch * sub_batch + std::int64_t{4} * (from * items_ + i);
  }

  // To the other SMs what is theirs; then until this one has what they have sent.
  void add_up_cluster() {
    for (int round = 0; round < rounds(); ++round) {
      for (int other = 1; other < plan_.split; ++other) {
        const int sum = add_up(round, plan_.units * other)[0];
        of_items(Operation::shared_store, 4, kNoRegister, out_.integer(sum, out_.integers(2)), round,
                 [&](int i) { return received(other, i); });
      }
      out_.flush();
    }
    const int there = out_.load(4, kNoRegister, [&](int lane) { return lane == 0 ? received(0, 0) : -1; });
    out_.branch(there);
    end_part(RecurrencePart::split);
  }

  int carried_of(int sub_batch, int round) {
    const int place = out_.integers(3), carried = out_.temporary();
    of_items(Operation::shared_load, 4, carried, place, round, [&](int i) { return carry(sub_batch, i); });
    return carried;
  }

  void finish(int step, int sub_batch, int round) {
    const int carried = carried_of(sub_batch, round);
    std::vector<int> sums = add_up(round, 0);
    for (int other = 1; other < plan_.split; ++other) {
      const int of_other = out_.temporary();
      of_items(Operation::shared_load, 4, of_other, kNoRegister, round, [&](int i) { return received(other, i); });
      sums[0] = fp32(sums[0], of_other);
    }
    out_.integers(7);
    is_backward_ ? differentiate(sums[0], carried, step, sub_batch, round)
                 : apply(sums, carried, step, sub_batch, round);
  }

  void end_part(RecurrencePart part) { parts_->resize(out_.written(), part); }

  const TrainingSize& size_;
  const RecurrencePlan& plan_;
  RecurrenceShape shape_;
  bool is_backward_, is_lstm_;
  int warp_, threads_, item_threads_;  // of the warp group
  int items_, thread_items_;           // of a sub-batch; of a thread
  WarpWriter out_{CompilerView{}};
  const ExchangeTimes& cycles_;
  const LayerRole& role_;
  int group_, gates_, busy_warps_;
  int count_ = 0;  // of sub-batches
  std::vector<RecurrencePart>* parts_ = nullptr;
};

// Within products, what is neither a tensor core's nor loads tiles looks at the state, or waits.
void add_looks(const WarpTrace& warp, std::vector<RecurrencePart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Operation operation = warp.instructions[i].operation;
    if (parts[i] == RecurrencePart::multiply && operation != Operation::tensor && operation != Operation::shared_load) {
      parts[i] = RecurrencePart::exchange;
    }
  }
}

}  // namespace

RecurrenceTrace trace_recurrence(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, int steps,
                                 const ExchangeTimes& cycles, const LayerRole& role) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  RecurrenceTrace trace;
  for (int group = 0; group < plan.warp_groups; ++group) {
    BlockTrace block;
    trace.parts.emplace_back();
    for (int warp = 0; warp < plan.warps; ++warp) {
      std::vector<RecurrencePart> parts;
      block.warps.push_back(Writer(size, plan, is_backward, cycles, role, group, warp).write(steps, parts));
      if (warp == 0) {
        add_looks(block.warps[0], parts);
        trace.parts.back() = std::move(parts);
      }
    }
    trace.warp_groups.push_back(std::move(block));
  }
  const std::int64_t sub_batches = std::int64_t{steps} * plan.sub_batches;
  trace.states = {kStates, std::uint64_t{kTileSamples} * kSampleBytes * shape.spans,
                  (sub_batches + plan.sub_batches) * shape.sample_tiles, cycles.state};
  trace.sums = {kSums, static_cast<std::uint64_t>(4 * plan.split * plan.units * shape.samples), sub_batches,
                cycles.sums};
  return trace;
}

// ---- its time -------------------------------------------------------------------------------------------------------

namespace {

// Cycles at the clock that tensor cores leave; L2 keeps its own. Words come from either half of it.
Chip at_tensor_clock(Chip chip) {
  chip.l2_latency_cycles.value = chip.tensor_clock_share * chip.exchange_round_trip_cycles;
  chip.clock_hz.value *= chip.tensor_clock_share;
  return chip;
}

// A store's way to L2 is that of the load which finds it, but for half a crossing to the other half
// (sim/exchange/exchange.hpp), and for what the exchange takes longer the more SMs take part.
ExchangeTimes times_on(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape) {
  const double crossing = std::max(0.0, chip.signal_cycles - 1.5 * chip.l2_latency_cycles);
  const double bytes = 4.0 * (plan.split - 1) * plan.units * shape.samples;
  return {.state = chip.tensor_clock_share * (crossing / 2 + chip.exchange_per_sm_cycles * shape.blocks),
          .sums = chip.cluster_latency_cycles + chip.cluster_per_sm_cycles * plan.split - chip.lds_latency_cycles +
                  bytes / chip.cluster_bytes_per_cycle,
          .before_barrier = chip.tensor_clock_share * chip.before_barrier_cycles,
          .fence = chip.tensor_clock_share * chip.cost[Cost::bulk_fence_signals] * chip.signal_cycles};
}

// What is asked for behind the last step is left out.
void count_bytes(const RecurrenceTrace& trace, const RecurrencePlan& plan, int sample_tiles, int steps,
                 RecurrenceRun& result) {
  for (const BlockTrace& block : trace.warp_groups) {
    for (const WarpTrace& warp : block.warps) {
      for (const Instruction& instruction : warp.instructions) {
        const bool is_load = instruction.operation == Operation::global_load;
        if ((!is_load && instruction.operation != Operation::global_store) || instruction.mask == 0) {
          continue;
        }
        const std::uint64_t address = warp.addresses_of(instruction).front();
        const bool is_state = trace.states.has(address);
        if (!is_load || !is_state || step_of_state(trace, plan, sample_tiles, address) < steps) {
          const double bytes = 1.0 * instruction.width * std::popcount(instruction.mask) / steps;
          result.l2_bytes += bytes;
          (is_load ? result.state_bytes : result.published_bytes) += is_state ? bytes : 0;
        }
      }
    }
  }
}

}  // namespace

RecurrencePart RecurrenceRun::binding() const {
  return static_cast<RecurrencePart>(std::ranges::max_element(parts_us) - parts_us.begin());
}

RecurrenceRun simulate_recurrence(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan,
                                  bool is_backward, const SimulationOptions& simulation, const LayerRole& role) {
  constexpr int kWarmUp = 2, kLeast = 4;
  const int counted = std::max(kLeast, plan.ahead / 2);  // a fence
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const Chip of_sm = at_tensor_clock(chip);
  const RecurrenceTrace trace =
      trace_recurrence(size, plan, is_backward, kWarmUp + counted, times_on(chip, plan, shape), role);
  const std::array<Published, 2> published{trace.states, trace.sums};
  SmOptions options = simulation.sm;
  options.events = true;
  if (simulation.exchange) {
    options.published = published;
  }
  options.l2_line_cycles = l2_line_cycles(chip);
  const SmRun run = run_sm(of_sm, trace.warp_groups, options);

  // From when the last word of a state is published to when that of a later one is.
  std::vector<std::int64_t> ends(static_cast<std::size_t>(kWarmUp + counted) + 1);
  for (const IssueEvent& store : run.global_stores) {
    const WarpTrace& warp = trace.warp_groups[store.warp / plan.warps].warps[store.warp % plan.warps];
    const std::uint64_t address = warp.addresses_of(warp.instructions[store.instruction]).front();
    if (trace.states.has(address)) {
      std::int64_t& end = ends[static_cast<std::size_t>(step_of_state(trace, plan, shape.sample_tiles, address))];
      end = std::max(end, store.cycle);
    }
  }
  const std::int64_t begin = ends[kWarmUp], end = ends.back();
  const double us = plan.launches * 1e6 / of_sm.clock_hz / counted;  // each as the first
  RecurrenceRun result;
  result.step_us = us * static_cast<double>(end - begin);
  count_bytes(trace, plan, shape.sample_tiles, kWarmUp + counted, result);
  result.shared_wavefronts = 1.0 * (run.loads().wavefronts + run.stores().wavefronts) / (kWarmUp + counted);
  result.polls_in_vain = static_cast<double>(run.polls_in_vain) / (kWarmUp + counted);
  std::vector<std::int64_t> last(trace.warp_groups.size(), begin);
  for (const IssueEvent& event : run.events) {
    const auto group = static_cast<std::size_t>(event.warp / plan.warps);
    if (event.warp % plan.warps == 0 && event.cycle > begin) {
      const std::int64_t until = std::min(event.cycle, end);
      const bool after_barrier =
          event.instruction > 0 && trace.parts[group][event.instruction - 1] == RecurrencePart::barrier;
      const RecurrencePart part = after_barrier ? RecurrencePart::barrier : trace.parts[group][event.instruction];
      result.parts_us[static_cast<std::size_t>(part)] +=
          us * static_cast<double>(until - last[group]) / plan.warp_groups;
      last[group] = until;
    }
  }
  for (const std::int64_t until : last) {  // of groups that would wait for the next state
    result.parts_us[static_cast<std::size_t>(RecurrencePart::exchange)] +=
        us * static_cast<double>(end - until) / plan.warp_groups;
  }
  return result;
}

}  // namespace onchip
