// SPDX-License-Identifier: Apache-2.0
#include "model/explore/keys.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"
#include "model/base/number.hpp"
#include "model/base/units.hpp"
#include "model/families/workload.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

Recurrent& network(Draft& draft) {
  return draft.configuration.network;
}

struct NetworkKey {
  std::string_view name;
  Subject subject;
  bool is_whole;
  double minimum, maximum;
  void (*apply)(Draft&, double);
  unsigned of = kOfBoth;
};
constexpr double kInt = 2147483647;
constexpr std::array kNetworkNumbers{
    NetworkKey{"hidden", Subject::weights, true, 1, kMaxHidden,
               [](Draft& draft, double value) { network(draft).hidden = static_cast<int>(value); }},
    NetworkKey{"batch", Subject::sequence, true, 1, kMaxBatch,
               [](Draft& draft, double value) { network(draft).batch = static_cast<int>(value); }},
    NetworkKey{"steps", Subject::sequence, true, 1, kInt,
               [](Draft& draft, double value) { network(draft).steps = static_cast<int>(value); }},
    NetworkKey{"density", Subject::weights, false, 1e-12, 1,
               [](Draft& draft, double value) { network(draft).density = value; }},
    NetworkKey{"seed", Subject::weights, true, 0, static_cast<double>(kMostSeed),
               [](Draft& draft, double value) { draft.configuration.seed = static_cast<std::uint64_t>(value); }},
    NetworkKey{"alive", Subject::weights, false, 1e-12, 1,
               [](Draft& draft, double value) { draft.feed_forward.images.alive = value; }, kOfFeedForward},
    NetworkKey{"sample", Subject::weights, true, 1, kInt,
               [](Draft& draft, double value) { draft.feed_forward.images.sample = static_cast<int>(value); },
               kOfFeedForward},
    NetworkKey{"gpus", Subject::sequence, true, 1, kMostGpus,
               [](Draft& draft, double value) { draft.feed_forward.gpus = static_cast<int>(value); }, kOfFeedForward},
    NetworkKey{"layers", Subject::sequence, true, 1, kMostLayers,
               [](Draft& draft, double value) { draft.stack.layers = static_cast<int>(value); }, kOfTraining},
    NetworkKey{"directions", Subject::sequence, true, 1, 2,
               [](Draft& draft, double value) { draft.stack.bidirectional = value == 2; }, kOfTraining},
    NetworkKey{"input", Subject::sequence, true, 1, kMaxHidden,
               [](Draft& draft, double value) { draft.stack.input = static_cast<int>(value); }, kOfTraining},
};

struct NameKey {
  std::string_view name;
  Subject subject;
  void (*apply)(Draft&, const std::string&);
  unsigned of = kOfBoth;
};

constexpr std::array kNames{
    NameKey{"chip", Subject::chip,
            [](Draft& draft, const std::string& name) { draft.base = &draft.chips->find(name)->second.chip; }, kOfAll},
    NameKey{"cell", Subject::weights,
            [](Draft& draft, const std::string& name) { network(draft).cell = parse_cell(name); }},
    NameKey{"precision", Subject::weights,
            [](Draft& draft, const std::string& name) { network(draft).precision = parse_precision(name); }},
    NameKey{"mask", Subject::weights,
            [](Draft& draft, const std::string& name) { draft.configuration.mask = parse_mask(name); }},
    NameKey{"weights", Subject::weights,
            [](Draft& draft, const std::string& name) { draft.configuration.weights_file = name; }},
    NameKey{"tensor", Subject::weights,
            [](Draft& draft, const std::string& name) { draft.configuration.tensor = name; }},
    NameKey{"network", Subject::weights,
            [](Draft& draft, const std::string& text) { draft.feed_forward.network = text; }, kOfFeedForward},
    NameKey{"images", Subject::weights,
            [](Draft& draft, const std::string& text) { draft.feed_forward.images.images = text; }, kOfFeedForward},
    NameKey{"mode", Subject::weights,
            [](Draft& draft, const std::string& name) {
              if (name != "train" && name != "inference") {
                throw InputError("found " + in_quotes(name) + ": expected inference or train");
              }
              draft.trains = name == "train";
            }},
    NameKey{"stash", Subject::plan,
            [](Draft& draft, const std::string& name) { draft.training.stash = parse_stash(name); }, kOfTraining},
    NameKey{"memory", Subject::plan,
            [](Draft& draft, const std::string& text) {
              draft.training.memory_bytes = parse_quantity(text, Dimension::bytes);
            },
            kOfTraining},
    NameKey{"plan", Subject::plan,
            [](Draft& draft, const std::string& text) {
              if (has_family<Training>(text)) {
                draft.training.plan = parse_plan_as<TrainingPlan>(text);
              } else {
                draft.configuration.plan = parse_plan_as<RecurrentPlan>(text);
              }
            }},
    NameKey{"family", Subject::plan,
            [](Draft& draft, const std::string& name) {
              if (has_family<Training>(name)) {
                draft.training.family = name;
              } else {
                draft.configuration.constraints.family = find_family(name).name;
              }
            }},
    NameKey{"tier", Subject::plan,
            [](Draft& draft, const std::string& name) { draft.configuration.constraints.tier = parse_tier(name); },
            kOfRecurrent},
};

