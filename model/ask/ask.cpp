// SPDX-License-Identifier: Apache-2.0
#include "model/ask/ask.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/answer/feed_forward/asked.hpp"
#include "model/answer/stream.hpp"
#include "model/ask/ask_rows.hpp"
#include "model/ask/question.hpp"
#include "model/base/error.hpp"
#include "model/base/joined.hpp"
#include "model/base/units.hpp"
#include "model/explore/keys.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace onchip {
namespace {

// A key of an object, and what reads its value.
struct QuestionKey {
  std::string_view name;
  std::function<void(const Json&)> read;
  unsigned of = kOfAll;  // workloads whose questions have it
};

// Throws InputError for a key that is none of these, with the nearest, for one that another workload has, and for a
// value of another kind, with its place.
void read_object(const Json& object, std::string_view where, std::span<const QuestionKey> keys, unsigned of = kOfAll) {
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
    if ((key->of & of) == 0) {
      const auto asked = std::ranges::find_if(kSwept, [&](const SweptInfo& info) { return bit(info.swept) == of; });
      throw InputError("question: '" + name + "' is not of " + std::string(asked->what));
    }
    try {
      key->read(value);
    } catch (const Json::exception&) {
      throw InputError("question: " + std::string(where) + ": " + std::string(name) + ": found " + value.dump());
    }
  }
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

// What is read before it is known which question it is.
struct Given {
  std::string asked;
  Configuration configuration;
  std::optional<Stack> stack;
  int granule = 32;
  TrainingConstraints training;
  FeedForwardAsked feed_forward;
  InferenceConstraints inference;
  int streams = 0;  // more: a stream is asked about
  std::string stream_plan;
  std::vector<std::string> changes, targets, vary, prices;

