// SPDX-License-Identifier: Apache-2.0
// onchip sweep: rows for all combinations of axes' values, by the model, the simulator or this machine's GPU.
#include "experiments/command/plan_options.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/command/ranks.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_file.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/training/answers.hpp"
#include "model/answer/constraint_words.hpp"
#include "model/base/clocks.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"
#include "model/explore/row.hpp"
#include "model/explore/rows.hpp"
#include "model/explore/spec.hpp"
#include "sim/simulate.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "experiments/measurement/manifest.hpp"
#include "experiments/measurement/measurement.hpp"
#include "kernels/runtime/device_chip.hpp"
#endif

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

struct SweepOptions {
  RowFormat format = RowFormat::csv;
  int threads = 1;
  AskEngine engine;
  Json device = {};              // that measures, for the manifest
  bool estimates = true;         // how long it takes, by some of its rows; else a row takes too long for that
  std::filesystem::path output;  // empty: the standard output, which nothing resumes
  std::string command;           // that resumes
};

constexpr std::uint64_t kMostAtOnce = 1 << 17;  // rows in memory, of all processes
constexpr double kRoundSeconds = 0.25;

// ---- Ctrl-C ---------------------------------------------------------------------------------------------------------

std::atomic<bool> is_stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// While it lives the first SIGINT or SIGTERM asks the sweep to stop; the second ends the process.
class Interrupts {
 public:
  Interrupts() {
    is_stopped = false;
    struct sigaction ask {};
    ask.sa_handler = [](int) { is_stopped = true; };
    ask.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGINT, &ask, &interrupt_);
    ::sigaction(SIGTERM, &ask, &terminate_);
  }
  ~Interrupts() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

// ---- what is said ---------------------------------------------------------------------------------------------------

std::string duration(double time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  return time < 1             ? "a second"
         : time < 2 * kMinute ? fixed(time, 0) + " s"
         : time < 2 * kHour   ? fixed(time / kMinute, 0) + " min"
         : time < 2 * kDay    ? fixed(time / kHour, 0) + " h"
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
  const double start = wall_seconds();
  compute(0);  // and what all rows have in common
  const double begin = wall_seconds();
  std::uint64_t sampled = 0;
  const std::uint64_t of_run = std::clamp<std::uint64_t>(rows / kRuns, 1, kOfRun);
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    const std::uint64_t first =
        static_cast<std::uint64_t>(static_cast<double>(rows - of_run) * static_cast<double>(run) / (kRuns - 1));
    for (std::uint64_t i = 0; i < of_run && wall_seconds() - begin < kSeconds * static_cast<double>(run + 1) / kRuns;
         ++i) {
      compute(first + i);
      ++sampled;
    }
  }
  const double now = wall_seconds();
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

// All rows of a spec, in order, by several threads and processes: the same bytes for any number of them.
class Sweep {
 public:
  Sweep(const SweepSpec& spec, const SweepOptions& options, const Ranks& ranks)
      : spec_(spec),
        options_(options),
        ranks_(ranks),
        stretches_here_(static_cast<std::size_t>(options.threads == 1 ? 1 : 4 * options.threads)),
        stretches_of_all_(stretches_here_ * static_cast<std::uint64_t>(ranks.count())),
        front_(spec.keep_front.size()) {}

  // False if it was interrupted (SIGINT, SIGTERM), after it has said what resumes it. Throws InputError; a spec that is
  // wrong leaves no file behind. All ranks must call it.
  bool run() {
    if (!prepare()) {
      return true;
    }
    resume();
    if (is_first_ && next_ < rows_) {
      announce();
    }
    const Interrupts interrupts;
    begin_ = checkpointed_ = wall_seconds();
    first_ = next_;
    while (const std::uint64_t of_stretch = next_round()) {
      const double round_begin = wall_seconds();
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
          stretch.compute(is_first_ ? MayGoOn([] { return !is_stopped.load(std::memory_order_relaxed); }) : MayGoOn());
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
      if (keeps_front_ && file_ && (!is_whole || wall_seconds() - checkpointed_ > kCheckpointSeconds)) {
        checkpoint(done_);
        checkpointed_ = wall_seconds();
      }
    } catch (const InputError&) {
      problem_ = std::current_exception();
    }
  }

