// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange/exchange.hpp"

#include "model/exchange/state.hpp"
#include "sim/machine/block_barrier.hpp"
#include "sim/machine/sm.hpp"
#include "sim/machine/warp_writer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace onchip {
namespace {

constexpr int kSectorBytes = 32;     // of a line of L2, which come one by one
constexpr int kWordsPerLoad = 32;    // of a warp, one per lane
constexpr int kStoreWavefronts = 4;  // of a warp's 16-byte stores to shared memory
constexpr double kNotYet = std::numeric_limits<double>::infinity();

// What a partition issues for a warp, read off machine code for sm_90. Of a poll: two comparisons for each word, at
// half rate, and its load; the count of polls, the branch. Of a round: four empty words and an address for each.
constexpr double kPollIssueCycles = 9, kPollIssueCyclesPerWord = 5, kRoundIssueCyclesPerWord = 6;

// Where an SM is on the chip, in no order that matters to the exchange: a hash, the finaliser of SplitMix64.
std::uint64_t place_of(int sm) {
  std::uint64_t x = static_cast<std::uint64_t>(sm) + 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}
// The half of L2 that it is near to.
int side_of(int sm) {
  return static_cast<int>(place_of(sm) & 1);
}
// From L2's nearest SM, -1/2, to its farthest, 1/2.
double distance_of(int sm) {
  return static_cast<double>(place_of(sm) >> 32) * 0x1p-32 - 0.5;
}

// Events in order of the whole cycle they fall in, those of one cycle in the order in which they came: a list for every
// cycle, because simulated exchanges have millions of events within some thousand cycles.
// Event: has `at`, in cycles, not negative.
template <typename Event>
class EventQueue {
 public:
  // While run() works: not before the cycle of the event that it works on.
  void push(const Event& event) {
    const std::size_t cycle = std::max(static_cast<std::size_t>(event.at), now_);
    if (cycle >= cycles_.size()) {
      cycles_.resize(cycle + 1024);
    }
    cycles_[cycle].push_back(event);
    ++waiting_;
  }

  // Calls work(event) for every event, also for those that are pushed meanwhile.
  template <typename Work>
  void run(Work&& work) {
    for (now_ = 0; waiting_ > 0; ++now_) {
      for (std::size_t i = 0; i < cycles_[now_].size(); ++i) {
        const Event event = cycles_[now_][i];  // the list may move
        --waiting_;
        work(event);
      }
      cycles_[now_].clear();
    }
    now_ = 0;
  }

 private:
  std::vector<std::vector<Event>> cycles_;
  std::size_t now_ = 0, waiting_ = 0;
};

// All stores and polls of one step's exchange. Times count from `start`, before which nothing happens.
class Exchange {
 public:
  Exchange(const Chip& chip, const ExchangeShape& shape, std::size_t sms, double start)
      : chip_(chip),
        shape_(shape),
        start_(start),
        half_crossing_(std::max(0.0, chip.signal_cycles - 1.5 * chip.l2_latency_cycles) / 2),
        slices_(std::max<std::size_t>(1, static_cast<std::size_t>(chip.l2_slices) / 2)),
        slice_free_(2 * slices_),
        visible_(static_cast<std::size_t>(shape.state_words)),
        lines_(static_cast<std::size_t>((shape.state_words + shape.line_words - 1) / shape.line_words)),
        warps_(sms * static_cast<std::size_t>(warps_per_sm())) {
    for (std::size_t sm = 0; sm < sms; ++sm) {
      sms_.emplace_back(chip, shape.threads / kWordsPerLoad, static_cast<int>(sm));
    }
  }

  // Words of one line.
  void store(int sm, std::int32_t first, std::int32_t count, double at) {
    const std::int32_t line = first / shape_.line_words;
    std::fill_n(visible_.begin() + first, count, kNotYet);
    const double travel = sms_[sm].half_latency + (near(line, sm) ? 0 : half_crossing_);
    events_.push({at - start_ + travel, Event::Kind::store, first, line, count, false});
  }
  // A warp whose body has ended.
  void begin(int sm, int warp, double at) {
    const double wait = shape_.poll_delay > 0 ? shape_.poll_delay + kBehindWait : 0;
    events_.push({at - start_ + wait, Event::Kind::begin, sm * warps_per_sm() + warp, 0, 0, false});
  }