  Stack& of_stack() { return stack ? *stack : stack.emplace(); }
  bool is_backwards() const { return !targets.empty() || !vary.empty() || !prices.empty(); }
  // Whether layers are to be on the SMs at once; a prediction is of the whole network.
  bool is_of_stack(unsigned of) const { return of == kOfRecurrent && stack && (asked == "fit" || asked == "what_if"); }
};

constexpr std::string_view kOneLayer = "is of one layer: a stack that is on the chip at once is dense";

unsigned workload_of(const Json& question) {
  const Json mode = question.value("mode", Json("inference"));
  if (mode != "inference" && mode != "train") {
    throw InputError("question: mode: found " + mode.dump() + ": expected \"inference\" or \"train\"");
  }
  const bool is_feed_forward = question.value("network", Json()).is_string();
  if (is_feed_forward && mode == "train") {
    throw InputError("question: mode: a feed-forward network is not trained");
  }
  return is_feed_forward ? kOfFeedForward : mode == "train" ? kOfTraining : kOfRecurrent;
}

void read_plan(const std::string& text, unsigned of, Given& given) {
  if (of == kOfFeedForward) {
    given.inference = read_inference_constraints(text);
  } else if (of == kOfTraining) {
    given.training.plan = parse_plan_as<TrainingPlan>(text);
  } else {
    given.configuration.plan = parse_plan_as<RecurrentPlan>(text);
  }
}

void read_family(const Json& constraints, Given& given) {
  const std::array<QuestionKey, 1> keys{
      {{"family", [&](const Json& value) { given.training.family = value.get<std::string>(); }}}};
  read_object(constraints, "constraints", keys);
}

Given read_question(const Json& question, unsigned of) {
  Given given;
  Configuration& configuration = given.configuration;
  configuration.network = kUsualNetwork;
  if (of == kOfTraining) {
    configuration.network.density = 1;  // unless it is said otherwise
  }
  const bool is_stream = of == kOfRecurrent && question.contains("streams");
  if (is_stream) {
    configuration.network.density = configuration.network.batch = 1;
  }
  ImagesAsked& images = given.feed_forward.images;
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const auto texts = [](std::vector<std::string>& list) {
    return [&list](const Json& value) { list = value.get<std::vector<std::string>>(); };
  };
  const std::array<QuestionKey, 23> keys{{
      {"ask", [&](const Json& value) { given.asked = text(value); }},
      {"mode", [](const Json&) {}},
      {"network",
       [&](const Json& value) {
         if (of == kOfFeedForward) {
           given.feed_forward.network = text(value);
         } else {
           read_network(value, configuration.network);
         }
       }},
      {"mask", [&](const Json& value) { configuration.mask = parse_mask(text(value)); }, kOfBoth},
      {"seed", [&](const Json& value) { configuration.seed = value.get<std::uint64_t>(); }, kOfBoth},
      {"rows", [&](const Json& value) { configuration.has_expected_rows = parse_rows(text(value)); }, kOfRecurrent},
      {"constraints",
       [&](const Json& value) {
         if (of == kOfTraining) {
           read_family(value, given);
         } else {
           read_constraints(value, configuration.constraints);
         }
       },
       kOfBoth},
      {"plan",
       [&](const Json& value) {
         if (is_stream) {
           given.stream_plan = text(value);
         } else {
           read_plan(text(value), of, given);
         }
       }},
      {"stash", [&](const Json& value) { given.training.stash = parse_stash(text(value)); }, kOfTraining},
      {"memory",
       [&](const Json& value) { given.training.memory_bytes = parse_quantity(text(value), Dimension::bytes); },
       kOfTraining},
      {"layers", [&](const Json& value) { given.of_stack().layers = whole(value, "layers", 1, kMostLayers); }, kOfBoth},
      {"bidirectional", [&](const Json& value) { given.of_stack().bidirectional = value.get<bool>(); }, kOfBoth},
      {"input", [&](const Json& value) { given.of_stack().input = whole(value, "input", 1, kMaxHidden); }, kOfBoth},
      {"streams", [&](const Json& value) { given.streams = whole(value, "streams", 1, kMostStreams); }, kOfRecurrent},
      {"images", [&](const Json& value) { images.images = value.is_number() ? value.dump() : text(value); },
       kOfFeedForward},
      {"alive", [&](const Json& value) { images.alive = value.get<double>(); }, kOfFeedForward},
      {"sample", [&](const Json& value) { images.sample = whole(value, "sample", 1, 2147483647); }, kOfFeedForward},
      {"gpus", [&](const Json& value) { given.feed_forward.gpus = whole(value, "gpus", 1, kMostGpus); },
       kOfFeedForward},
      {"granule", [&](const Json& value) { given.granule = whole(value, "granule", 1, kMostGranule); }, kOfBoth},
      {"set", texts(given.changes)},
      {"target", texts(given.targets)},
      {"vary", texts(given.vary)},
      {"price", texts(given.prices)},
  }};
  read_object(question, "question", keys, of);
  if (!(images.alive >= 0 && images.alive <= 1)) {
    throw InputError("question: alive: found " + format_number(images.alive) + ": expected a share from 0 to 1");
  }
  if (given.is_of_stack(of)) {
    for (const char* name : {"plan", "constraints", "mask", "rows"}) {
      if (question.contains(name) && !question.at(name).empty()) {
        throw InputError("question: '" + std::string(name) + "' " + std::string(kOneLayer));
      }
    }
    if (!question.value("network", Json::object()).contains("density")) {
      configuration.network.density = 1;
    }
  }
  return given;
}

Question question_of(const ChipFile& chip, const Given& given, unsigned of) {
  if (of == kOfFeedForward) {
    FeedForwardQuestion question = question_of(chip, given.feed_forward);
    question.constraints = given.inference;
    return question;
  }
  if (of == kOfTraining) {
    return TrainingQuestion{chip, given.configuration, given.stack.value_or(Stack{}), given.training, given.granule};
  }
  return given.is_of_stack(of) ? Question(stack_question(chip, given.configuration, *given.stack, given.granule))
                               : RecurrentQuestion{chip, given.configuration, given.granule};
}

Json ask_stream(const Chip& chip, const Json& question, const Given& given) {
  constexpr std::array<std::string_view, 7> kKeys{"ask", "network", "layers", "input", "streams", "plan", "set"};
  constexpr std::array<std::string_view, 4> kNetworkKeys{"cell", "hidden", "batch", "precision"};
  const auto check_keys = [](const Json& object, std::span<const std::string_view> keys) {
    for (const auto& [name, value] : object.items()) {
      if (std::ranges::find(keys, name) == keys.end()) {
        throw InputError("question: '" + name + "' is not of a stream, which has " + joined(keys));
      }
    }
  };
  check_keys(question, kKeys);
  check_keys(question.value("network", Json::object()), kNetworkKeys);
  if (given.asked != "predict") {
    throw InputError("question: streams are of predict, not of " + in_quotes(given.asked));
  }
  const Recurrent& network = given.configuration.network;
  const Stack stack = given.stack.value_or(Stack{});
  const StreamSize size{.cell = network.cell,
                        .precision = network.precision,
                        .layers = stack.layers,
                        .input = stack.columns(network, 0),
                        .hidden = network.hidden,
                        .batch = network.batch,
                        .streams = given.streams};
  return to_json(predict(chip, size, given.stream_plan));
}

void check_question(const Given& given, unsigned of) {
  const std::string& asked = given.asked;
  if (given.is_backwards() && asked != "what_if") {
    throw InputError("question: target, vary and price are of what_if, not of " + in_quotes(asked));
  }
  if (of == kOfFeedForward) {
    return;
  }
  const bool has_plan = given.configuration.plan || given.training.plan;
  if ((asked == "predict" || asked == "rank" || has_plan) && given.configuration.network.hidden == 0) {
    throw InputError("how large is the network? expected a hidden size or a matrix");
  }
  check(given.configuration);
  if (of == kOfRecurrent && (asked == "fit" || asked == "what_if")) {
    check_is_on_chip(given.configuration.family());
  }
  if (given.is_of_stack(of) && given.configuration.network.density != 1) {
    throw InputError("question: a density " + std::string(kOneLayer));
  }
  if (given.stack && of == kOfRecurrent && asked == "rank") {
    throw InputError("question: layers, bidirectional and input are of predict, fit and what_if, not of 'rank'");
  }
}

// Whatever the workload.
template <typename Q>
Json answer_of(const Q& question, const Given& given) {
  if (given.asked == "fit") {
    return to_json(fit(question));
  }
  if (given.asked == "predict") {
    if constexpr (std::is_same_v<Q, RecurrentQuestion>) {
      if (given.stack) {
        return to_json(predict(question, *given.stack));
      }
    }
    return to_json(predict(question));
  }
  if (given.asked == "rank") {
    return to_json(rank(question));
  }
  if (given.asked == "what_if") {
    return given.is_backwards() ? to_json(reach(question, target_question(given.targets, given.vary, given.prices)))
                                : to_json(what_if(question, given.changes));
  }
  throw InputError("question: ask: found " + in_quotes(given.asked) +
                   ": expected fit, predict, rank, what_if, sweep or pareto");
}

}  // namespace