bool is_fixable(std::string_view name) {
  return std::ranges::find(fixable_fields(), name, &FixableField::name) != fixable_fields().end();
}

// The names of all fields that some family's plan has.
template <typename... P>
std::vector<std::string_view> plan_fields(std::type_identity<std::variant<P...>>) {
  std::vector<std::string_view> names;
  const auto add = [&](const auto& table) {
    for (const auto& field : table) {
      if (!field.is_list()) {
        names.push_back(field.name);
      }
    }
  };
  (add(fields(P{})), ...);
  return names;
}

// Of a whole plan the field itself is changed, else the planner is bound, where it may be.
void set_plan_field(Draft& draft, std::string_view name, const std::string& text) {
  if (!draft.configuration.plan) {
    if (is_fixable(name)) {
      fix_field(draft.configuration.constraints, name, text);
    }
    return;
  }
  std::visit(
      [&]<typename P>(P& plan) {
        const auto table = fields(plan);
        const auto field = std::ranges::find(table, name, &Field<P>::name);
        if (field == table.end()) {
          throw InputError(std::string(P::kName) + " has no " + std::string(name));
        }
        const int value = field->is_number()
                              ? number_in<int>(text).value_or(-1)
                              : static_cast<int>(std::ranges::find(field->names, text) - field->names.begin());
        if (!field->allows(value)) {
          throw InputError(std::string(name) + ": found " + in_quotes(text) + ": expected " + expected_text(*field));
        }
        field->set(plan, value);
      },
      *draft.configuration.plan);
}

std::vector<std::string_view> sweep_key_names() {
  std::vector<std::string_view> names;
  for (const NetworkKey& key : kNetworkNumbers) {
    names.push_back(key.name);
  }
  for (const NameKey& key : kNames) {
    names.push_back(key.name);
  }
  std::ranges::copy(plan_fields(std::type_identity<RecurrentPlan>{}), std::back_inserter(names));
  std::ranges::copy(key_names(), std::back_inserter(names));
  return names;
}

bool is_one_of_chip(const Key& key) {
  return key.subject == Subject::chip && key.is_number;
}

}  // namespace

Draft::Draft(const Chips& all) : chips(&all) {
  for (int subject = 0; subject < kSubjects; ++subject) {
    reset(static_cast<Subject>(subject));
  }
}

void Draft::reset(Subject subject) {
  switch (subject) {
    case Subject::chip:
      changes.clear();
      break;
    case Subject::weights: {
      Recurrent fresh = kUsualNetwork;
      fresh.batch = configuration.network.batch;
      fresh.steps = configuration.network.steps;
      configuration.network = fresh;
      configuration.mask = MaskKind::uniform;
      configuration.seed = 1;
      configuration.weights = nullptr;
      configuration.weights_file.clear();
      configuration.tensor.clear();
      feed_forward = {{}, {}, feed_forward.gpus};
      trains = false;
      break;
    }
    case Subject::sequence:
      configuration.network.batch = kUsualNetwork.batch;
      configuration.network.steps = kUsualNetwork.steps;
      feed_forward.gpus = 1;
      stack = {};
      break;
    case Subject::plan:
      configuration.plan.reset();
      configuration.constraints = {};
      training = {};
      break;
  }
}

