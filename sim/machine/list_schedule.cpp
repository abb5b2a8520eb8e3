// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/list_schedule.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace onchip {
namespace {

constexpr std::int32_t kNobody = -1;
constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::max();

bool stays(Operation operation) {
  return operation == Operation::barrier || operation == Operation::other || operation == Operation::branch;
}

struct Dependences {
  std::vector<std::array<std::int32_t, 5>> producers;  // of each instruction's sources and of its register's last value
  std::vector<std::int32_t> first_user;
};

Dependences find_dependences(std::span<const Instruction> block) {
  Dependences result{{}, std::vector<std::int32_t>(block.size(), kNobody)};
  std::array<std::int32_t, kRegisters> writer;
  writer.fill(kNobody);
  std::int32_t fence = kNobody;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const Instruction& instruction = block[i];
    std::array<std::int32_t, 5> producers;
    producers.fill(fence);
    for (std::size_t s = 0; s < instruction.sources.size(); ++s) {
      const Register source = instruction.sources[s];
      if (source != kNoRegister && writer[source] > fence) {
        producers[s] = writer[source];
        std::int32_t& user = result.first_user[writer[source]];
        user = user == kNobody ? static_cast<std::int32_t>(i) : user;
      }
    }
    const int end = std::min(kRegisters, instruction.destination + words_of_a_lane(instruction));
    for (int reg = instruction.destination; reg < end && instruction.destination != kNoRegister; ++reg) {
      producers[4] = std::max(producers[4], writer[reg]);
      writer[reg] = static_cast<std::int32_t>(i);
    }
    if (stays(instruction.operation)) {
      fence = static_cast<std::int32_t>(i);
    }
    result.producers.push_back(producers);
  }
  return result;
}

int latency(const CompilerView& view, Operation operation) {
  switch (operation) {
    case Operation::shared_load:
    case Operation::global_load:
      return view.load_latency;
    case Operation::shuffle:
    case Operation::special:
      return view.shuffle_latency;
    case Operation::half2:
      return view.half2_latency;
    case Operation::other:
    case Operation::branch:
    case Operation::barrier:
      return 1;
    default:
      return view.latency;
  }
}

// Integer operations among the first `view.window` instructions that wait for no load, at most view.addresses_first.
int addresses_first(std::span<const Instruction> block, const Dependences& dependences, const CompilerView& view) {
  const std::size_t end = std::min(block.size(), static_cast<std::size_t>(view.window));
  std::vector<bool> is_free(end, false);
  int count = 0;
  for (std::size_t i = 0; i < end && count < view.addresses_first && !stays(block[i].operation); ++i) {
    is_free[i] = block[i].operation == Operation::integer &&
                 std::ranges::all_of(dependences.producers[i], [&](std::int32_t p) { return p < 0 || is_free[p]; });
    count += is_free[i];
  }
  return count;
}

class ListScheduler {
 public:
  ListScheduler(std::span<const Instruction> block, const CompilerView& view)
      : block_(block),
        view_(view),
        dependences_(find_dependences(block)),
        done_at_(block.size(), kNotYet),
        addresses_left_(addresses_first(block, dependences_, view)) {}

  std::vector<std::uint32_t> run() {
    while (order_.size() < block_.size()) {
      while (next_ < block_.size() && waiting_.size() < static_cast<std::size_t>(view_.window)) {
        waiting_.push_back(static_cast<std::uint32_t>(next_++));
      }
      cycle_ = std::max(cycle_ + 1, schedule_one(ahead_ < view_.loads_ahead));
    }
    return std::move(order_);
  }

 private:
  // Schedules the oldest instruction that can be, or returns the cycle at which one can.
  std::int64_t schedule_one(bool may_load) {
    std::int64_t soonest = kNotYet;
    for (std::size_t at = 0; at < waiting_.size(); ++at) {
      const std::uint32_t i = waiting_[at];
      // What stays where it is waits for all before it, and all behind it wait for it.
      if (stays(block_[i].operation) && at > 0) {
        break;
      }
      if ((counts(i) && !may_load) || (block_[i].operation == Operation::shared_load && addresses_left_ > 0)) {
        continue;
      }
      const std::int64_t when = ready(i);
      if (when <= cycle_) {
        schedule(i);
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
        return cycle_;
      }
      soonest = std::min(soonest, when);
    }
    // Where every value that waits to be used waits for yet another load, that load is made.
    return soonest == kNotYet ? schedule_one(true) : soonest;
  }

  void schedule(std::uint32_t i) {
    done_at_[i] = cycle_ + latency(view_, block_[i].operation);
    addresses_left_ -= block_[i].operation == Operation::integer;
    ahead_ += counts(i);
    std::int32_t last = kNobody;
    for (const std::int32_t producer : dependences_.producers[i]) {
      if (producer != kNobody && producer != last && counts(static_cast<std::uint32_t>(producer)) &&
          dependences_.first_user[producer] == static_cast<std::int32_t>(i)) {
        --ahead_;
        last = producer;
      }
    }
    order_.push_back(i);
  }

  // Loads whose values somebody waits for.
  bool counts(std::uint32_t i) const {
    return block_[i].operation == Operation::shared_load && dependences_.first_user[i] != kNobody;
  }

  std::int64_t ready(std::uint32_t i) const {
    std::int64_t at = 0;
    for (const std::int32_t producer : dependences_.producers[i]) {
      at = producer == kNobody ? at : std::max(at, done_at_[producer]);
    }
    return at;
  }

  std::span<const Instruction> block_;
  CompilerView view_;
  Dependences dependences_;
  std::vector<std::int64_t> done_at_;
  int addresses_left_;  // before the first load
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> waiting_;  // the window, oldest first
  std::size_t next_ = 0;
  std::int64_t cycle_ = 0;
  int ahead_ = 0;
};

}  // namespace

std::vector<std::uint32_t> list_schedule(std::span<const Instruction> block, const CompilerView& view) {
  if (!view.reorders) {
    std::vector<std::uint32_t> order(block.size());
    std::iota(order.begin(), order.end(), 0u);
    return order;
  }
  return ListScheduler(block, view).run();
}

}  // namespace onchip
