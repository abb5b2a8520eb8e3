// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/sm.hpp"

#include "model/chip/chip.hpp"
#include "sim/machine/block_barrier.hpp"
#include "sim/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kLineBytes = 128;

// Lines of L2 that an access touches: what the load/store unit sends off one after another.
int lines(std::span<const std::uint64_t> addresses) {
  std::array<std::uint64_t, kWarpLanes> seen;
  int count = 0;
  for (const std::uint64_t address : addresses) {
    const std::uint64_t line = address / kLineBytes;
    if (std::find(seen.begin(), seen.begin() + count, line) == seen.begin() + count) {
      seen[count++] = line;
    }
  }
  return std::max(1, count);
}

BankCost total(const std::vector<BankCost>& costs) {
  BankCost sum;
  for (const BankCost& cost : costs) {
    sum += cost;
  }
  return sum;
}

// When each register of one warp has its value. Measured latencies hold a share of their loop's overhead (4.21 cycles
// for an FFMA of 4), so results come at the nearest whole cycle.
class Scoreboard {
 public:
  // The first cycle at which all operands are there, and the destination's earlier value, too.
  std::int64_t ready_at(const Instruction& instruction) const {
    std::int64_t cycle = instruction.destination == kNoRegister ? 0 : ready_[instruction.destination];
    for (const Register source : instruction.sources) {
      cycle = source == kNoRegister ? cycle : std::max(cycle, ready_[source]);
    }
    return cycle;
  }

  void write(const Instruction& instruction, double result_cycle) {
    const std::int64_t cycle = std::llround(result_cycle);
    const int end = std::min(kRegisters, instruction.destination + words_of_a_lane(instruction));
    for (int i = instruction.destination; i < end && i != kNoRegister; ++i) {
      ready_[i] = cycle;
    }
  }

 private:
  std::array<std::int64_t, kRegisters> ready_{};
};

// ---- the arithmetic pipes of one partition --------------------------------------------------------------------------

// What each class of instruction takes of them. A pipe that takes 1.26 cycles per instruction on average starts one at
// 0, 1.26, 2.52, ..., so at whole cycles 0, 1, 2, 3, 5. half2 arithmetic and conversions of halves share one.
enum class Unit : std::uint8_t { integer, half, fp32, special, tensor, load_store, barrier, none };
constexpr int kArithmeticPipes = 5;

// An access without an active lane comes back from the load/store unit without a round trip: 8 such global loads, each
// used by the next instruction, take 29 cycles each on an H100.
constexpr double kNoLanesLatencyCycles = 28;

struct OperationTiming {
  Unit unit = Unit::none;
  double issue_cycles = 0;    // of its unit; load_store: see LoadStoreUnit
  double latency_cycles = 0;  // issue to use of the result, without waiting
};
using TimingTable = std::array<OperationTiming, kOperationNames.size()>;  // by Operation

// Of the microbenchmarks, 64 dependent FFMA and the branch back to the first of them take 13.3 cycles more than the
// FFMAs' 4 each; of LOP3, IADD3, SHF and PRMT 13 to 14.
constexpr double kBranchCycles = 13;