Key find_sweep_key(std::string_view name) {
  Key key{.name = std::string(name), .apply = {}};
  if (const auto number = std::ranges::find(kNetworkNumbers, name, &NetworkKey::name);
      number != kNetworkNumbers.end()) {
    key.subject = number->subject;
    key.is_number = true;
    key.is_whole = number->is_whole;
    key.minimum = number->minimum;
    key.maximum = number->maximum;
    key.of = number->of;
    key.apply = [apply = number->apply](Draft& draft, const KeyValue& value) { apply(draft, value.number); };
  } else if (const auto text = std::ranges::find(kNames, name, &NameKey::name); text != kNames.end()) {
    key.subject = text->subject;
    key.of = text->of;
    key.apply = [apply = text->apply](Draft& draft, const KeyValue& value) { apply(draft, value.text); };
  } else if (const auto all = plan_fields(std::type_identity<RecurrentPlan>{}); std::ranges::count(all, name) > 0) {
    key.subject = Subject::plan;
    key.of = kOfRecurrent;
    key.is_whole = true;
    key.needs_plan = !is_fixable(name);
    key.apply = [name = *std::ranges::find(all, name)](Draft& draft, const KeyValue& value) {
      set_plan_field(draft, name, value.text);
    };
  } else if (find_key(name) != nullptr || name.starts_with("cost.")) {
    const ChipChange change = parse_chip_change(std::string(name) + "=+0%");
    key.chip_key = change.key;
    key.is_number = true;
    key.is_whole = change.key != nullptr && change.key->integral;
    key.apply = [change](Draft& draft, const KeyValue& value) {
      draft.changes.push_back({change.key, change.cost, value.is_factor, value.number});
    };
  } else {
    throw InputError("unknown key " + in_quotes(name) + did_you_mean(name, sweep_key_names()));
  }
  return key;
}

double read_number(const Key& key, const std::string& text) {
  if (is_one_of_chip(key)) {
    return parse_quantity(text, key.chip_key ? key.chip_key->dimension : Dimension::count);
  }
  if (key.name == "alive" && text == "all") {
    return 1;
  }
  std::string_view digits = text;
  const bool is_percent = key.maximum == 1 && digits.ends_with('%');
  digits.remove_suffix(is_percent ? 1 : 0);
  const auto number = number_in<double>(digits);
  if (!number) {
    throw InputError("found " + in_quotes(text) + ": expected a number");
  }
  return is_percent ? *number / 100 : *number;
}

KeyValue value_of(const Key& key, double number) {
  if (key.is_whole && std::trunc(number) != number) {
    throw InputError("found " + format_number(number) + ": expected a whole number");
  }
  if (key.chip_key != nullptr) {
    if (const std::string problem = number_problem(*key.chip_key, number); !problem.empty()) {
      throw InputError("it " + problem);
    }
  } else if (key.is_number && key.subject != Subject::chip && !(number >= key.minimum && number <= key.maximum)) {
    throw InputError("found " + format_number(number) + ": expected " +
                     (key.is_whole ? "a whole number from " + format_number(key.minimum) + " to " : "above 0 up to ") +
                     format_number(key.maximum));
  }
  return {format_number(number), number, false};
}

KeyValue read_value(const Key& key, const std::string& text) {
  if (is_one_of_chip(key)) {
    const ChipChange change = parse_chip_change(key.name + "=" + text);
    return change.is_factor ? KeyValue{"", change.value, true} : value_of(key, change.value);
  }
  return key.is_number ? value_of(key, read_number(key, text)) : KeyValue{text, 0, false};
}

}  // namespace onchip
