// SPDX-License-Identifier: Apache-2.0
#include "model/answer/whole_network.hpp"
#include "model/answer/stream.hpp"
#include "model/answer/training/training.hpp"
#include "model/ask/ask.hpp"
#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"
#include "tests/catch.hpp"

#include <string>
#include <tuple>

using namespace onchip;

namespace {

RecurrentQuestion question_of(Cell cell, int hidden, int batch, double density, int steps) {
  RecurrentQuestion question{find_chip("h200"), {}};
  question.configuration.network = {cell, Precision::fp16, hidden, batch, steps, density};
  return question;
}

TrainingQuestion resident(Cell cell, int hidden, int batch, int layers) {
  const RecurrentQuestion question = question_of(cell, hidden, batch, 1, 64);
  return stack_question(question.chip, question.configuration, {.layers = layers}, 16);
}

double sum(const WholeNetworkAnswer& answer, std::string_view name, int layer = -1) {
  double us = 0;
  for (const SequencePart& part : answer.parts) {
    us += part.name == name && (layer < 0 || part.layer == layer) ? part.us : 0;
  }
  return us;
}

}  // namespace

TEST_CASE("a whole network's parts sum to its time, and its recurrences are the steps of one layer", "[fast]") {
  const RecurrentQuestion question = question_of(Cell::lstm, 512, 4, 0.2, 200);
  const WholeNetworkAnswer answer = predict(question, {.layers = 3, .bidirectional = true, .input = 128});
  REQUIRE(answer.parts.size() == 3 * 2 * 3);
  double us = 0, low = 0, high = 0;
  for (const SequencePart& part : answer.parts) {
    CHECK((0 < part.low_us && part.low_us < part.us && part.us < part.high_us));
    us += part.us, low += part.low_us, high += part.high_us;
  }
  CHECK(answer.total.us == Approx(us));
  CHECK(answer.total.low_us == Approx(low));
  CHECK(answer.total.high_us == Approx(high));
  CHECK(sum(answer, "recurrence") == Approx(6 * 200 * predict(question).answer.planned.prediction.step_us));
  // The first layer takes 128 elements, the others 2 * 512.
  CHECK(sum(answer, "input product", 0) < sum(answer, "input product", 1));
  CHECK(sum(answer, "input product", 1) == sum(answer, "input product", 2));
  CHECK(answer.parts[0].name == "input product");
  CHECK((!answer.parts[2].backward && answer.parts[3].backward));
}

TEST_CASE("a whole network of one direction has its time as a dense stack, too", "[fast]") {
  const auto dense = [](Cell cell, const Stack& stack, int hidden, int batch, int steps) {
    return predict(question_of(cell, hidden, batch, 1, steps), stack).dense;
  };
  const auto four = dense(Cell::lstm, {.layers = 4}, 512, 4, 256);
  REQUIRE(four);
  CHECK(four->plan.forward.layers == 4);
  CHECK(four->time.us < 2 * dense(Cell::lstm, {.layers = 1}, 512, 4, 256)->time.us);
  CHECK(dense(Cell::lstm, {.layers = 1}, 512, 1, 1)->plan.stepwise);
  CHECK(dense(Cell::gru, {.layers = 3}, 384, 2, 256)->plan.forward.layers == 3);
  CHECK_THAT(dense(Cell::lstm, {.layers = 2, .bidirectional = true}, 512, 4, 256).why(),
             Catch::Matchers::Contains("one direction"));
  CHECK_THAT(dense(Cell::relu, {.layers = 2}, 512, 4, 256).why(), Catch::Matchers::Contains("'relu'"));
}

