// SPDX-License-Identifier: Apache-2.0
#include "model/ask/ask.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/ask/ask_rows.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {
namespace {

// A key of an object, and what reads its value.
struct QuestionKey {
  std::string_view name;
  std::function<void(const Json&)> read;
};

// Throws InputError for a key that is none of these, with the nearest, and for a value of another kind, with its place.
void read_object(const Json& object, std::string_view where, std::span<const QuestionKey> keys) {
  if (!object.is_object()) {
    throw InputError("question: " + std::string(where) + " is no JSON object");
  }
  for (const auto& [name, value] : object.items()) {
    const auto key = std::ranges::find(keys, name, &QuestionKey::name);
    if (key == keys.end()) {
      std::vector<std::string_view> names;
      for (const QuestionKey& known : keys) {
        names.push_back(known.name);
      }
      throw InputError("question: unknown key " + in_quotes(name) + " in " + std::string(where) +
                       did_you_mean(name, names));
    }
    try {
      key->read(value);
    } catch (const Json::exception&) {
      throw InputError("question: " + std::string(where) + ": " + std::string(name) + ": found " + value.dump());
    }
  }
}

int whole(const Json& value, std::string_view name, int least, int most) {
  const double number = value.get<double>();
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    throw InputError(std::string(name) + ": found " + value.dump() + ": expected a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int>(number);
}

void read_network(const Json& given, Recurrent& network) {
  const std::array<QuestionKey, 6> keys{{
      {"cell", [&](const Json& value) { network.cell = parse_cell(value.get<std::string>()); }},
      {"hidden", [&](const Json& value) { network.hidden = whole(value, "hidden", 1, kMaxHidden); }},
      {"batch", [&](const Json& value) { network.batch = whole(value, "batch", 1, kMaxBatch); }},
      {"steps", [&](const Json& value) { network.steps = whole(value, "steps", 1, 2147483647); }},
      {"density", [&](const Json& value) { network.density = value.get<double>(); }},
      {"precision", [&](const Json& value) { network.precision = parse_precision(value.get<std::string>()); }},
  }};
  read_object(given, "network", keys);
}

void read_constraints(const Json& given, Constraints& constraints) {
  std::vector<QuestionKey> keys{
      {"family", [&](const Json& value) { constraints.family = find_family(value.get<std::string>()).name; }},
      {"tier", [&](const Json& value) { constraints.tier = parse_tier(value.get<std::string>()); }}};
  for (const FixableField& field : fixable_fields()) {
    keys.push_back({field.name, [&](const Json& value) {
                      fix_field(constraints, field.name, value.is_string() ? value.get<std::string>() : value.dump());
                    }});
  }
  read_object(given, "constraints", keys);
}

}  // namespace

Json ask(const ChipFile& chip, std::string_view text, const SparseMatrix* weights) {
  const Json given = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (given.is_discarded()) {
    throw InputError("question: found " + in_quotes(text.substr(0, 40)) + ": expected JSON");
  }
  if (given.is_object() && (given.value("ask", Json()) == "sweep" || given.value("ask", Json()) == "pareto")) {
    if (weights != nullptr) {
      throw InputError("a sweep takes weights by their file: expected \"weights\": \"FILE\"");
    }
    return given["ask"] == "sweep" ? ask_sweep(chip, given) : ask_pareto(chip, given);
  }
  std::string asked;
  Question question{chip, {}};
  Configuration& configuration = question.configuration;
  configuration.network = kUsualNetwork;
  std::vector<std::string> changes, targets, vary, prices;
  std::optional<Stack> stack;
  const auto of_stack = [&]() -> Stack& { return stack ? *stack : stack.emplace(); };
  const std::array<QuestionKey, 14> keys{{
      {"ask", [&](const Json& value) { asked = value.get<std::string>(); }},
      {"network", [&](const Json& value) { read_network(value, configuration.network); }},
      {"mask", [&](const Json& value) { configuration.mask = parse_mask(value.get<std::string>()); }},
      {"seed", [&](const Json& value) { configuration.seed = value.get<std::uint64_t>(); }},
      {"constraints", [&](const Json& value) { read_constraints(value, configuration.constraints); }},
      {"plan", [&](const Json& value) { configuration.plan = parse_recurrent_plan(value.get<std::string>()); }},
      {"layers", [&](const Json& value) { of_stack().layers = whole(value, "layers", 1, kMostLayers); }},
      {"bidirectional", [&](const Json& value) { of_stack().bidirectional = value.get<bool>(); }},
      {"input", [&](const Json& value) { of_stack().input = whole(value, "input", 1, kMaxHidden); }},
      {"granule", [&](const Json& value) { question.granule = whole(value, "granule", 1, kMostGranule); }},
      {"set", [&](const Json& value) { changes = value.get<std::vector<std::string>>(); }},
      {"target", [&](const Json& value) { targets = value.get<std::vector<std::string>>(); }},
      {"vary", [&](const Json& value) { vary = value.get<std::vector<std::string>>(); }},
      {"price", [&](const Json& value) { prices = value.get<std::vector<std::string>>(); }},
  }};
  read_object(given, "question", keys);
  if (weights != nullptr) {
    take_matrix(configuration, *weights);
  }
  ChipFile changed = chip;
  for (const std::string& change : changes) {
    set_chip_key(changed, change);
  }
  const bool backwards = !targets.empty() || !vary.empty() || !prices.empty();
  if (asked != "what_if" || backwards) {
    question.chip = changed;
  }
  const bool needs_size = asked == "predict" || asked == "rank" || configuration.plan;
  if (needs_size && configuration.network.hidden == 0) {
    throw InputError("how large is the network? expected a hidden size or a matrix");
  }
  check(configuration);
  if (stack && asked != "predict") {
    throw InputError("question: layers, bidirectional and input are of predict, not of " + in_quotes(asked));
  }
  if (backwards && asked != "what_if") {
    throw InputError("question: target, vary and price are of what_if, not of " + in_quotes(asked));
  }
  if (asked == "fit") {
    return to_json(fit(question));
  }
  if (asked == "predict") {
    return stack ? to_json(predict(question, *stack)) : to_json(predict(question));
  }
  if (asked == "rank") {
    return to_json(rank(question));
  }
  if (asked == "what_if") {
    return backwards ? to_json(reach(target_question(question, targets, vary, prices)))
                     : to_json(what_if(question, changes));
  }
  throw InputError("question: ask: found " + in_quotes(asked) +
                   ": expected fit, predict, rank, what_if, sweep or pareto");
}

}  // namespace onchip
