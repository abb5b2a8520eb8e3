// SPDX-License-Identifier: Apache-2.0
// From a target to the least that a chip must have: the same as trying every value that hardware can have.
#include "model/answer/target.hpp"
#include "experiments/validation/drawn_questions.hpp"
#include "model/answer/least.hpp"
#include "model/ask/ask.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/chip_keys.hpp"
#include "tests/catch.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <random>

using namespace onchip;

namespace {

struct AskedTarget {
  RecurrentQuestion base;
  TargetQuestion words;
};

// Whether the planner's answer on a chip with these changes reaches the target.
bool reaches(const RecurrentQuestion& question, const Target& target, const std::vector<std::string>& changes,
             const RowProfile& rows) {
  ChipFile chip = question.chip;
  try {
    for (const std::string& change : changes) {
      set_chip_key(chip, change);
    }
  } catch (const InputError&) {
    return false;  // there is no such chip
  }
  const Prediction found = decided_by_model(chip.chip, question.configuration, rows).prediction;
  return found.footprint.fits && (!target.step_us || found.step_us <= *target.step_us);
}

// A network that may or may not reach a target as it is.
AskedTarget drawn_target(const DrawnQuestion& drawn, std::mt19937& draw) {
  constexpr std::array kChips{"h200", "a100", "rtx 4090"};
  constexpr std::array<const char*, 6> kKeys{"sm.count", "registers.per_sm", "shared_memory.per_sm",
                                             "sm.clock", "exchange.latency", "shared_memory.banks"};
  AskedTarget question{{find_chip(kChips[draw() % kChips.size()]), {}}, {{}, {kKeys[draw() % kKeys.size()]}}};
  Configuration& configuration = question.base.configuration;
  configuration.network = drawn.network;
  configuration.mask = drawn.mask;
  configuration.network.hidden = std::min(drawn.network.hidden, 1200);
  if (draw() % 3 == 0) {  // to fit
    constexpr int kLarge = 4;
    configuration.network.hidden *= kLarge;
    question.words.target.hidden = configuration.network.hidden;
    configuration.constraints.tier = Tier::shared_memory;
  } else {
    const PlannedNetwork now = decided_by_model(question.base.chip.chip, configuration, row_profile(configuration));
    const double times = 0.6 + 0.01 * static_cast<double>(draw() % 100);
    question.words.target.step_us = times * now.prediction.step_us;
  }
  return question;
}

}  // namespace

TEST_CASE("where more fails again is found, at an edge and far from it", "[fast]") {
  const auto fails = [](int choice) { return choice < 300 || choice == 302 || (choice >= 520 && choice <= 700); };
  const Reach reach = find_reach(1, 1000, [&](int choice) { return fails(choice) ? 1 + 1.0 / choice : 0; });
  CHECK(reach.least == 300);
  CHECK(reach.fails_again == std::vector<std::pair<int, int>>{{302, 302}, {520, 700}});
  const Reach none = find_reach(-1000, -1, [](int choice) { return choice < -50 ? 2 : 1; });
  CHECK_FALSE(none.least);
  CHECK(none.nearest >= -50);  // of what comes as near, the least that was asked
  CHECK(none.nearest < -25);
  CHECK(find_reach(7, 7, [](int) { return 0; }).least == 7);
}

TEST_CASE("the least that reaches a target is what trying every value finds", "[fast][long]") {
  const int number = draws(5);
  int reached = 0, less = 0, more = 0;
  std::mt19937 draw(33);
  for (const DrawnQuestion& drawn : draw_questions(number, 33)) {
    const AskedTarget question = drawn_target(drawn, draw);
    const RecurrentQuestion& base = question.base;
    const TargetOf<RecurrentCase> answer = reach(question.base, question.words);
    const RowProfile rows = row_profile(base.configuration);
    const Choices all = choices(base.chip.chip, question.words.vary.front());
    std::vector<char> good(static_cast<std::size_t>(all.best - all.worst + 1));
    parallel_for(static_cast<int>(good.size()), all_cores(), [&](int i) {
      good[static_cast<std::size_t>(i)] = reaches(base, question.words.target, {all.assignment(all.worst + i)}, rows);
    });
    const LeastOf<RecurrentCase>& found = answer.alone.front();
    CAPTURE(base.chip.chip.name, describe(base.configuration.network), question.words.vary.front(),
            question.words.target.step_us.value_or(0), found.at.option);
    const auto first = std::ranges::find(good, 1);
    CHECK(found.reaches == (first != good.end()));
    if (first == good.end()) {
      continue;
    }
    const double least = all.value(all.worst + static_cast<int>(first - good.begin()));
    CHECK(found.at.values.front() == least);
    ++reached;
    ++(answer.base_reaches ? less : more);
    std::vector<std::pair<double, double>> fails_again;
    for (auto at = first; at != good.end(); ++at) {
      const double value = all.value(all.worst + static_cast<int>(at - good.begin()));
      if (!*at && *(at - 1)) {
        fails_again.emplace_back(value, value);
      } else if (!*at) {
        fails_again.back().second = value;
      }
    }
    CHECK(found.fails_again == fails_again);
  }
  CHECK(reached >= number / 2);
  CHECK((number < 50 || (less > number / 10 && more > number / 10)));
}

