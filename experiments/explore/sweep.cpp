// SPDX-License-Identifier: Apache-2.0
#include "experiments/explore/sweep.hpp"

#include "experiments/command/progress.hpp"
#include "experiments/explore/result_file.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/explore/rows.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace onchip {
namespace {

constexpr std::uint64_t kMostAtOnce = 1 << 17;  // rows in memory, of all processes
constexpr double kRoundSeconds = 0.25;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- Ctrl-C ---------------------------------------------------------------------------------------------------------

std::atomic<bool> is_stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// While it lives the first SIGINT or SIGTERM asks the sweep to stop; the second ends the process. A file that may grow
// no more is a failed write instead of the end.
class Interrupts {
 public:
  Interrupts() {
    is_stopped = false;
    struct sigaction ask {};
    ask.sa_handler = [](int) { is_stopped = true; };
    ask.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &ask, &interrupt_);
    ::sigaction(SIGTERM, &ask, &terminate_);
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGXFSZ, &ignore, &size_);
  }
  ~Interrupts() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
    ::sigaction(SIGXFSZ, &size_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{}, size_{};
};

// ---- what is said ---------------------------------------------------------------------------------------------------

std::string duration(double time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (time < 1) {
    return "a second";
  }
  return time < 2 * kMinute ? fixed(time, 0) + " s"
         : time < 2 * kHour ? fixed(time / kMinute, 0) + " min"
         : time < 2 * kDay  ? fixed(time / kHour, 0) + " h"
                            : fixed(time / kDay, 0) + " days";
}

std::string count(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3;) {
    text.insert(place -= 3, ",");
  }
  return text;
}

// Rows a second on one thread, by runs of neighbours from the first row to the last. What is wrong with an expression
// is most often found here, before anything is written.
double sampled_rate(RowComputer& computer, std::uint64_t rows) {
  constexpr std::uint64_t kRuns = 9, kOfRun = 1 << 14;
  constexpr double kSeconds = 0.4;
  std::string text;
  const auto compute = [&](std::uint64_t row) {
    text.clear();
    if (computer.compute(row)) {
      computer.append_to(text);
    }
  };
  const double start = seconds();
  compute(0);  // and what all rows have in common
  const double begin = seconds();
  std::uint64_t sampled = 0;
  const std::uint64_t of_run = std::clamp<std::uint64_t>(rows / kRuns, 1, kOfRun);
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    const std::uint64_t first =
        static_cast<std::uint64_t>(static_cast<double>(rows - of_run) * static_cast<double>(run) / (kRuns - 1));
    for (std::uint64_t i = 0; i < of_run && seconds() - begin < kSeconds * static_cast<double>(run + 1) / kRuns; ++i) {
      compute(first + i);
      ++sampled;
    }
  }
  const double now = seconds();
  return sampled > 0 ? static_cast<double>(sampled) / std::max(1e-9, now - begin) : 1 / (now - start);
}

// ---- what is written ------------------------------------------------------------------------------------------------

Json points_json(const std::vector<std::pair<std::uint64_t, Point>>& points, std::size_t objectives) {
  Json json = Json::array();
  for (const auto& [row, point] : points) {
    Json one = Json::array({row});
    for (std::size_t i = 0; i < objectives; ++i) {
      one.push_back(point[i]);
    }
    json.push_back(std::move(one));
  }
  return json;
}

void add_points(Front& front, const Json& points) {
  for (const Json& one : points) {
    Point point{};
    for (std::size_t i = 1; i < one.size(); ++i) {
      point[i - 1] = one[i].get<double>();
    }
    front.add(point, one[0].get<std::uint64_t>());
  }
}

Json state_json(const Front& front, std::uint64_t next, std::size_t objectives) {
  return {{"next", next}, {"front", points_json(front.all(), objectives)}};
}

Json manifest_of(const SweepSpec& spec, std::uint64_t rows, const SweepOptions& options) {
  Json json{{"schema", 1}, {"onchip", ONCHIP_VERSION}, {"spec", to_json(spec)}, {"rows", rows}};
  json["format"] = options.format == RowFormat::csv ? "csv" : "jsonl";
  if (!options.device.is_null()) {
    json["device"] = options.device;
  }
  for (const auto& [name, file] : spec.chips) {
    json["chips"][name] = fingerprint(file.chip);
  }
  return json;
}