  // Per SM: when its block may go on.
  std::vector<double> run() {
    events_.run([this](const Event& event) {
      switch (event.kind) {
        case Event::Kind::begin:
          begin_round(event.who, event.at);
          break;
        case Event::Kind::store:
          arrive(event);
          break;
        case Event::Kind::poll:
          serve(event);
          break;
        case Event::Kind::copy:
          copy(event);
          break;
        case Event::Kind::back:
          receive(event);
          break;
      }
    });
    std::vector<double> released;
    for (const Sm& sm : sms_) {
      released.push_back(sm.released + start_);
    }
    return released;
  }

  std::int64_t polls() const { return polls_; }

 private:
  struct Sm {
    Sm(const Chip& chip, int warps, int sm)
        : half_latency((chip.l2_latency_cycles + chip.l2_latency_spread_cycles * distance_of(sm)) / 2),
          issue_free(static_cast<std::size_t>(chip.partitions)),
          barrier(chip, warps) {}
    double half_latency;
    double sent = 0, port_free = 0, store_free = 0;  // to L2; from L2; to shared memory
    std::vector<double> issue_free;                  // [partitions]
    BlockBarrier barrier;
    double released = 0;
  };
  struct Warp {
    std::int64_t round_begin = 0;       // first word of the block's round
    int under_way = 0;                  // polls
    double last = 0;                    // of them to return
    std::vector<std::int32_t> missing;  // lines
  };
  // What the half of L2 that a line is not at home in has of it.
  struct Line {
    double stored = -1;                 // at home, for the last time
    double copied = -1, arrived = 0;    // when the copy was made at home, and when it came; -1: there is none
    bool complete = false;              // the copy has all of the line's words
    bool under_way = false;             // a copy is
    std::vector<std::int32_t> waiting;  // warps, for it
  };
  struct Event {
    double at;
    enum class Kind : std::uint8_t { begin, store, poll, copy, back } kind;
    std::int32_t who, line;  // a store's first word, or the warp that polls
    std::int32_t count;      // of a store's words
    bool complete;           // all of the line's words were there
  };

  bool in_registers() const { return shape_.polled_words > 0; }
  int words_in_flight() const {
    if (in_registers()) {
      return shape_.loads_in_flight;
    }
    const std::int64_t words = (shape_.state_words + shape_.threads - 1) / shape_.threads;
    return static_cast<int>(std::min<std::int64_t>(words, shape_.loads_in_flight));
  }
  int warps_per_sm() const { return shape_.threads / kWordsPerLoad; }
  int sm_of(std::int32_t warp) const { return warp / warps_per_sm(); }
  double& issue_free(std::int32_t warp) {
    std::vector<double>& free = sms_[sm_of(warp)].issue_free;
    return free[static_cast<std::size_t>(warp % warps_per_sm()) % free.size()];
  }

  // Neighbouring lines are at home in different halves, and go round the slices of a half, as interleaved addresses do.
  static int home(std::int32_t line) { return line % 2; }
  static bool near(std::int32_t line, int sm) { return home(line) == side_of(sm); }
  // A slice takes what comes to it, one after another. Repasses when.
  double take(std::int32_t line, int half, double at) {
    double& free = slice_free_[static_cast<std::size_t>(half) * slices_ + static_cast<std::size_t>(line) % slices_];
    at = std::max(at, free);
    free = at + chip_.l2_line_cycles;
    return at;
  }
  bool is_complete(std::int32_t line, double at) const {
    const std::int64_t first = std::int64_t{line} * shape_.line_words;
    const std::int64_t end = std::min(first + shape_.line_words, shape_.state_words);
    return std::all_of(visible_.begin() + first, visible_.begin() + end, [&](double v) { return v <= at; });
  }