  void show(double round_begin) {
    const double now = wall_seconds();
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
  void checkpoint(std::uint64_t next) {
    file_->checkpoint({{"next", next}, {"front", points_json(front_.all(), spec_.keep_front.size())}});
  }

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

// ---- what is asked --------------------------------------------------------------------------------------------------

OptionGroup sweep_options() {
  return option_group(
      "Sweep",
      {{"spec", "FILE", "Read axes and fixed keys from a TOML file; a bare word is one, too."},
       {"axis", "KEY=VALUES...",
        "Vary a key of chip, network or plan, e.g. hidden=512:8192:256 (from, to, step), batch=1:64:x2 (times 2), "
        "density=0.01:1:log9 (9 values), cell=lstm,gru, sm.clock=+0%,+10%, hidden=@nets.csv:hidden (a column); "
        "'KEY=VALUES; KEY=VALUES' moves keys together; repeatable, the last axis varies fastest."},
       {"where", "EXPRESSION", "Leave out rows of which this is false, e.g. 'fits && step_us < 5'."},
       {"column", "NAME=EXPRESSION...",
        "Add a column, e.g. 'us_per_sample=step_us/batch', or a number by its name, e.g. gather_us; repeatable."},
       {"engine", "NAME", "Ask the model, the simulator or, on this machine's GPU, measure.", "model"},
       {"rows", "KIND",
        "Take row lengths from the generated mask (exact, as predict does) or as they are expected (expected: faster).",
        "exact"},
       {"keep-front", "OBJECTIVES", "Keep only the Pareto front, e.g. step_us:min,hidden:max; see pareto."},
       {"threads", "N", "Use this many threads (default: all cores); the rows do not depend on it."}});
}

OptionGroup sweep_output_options() {
  return option_group("Output",
                      {{"output,o", "FILE",
                        "Append rows to a .csv or .jsonl file, with a manifest beside it; the same command goes on "
                        "where it was ended."},
                       {"format", "FORMAT", "Write csv or jsonl (default: by the extension of -o, else csv)."}});
}

template <typename Read>
void of_option(const std::string& option, Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    throw InputError("--" + option + ": " + error.what());
  }
}

SweepSpec read_spec(const Options& options) {
  SweepSpec spec;
  if (options.given("spec")) {
    read_spec_file(spec, options.text("spec"));
  }
  std::vector<std::pair<std::string, std::string>> keys;  // option, key
  for (const char* key : {"chip",   "cell",    "hidden", "batch", "steps",  "density", "precision", "mask",
                          "seed",   "weights", "tensor", "plan",  "family", "tier",    "network",   "images",
                          "sample", "alive",   "gpus",   "mode",  "stash",  "memory",  "layers",    "input"}) {
    keys.emplace_back(key, key);
  }
  for (const FixableField& field : fixable_fields()) {
    std::string option(field.name);
    std::ranges::replace(option, '_', '-');
    keys.emplace_back(option, field.name);
  }
  options.refuse({"transpose"}, "of a sweep needs --network: a sweep takes recurrent weights as they lie",
                 !options.given("network"));
  for (const auto& [option, key] : keys) {
    const std::string text =
        option == "network" && options.given(option) ? network_text(options) : options.text(option);
    const bool is_planners = text == "auto" && (key == "family" || key == "plan");
    if (options.given(option) && !is_planners) {
      of_option(option, [&, &name = key] { spec.fix(name, text); });
    }
  }
  if (options.flag("bidirectional")) {
    spec.fix("directions", "2");
  }
  for (const std::string& assignment : options.list("set")) {
    of_option("set", [&] { spec.fix(assignment); });
  }
  for (const std::string& axis : options.list("axis")) {
    of_option("axis", [&] { spec.add_axis(axis); });
  }
  for (const std::string& column : options.list("column")) {
    of_option("column", [&] { spec.add_column(column); });
  }
  if (options.given("where")) {
    spec.where = options.text("where");
  }
  if (options.given("keep-front")) {
    of_option("keep-front", [&] { spec.keep_front = parse_objectives(options.text("keep-front")); });
  }
  if (options.given("engine")) {
    spec.engine = options.text("engine");
  }
  if (options.given("rows")) {
    spec.rows = options.text("rows");
  }
#ifdef ONCHIP_HAS_CUDA
  options.choice("engine", spec.engine, {"model", "simulator", "measure"});
#else
  if (spec.engine == "measure") {
    throw InputError("built without CUDA: measure needs a CUDA toolkit when onchip is configured");
  }
  options.choice("engine", spec.engine, {"model", "simulator"});
#endif
  options.choice("rows", spec.rows, {"exact", "expected"});
  spec.granule = read_granule(options);
#ifdef ONCHIP_HAS_CUDA
  if (spec.engine == "measure" && !spec.has("chip")) {
    spec.fix("chip", device_chip_file().chip.name);
  }
#endif
  finish(spec);
  return spec;
}

SweepOptions read_sweep_options(const Options& options) {
  SweepOptions read;
  read.output = options.text("output") == "-" ? "" : options.text("output");
  const std::string extension = read.output.extension().string();
  if (!options.given("format") && !read.output.empty() && extension != ".csv" && extension != ".jsonl") {
    throw InputError("--output " + read.output.string() + ": expected a name that ends in .csv or .jsonl, or --format");
  }
  const std::string format = options.given("format") ? options.text("format") : extension == ".jsonl" ? "jsonl" : "csv";
  read.format = static_cast<RowFormat>(options.choice("format", format, {"csv", "jsonl"}));
  read.threads = options.count("threads", 4096, all_cores());
  return read;
}

// ---- engines --------------------------------------------------------------------------------------------------------

PlannedNetwork simulated(const Chip& chip, Configuration configuration, const RowProfile& rows) {
  if (configuration.family().empty()) {
    configuration.constraints.family = SparsePlan::kName;
  }
  PlannedNetwork planned = plan_network(chip, configuration, rows);
  if (planned.prediction.footprint.fits) {
    const Layout layout = make_layout(planned.network, planned.plan, *recurrent_matrix(configuration));
    const Simulation simulation = simulate(chip, *plan_trace(chip, layout));
    Prediction& prediction = planned.prediction;
    prediction.terms = {};
    for (std::size_t i = 0; i < kStepPartNames.size(); ++i) {
      prediction.terms.add(kStepPartNames[i], simulation.parts_us[i]);
    }
    prediction.step_us = simulation.step_us;
    prediction.low_us = simulation.low_us;
    prediction.high_us = simulation.high_us;
  }
  return planned;
}

#ifdef ONCHIP_HAS_CUDA
PlannedNetwork measured(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                        const std::string& architecture) {
  PlannedNetwork planned = compiled_plan(chip, configuration, rows, architecture);
  if (!is_on_chip(planned.plan)) {
    throw InputError("a library's times are measured with 'measure --plan all'");
  }
  if (planned.prediction.footprint.fits) {
    MeasureOptions options;
    options.seed = configuration.seed;
    const auto matrix = recurrent_matrix(configuration);
    const Prepared prepared = prepare(configuration.network, planned.plan, matrix, options);
    const Measurement measurement =
        measure(configuration.network, *matrix, {&prepared, 1}, /*libraries=*/{}, options).kernels.front();
    if (!measurement.failure.empty()) {
      throw InputError(measurement.failure);
    }
    Prediction& prediction = planned.prediction;
    prediction.terms = {};
    prediction.step_us = measurement.step_us.median;
    prediction.low_us = measurement.step_us.low;
    prediction.high_us = measurement.step_us.high;
  }
  return planned;
}
#endif

std::vector<OptionGroup> all_sweep_options() {
  return {sweep_options(),     chip_options(),          network_options(),  plan_options(),
          whole_plan_option(), whole_network_options(), training_options(), feed_forward_options(),
          granule_option(),    sweep_output_options()};
}

int run_sweep(const Options& options) {
  constexpr int kInterrupted = 130;  // as a shell says of what SIGINT ended
  const Ranks ranks;
  const auto read = ranks.together([&] { return std::pair(read_spec(options), read_sweep_options(options)); });
  if (!read) {
    return 0;
  }
  auto [spec, sweep_options] = *read;
  sweep_options.command = options.command(program_invocation_name);
  if (spec.engine == "simulator") {
    sweep_options.engine = simulated;
  }
#ifdef ONCHIP_HAS_CUDA
  if (spec.engine == "measure") {  // one at a time, on one GPU
    const Manifest device = current_manifest();
    sweep_options.device = Json::parse(to_json_text(device));
    sweep_options.device.erase("date");
    sweep_options.engine = [device](const Chip& chip, const Configuration& configuration, const RowProfile& rows) {
      return measured(chip, configuration, rows, device.architecture);
    };
    sweep_options.threads = 1;
    sweep_options.estimates = false;
  }
#endif
  return Sweep(spec, sweep_options, ranks).run() ? 0 : kInterrupted;
}

}  // namespace

const Verb kSweepVerb{
    "sweep",
    "Answer for every combination of values on axes of chip, network and plan, row by row into a file.",
    "onchip sweep --axis hidden=512:8192:256 --axis density=0.01,0.05,0.1 -o sweep.csv",
    all_sweep_options,
    run_sweep,
    "spec"};

}  // namespace onchip