TimingTable timing_table(const Chip& chip) {
  // A tanh is an exponential and a reciprocal with about five dependent fp32 instructions around them.
  const double special = std::max<double>(chip.arithmetic_latency_cycles,
                                          (chip.tanh_latency_cycles - 5 * chip.arithmetic_latency_cycles) / 2);
  // The measured chain is of shuffles and additions.
  const double shuffle = chip.shuffle_latency_cycles - chip.arithmetic_latency_cycles;
  TimingTable table;
  const auto set = [&](Operation operation, Unit unit, double issue, double latency) {
    table[static_cast<int>(operation)] = {unit, issue, latency};
  };
  set(Operation::integer, Unit::integer, chip.integer_issue_cycles, chip.arithmetic_latency_cycles);
  // HADD2.F32 and HFMA2 share a pipe and its rate. The measured half2_issue is better, and its latency longer: of plain
  // multiply-adds ptxas gives every other one to a second pipe (HFMA2.MMA), which cannot take one half of a register as
  // both, as the kernel's products do.
  set(Operation::half2, Unit::half, chip.conversion_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::conversion, Unit::half, chip.conversion_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::fp32, Unit::fp32, chip.fp32_issue_cycles, chip.arithmetic_latency_cycles);
  set(Operation::special, Unit::special, chip.special_issue_cycles, special);
  set(Operation::tensor, Unit::tensor, chip.tensor_issue_cycles, chip.tensor_latency_cycles);
  set(Operation::shuffle, Unit::load_store, chip.lds_instruction_cycles, std::max(1.0, shuffle));
  set(Operation::shared_load, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::shared_store, Unit::load_store, chip.lds_instruction_cycles, 0);
  set(Operation::matrix_load, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::shared_atomic, Unit::load_store, chip.lds_instruction_cycles, chip.lds_latency_cycles);
  set(Operation::global_load, Unit::load_store, chip.lds_instruction_cycles, chip.l2_latency_cycles);
  set(Operation::global_store, Unit::load_store, chip.lds_instruction_cycles, 0);
  set(Operation::async_copy, Unit::load_store, chip.lds_instruction_cycles, chip.l2_latency_cycles);
  set(Operation::barrier, Unit::barrier, 1, 0);
  set(Operation::other, Unit::none, 1, chip.arithmetic_latency_cycles);
  set(Operation::branch, Unit::none, 1, kBranchCycles);
  return table;
}

class Pipe {
 public:
  bool can_start(std::int64_t cycle) const { return free_at_ < static_cast<double>(cycle + 1); }
  void start(std::int64_t cycle, double issue_cycles) {
    free_at_ = std::max(free_at_, static_cast<double>(cycle)) + issue_cycles;
  }
  std::int64_t next_start() const { return static_cast<std::int64_t>(free_at_); }

 private:
  double free_at_ = 0;
};

// ---- the load/store unit --------------------------------------------------------------------------------------------

// A queue in front of it for every partition, and one data path, which serves
// shared-memory accesses wavefront by wavefront, shuffles, and what goes to L2 as 128-byte pieces, in the order of
// their issue.
//
//   start  = max(issue, end of the one before)
//   end    = start + max(instruction cycles, wavefronts * wavefront cycles)
//   result = start + latency + cycles per word beyond the first 4 bytes of a lane + wavefronts beyond the ideal
class LoadStoreUnit {
 public:
  explicit LoadStoreUnit(const Chip& chip)
      : wavefront_cycles_(chip.lds_wavefront_cycles),
        per_word_cycles_(chip.lds_latency_per_word_cycles),
        depth_(static_cast<std::size_t>(chip.load_store_queue)),
        queues_(static_cast<std::size_t>(chip.partitions)) {}

  // Whether the partition's queue has room at this cycle; if not, next_room says when.
  bool has_room(int partition, std::int64_t cycle) {
    std::deque<double>& queue = queues_[partition];
    while (!queue.empty() && queue.front() <= static_cast<double>(cycle)) {
      queue.pop_front();
    }
    return queue.size() < depth_;
  }
  std::int64_t next_room(int partition) const {
    return static_cast<std::int64_t>(std::ceil(queues_[partition].front()));
  }

  struct Access {
    double instruction_cycles = 1, latency_cycles = 0;
    int width = 4, wavefronts = 1, ideal = 1;
  };
  // Takes an access at this cycle; returns the cycle at which its result is there.
  double take(int partition, std::int64_t cycle, const Access& access) {
    const double start = std::max(static_cast<double>(cycle), free_at_);
    free_at_ = start + std::max(access.instruction_cycles, access.wavefronts * wavefront_cycles_);
    queues_[partition].push_back(start);
    return start + access.latency_cycles + per_word_cycles_ * std::max(0, access.width / 4 - 1) +
           wavefront_cycles_ * std::max(0, access.wavefronts - access.ideal);
  }

  double free_at() const { return free_at_; }

 private:
  double wavefront_cycles_, per_word_cycles_;
  std::size_t depth_;
  double free_at_ = 0;
  std::vector<std::deque<double>> queues_;  // [partitions]: when each waiting access starts
};

// ---- warps ----------------------------------------------------------------------------------------------------------

class Scheduler {
 public:
  explicit Scheduler(Scheduling policy) : policy_(policy), last_(policy == Scheduling::round_robin ? 0 : kNone) {}

  void add(int warp) { warps_.push_back(warp); }