void write_stdout(std::string_view text) {
  if (!std::cout.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) {
    throw InputError("cannot write to the standard output");
  }
}

// ---- the work -------------------------------------------------------------------------------------------------------

class Sweep {
 public:
  Sweep(const SweepSpec& spec, const SweepOptions& options, const Ranks& ranks)
      : spec_(spec),
        options_(options),
        ranks_(ranks),
        stretches_here_(static_cast<std::size_t>(options.threads == 1 ? 1 : 4 * options.threads)),
        stretches_of_all_(stretches_here_ * static_cast<std::uint64_t>(ranks.count())),
        front_(spec.keep_front.size()) {}

  bool run() {
    if (!prepare()) {
      return true;
    }
    resume();
    if (is_first_ && next_ < rows_) {
      announce();
    }
    const Interrupts interrupts;
    begin_ = checkpointed_ = seconds();
    first_ = next_;
    while (const std::uint64_t of_stretch = next_round()) {
      const double round_begin = seconds();
      const std::optional<std::string> mine = compute(of_stretch);
      if (!mine) {
        return true;
      }
      const std::vector<std::string> of_all = ranks_.gather(*mine);
      if (is_first_) {
        take(of_all, of_stretch);
        show(round_begin);
      }
    }
    progress_.clear();
    if (problem_) {
      std::rethrow_exception(problem_);
    }
    return !is_first_ || (file_ && file_->is_done()) || finish();
  }

 private:
  // What is wrong with the spec is found before anything is written.
  bool prepare() {
    const auto is_ready = ranks_.together([&] {
      for (std::size_t i = 0; i < stretches_here_; ++i) {
        stretches_.push_back(std::make_unique<Stretch>(spec_, options_.format, options_.engine));
      }
      if (is_first_ && options_.estimates) {
        rate_ = sampled_rate(stretches_[0]->computer, rows_);
      }
      if (is_first_ && !options_.output.empty()) {
        file_.emplace(options_.output, manifest_of(spec_, rows_, options_), stretches_[0]->computer.header());
      }
      return true;
    });
    return is_ready.has_value();
  }

  void resume() {
    if (file_ && file_->is_done()) {
      std::cerr << "onchip: " << options_.output.string() << " is there with all its rows\n";
      next_ = rows_;
    } else if (file_ && !keeps_front_) {
      next_ = file_->next_row();
    } else if (file_ && !file_->state().is_null()) {
      next_ = file_->state().at("next").get<std::uint64_t>();
      add_points(front_, file_->state().at("front"));
    } else if (is_first_ && !file_) {
      write_stdout(stretches_[0]->computer.header());
    }
  }

  void announce() const {
    std::cerr << "onchip: " << count(rows_) << " rows";
    if (next_ > 0) {
      std::cerr << ", on from row " << count(next_);
    }
    if (options_.estimates) {
      std::cerr << ", about " << duration(static_cast<double>(rows_ - next_) / (rate_ * workers_)) << " with "
                << options_.threads * ranks_.count() << (workers_ == 1 ? " thread" : " threads");
    }
    std::cerr << std::endl;
  }