Json ask(const ChipFile& chip, std::string_view text, const SparseMatrix* weights) {
  const Json question = parse_json(text, "question");
  if (question.is_discarded()) {
    throw InputError("question: found " + in_quotes(text.substr(0, 40)) + ": expected JSON");
  }
  if (!question.is_object()) {
    throw InputError("question: question is no JSON object");
  }
  if (const Json asked = question.value("ask", Json()); asked == "sweep" || asked == "pareto") {
    if (weights != nullptr) {
      throw InputError("a sweep takes weights by their file: expected \"weights\": \"FILE\"");
    }
    return asked == "sweep" ? ask_sweep(chip, question) : ask_pareto(chip, question);
  }
  const unsigned of = workload_of(question);
  Given given = read_question(question, of);
  if (weights != nullptr) {
    if (of == kOfFeedForward) {
      throw InputError("question: a feed-forward network has its own weights: expected no matrix");
    }
    take_matrix(given.configuration, *weights);
  }
  ChipFile changed = chip;
  for (const std::string& change : given.changes) {
    set_chip_key(changed, change);
  }
  if (given.streams > 0) {
    return ask_stream(changed.chip, question, given);
  }
  check_question(given, of);
  const bool compares = given.asked == "what_if" && !given.is_backwards();
  return std::visit([&](const auto& one) { return answer_of(one, given); },
                    question_of(compares ? chip : changed, given, of));
}

}  // namespace onchip