  // The first warp that `can_issue`, -1 if none can.
  template <typename CanIssue>
  int choose(CanIssue&& can_issue) {
    const std::size_t count = warps_.size();
    const bool is_greedy = policy_ != Scheduling::round_robin;
    if (is_greedy && last_ < count && can_issue(warps_[last_])) {
      return warps_[last_];
    }
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t i = policy_ == Scheduling::greedy_then_oldest     ? n
                            : policy_ == Scheduling::greedy_then_youngest ? count - 1 - n
                                                                          : (last_ + 1 + n) % count;
      if ((!is_greedy || i != last_) && can_issue(warps_[i])) {
        last_ = i;
        return warps_[i];
      }
    }
    return -1;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  Scheduling policy_;
  std::vector<int> warps_;
  std::size_t last_;  // that issued; greedy: none yet
};

class Simulation {
 public:
  Simulation(const Chip& chip, int blocks, int resident, const BlockSupply& supply, const SmOptions& options)
      : options_(options),
        chip_(chip),
        supply_(supply),
        blocks_left_(blocks),
        places_(resident),
        timing_(timing_table(chip)),
        banks_(bank_geometry(chip)),
        load_store_(chip),
        published_(options.published),
        l2_bytes_per_cycle_(chip.exchange_bytes_per_cycle_per_sm),
        partitions_(static_cast<std::size_t>(chip.partitions), Partition{Scheduler(options.scheduling), {}}) {
    run_.heat.resize(options.heat ? static_cast<std::size_t>(chip.smem_banks) : 0);
  }

  SmRun run() {
    std::int64_t cycle = 0;
    start_blocks(cycle);
    while (unfinished_ > 0) {
      const bool issued = issue_all(cycle);
      const std::int64_t next = issued ? cycle + 1 : next_event(cycle);
      charge(cycle, next, issued);
      cycle = next;
    }
    const std::int64_t end = std::max<std::int64_t>(cycle, std::llround(std::max(last_result_, load_store_.free_at())));
    charge(cycle, end, false);
    run_.cycles = end;
    return std::move(run_);
  }

 private:
  struct Block {
    std::shared_ptr<const BlockTrace> trace;  // until its last warp ends
    BlockBarrier barrier;
    std::size_t running;  // warps
  };
  struct Warp {
    const WarpTrace* trace;
    int block, partition;
    std::size_t number;  // of all blocks
    Scoreboard scoreboard;
    std::size_t next = 0;
    std::int64_t wake = 0;  // nothing can issue before; kNever: at a barrier
    bool finished = false;
    std::vector<std::size_t> missing = {};  // loads that found nothing
    std::vector<std::size_t> again = {};    // of these, those to be asked for again first
  };
  struct Partition {
    Scheduler scheduler;
    std::array<Pipe, kArithmeticPipes> pipes;
    std::size_t fetched = 0;  // instructions that some warp has issued
    double next_fetched = 0;  // when the one after them is there
  };

  void start_blocks(std::int64_t cycle) {
    while (places_ > 0 && blocks_left_ > 0) {
      --blocks_left_;
      const auto number = static_cast<int>(blocks_.size());
      const std::shared_ptr<const BlockTrace> trace = supply_(number);
      if (options_.fetch) {
        supply_cycles_ = std::max(supply_cycles_, instruction_supply_cycles(chip_, trace->loop_instructions));
      }
      const auto warps = trace->warps.size();
      blocks_.push_back({trace, BlockBarrier(chip_, static_cast<int>(warps)), warps});
      places_ -= warps > 0 ? 1 : 0;
      unfinished_ += static_cast<int>(warps);
      published_.expect(*trace);
      std::vector<int> started;
      for (const WarpTrace& warp : trace->warps) {
        started.push_back(place_warp(warp, number, cycle));
      }
      for (const int w : started) {
        if (warps_[w].trace->instructions.empty()) {
          finish(w, cycle);
        }
      }
    }
  }