  void begin_round(std::int32_t w, double at) {
    Warp& warp = warps_[w];
    double& free = issue_free(w);
    warp.last = free = std::max(at, free) + shape_.issue_slowdown * kRoundIssueCyclesPerWord * words_in_flight();
    warp.missing.clear();
    if (in_registers()) {
      const std::int64_t begin = w % warps_per_sm() * shape_.warp_words;
      const std::int64_t group = sm_of(w) / shape_.group_sms * shape_.group_words;
      ask(warp, group + begin, group + std::min(begin + shape_.polled_words, shape_.group_words));
    }
    for (int k = 0; !in_registers() && k < shape_.loads_in_flight; ++k) {
      const std::int64_t first =
          warp.round_begin + std::int64_t{k} * shape_.threads + w % warps_per_sm() * kWordsPerLoad;
      ask(warp, first, std::min(first + kWordsPerLoad, shape_.state_words));
    }
    if (warp.missing.empty()) {
      end_round(w);
    } else {
      send(w, warp.last);
    }
  }

  void ask(Warp& warp, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t word = begin; word < end; word += shape_.line_words) {
      warp.missing.push_back(static_cast<std::int32_t>(word / shape_.line_words));
    }
  }

  // An SM sends off a line in every cycle.
  void send(std::int32_t w, double at) {
    Warp& warp = warps_[w];
    warp.under_way = static_cast<int>(warp.missing.size());
    polls_ += warp.under_way;
    Sm& sm = sms_[sm_of(w)];
    for (const std::int32_t line : warp.missing) {
      sm.sent = std::max(sm.sent, at) + 1;
      events_.push({sm.sent + sm.half_latency, Event::Kind::poll, w, line, 0, false});
    }
    warp.missing.clear();
  }

  void arrive(const Event& event) {
    const double at = take(event.line, home(event.line), event.at);
    lines_[event.line].stored = at;
    std::fill_n(visible_.begin() + event.who, event.count, at);
  }

  void serve(const Event& event) {
    const int sm = sm_of(event.who);
    const double at = take(event.line, side_of(sm), event.at);
    if (near(event.line, sm)) {
      answer(event.who, event.line, at, is_complete(event.line, at));
      return;
    }
    Line& line = lines_[event.line];
    const bool is_stale = line.copied < 0 || (line.stored > line.copied && line.stored + half_crossing_ <= at);
    if (!line.under_way && !is_stale) {
      answer(event.who, event.line, std::max(at, line.arrived), line.complete);
      return;
    }
    line.waiting.push_back(event.who);
    if (!line.under_way) {
      line.under_way = true;
      events_.push({at + half_crossing_, Event::Kind::copy, 0, event.line, 0, false});
    }
  }

  void copy(const Event& event) {
    Line& line = lines_[event.line];
    line.copied = take(event.line, home(event.line), event.at);
    line.complete = is_complete(event.line, line.copied);
    line.arrived = line.copied + half_crossing_;
    line.under_way = false;
    for (const std::int32_t warp : line.waiting) {
      answer(warp, event.line, line.arrived, line.complete);
      line.arrived += chip_.l2_line_cycles;
    }
    line.waiting.clear();
  }

  void answer(std::int32_t warp, std::int32_t line, double at, bool complete) {
    events_.push({at + sms_[sm_of(warp)].half_latency, Event::Kind::back, warp, line, 0, complete});
  }

  void receive(const Event& event) {
    Sm& sm = sms_[sm_of(event.who)];
    Warp& warp = warps_[event.who];
    sm.port_free = std::max(sm.port_free, event.at) + std::max(kSectorBytes, shape_.word_bytes * shape_.line_words) /
                                                          chip_.exchange_bytes_per_cycle_per_sm;
    warp.last = std::max(warp.last, sm.port_free);
    if (!event.complete) {
      warp.missing.push_back(event.line);
    }
    if (--warp.under_way > 0) {
      return;
    }
    const int words = words_in_flight(), addresses = words * shape_.address_instructions;
    double& free = issue_free(event.who);
    const double begin = std::max(warp.last, free);
    const double slowdown = shape_.issue_slowdown;
    free = begin +
           slowdown * (kPollIssueCycles + kPollIssueCyclesPerWord * words + chip_.integer_issue_cycles * addresses);
    // A thread checks its words one after another, a predicate for each.
    warp.last = begin + slowdown * (chip_.look_cycles + chip_.look_per_word_cycles * words);
    if (!warp.missing.empty()) {
      send(event.who, warp.last + slowdown * chip_.arithmetic_latency_cycles * addresses);
    } else {
      end_round(event.who);
    }
  }

