// SPDX-License-Identifier: Apache-2.0
// Questions to the planner per second on one core, predictions of given plans, and how long the slowest kinds of
// questions take.
//   bench_planner [NUMBER [SEED]]
//   bench_planner sweep                   rows of sweeps per second, writing included, along each kind of axis
//   bench_planner check [NUMBER [SEED]]   whether the exhaustive search has the same answers: a plan of equal time
#include "experiments/validation/drawn_questions.hpp"
#include "model/answer/capacity.hpp"
#include "model/base/clocks.hpp"
#include "model/base/parallel.hpp"
#include "model/explore/row.hpp"
#include "model/families/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace onchip;

void bench_drawn(int number, unsigned seed) {
  const std::vector<DrawnQuestion> questions = draw_questions(number, seed);
  std::vector<double> seconds;
  std::vector<RecurrentPlan> plans;
  double checksum = 0;
  for (const DrawnQuestion& question : questions) {
    const double begin = processor_seconds();
    const RowProfile rows = RowProfile::uniform(question.network, question.mask);
    const PlannedNetwork planned = choose_plan(*question.chip, question.network, rows);
    checksum += planned.prediction.footprint.fits ? planned.prediction.step_us : 0;
    seconds.push_back(processor_seconds() - begin);
    plans.push_back(planned.plan);
  }
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::ranges::sort(seconds);
  std::printf(
      "%d questions drawn from seed %u: %.0f a second and core (median %.2f ms, longest %.1f ms); checksum %.9g\n",
      number, seed, number / all, 1e3 * seconds[seconds.size() / 2], 1e3 * seconds.back(), checksum);
  constexpr std::size_t kTimes = 1000;
  const double begin = processor_seconds();
  for (std::size_t i = 0; i < kTimes * plans.size(); ++i) {
    const DrawnQuestion& question = questions[i % plans.size()];
    checksum += predict(*question.chip, question.network, plans[i % plans.size()]).step_us;
  }
  std::printf("their plans, given: %.0f predictions a second and core; checksum %.9g\n",
              static_cast<double>(kTimes * plans.size()) / (processor_seconds() - begin), checksum);
}

template <typename Ask>
void bench(const std::string& what, Ask&& ask) {
  constexpr int kTries = 3;
  double least_processor = 1e9, least_wall = 1e9;
  std::string answer;
  for (int i = 0; i < kTries; ++i) {
    const double processor = processor_seconds(), wall = wall_seconds();
    answer = ask();
    least_processor = std::min(least_processor, processor_seconds() - processor);
    least_wall = std::min(least_wall, wall_seconds() - wall);
  }
  std::printf("%-44s %9.2f ms processor %9.2f ms wall  %s\n", what.c_str(), 1e3 * least_processor, 1e3 * least_wall,
              answer.c_str());
}

// Of every tenth question the rows are those of a mask with rows of a power law.
int check(int number, unsigned seed) {
  constexpr double kEqual = 1e-3;
  const std::vector<DrawnQuestion> questions = draw_questions(number, seed);
  std::vector<int> same(questions.size()), equal(questions.size());
  std::vector<double> apart(questions.size());
  parallel_for(number, all_cores(), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const DrawnQuestion& question = questions[at];
    Recurrent network = question.network;
    const bool is_uneven = i % 10 == 9 && question.mask == MaskKind::uniform;
    network.hidden = is_uneven ? std::min(network.hidden, 3000) : network.hidden;
    const RowProfile rows = is_uneven
                                ? RowProfile::from_matrix(generate_mask(network.rows(), network.hidden, network.density,
                                                                        1, network.precision, MaskKind::power_law))
                                : RowProfile::uniform(network, question.mask);
    const PlannedNetwork bounded = choose_plan(*question.chip, network, rows);
    const PlannedNetwork all = choose_plan(*question.chip, network, rows, {}, Effort::exhaustive);
    same[at] = bounded.plan == all.plan;
    const bool fits = all.prediction.footprint.fits;
    apart[at] = fits ? bounded.prediction.step_us / all.prediction.step_us - 1 : 0;
    equal[at] = bounded.prediction.footprint.fits == fits && std::abs(apart[at]) <= kEqual;
    if (!equal[at]) {
      std::printf("%s %s: %s\n  exhaustive: %s\n", question.chip->name.c_str(), describe(network).c_str(),
                  to_string(bounded.plan).c_str(), to_string(all.plan).c_str());
    }
  });
  const auto count = [](const std::vector<int>& flags) { return std::ranges::count(flags, 1); };
  std::printf(
      "%d questions drawn from seed %u: the same plan in %td, equal in time in %td, largest difference %.3f %%\n",
      number, seed, count(same), count(equal), 100 * *std::ranges::max_element(apart));
  return count(equal) == number ? 0 : 1;
}

std::string told(const PlannedNetwork& planned) {
  return std::to_string(planned.prediction.step_us) + " us, " + to_string(planned.plan);
}