  int place_warp(const WarpTrace& trace, int block, std::int64_t cycle) {
    const std::size_t number = run_.warp_end.size();
    run_.warp_loads.emplace_back();
    run_.warp_stores.emplace_back();
    run_.warp_end.emplace_back();
    auto place = static_cast<int>(warps_.size());
    if (free_.empty()) {
      const int partition = place % static_cast<int>(partitions_.size());
      partitions_[partition].scheduler.add(place);
      warps_.push_back({&trace, block, partition, number, {}, 0, cycle});
    } else {
      place = free_.back();
      free_.pop_back();
      warps_[place] = {&trace, block, warps_[place].partition, number, {}, 0, cycle};
    }
    return place;
  }

  // Tells when to ask again if the answer is no.
  bool can_issue(Warp& warp, std::int64_t cycle) {
    if (warp.finished || warp.wake > cycle) {
      return false;
    }
    const bool asks = !warp.again.empty();
    const Instruction& instruction = warp.trace->instructions[asks ? warp.again.back() : warp.next];
    const Unit unit = timing_[static_cast<int>(instruction.operation)].unit;
    warp.wake = cycle;
    if (options_.scoreboard && !asks) {
      warp.wake = std::max(warp.wake, warp.scoreboard.ready_at(instruction));
    }
    const Partition& partition = partitions_[warp.partition];
    if (supply_cycles_ > 0 && !asks && warp.next >= partition.fetched) {
      warp.wake = std::max<std::int64_t>(warp.wake, std::llround(partition.next_fetched));
    }
    if (unit == Unit::load_store) {
      if (!load_store_.has_room(warp.partition, cycle)) {
        warp.wake = std::max(warp.wake, load_store_.next_room(warp.partition));
      }
    } else if (options_.issue && static_cast<int>(unit) < kArithmeticPipes) {
      const Pipe& pipe = partition.pipes[static_cast<int>(unit)];
      if (!pipe.can_start(cycle)) {
        warp.wake = std::max(warp.wake, pipe.next_start());
      }
    }
    if (warp.wake <= cycle && !asks && waits_for_missing(warp, instruction)) {
      look(warp, cycle);
    }
    return warp.wake <= cycle;
  }

  static bool waits_for_missing(const Warp& warp, const Instruction& instruction) {
    return std::ranges::any_of(warp.missing, [&](std::size_t load) {
      const Instruction& of = warp.trace->instructions[load];
      return std::ranges::any_of(instruction.sources, [&](Register source) {
        return source != kNoRegister && source >= of.destination && source < of.destination + words_of_a_lane(of);
      });
    });
  }
  // As the loops do that poll: what came is looked at, then all that is missing is asked for again.
  void look(Warp& warp, std::int64_t cycle) {
    const auto words = static_cast<double>(warp.missing.size());
    warp.wake = cycle + std::llround(chip_.look_cycles + chip_.look_per_word_cycles * words);
    warp.again = std::exchange(warp.missing, {});
    run_.polls_in_vain += std::ssize(warp.again);
  }

  bool issue_all(std::int64_t cycle) {
    bool any = false;
    // Another partition is first in every cycle: the load/store unit has no favourite.
    for (std::size_t i = 0; i < partitions_.size(); ++i) {
      Partition& partition = partitions_[(static_cast<std::size_t>(cycle) + i) % partitions_.size()];
      int chosen;
      do {
        chosen = partition.scheduler.choose([&](int w) { return can_issue(warps_[w], cycle); });
        if (chosen >= 0) {
          issue(chosen, cycle);
          any = true;
        }
      } while (chosen >= 0 && !options_.issue);
    }
    return any;
  }

  void issue(int w, std::int64_t cycle) {
    Warp& warp = warps_[w];
    if (!warp.again.empty()) {
      send(warp, warp.again.back(), cycle);
      warp.again.pop_back();
      warp.wake = cycle + 1;
      return;
    }
    const Instruction& instruction = warp.trace->instructions[warp.next];
    const OperationTiming& timing = timing_[static_cast<int>(instruction.operation)];
    ++run_.issued[static_cast<int>(instruction.operation)];
    if (options_.events) {
      run_.events.push_back({cycle, static_cast<int>(warp.number), static_cast<std::uint32_t>(warp.next)});
    }
    if (instruction.operation == Operation::global_store) {
      run_.global_stores.push_back({cycle, static_cast<int>(warp.number), static_cast<std::uint32_t>(warp.next)});
    }
    warp.wake = options_.issue ? cycle + 1 : cycle;
    if (instruction.operation == Operation::branch && options_.scoreboard) {
      warp.wake = cycle + std::llround(timing.latency_cycles);
    }
    if (timing.unit == Unit::load_store) {
      send(warp, warp.next, cycle);
    } else {
      if (static_cast<int>(timing.unit) < kArithmeticPipes && options_.issue) {
        partitions_[warp.partition].pipes[static_cast<int>(timing.unit)].start(cycle, timing.issue_cycles);
      }
      write(warp, instruction, static_cast<double>(cycle) + timing.latency_cycles);
    }
    ++warp.next;
    fetch_next(partitions_[warp.partition], warp.next, cycle);
    if (timing.unit == Unit::barrier) {
      warp.wake = kNever;
      release(warp.block, blocks_[warp.block].barrier.arrive(static_cast<double>(cycle)));
    }
    if (warp.next == warp.trace->instructions.size()) {
      finish(w, cycle + 1);
      start_blocks(cycle + 1);
    }
  }