  void end_round(std::int32_t w) {
    Sm& sm = sms_[sm_of(w)];
    Warp& warp = warps_[w];
    if (in_registers()) {
      sm.released = std::max(sm.released, warp.last + chip_.before_barrier_cycles);
      return;
    }
    const std::int64_t left = shape_.state_words - warp.round_begin - w % warps_per_sm() * kWordsPerLoad;
    const auto stores = std::min<std::int64_t>(shape_.loads_in_flight, (left + shape_.threads - 1) / shape_.threads);
    if (stores > 0) {
      double& free = issue_free(w);
      const double placed = std::max(warp.last, free) + static_cast<double>(stores * shape_.placing_instructions) *
                                                            chip_.integer_issue_cycles * shape_.issue_slowdown;
      free = std::max(free, placed);
      const double cycles =
          static_cast<double>(stores * kStoreWavefronts) * chip_.lds_wavefront_cycles * shape_.store_slowdown;
      warp.last = sm.store_free =
          std::max(sm.store_free, shape_.placing_instructions > 0 ? placed : warp.last) + cycles;
    }
    warp.round_begin += std::int64_t{shape_.loads_in_flight} * shape_.threads;
    if (warp.round_begin < shape_.state_words) {
      begin_round(w, warp.last);
    } else {
      const double arrival = warp.last + chip_.before_barrier_cycles;
      sm.released = std::max(sm.released, sm.barrier.arrive(arrival));
    }
  }

  const Chip& chip_;
  const ExchangeShape& shape_;
  double start_, half_crossing_;
  std::size_t slices_;              // of each half
  std::vector<double> slice_free_;  // [2 halves][slices]
  std::vector<double> visible_;     // [words]: since when, at home
  std::vector<Line> lines_;
  std::vector<Sm> sms_;
  std::vector<Warp> warps_;  // of all SMs
  EventQueue<Event> events_;
  std::int64_t polls_ = 0;
};

}  // namespace

void add_emission(SmBody& body, int line_words, std::int32_t word, double cycle) {
  Emission* last = body.emissions.empty() ? nullptr : &body.emissions.back();
  if (last && last->cycle == cycle && last->first_word + last->words == word && word % line_words != 0) {
    ++last->words;
  } else {
    body.emissions.push_back({word, 1, cycle});
  }
  body.cycles = std::max(body.cycles, cycle);
}

namespace {

// is_pipelined: an SM computes its next pass as soon as it has done with one; else once the next state is there.
ExchangeRun run_passes(const Chip& chip, const ExchangeShape& shape, std::span<const std::vector<SmBody>> bodies,
                       bool is_pipelined, const ExchangeOptions& options) {
  const std::size_t passes = bodies.size(), sms = bodies.front().size();
  ExchangeRun result;
  std::vector<std::vector<double>> released(passes, std::vector<double>(sms));
  std::vector<double> computed(sms), fetched(sms);  // until when the SM's warps of either kind are busy
  double first = 0;
  for (int step = 0; step < options.warmup_steps + options.steps; ++step) {
    const bool is_first = step == options.warmup_steps;
    first = is_first ? mean(computed) : first;
    std::int64_t polls = 0;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      std::vector<double> begun, emitted;
      for (std::size_t sm = 0; sm < sms; ++sm) {
        begun.push_back(std::max(released[pass][sm], computed[sm]));
      }
      Exchange exchange(chip, shape, sms, *std::min_element(begun.begin(), begun.end()));
      for (std::size_t sm = 0; sm < sms; ++sm) {
        const SmBody& body = bodies[pass][sm];
        for (const Emission& emission : body.emissions) {
          exchange.store(static_cast<int>(sm), emission.first_word, emission.words, begun[sm] + emission.cycle);
        }
        for (std::size_t w = 0; w < body.warp_end.size(); ++w) {
          exchange.begin(static_cast<int>(sm), static_cast<int>(w),
                         std::max(begun[sm] + body.warp_end[w], fetched[sm]));
        }
        emitted.push_back(begun[sm] + body.cycles);
        computed[sm] = begun[sm] + body.computing;
      }
      std::vector<double> next(sms, *std::max_element(emitted.begin(), emitted.end()));
      if (!options.free && shape.bulk_cycles > 0) {
        std::for_each(next.begin(), next.end(), [&](double& at) { at += shape.bulk_cycles; });
      } else if (!options.free) {
        next = exchange.run();
        polls += exchange.polls();
      }
      fetched = next;
      computed = is_pipelined ? computed : next;
      if (is_first) {
        result.begun.push_back(begun);
        result.emitted.push_back(emitted);
        result.released.push_back(next);
      }
      released[pass] = std::move(next);
    }
    result.polls = static_cast<double>(polls) / static_cast<double>(sms);
  }
  result.step_cycles = (mean(computed) - first) / options.steps;
  return result;
}

}  // namespace