int run(int number, unsigned seed) {
  bench_drawn(number, seed);
  const Chip chip = find_chip("h200").chip;
  const auto network = [](Cell cell, int hidden) {
    return Recurrent{.cell = cell, .hidden = hidden, .batch = 4, .density = 0.1};
  };
  for (const auto& [cell, hidden] :
       {std::pair(Cell::relu, 1024), {Cell::relu, 2304}, {Cell::lstm, 2304}, {Cell::lstm, 5632}}) {
    const Recurrent asked = network(cell, hidden);
    bench(describe(asked), [&] { return told(choose_plan(chip, asked, RowProfile::uniform(asked))); });
    bench("  its rows", [&] { return std::to_string(RowProfile::uniform(asked).nnz()); });
  }
  const Recurrent uneven = network(Cell::lstm, 2304);
  const RowProfile rows = RowProfile::from_matrix(
      generate_mask(uneven.rows(), uneven.hidden, uneven.density, 1, uneven.precision, MaskKind::power_law));
  bench("power-law " + describe(uneven), [&] { return told(choose_plan(chip, uneven, rows)); });
  const Recurrent of_any_size = network(Cell::lstm, 32);
  bench("largest LSTM, B=4 10 %",
        [&] { return std::to_string(find_capacity(chip, of_any_size, 32).largest->network.hidden); });
  const ChipFile file = find_chip("h200");
  const Recurrent relu = network(Cell::relu, 2304);
  bench("sensitivities of relu H=2304 B=4 10 %", [&] {
    return std::to_string(sensitivities(file, asked_of_chips(relu, RowProfile::uniform(relu), 32)).size()) +
           " numbers matter";
  });
  return 0;
}

// Rows of sweeps, writing included, along a kind of axis.
struct Kind {
  const char* what;
  bool has_plan;
  const char* rows;
  std::vector<const char*> axes;
};

void bench_rows(const Kind& one, std::ofstream& file) {
  constexpr double kSeconds = 2;
  constexpr std::size_t kBlock = 1 << 20;
  SweepSpec spec;
  spec.rows = one.rows;
  if (one.has_plan) {
    spec.fix("plan",
             "sparse_persistent packed_pair bank_aware lamport sms=128 threads=288 lanes_per_row=16 slots=18 "
             "loads_in_flight=4 poll_delay=120 promote_every=8");
  }
  for (const char* axis : one.axes) {
    spec.add_axis(axis);
  }
  if (!spec.varies("hidden")) {
    spec.fix("hidden", "2304");
  }
  if (!spec.varies("density")) {
    spec.fix("density", "10%");
  }
  finish(spec);
  RowComputer computer(spec, RowFormat::csv);
  std::string text;
  std::uint64_t rows = 0;
  const double begin = processor_seconds();
  double seconds = 0;
  for (; rows < spec.size() && seconds < kSeconds; ++rows) {
    computer.compute(rows);
    computer.append_to(text);
    if (text.size() > kBlock) {
      file.write(text.data(), static_cast<std::streamsize>(text.size()));
      text.clear();
    }
    if (!one.has_plan || rows % 64 == 0) {
      seconds = processor_seconds() - begin;
    }
  }
  seconds = processor_seconds() - begin;
  std::printf("%-58s %10.0f rows a second and core\n", one.what, static_cast<double>(rows) / seconds);
}

int run_sweeps() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "bench_planner.csv";
  std::ofstream file(path, std::ios::binary);
  for (const Kind& one : {
           Kind{"given plan: clock of the chip", true, "exact", {"sm.count=132:163:1", "sm.clock=1GHz:2GHz:10kHz"}},
           Kind{"given plan: batch", true, "exact", {"sm.clock=1GHz:2GHz:10kHz", "batch=1:32:1"}},
           Kind{"given plan: size, rows as expected", true, "expected", {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
           Kind{"given plan: density, rows as expected",
                true,
                "expected",
                {"hidden=2048,2304", "density=1%:10%:0.001%"}},
           Kind{"given plan: density, rows of generated masks",
                true,
                "exact",
                {"hidden=2048,2304", "density=1%:10%:0.001%"}},
           Kind{"planner: clock of the chip", false, "exact", {"sm.count=100:163:1", "sm.clock=1GHz:2GHz:10kHz"}},
           Kind{"planner: size, rows as expected", false, "expected", {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
           Kind{"planner: size, rows of generated masks", false, "exact", {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
       }) {
    bench_rows(one, file);
  }
  std::filesystem::remove(path);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count > 1 && std::string_view(words[1]) == "sweep") {
      return run_sweeps();
    }
    const bool checks = count > 1 && std::string_view(words[1]) == "check";
    const int first = checks ? 2 : 1;
    const int number = count > first ? std::atoi(words[first]) : 200;
    const auto seed = static_cast<unsigned>(count > first + 1 ? std::atoi(words[first + 1]) : 1);
    return checks ? check(number, seed) : run(number, seed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_planner: %s\n", error.what());
    return 2;
  }
}
