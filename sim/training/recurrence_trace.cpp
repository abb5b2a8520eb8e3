// SPDX-License-Identifier: Apache-2.0
#include "sim/training/recurrence_trace.hpp"

#include "sim/dense/products.hpp"
#include "sim/exchange/exchange.hpp"
#include "sim/training/recurrence_cell.hpp"

#include <cmath>

namespace onchip {
namespace {

constexpr std::uint64_t kSums = std::uint64_t{1} << 24;  // those on their way in a cluster, beyond all shared memory

class Writer : public RecurrenceCell {
 public:
  Writer(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward, const ExchangeTimes& cycles,
         int warp_group, int warp)
      : RecurrenceCell(size, plan, is_backward, warp),
        cycles_(cycles),
        group_(warp_group),
        gates_(is_backward ? 1 : info(size.cell).gates),
        busy_warps_((shape_.spans + shape_.warp_spans - 1) / shape_.warp_spans) {}

  WarpTrace write(int steps, std::vector<RecurrencePart>& parts) {
    parts_ = &parts;
    products(0, group_).ask();
    for (int step = 0; step < steps; ++step) {
      for (int turn = group_; turn < plan_.sub_batches; turn += plan_.warp_groups) {
        write_turn(step, turn);
        ++count_;
      }
    }
    end_part(RecurrencePart::cell);
    return out_.take();
  }

 private:
  Products products(int step, int turn) {
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
                             .awaits_first = true};
    const std::int64_t first = std::int64_t{kTileBytes} * warp_ * plan_.shared_tiles;
    return {out_, shape, warp_, [this, step, turn](int span, int of) { return state(step, turn, span, of); },
            [this, first](int i, int to) {
              out_.access(Operation::shared_load, 16, to, kNoRegister,
                          [&](int lane) { return first + std::int64_t{kTileBytes} * i + std::int64_t{16} * lane; });
            }};
  }

  void write_turn(int step, int turn) {
    const Products now = products(step, turn);
    now.fetch_first();
    await_fetched();
    now.multiply();
    out_.branch();
    const bool has_fence = turn < plan_.warp_groups && step % (plan_.ahead / 2) == 0;
    wait(cycles_.before_barrier + (has_fence ? cycles_.fence : 0));
    end_part(RecurrencePart::multiply);
    const bool is_last = turn + plan_.warp_groups >= plan_.sub_batches,
               is_alone = plan_.sub_batches == plan_.warp_groups;
    const int next_step = step + (is_last ? 1 : 0), next_turn = is_last ? group_ : turn + plan_.warp_groups;
    if (!is_alone) {
      ask(next_step, next_turn);
    }
    now.store_partials([&](int row, int of) { return partial(warp_, of, row); });
    end_part(RecurrencePart::sums);
    out_.barrier();
    end_part(RecurrencePart::barrier);
    out_.branch();  // warps without items
    if (plan_.split > 1 && rounds() > 0) {
      add_up_cluster();
    }
    for (int round = 0; round < rounds(); ++round) {
      finish(step, turn, round);
      fetch(next_step, next_turn, round);
    }
    out_.converge();
    out_.fill(kLoopInstructions);
    out_.branch();
    if (is_alone) {
      wait(plan_.poll_delay > 0 ? plan_.poll_delay + kBehindWait : 0);
      ask(next_step, next_turn);
    }
    end_part(RecurrencePart::cell);
  }

  void ask(int step, int turn) {
    out_.integers(2);
    out_.fill(4 * std::min(plan_.loads_in_flight, shape_.warp_spans * shape_.sample_tiles));  // empty words
    products(step, turn).ask();
    out_.flush();
  }

  // As many passes of a loop that reads the clock.
  void wait(double cycles) {
    for (int pass = static_cast<int>(std::lround(cycles / kWaitPassCycles)); pass > 0; --pass) {
      out_.branch(out_.operate(Operation::integer, out_.operate(Operation::other)));
    }
  }

  // ---- sums ---------------------------------------------------------------------------------------------------------