ExchangeRun run_exchange(const Chip& chip, const ExchangeShape& shape, const std::vector<SmBody>& bodies,
                         const ExchangeOptions& options) {
  return run_passes(chip, shape, {&bodies, 1}, false, options);
}

ExchangeRun run_pipelined(const Chip& chip, const ExchangeShape& shape, const std::vector<std::vector<SmBody>>& bodies,
                          const ExchangeOptions& options) {
  return run_passes(chip, shape, bodies, true, options);
}

// ---- its microbenchmark ---------------------------------------------------------------------------------------------

namespace {

constexpr int kWordBytes = 16;

// What follows the barrier after staging, of an SM whose outbox lies behind the state in shared memory. Global
// addresses count from the first word that it emits.
WarpTrace body(const ExchangeBench& bench, int warp) {
  const int words = bench.state_bytes / kWordBytes, own = words / bench.sms;
  const bool emits = kWarpLanes * warp < own;
  WarpWriter out{CompilerView{}};
  const auto word = [&](std::int64_t first) {
    return [=](int lane) {
      const int i = kWarpLanes * warp + lane;
      return i < own ? first + std::int64_t{kWordBytes} * i : -1;
    };
  };
  // Whether the clock is to be read, and whether this was the last step.
  out.integers(3);
  out.branch();
  out.converge();
  out.branch();
  for (int i = 0; i < 4; ++i) {
    out.operate(Operation::other);
  }
  const int read = emits ? out.load(kWordBytes, kNoRegister, word(std::int64_t{kWordBytes} * own)) : kNoRegister;
  out.barrier();
  out.branch();
  if (emits) {
    const int emitted = out.load(kWordBytes, kNoRegister, word(bench.state_bytes));
    int changed = kNoRegister;
    for (int i = 0; i < 24; ++i) {  // a multiplication and a mask for each element, all before the stores
      changed = out.integer(read + i % 4);
    }
    out.flush();
    out.access(Operation::global_store, kWordBytes, kNoRegister, emitted, word(0));
    out.access(Operation::global_store, kWordBytes, kNoRegister, kNoRegister, word(bench.state_bytes));
    out.access(Operation::shared_store, kWordBytes, kNoRegister, changed, word(bench.state_bytes));
  }
  out.converge();
  out.fill(kLoopInstructions);
  out.branch();
  return out.take();
}

}  // namespace

double simulate_exchange_bench(const Chip& chip, const ExchangeBench& bench, const ExchangeOptions& options) {
  const int words = bench.state_bytes / kWordBytes, own = words / bench.sms;
  BlockTrace block;
  for (int warp = 0; warp < bench.threads / kWarpLanes; ++warp) {
    block.warps.push_back(body(bench, warp));
  }
  const SmRun run = run_sm(chip, {&block, 1});
  const int line_words = line_words_for(own);
  std::vector<SmBody> bodies(static_cast<std::size_t>(bench.sms));
  for (std::size_t sm = 0; sm < bodies.size(); ++sm) {
    bodies[sm].warp_end.assign(run.warp_end.begin(), run.warp_end.end());
    for_each_stored(block, run, [&](std::uint64_t address, double cycle) {
      if (const auto word = static_cast<int>(address / kWordBytes); word < own) {
        add_emission(bodies[sm], line_words, static_cast<int>(sm) * own + word, cycle);
      }
    });
  }
  const ExchangeShape shape{.state_words = words,
                            .threads = bench.threads,
                            .loads_in_flight = bench.loads_in_flight,
                            .poll_delay = bench.poll_delay,
                            .line_words = line_words};
  return run_exchange(chip, shape, bodies, options).step_cycles;
}

}  // namespace onchip