  void write(Warp& warp, const Instruction& instruction, double result) {
    if (instruction.destination != kNoRegister) {
      warp.scoreboard.write(instruction, result);
      last_result_ = std::max(last_result_, result);
    }
  }

  // To the load/store unit.
  void send(Warp& warp, std::size_t index, std::int64_t cycle) {
    const Instruction& instruction = warp.trace->instructions[index];
    double result = load_store_.take(warp.partition, cycle, access(warp, instruction));
    if (comes_from_l2(instruction)) {
      const double cycles = instruction.width * std::popcount(instruction.mask) / l2_bytes_per_cycle_;
      result = from_l2_free_ = std::max(from_l2_free_, result - cycles) + cycles;
    }
    if (published_.finds_nothing(*warp.trace, instruction, static_cast<double>(cycle))) {
      warp.missing.push_back(index);
    }
    write(warp, instruction, result);
  }

  // After a warp has issued all before `next`.
  void fetch_next(Partition& partition, std::size_t next, std::int64_t cycle) {
    if (next > partition.fetched) {
      partition.fetched = next;
      const double earliest = static_cast<double>(cycle) - kInstructionsAhead * supply_cycles_;
      partition.next_fetched = std::max(partition.next_fetched, earliest) + supply_cycles_;
    }
  }

  static bool comes_from_l2(const Instruction& instruction) {
    return instruction.mask != 0 &&
           (instruction.operation == Operation::global_load || instruction.operation == Operation::async_copy);
  }

  LoadStoreUnit::Access access(const Warp& warp, const Instruction& instruction) {
    const OperationTiming& timing = timing_[static_cast<int>(instruction.operation)];
    LoadStoreUnit::Access result{timing.issue_cycles, timing.latency_cycles, 4 * words_of_a_lane(instruction), 1, 1};
    if (has_addresses(instruction.operation) && instruction.mask == 0) {
      result.latency_cycles = std::min(result.latency_cycles, kNoLanesLatencyCycles);
      result.width = 4;
    } else if (instruction.operation == Operation::async_copy || !is_shared_access(instruction.operation)) {
      result.wavefronts = result.ideal = lines(warp.trace->addresses_of(instruction));
      if (options_.l2_line_cycles > 0) {
        result.instruction_cycles = options_.l2_line_cycles * result.wavefronts;
      }
      result.width = 4;  // the words of a lane come back from L2 together
    } else {
      const SharedAccess shared = shared_access(*warp.trace, instruction);
      const BankCost cost = options_.heat ? banks_.count(shared, run_.heat) : banks_.count(shared);
      (instruction.operation == Operation::shared_store ? run_.warp_stores : run_.warp_loads)[warp.number] += cost;
      result.ideal = cost.ideal;
      result.wavefronts = options_.banks ? cost.wavefronts : cost.ideal;
    }
    return result;
  }

  void finish(int w, std::int64_t cycle) {
    Warp& warp = warps_[w];
    Block& block = blocks_[warp.block];
    --unfinished_;
    warp.finished = true;
    run_.warp_end[warp.number] = cycle;
    release(warp.block, block.barrier.leave(static_cast<double>(cycle)));
    if (--block.running == 0) {
      for (int other = static_cast<int>(warps_.size()) - 1; other >= 0; --other) {  // so that the lowest is taken first
        if (warps_[other].block == warp.block) {
          free_.push_back(other);
        }
      }
      block.trace.reset();
      ++places_;
    }
  }