  std::int64_t partial(int warp, int of, int row) const {
    const int copy = 2 * group_ + count_ % 2;
    return partials_begin() + (copy * plan_.warps + warp) * partials_bytes() +
           std::int64_t{4} * (of * (16 * shape_.row_tiles + 4) + row);
  }

  // An item's rows, from row `first_row` of the SM's on.
  std::vector<int> add_up(int round, int first_row) {
    return add_halves(out_, 0, busy_warps_, [&](int warp) {
      const int loads = gates_ == 3 ? 3 : 1, width = 4 * gates_ / loads;
      std::vector<int> rows;
      for (int i = 0; i < loads; ++i) {
        const int to = out_.load(width, kNoRegister, [&](int lane) {
          const int of = index(round, lane);
          return of < items_ ? partial(warp, sample(of), first_row + unit(of) * gates_ + i) : -1;
        });
        for (int row = 0; row < gates_ / loads; ++row) {
          rows.push_back(to + row);
        }
      }
      return rows;
    });
  }

  // A word of the sums of this turn that are on their way between the SMs of the cluster.
  std::int64_t received(int from, int i) const {
    const std::int64_t of_turn = std::int64_t{4} * plan_.split * items_;
    const int turn = count_ * plan_.warp_groups + group_;
    return static_cast<std::int64_t>(kSums) + of_turn * turn + std::int64_t{4} * (from * items_ + i);
  }

  // To the other SMs what is theirs; then until this one has what they have sent.
  void add_up_cluster() {
    for (int round = 0; round < rounds(); ++round) {
      for (int other = 1; other < plan_.split; ++other) {
        const int sum = add_up(round, plan_.units * other)[0];
        of_items(Operation::shared_store, 4, kNoRegister, out_.operate(Operation::integer, sum, out_.integers(2)),
                 round, [&](int i) { return received(other, i); });
      }
      out_.flush();
    }
    const int there = out_.load(4, kNoRegister, [&](int lane) { return lane == 0 ? received(0, 0) : -1; });
    out_.branch(there);
    end_part(RecurrencePart::split);
  }

  void finish(int step, int turn, int round) {
    const int place = out_.integers(3);
    const int carried = out_.temporary();
    of_items(Operation::shared_load, 4, carried, place, round, [&](int i) { return carry(turn, i); });
    std::vector<int> sums = add_up(round, 0);
    for (int other = 1; other < plan_.split; ++other) {
      const int of_other = out_.temporary();
      of_items(Operation::shared_load, 4, of_other, kNoRegister, round, [&](int i) { return received(other, i); });
      sums[0] = fp32(sums[0], of_other);
    }
    out_.integers(7);
    finish_item(sums, carried, step, turn, round);
  }

  void end_part(RecurrencePart part) { parts_->resize(out_.written(), part); }

  const ExchangeTimes& cycles_;
  int group_, gates_, busy_warps_;
  int count_ = 0;  // of turns
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
                                 const ExchangeTimes& cycles) {
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  RecurrenceTrace trace;
  for (int group = 0; group < plan.warp_groups; ++group) {
    BlockTrace block;
    trace.parts.emplace_back();
    for (int warp = 0; warp < plan.warps; ++warp) {
      std::vector<RecurrencePart> parts;
      block.warps.push_back(Writer(size, plan, is_backward, cycles, group, warp).write(steps, parts));
      if (warp == 0) {
        add_looks(block.warps[0], parts);
        trace.parts.back() = std::move(parts);
      }
    }
    trace.warp_groups.push_back(std::move(block));
  }
  const std::int64_t turns = std::int64_t{steps} * plan.sub_batches;
  trace.states = {kStates, std::uint64_t{kTileSamples} * kSampleBytes * shape.spans,
                  (turns + plan.sub_batches) * shape.sample_tiles, cycles.state};
  trace.sums = {kSums, static_cast<std::uint64_t>(4 * plan.split * plan.units * shape.samples), turns, cycles.sums};
  return trace;
}

}  // namespace onchip
