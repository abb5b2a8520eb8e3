// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange.hpp"

#include "sim/block_barrier.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>

namespace onchip {
namespace {

constexpr int kWordsPerLine = 8;   // a line of L2 has 128 bytes
constexpr int kWordsPerLoad = 32;  // of a warp, one per lane
// From storing the last words to the barrier, as a share of a look: fewer predicates, a branch, a special register.
constexpr double kBeforeBarrier = 2.0 / 3;
constexpr int kStoreWavefronts = 4;  // of a warp's 16-byte stores to shared memory
constexpr double kNotYet = std::numeric_limits<double>::infinity();

// The half of L2 that an SM is near to: half of all SMs are near to each, in no order that matters here (a hash: the
// finaliser of SplitMix64).
int side_of(int sm) {
  std::uint64_t x = static_cast<std::uint64_t>(sm) + 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return static_cast<int>((x ^ x >> 31) & 1);
}

// All stores and looks of one step's exchange.
class Exchange {
 public:
  Exchange(const Chip& chip, const ExchangeShape& shape, std::size_t sms)
      : chip_(chip),
        shape_(shape),
        slice_free_(static_cast<std::size_t>(chip.l2_slices)),
        visible_(static_cast<std::size_t>(shape.state_words), kNotYet),
        sms_(sms, Sm{0, 0, BlockBarrier(chip, shape.threads / kWordsPerLoad), 0}),
        warps_(sms * static_cast<std::size_t>(warps_per_sm())) {}

  // Words of one line.
  void store(int sm, std::int32_t first, std::int32_t count, double at) {
    const std::int32_t line = first / kWordsPerLine;
    const double travel = chip_.signal_cycles - chip_.l2_latency_cycles + beyond_mean(line, sm);
    events_.push({at + travel, next_event_++, Event::store, first, line, count, false});
  }
  void begin(int sm, int warp, double at) { begin_round(sm * warps_per_sm() + warp, at); }

