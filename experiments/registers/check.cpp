// SPDX-License-Identifier: Apache-2.0
// The planner's picks near the limit of the registers, compiled: whether any spills, or keeps more than is said.
#include "experiments/configuration.hpp"
#include "experiments/registers/frequent.hpp"
#include "experiments/registers/shape.hpp"
#include "experiments/registers/verbs.hpp"
#include "kernels/program.hpp"
#include "model/footprint.hpp"
#include "model/planner.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace onchip::registers {
namespace {

bool spills(const CompileRequest& request) {
  return compile(request).resources.spills();
}

bool spills(const Network& network, const Plan& plan, std::size_t architecture) {
  return spills(compile_request(network, plan, kArchitectures[architecture]));
}

// The `number`-th is for this architecture.
std::size_t architecture_of_pick(int number) {
  return static_cast<std::size_t>(number) % kArchitectures.size();
}

// A network that is none of the domain's, and the planner's pick for it, in registers and near their limit. For sm_80
// one that its kernels can be: bulk copies came with sm_90.
Shape fresh_pick(std::mt19937& random, int number) {
  for (;;) {
    Network network;
    network.cell = one_of(random, std::array{Cell::relu, Cell::tanh});
    network.precision = one_of(random, std::array{Precision::fp16, Precision::bf16, Precision::fp32});
    network.batch = 1 + static_cast<int>(random() % 32);
    network.batch = random() % 4 > 0 ? one_of(random, kBatches) : network.batch;
    network.hidden = 300 + static_cast<int>(random() % 9000);
    network.density = 0.01 * std::exp2(std::ldexp(static_cast<double>(random()), -32) * 5.5);
    const Chip chip = find_chip(kChips[random() % kChips.size()]).chip;
    PlanWishes wishes;
    wishes.family = Family::sparse_persistent;
    wishes.storage = Storage::packed_pair;
    wishes.tier = Tier::registers;
    if (architecture_of_pick(number) == 0) {
      wishes.exchange = ExchangeProtocol::lamport;
    }
    const PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), wishes);
    constexpr double kNear = 0.8;
    if (planned.prediction.footprint.fits && planned.prediction.footprint.resources[0].share() > kNear) {
      return {planned.network, planned.plan};
    }
  }
}

}  // namespace

int check_fresh(int number, unsigned seed) {
  std::mt19937 random(seed);
  std::array<int, kArchitectures.size()> compiled{}, measured{}, spilling{}, close{};
  for (int i = 0; i < number; ++i) {
    const std::size_t a = architecture_of_pick(i);
    const Shape shape = fresh_pick(random, i);
    const int words = room(shape, a) - working_registers(chip_of(a), shape.network, shape.plan);
    const Plan fits = with_words(shape, words);
    Plan beyond = fits;  // the next plan of more than kClose words more
    for (int more = words + kClose; register_words(shape.network, beyond) <= words + kClose;) {
      beyond = with_words(shape, ++more);
    }
    ++compiled[a];
    const bool is_known = measured_registers(kMajors[a], shape.network, shape.plan).has_value();
    measured[a] += is_known;
    const bool spilled = spills(shape.network, fits, a), kept = !spills(shape.network, beyond, a);
    spilling[a] += spilled;
    close[a] += !kept;
    if (spilled || kept) {
      std::printf("%s %s%s%d words: %s\n", kArchitectures[a], is_known ? "" : "not measured, ",
                  spilled ? "spills, " : "keeps more, ", words, text_of(shape).c_str());
    }
    std::fflush(stdout);
  }
  std::puts("architecture,count,measured,within_8,spill");
  for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
    std::printf("%s,%d,%d,%d,%d\n", kArchitectures[a], compiled[a], measured[a], close[a], spilling[a]);
  }
  return std::ranges::count(spilling, 0) == std::ssize(spilling) ? 0 : 1;
}

int print_missing(int number, unsigned seed, const std::vector<std::string>& known_limits) {
  std::mt19937 random(seed);
  FrequentShapes frequent(known_limits);
  for (int i = 0; i < number; ++i) {
    frequent.add(fresh_pick(random, i));
  }
  frequent.print();
  return 0;
}

int check_picks(const std::string& path) {
  const CsvReader file(path);
  const Chip chip = find_chip("h200").chip;
  std::set<std::string> known;
  int compiled = 0, spilled = 0;
  for (std::size_t row = 0; row < file.size(); ++row) {
    Configuration configuration = read_configuration_row(file, row);
    configuration.wishes.family = Family::sparse_persistent;
    configuration.plan.reset();
    const PlannedNetwork planned = plan_network(chip, configuration, row_profile(configuration));
    constexpr double kNear = 0.9;
    const Footprint& need = planned.prediction.footprint;
    if (!need.fits || need.resources[static_cast<std::size_t>(Resource::registers)].share() < kNear) {
      continue;
    }
    const CompileRequest request = compile_request(planned.network, planned.plan, chip.architecture);
    if (!known.insert(fingerprint(request)).second) {
      continue;
    }
    const ResourceReport report = compile(request).resources;
    ++compiled;
    if (report.spills()) {
      ++spilled;
      std::printf("%s: spills %d bytes, %s\n", describe(planned.network).c_str(), report.spill_bytes,
                  to_string(planned.plan).c_str());
      std::fflush(stdout);
    }
  }
  std::printf("%d plans compiled, %d spill\n", compiled, spilled);
  return spilled > 0 ? 1 : 0;
}

}  // namespace onchip::registers
