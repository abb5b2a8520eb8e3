// SPDX-License-Identifier: Apache-2.0
#include "experiments/explore/sweep.hpp"

#include "experiments/command/progress.hpp"
#include "experiments/explore/result_file.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/explore/front.hpp"

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

// ---- the work -------------------------------------------------------------------------------------------------------

// A stretch of rows that one thread computes.
struct Part {
  RowComputer computer;
  std::uint64_t begin = 0, end = 0;
  std::string text = {};
  std::vector<std::pair<std::uint64_t, Point>> points = {};

  // Until it is asked to stop.
  void compute(bool keeps_front, bool may_stop) {
    text.clear();
    points.clear();
    Front front(computer.objectives().size());
    for (std::uint64_t i = begin; i < end; ++i) {
      if (may_stop && is_stopped.load(std::memory_order_relaxed)) {
        end = i;
        break;
      }
      if (!computer.compute(i)) {
        continue;
      }
      if (!keeps_front) {
        computer.append_to(text);
        continue;
      }
      const auto& objectives = computer.objectives();
      if (std::ranges::all_of(objectives, [](double value) { return std::isfinite(value); })) {
        Point point{};
        std::ranges::copy(objectives, point.begin());
        front.add(point, i);
      }
    }
    for (const auto& [point, rows] : front.points()) {
      for (const std::uint64_t row : rows) {
        points.emplace_back(row, point);
      }
    }
  }
};

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
  std::vector<std::pair<std::uint64_t, Point>> points;
  for (const auto& [point, rows] : front.points()) {
    for (const std::uint64_t row : rows) {
      points.emplace_back(row, point);
    }
  }
  return {{"next", next}, {"front", points_json(points, objectives)}};
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

}  // namespace