  // The first process says how many rows each stretch has: 0 is the end.
  std::uint64_t next_round() {
    std::uint64_t of_stretch = 0;
    if (is_first_ && next_ < rows_ && !is_stopped && !problem_) {
      const double wanted = rate_ * kRoundSeconds * options_.threads / static_cast<double>(stretches_here_);
      of_stretch = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1,
                                             std::max<std::uint64_t>(1, kMostAtOnce / stretches_of_all_));
    }
    of_stretch = ranks_.of_first(of_stretch);
    next_ = ranks_.of_first(next_);
    return of_stretch;
  }

  std::uint64_t end_of(const Stretch& stretch, std::uint64_t of_stretch) const {
    return std::min(rows_, stretch.begin + of_stretch);
  }

  // The stretches of this process, as text; nothing where another process has failed.
  std::optional<std::string> compute(std::uint64_t of_stretch) {
    try {
      return ranks_.together([&] {
        const std::uint64_t before = static_cast<std::uint64_t>(ranks_.rank()) * stretches_here_;
        parallel_for(static_cast<int>(stretches_here_), options_.threads, [&](int i) {
          Stretch& stretch = *stretches_[static_cast<std::size_t>(i)];
          stretch.begin = std::min(rows_, next_ + (before + static_cast<std::uint64_t>(i)) * of_stretch);
          stretch.end = end_of(stretch, of_stretch);
          stretch.compute(is_first_ ? &is_stopped : nullptr);
        });
        // As far as nothing is missing.
        std::string text;
        Json points = Json::array();
        for (const auto& stretch : stretches_) {
          text += stretch->text;
          for (Json& point : points_json(stretch->points, spec_.keep_front.size())) {
            points.push_back(std::move(point));
          }
          if (stretch->end < end_of(*stretch, of_stretch)) {
            break;
          }
        }
        return keeps_front_ ? points.dump() : text;
      });
    } catch (const InputError&) {  // an expression that divides by zero leaves nothing behind
      if (file_) {
        file_->undo();
      }
      throw;
    }
  }

  // What all processes have computed.
  void take(const std::vector<std::string>& of_all, std::uint64_t of_stretch) {
    const auto stopped = std::ranges::find_if(
        stretches_, [&](const auto& stretch) { return stretch->end < end_of(*stretch, of_stretch); });
    const bool is_whole = stopped == stretches_.end();
    done_ = is_whole ? std::min(rows_, next_ + of_stretch * stretches_of_all_) : (*stopped)->end;
    try {
      for (std::size_t rank = 0; rank < (is_whole ? of_all.size() : 1); ++rank) {
        if (keeps_front_) {
          add_points(front_, Json::parse(of_all[rank]));
        } else {
          write(of_all[rank]);
        }
      }
      constexpr double kCheckpointSeconds = 5;
      if (keeps_front_ && file_ && (!is_whole || seconds() - checkpointed_ > kCheckpointSeconds)) {
        checkpoint(done_);
        checkpointed_ = seconds();
      }
    } catch (const InputError&) {
      problem_ = std::current_exception();
    }
  }

  void show(double round_begin) {
    const double now = seconds();
    rate_ = static_cast<double>(done_ - next_) / std::max(1e-6, now - round_begin) / workers_;
    next_ = done_;
    const double mean = static_cast<double>(next_ - first_) / std::max(1e-6, now - begin_);
    progress_.show(count(next_) + " of " + count(rows_) + " rows, " + count(static_cast<std::uint64_t>(mean)) +
                   " a second, " + duration(static_cast<double>(rows_ - next_) / std::max(1e-6, mean)) + " left");
  }

  void write(const std::string& text) {
    if (file_) {
      file_->append(text);
    } else {
      write_stdout(text);
    }
  }
  void checkpoint(std::uint64_t next) { file_->checkpoint(state_json(front_, next, spec_.keep_front.size())); }

  bool finish() {
    if (next_ < rows_) {
      std::cerr << "onchip: stopped before row " << count(next_) << " of " << count(rows_);
      if (file_) {
        if (keeps_front_) {
          checkpoint(next_);
        }
        std::cerr << "; this goes on:\n  " << options_.command;
      }
      std::cerr << '\n';
      return false;
    }
    if (keeps_front_) {
      const std::string text = text_of_front(stretches_[0]->computer, front_);
      if (file_) {
        checkpoint(next_);
        file_->clear();
      }
      write(text);
      std::cerr << "onchip: " << count(front_.all().size()) << " rows are the front of " << count(rows_) << '\n';
    }
    if (file_) {
      file_->finish();
    }
    return true;
  }

  const SweepSpec& spec_;
  const SweepOptions& options_;
  const Ranks& ranks_;
  const bool keeps_front_ = !spec_.keep_front.empty(), is_first_ = ranks_.rank() == 0;
  const std::uint64_t rows_ = spec_.size();
  const std::size_t stretches_here_;
  const std::uint64_t stretches_of_all_;
  const double workers_ = options_.threads * ranks_.count();
  std::vector<std::unique_ptr<Stretch>> stretches_;
  std::optional<ResultFile> file_;
  Front front_;
  double rate_ = 1 / kRoundSeconds;  // rows a second and thread
  std::uint64_t first_ = 0, next_ = 0, done_ = 0;
  double begin_ = 0, checkpointed_ = 0;
  Progress progress_;
  std::exception_ptr problem_;
};

}  // namespace

bool sweep(const SweepSpec& spec, const SweepOptions& options, const Ranks& ranks) {
  return Sweep(spec, options, ranks).run();
}

}  // namespace onchip