  // Per SM: when its block may go on.
  std::vector<double> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.kind == Event::back) {
        receive(event);
      } else {
        serve(event);
      }
    }
    std::vector<double> released;
    for (const Sm& sm : sms_) {
      released.push_back(sm.released);
    }
    return released;
  }

  std::int64_t polls() const { return polls_; }

 private:
  struct Sm {
    double port_free, store_free;  // from L2; to shared memory
    BlockBarrier barrier;
    double released;
  };
  struct Warp {
    std::int64_t round_begin = 0;       // first word of the block's round
    int under_way = 0;                  // looks
    double last = 0;                    // of them to return
    std::vector<std::int32_t> missing;  // lines
  };
  struct Event {
    double at;
    std::int64_t order;  // of ties
    enum Kind : std::uint8_t { store, look, back } kind;
    std::int32_t who, line;  // a store's first word, or the warp that looks
    std::int32_t count;      // of a store's words
    bool complete;           // all of the line's words were there
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  // A thread looks at its words one after another, a predicate for each.
  double look_cycles() const {
    const std::int64_t words = (shape_.state_words + shape_.threads - 1) / shape_.threads;
    return chip_.look_cycles +
           chip_.look_per_word_cycles * static_cast<double>(std::min<std::int64_t>(words, shape_.loads_in_flight));
  }
  int warps_per_sm() const { return shape_.threads / kWordsPerLoad; }
  int sm_of(std::int32_t warp) const { return warp / warps_per_sm(); }
  // Lines go round the slices, as interleaved addresses do; neighbouring slices are in different halves of L2.
  std::size_t slice_of(std::int32_t line) const { return static_cast<std::size_t>(line) % slice_free_.size(); }
  double beyond_mean(std::int32_t line, int sm) const {
    const bool near = static_cast<int>(slice_of(line) & 1) == side_of(sm);
    return (near ? -0.5 : 0.5) * chip_.l2_far_cycles;
  }
  double half_latency(std::int32_t warp, std::int32_t line) const {
    return (chip_.l2_latency_cycles + beyond_mean(line, sm_of(warp))) / 2;
  }

  void begin_round(std::int32_t w, double at) {
    Warp& warp = warps_[w];
    warp.missing.clear();
    warp.last = at;
    for (int k = 0; k < shape_.loads_in_flight; ++k) {
      const std::int64_t first =
          warp.round_begin + std::int64_t{k} * shape_.threads + w % warps_per_sm() * kWordsPerLoad;
      for (std::int64_t word = first; word < std::min(first + kWordsPerLoad, shape_.state_words);
           word += kWordsPerLine) {
        warp.missing.push_back(static_cast<std::int32_t>(word / kWordsPerLine));
      }
    }
    if (warp.missing.empty()) {
      end_round(w);
    } else {
      send(w, at);
    }
  }

  void send(std::int32_t w, double at) {
    Warp& warp = warps_[w];
    warp.under_way = static_cast<int>(warp.missing.size());
    polls_ += warp.under_way;
    for (const std::int32_t line : warp.missing) {
      events_.push({at + half_latency(w, line), next_event_++, Event::look, w, line, 0, false});
    }
    warp.missing.clear();
  }

  // A slice takes what comes to it, one after another.
  void serve(const Event& event) {
    double& free = slice_free_[slice_of(event.line)];
    const double at = std::max(event.at, free);
    free = at + chip_.l2_line_cycles;
    if (event.kind == Event::store) {
      std::fill_n(visible_.begin() + event.who, event.count, at);
      return;
    }
    const std::int64_t first = std::int64_t{event.line} * kWordsPerLine;
    const std::int64_t end = std::min(first + kWordsPerLine, shape_.state_words);
    const bool complete =
        std::all_of(visible_.begin() + first, visible_.begin() + end, [&](double v) { return v <= at; });
    events_.push(
        {at + half_latency(event.who, event.line), next_event_++, Event::back, event.who, event.line, 0, complete});
  }

  void receive(const Event& event) {
    Sm& sm = sms_[sm_of(event.who)];
    Warp& warp = warps_[event.who];
    sm.port_free = std::max(sm.port_free, event.at) + 16 * kWordsPerLine / chip_.exchange_bytes_per_cycle_per_sm;
    warp.last = std::max(warp.last, sm.port_free);
    if (!event.complete) {
      warp.missing.push_back(event.line);
    }
    if (--warp.under_way > 0) {
      return;
    }
    warp.last += look_cycles();
    if (!warp.missing.empty()) {
      send(event.who, warp.last);
    } else {
      end_round(event.who);
    }
  }

  void end_round(std::int32_t w) {
    Sm& sm = sms_[sm_of(w)];
    Warp& warp = warps_[w];
    const std::int64_t left = shape_.state_words - warp.round_begin - w % warps_per_sm() * kWordsPerLoad;
    const auto stores = std::min<std::int64_t>(shape_.loads_in_flight, (left + shape_.threads - 1) / shape_.threads);
    if (stores > 0) {
      const double cycles = static_cast<double>(stores * kStoreWavefronts) * chip_.lds_wavefront_cycles;
      warp.last = sm.store_free = std::max(sm.store_free, warp.last) + cycles;
    }
    warp.round_begin += std::int64_t{shape_.loads_in_flight} * shape_.threads;
    if (warp.round_begin < shape_.state_words) {
      begin_round(w, warp.last);
    } else {
      const double arrival = warp.last + kBeforeBarrier * chip_.look_cycles;
      sm.released = std::max(sm.released, sm.barrier.arrive(arrival));
    }
  }

  const Chip& chip_;
  const ExchangeShape& shape_;
  std::vector<double> slice_free_;
  std::vector<double> visible_;  // [words]: since when
  std::vector<Sm> sms_;
  std::vector<Warp> warps_;  // of all SMs
  std::priority_queue<Event> events_;
  std::int64_t next_event_ = 0, polls_ = 0;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

ExchangeRun run_exchange(const Chip& chip, const ExchangeShape& shape, const std::vector<SmBody>& bodies,
                         const ExchangeOptions& options) {
  std::vector<double> released(bodies.size(), 0.0);
  ExchangeRun result;
  double first = 0;
  for (int step = 0; step < options.warmup_steps + options.steps; ++step) {
    Exchange exchange(chip, shape, bodies.size());
    std::vector<double> emitted;
    for (std::size_t sm = 0; sm < bodies.size(); ++sm) {
      for (const Emission& emission : bodies[sm].emissions) {
        exchange.store(static_cast<int>(sm), emission.first_word, emission.words, released[sm] + emission.cycle);
      }
      for (std::size_t w = 0; w < bodies[sm].warp_end.size(); ++w) {
        exchange.begin(static_cast<int>(sm), static_cast<int>(w), released[sm] + bodies[sm].warp_end[w]);
      }
      emitted.push_back(released[sm] + bodies[sm].cycles);
    }
    std::vector<double> next(bodies.size(), *std::max_element(emitted.begin(), emitted.end()));
    if (!options.free) {
      next = exchange.run();
      result.polls = static_cast<double>(exchange.polls()) / static_cast<double>(bodies.size());
    }
    if (step == options.warmup_steps) {
      first = mean(released);
      result.first_released = released;
      result.last_emitted = emitted;
      result.next_released = next;
    }
    released = std::move(next);
  }
  result.step_cycles = (mean(released) - first) / options.steps;
  return result;
}

}  // namespace onchip