  // `at`: when the warps that wait may go on; 0 if they may not yet.
  void release(int block, double at) {
    if (at <= 0) {
      return;
    }
    for (Warp& warp : warps_) {
      if (warp.block == block && warp.wake == kNever) {
        warp.wake = std::llround(at);
      }
    }
  }

  std::int64_t next_event(std::int64_t cycle) const {
    std::int64_t next = kNever;
    for (const Warp& warp : warps_) {
      next = warp.finished ? next : std::min(next, warp.wake);
    }
    return std::max(next, cycle + 1);
  }

  void charge(std::int64_t from, std::int64_t to, bool issued) {
    const auto span = static_cast<double>(to - from);
    const double busy = std::clamp(load_store_.free_at() - static_cast<double>(from), 0.0, span);
    run_.causes[static_cast<int>(Cause::shared_memory)] += busy;
    if (busy < span) {
      const auto waits = [&](const Warp& warp) { return warp.finished || at_barrier(warp, from); };
      const bool all_wait = !issued && unfinished_ > 0 && std::ranges::all_of(warps_, waits);
      const Cause rest = issued ? Cause::issue : all_wait ? Cause::barrier : Cause::scoreboard;
      run_.causes[static_cast<int>(rest)] += span - busy;
    }
  }
  bool at_barrier(const Warp& warp, std::int64_t cycle) const {
    return warp.next > 0 && warp.wake > cycle &&
           warp.trace->instructions[warp.next - 1].operation == Operation::barrier;
  }

  SmOptions options_;
  const Chip& chip_;
  const BlockSupply& supply_;
  int blocks_left_, places_;  // places: for how many more blocks there is room
  TimingTable timing_;
  BankModel banks_;
  LoadStoreUnit load_store_;
  PublishedWords published_;
  double l2_bytes_per_cycle_, from_l2_free_ = 0;  // the SM's port: what comes from L2 comes one after another
  std::vector<Block> blocks_;                     // that have started
  std::vector<Warp> warps_;                       // places, each of one partition
  std::vector<int> free_;                         // places of blocks that have ended
  std::vector<Partition> partitions_;
  double supply_cycles_ = 0;  // per instruction; 0: they are all there
  int unfinished_ = 0;
  double last_result_ = 0;
  SmRun run_;
};

}  // namespace

BankCost SmRun::loads() const {
  return total(warp_loads);
}
BankCost SmRun::stores() const {
  return total(warp_stores);
}

SmRun& SmRun::operator+=(const SmRun& after) {
  if (warp_end.empty()) {
    return *this = after;
  }
  const auto add = [](auto& to, const auto& from) {
    std::transform(to.begin(), to.end(), from.begin(), to.begin(), [](auto a, const auto& b) { return a += b; });
  };
  add(causes, after.causes);
  add(issued, after.issued);
  add(warp_loads, after.warp_loads);
  add(warp_stores, after.warp_stores);
  add(heat, after.heat);
  for (std::size_t w = 0; w < warp_end.size(); ++w) {
    warp_end[w] = cycles + after.warp_end[w];
  }
  cycles += after.cycles;
  return *this;
}

SharedAccess shared_access(const WarpTrace& warp, const Instruction& instruction) {
  const Operation operation = instruction.operation;
  const bool alone = operation == Operation::shared_atomic || operation == Operation::async_copy;
  const Sharing sharing = operation == Operation::shared_load ? Sharing::words_and_phases
                          : alone                             ? Sharing::nothing
                                                              : Sharing::words;
  return {warp.addresses_of(instruction), instruction.mask, instruction.width, sharing};
}

SmRun run_sm(const Chip& chip, int blocks, int resident, const BlockSupply& block, const SmOptions& options) {
  return Simulation(chip, blocks, resident, block, options).run();
}

SmRun run_sm(const Chip& chip, std::span<const BlockTrace> blocks, const SmOptions& options) {
  const auto count = static_cast<int>(blocks.size());
  const BlockSupply lent = [&](int i) {
    return std::shared_ptr<const BlockTrace>(std::shared_ptr<void>(), &blocks[i]);
  };
  return run_sm(chip, count, count, lent, options);
}

}  // namespace onchip