bool sweep(const SweepSpec& spec, const SweepOptions& options, const Ranks& ranks) {
  const bool keeps_front = !spec.keep_front.empty(), is_first = ranks.rank() == 0;
  const std::uint64_t rows = spec.size();
  const auto parts_here = static_cast<std::size_t>(options.threads == 1 ? 1 : 4 * options.threads);
  const std::uint64_t parts_of_all = parts_here * static_cast<std::uint64_t>(ranks.count());
  std::vector<std::unique_ptr<Part>> parts;
  std::optional<ResultFile> file;
  double rate = 1 / kRoundSeconds;  // rows a second and thread
  // What is wrong with the spec is found before anything is written.
  const auto is_ready = ranks.together([&] {
    for (std::size_t i = 0; i < parts_here; ++i) {
      parts.push_back(std::unique_ptr<Part>(new Part{{spec, options.format, options.engine}}));
    }
    if (is_first && options.estimates) {
      rate = sampled_rate(parts[0]->computer, rows);
    }
    if (is_first && !options.output.empty()) {
      file.emplace(options.output, manifest_of(spec, rows, options), parts[0]->computer.header());
    }
    return true;
  });
  if (!is_ready) {
    return true;
  }
  Front front(spec.keep_front.size());
  std::uint64_t next = 0;
  if (file && file->is_done()) {
    std::cerr << "onchip: " << options.output.string() << " is there with all its rows\n";
    next = rows;
  } else if (file && !keeps_front) {
    next = file->next_row();
  } else if (file && !file->state().is_null()) {
    next = file->state().at("next").get<std::uint64_t>();
    add_points(front, file->state().at("front"));
  } else if (is_first && !file) {
    write_stdout(parts[0]->computer.header());
  }
  const double workers = options.threads * ranks.count();
  if (is_first && next < rows) {
    std::cerr << "onchip: " << count(rows) << " rows";
    if (next > 0) {
      std::cerr << ", on from row " << count(next);
    }
    if (options.estimates) {
      std::cerr << ", about " << duration(static_cast<double>(rows - next) / (rate * workers)) << " with "
                << options.threads * ranks.count() << (workers == 1 ? " thread" : " threads");
    }
    std::cerr << std::endl;
  }

  const Interrupts interrupts;
  Progress progress;
  std::exception_ptr problem;
  const double begin = seconds();
  const std::uint64_t first = next;
  double checkpointed = begin;
  for (;;) {
    // The first process says how many rows each part has: 0 is the end.
    std::uint64_t of_part = 0;
    if (is_first && next < rows && !is_stopped && !problem) {
      const double wanted = rate * kRoundSeconds * options.threads / static_cast<double>(parts_here);
      of_part = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1,
                                          std::max<std::uint64_t>(1, kMostAtOnce / parts_of_all));
    }
    of_part = ranks.of_first(of_part);
    next = ranks.of_first(next);
    if (of_part == 0) {
      break;
    }
    const double round_begin = seconds();
    const auto mine = [&]() -> std::optional<std::string> {
      try {
        return ranks.together([&] {
          const std::uint64_t before = static_cast<std::uint64_t>(ranks.rank()) * parts_here;
          parallel_for(static_cast<int>(parts_here), options.threads, [&](int i) {
            Part& part = *parts[static_cast<std::size_t>(i)];
            part.begin = std::min(rows, next + (before + static_cast<std::uint64_t>(i)) * of_part);
            part.end = std::min(rows, part.begin + of_part);
            part.compute(keeps_front, is_first);
          });
          // As far as nothing is missing.
          std::string text;
          Json points = Json::array();
          for (const auto& part : parts) {
            if (keeps_front) {
              for (Json& point : points_json(part->points, spec.keep_front.size())) {
                points.push_back(std::move(point));
              }
            } else {
              text += part->text;
            }
            if (part->end < std::min(rows, part->begin + of_part)) {
              break;
            }
          }
          return keeps_front ? points.dump() : text;
        });
      } catch (const InputError&) {  // an expression that divides by zero leaves nothing behind
        if (file) {
          file->undo();
        }
        throw;
      }
    }();
    if (!mine) {
      return true;
    }
    const std::vector<std::string> of_all = ranks.gather(*mine);
    if (!is_first) {
      continue;
    }
    const auto stopped = std::ranges::find_if(
        parts, [&](const auto& part) { return part->end < std::min(rows, part->begin + of_part); });
    const bool is_whole = stopped == parts.end();
    const std::uint64_t done = is_whole ? std::min(rows, next + of_part * parts_of_all) : (*stopped)->end;
    try {
      for (std::size_t rank = 0; rank < (is_whole ? of_all.size() : 1); ++rank) {
        if (keeps_front) {
          add_points(front, Json::parse(of_all[rank]));
        } else if (file) {
          file->append(of_all[rank]);
        } else {
          write_stdout(of_all[rank]);
        }
      }
      constexpr double kCheckpointSeconds = 5;
      if (keeps_front && file && (!is_whole || seconds() - checkpointed > kCheckpointSeconds)) {
        file->checkpoint(state_json(front, done, spec.keep_front.size()));
        checkpointed = seconds();
      }
    } catch (const InputError&) {
      problem = std::current_exception();
    }
    const double now = seconds();
    rate = static_cast<double>(done - next) / std::max(1e-6, now - round_begin) / workers;
    next = done;
    const double mean = static_cast<double>(next - first) / std::max(1e-6, now - begin);
    progress.show(count(next) + " of " + count(rows) + " rows, " + count(static_cast<std::uint64_t>(mean)) +
                  " a second, " + duration(static_cast<double>(rows - next) / std::max(1e-6, mean)) + " left");
  }
  progress.clear();
  if (problem) {
    std::rethrow_exception(problem);
  }
  if (!is_first || (file && file->is_done())) {
    return true;
  }
  if (next < rows) {
    std::cerr << "onchip: stopped before row " << count(next) << " of " << count(rows);
    if (file) {
      if (keeps_front) {
        file->checkpoint(state_json(front, next, spec.keep_front.size()));
      }
      std::cerr << "; this goes on:\n  " << options.command;
    }
    std::cerr << '\n';
    return false;
  }
  if (keeps_front) {
    std::vector<std::uint64_t> of_front;
    for (const auto& [point, ids] : front.points()) {
      of_front.insert(of_front.end(), ids.begin(), ids.end());
    }
    std::ranges::sort(of_front);
    std::string text;
    for (const std::uint64_t row : of_front) {
      parts[0]->computer.compute(row);
      parts[0]->computer.append_to(text);
    }
    if (file) {
      file->checkpoint(state_json(front, next, spec.keep_front.size()));
      file->clear();
      file->append(text);
    } else {
      write_stdout(text);
    }
    std::cerr << "onchip: " << count(of_front.size()) << " rows are the front of " << count(rows) << '\n';
  }
  if (file) {
    file->finish();
  }
  return true;
}

}  // namespace onchip