TEST_CASE("the trade-off of two numbers and the cheapest are what trying all pairs finds", "[fast]") {
  ChipFile coarse = find_chip("h200");  // few values, so that all pairs can be tried
  set_chip_key(coarse, "registers.allocation_unit=8192");
  set_chip_key(coarse, "shared_memory.allocation_unit=16 KiB");
  std::mt19937 draw(34);
  const int number = draws(2);
  for (const DrawnQuestion& drawn : draw_questions(number, 34)) {
    AskedTarget question{{coarse, {}}, {{}, {"registers.per_sm", "shared_memory.per_sm"}}};
    Configuration& configuration = question.base.configuration;
    configuration.network = {drawn.network.cell,
                             Precision::fp16,
                             std::min(4 * drawn.network.hidden, 6000),
                             1 + static_cast<int>(draw() % 8),
                             1,
                             drawn.network.density / 2};
    configuration.constraints.tier = Tier::shared_memory;
    question.words.target.hidden = configuration.network.hidden;
    const double per_register = 0.001 * static_cast<double>(1 + draw() % 30);
    question.words.prices = {{find_key("registers.per_sm"), per_register},
                             {find_key("shared_memory.per_sm"), 1.0 / 1024}};
    const TargetOf<RecurrentCase> answer = reach(question.base, question.words);
    const RowProfile rows = row_profile(configuration);
    const Choices registers = choices(coarse.chip, "registers.per_sm"),
                  memory = choices(coarse.chip, "shared_memory.per_sm");
    std::vector<std::vector<double>> corners;
    double cheapest = std::numeric_limits<double>::infinity();
    int before = memory.best + 1;
    for (int a = registers.worst; a <= registers.best; ++a) {
      for (int b = memory.worst; b < before; ++b) {
        if (reaches(question.base, question.words.target, {registers.assignment(a), memory.assignment(b)}, rows)) {
          corners.push_back({registers.value(a), memory.value(b)});
          cheapest = std::min(cheapest, per_register * (registers.value(a) - coarse.chip.registers_per_sm) +
                                            (memory.value(b) - coarse.chip.smem_bytes_per_sm) / 1024);
          before = b;
        }
      }
    }
    CAPTURE(describe(configuration.network), per_register);
    std::vector<std::vector<double>> found;
    std::ranges::transform(answer.trade_off, std::back_inserter(found), &VariedOf<RecurrentCase>::values);
    CHECK(found == corners);
    CHECK(answer.cheapest.has_value() == !corners.empty());
    if (answer.cheapest) {
      CHECK(*answer.cheapest->cost == Approx(cheapest));
    }
  }
}

TEST_CASE("a target asked in JSON has the answer of the same question", "[fast]") {
  RecurrentQuestion base{find_chip("h200"), {}};
  base.configuration.network = {Cell::gru, Precision::fp16, 0, 4, 256, 0.3};
  const std::vector<std::string> targets{"hidden=700"}, vary{"sm.count"}, prices{"sm.count=2"};
  const std::string network = R"("network": {"cell": "gru"}, "target": ["hidden=700"])";
  const Json json =
      ask(base.chip, R"({"ask": "what_if", "vary": ["sm.count"], "price": ["sm.count=2"], )" + network + "}");
  CHECK(json == to_json(reach(base, target_question(targets, vary, prices))));
  CHECK(json.at("cheapest").at("values").at("sm.count") < 132);
  CHECK_THROWS_AS(ask(base.chip, R"({"ask": "fit", )" + network + "}"), InputError);
}

TEST_CASE("targets and prices are read, and others refused with what is expected", "[fast]") {
  const auto read = [](const std::string& target, const std::string& price) {
    return target_question(std::array{target}, {}, std::array{price});
  };
  const TargetQuestion question = read("step_us <= 2.5", "shared_memory.per_sm=2/KiB");
  CHECK(question.target.step_us == 2.5);
  CHECK(question.prices.front().per_unit == 2.0 / 1024);
  CHECK(read("hidden=512", "sm.count=7").prices.front().per_unit == 7);
  CHECK_THROWS_WITH(read("hiden=512", "sm.count=7"), "target: found 'hiden=512'; did you mean 'hidden'?");
  CHECK_THROWS_WITH(read("hidden<=512", "sm.count=7"), "target: found 'hidden<=512': expected hidden=N or step_us<=T");
  CHECK_THROWS_AS(read("hidden=0.5", "sm.count=7"), InputError);
  CHECK_THROWS_WITH(read("hidden=512", "sm.cont=7"), "price: found 'sm.cont=7'; did you mean 'sm.count'?");
  CHECK_THROWS_WITH(read("hidden=512", "sm.count=7/KiB"),
                    "price: found 'sm.count=7/KiB': unit 'KiB' does not fit: expected 1");
  CHECK_THROWS_AS(read("hidden=512", "sm.count=-7"), InputError);
  for (const char* key : {"shared_memory.per_block", "compute_capability.major", "sm.cuont"}) {
    CHECK_THROWS_AS(choices(find_chip("h200").chip, key), InputError);
  }
}