TEST_CASE("the largest stack whose layers are on the SMs at once is there, and the next granule is not", "[fast]") {
  for (const auto& [cell, layers, batch] :
       {std::tuple{Cell::lstm, 3, 4}, {Cell::lstm, 6, 1}, {Cell::lstm, 2, 32}, {Cell::gru, 4, 8}, {Cell::gru, 16, 2}}) {
    CAPTURE(info(cell).name, layers, batch);
    TrainingQuestion question = resident(cell, 0, batch, layers);
    const TrainingFit largest = fit(question);
    REQUIRE(largest.is_yes());
    const int hidden = largest.answer.training.network.hidden;
    const auto plan_of = [](const TrainingFit& of) { return std::get<DenseTrainingPlan>(of.answer.planned->plan); };
    CHECK(plan_of(largest).forward.layers == layers);
    REQUIRE(largest.limits.size() == 4);
    CHECK(largest.limits[0].largest == hidden);
    CHECK(largest.limits[1].largest >= batch);
    CHECK(largest.limits[3].largest >= layers);
    question.configuration.network.hidden = hidden;
    CHECK(plan_of(fit(question)) == plan_of(largest));
    question.configuration.network.hidden = hidden + 16;
    const TrainingFit next = fit(question);
    CHECK_FALSE(next.is_yes());
    CHECK(largest.limits[0].why == std::to_string(hidden + 16) + ": " + next.answer.why_not());
    CHECK(next.answer.otherwise);  // with fewer layers at once
    // What makes the next one fit does so when it is asked.
    REQUIRE(next.to_fit);
    int remedies = 0;
    for (const LeastOf<TrainingCase>& least : next.to_fit->alone) {
      remedies += least.reaches ? 1 : 0;
      CHECK(least.reaches == least.at.answer.fits());
    }
    CHECK(remedies > 0);
  }
  CHECK_FALSE(fit(resident(Cell::lstm, 0, 4, 40)).is_yes());
}

TEST_CASE("more SMs or more shared memory put a whole stack on the chip, and a step less of either does not",
          "[fast]") {
  const TrainingQuestion question = resident(Cell::lstm, 1024, 4, 4);
  const auto fits_with = [&](const std::string& change) {
    TrainingQuestion changed = question;
    set_chip_key(changed.chip, change);
    return fit(changed).is_yes();
  };
  CHECK_FALSE(fits_with("sm.count=+0%"));
  const auto reached = reach(question, {.vary = {"sm.count", "shared_memory.per_sm", "registers.per_sm"}}).alone;
  REQUIRE(reached.size() == 3);
  REQUIRE((reached[0].reaches && reached[1].reaches));
  CHECK_FALSE(reached[2].reaches);  // the SMs are too few
  const double sms = reached[0].at.values[0], bytes = reached[1].at.values[1];
  CHECK(fits_with("sm.count=" + std::to_string(static_cast<int>(sms))));
  CHECK_FALSE(fits_with("sm.count=" + std::to_string(static_cast<int>(sms) - 1)));
  CHECK(fits_with("shared_memory.per_sm=" + std::to_string(static_cast<int>(bytes)) + " B"));
  CHECK_FALSE(fits_with("shared_memory.per_sm=" + std::to_string(static_cast<int>(bytes) - 1024) + " B"));
  // Fewer tiles are in shared memory where there are more registers.
  const auto shared_tiles = [&](const std::string& change) {
    TrainingQuestion small = resident(Cell::lstm, 512, 4, 3);
    set_chip_key(small.chip, change);
    const Found<TrainingPlan> plan = choose_resident(small.chip.chip, {small.configuration.network, small.stack});
    return std::get<DenseTrainingPlan>(*plan).forward.shared_tiles;
  };
  CHECK(shared_tiles("registers.per_sm=x0.5") > shared_tiles("registers.per_sm=x1"));
}

TEST_CASE("what-if of a stack compares it resident and otherwise, and both are what fit and predict say", "[fast]") {
  TrainingQuestion question = resident(Cell::lstm, 1024, 4, 4);
  const auto answer = what_if(question, {"shared_memory.per_sm=x2", "sm.clock=+10%"}, false);
  CHECK_FALSE(answer.is_yes());
  REQUIRE(answer.changed);
  REQUIRE(answer.changed->fits());
  CHECK(answer.base.otherwise->plan ==
        choose_on_chip(question.chip.chip, answer.base.training, Stash::none).value_or_throw());
  CHECK(answer.changed->largest_hidden > answer.base.largest_hidden);
  CHECK(answer.changed->planned->prediction.step_us < answer.base.otherwise->prediction.step_us);
  REQUIRE(answer.alone.size() == 2);
  CHECK(answer.alone[0].side->fits());
  CHECK_FALSE(answer.alone[1].side->fits());
  question.configuration.network.hidden = 512;
  const auto small = what_if(question);
  CHECK(small.is_yes());
  CHECK_FALSE(small.base.otherwise);
  REQUIRE(small.sensitivity);
  CHECK(small.sensitivity->front().key == "sm.clock");
  CHECK(small.base.planned->plan == fit(question).answer.planned->plan);
}

TEST_CASE("more layers, steps, samples or elements of the input take longer", "[fast]") {
  const auto us = [](const Stack& stack, int steps = 100, int batch = 4) {
    return predict(question_of(Cell::gru, 384, batch, 0.3, steps), stack).total.us;
  };
  CHECK(us({.layers = 2}) == Approx(2 * us({.layers = 1})));
  CHECK(us({.bidirectional = true}) == Approx(2 * us({})));
  CHECK(us({.layers = 2, .bidirectional = true}) > 2 * us({.layers = 2}));  // a wider input
  CHECK(us({.input = 384}) == us({}));
  CHECK(us({.input = 4096}) > us({}));
  CHECK(us({}, 200) > us({}));
  CHECK(us({}, 100, 16) > us({}));
}

TEST_CASE("a question with layers has their parts, one without is answered as before", "[fast]") {
  const ChipFile chip = find_chip("h200");
  const std::string network =
      R"("ask": "predict", "network": {"cell": "lstm", "hidden": 512, "batch": 4, "steps": 99})";
  Json two = ask(chip, "{" + network + R"(, "layers": 2, "bidirectional": true, "input": 80})");
  CHECK(two.at("sequence").at("parts").size() == 12);
  CHECK(two.at("sequence").at("input") == 80);
  two.erase("sequence");
  CHECK(two == ask(chip, "{" + network + "}"));
  REQUIRE_THROWS_AS(ask(chip, R"({"ask": "rank", "layers": 2})"), InputError);
  REQUIRE_THROWS_AS(ask(chip, "{" + network + R"(, "layers": 0})"), InputError);
}

TEST_CASE("a question about a stream is answered as the command answers it", "[fast]") {
  const ChipFile chip = find_chip("h200");
  const auto asked = [&](const std::string& more) {
    return ask(chip, R"({"ask": "predict", "network": {"cell": "gru", "hidden": 200}, "layers": 3)" + more + "}");
  };
  StreamSize size{.cell = Cell::gru, .layers = 3, .input = 200, .hidden = 200};
  CHECK(asked(R"(, "streams": 1)") == to_json(predict(chip.chip, size, "")));
  size.streams = 2;
  size.input = 40;
  const std::string plan = plan_text(predict(chip.chip, size, "").plan);
  CHECK(asked(R"(, "streams": 2, "input": 40, "plan": ")" + plan + "\"") == to_json(predict(chip.chip, size, plan)));
  CHECK(asked(R"(, "streams": 1, "set": ["host.mailbox=x2"])").at("predicted_us") >
        asked(R"(, "streams": 1)").at("predicted_us"));
  for (const std::string refused :
       {R"("streams": 0)", R"("streams": "x")", R"("streams": null)", R"("streams": [1])", R"("streams": 1, "plan": 5)",
        R"("streams": 1, "mask": "uniform")", R"("streams": 99)", R"("streams": 1, "plan": "sparse_persistent")",
        R"("streams": 1, "mode": "train")"}) {
    CAPTURE(refused);
    CHECK_THROWS_AS(asked(", " + refused), InputError);
  }
  CHECK_THROWS_AS(ask(chip, R"({"ask": "fit", "network": {"cell": "gru", "hidden": 64}, "streams": 1})"), InputError);
  CHECK_THROWS_AS(ask(chip, R"({"ask": "predict", "network": {"cell": "gru", "steps": 5}, "streams": 1})"), InputError);
}

TEST_CASE("a question of fit or what_if with layers is of a stack on the SMs at once, which is dense", "[fast]") {
  const ChipFile chip = find_chip("h200");
  const auto question = [](const std::string& more) {
    return R"({"layers": 4, "network": {"cell": "lstm", "hidden": 1024, "batch": 4}, )" + more + "}";
  };
  const Json fit = ask(chip, question(R"("ask": "fit", "constraints": {})"));
  CHECK(fit["fits"] == false);
  CHECK(fit["limits"].size() == 4);
  CHECK(fit["otherwise"]["way"] == "2 layers on the SMs at once");
  const Json least = ask(chip, question(R"("ask": "what_if", "vary": ["sm.count"])"));
  CHECK(least["reached"] == true);
  CHECK(least["alone"][0]["values"]["sm.count"] == 256);
  CHECK(ask(chip, question(R"("ask": "what_if", "set": ["sm.count=256"])"))["changed"]["fits"] == true);
  for (const char* wrong : {R"("plan": "dense_persistent")", R"("mask": "uniform")", R"("constraints": {"sms": 8})"}) {
    REQUIRE_THROWS_AS(ask(chip, question(R"("ask": "fit", )" + std::string(wrong))), InputError);
  }
  REQUIRE_THROWS_AS(ask(chip, R"({"ask": "fit", "layers": 2, "network": {"cell": "lstm", "density": 0.1}})"),
                    InputError);
}
