// SPDX-License-Identifier: Apache-2.0
#include "model/explore/expression.hpp"

#include "model/base/error.hpp"

#include <muParser.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

namespace onchip {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// A number of what a row is of.
template <typename Of>
struct NamedNumber {
  std::string_view name;
  double (*of)(const Of&);
};
constexpr std::array kNumbers{
    NamedNumber<SweptStep>{"hidden", [](const SweptStep& step) { return double(step.network->hidden); }},
    NamedNumber<SweptStep>{"batch", [](const SweptStep& step) { return double(step.network->batch); }},
    NamedNumber<SweptStep>{"steps", [](const SweptStep& step) { return double(step.network->steps); }},
    NamedNumber<SweptStep>{"density", [](const SweptStep& step) { return step.network->density; }},
    NamedNumber<SweptStep>{"gates", [](const SweptStep& step) { return double(info(step.network->cell).gates); }},
    NamedNumber<SweptStep>{"weight_bits",
                           [](const SweptStep& step) { return double(info(step.network->precision).weight_bits); }},
    NamedNumber<SweptStep>{"seed", [](const SweptStep& step) { return step.seed; }},
};

double known(double floor) {
  return floor > 0 ? floor : kUnknown;
}
// Of what fits.
constexpr std::array kTimes{
    NamedNumber<Prediction>{"step_us", [](const Prediction& prediction) { return prediction.step_us; }},
    NamedNumber<Prediction>{"low_us", [](const Prediction& prediction) { return prediction.low_us; }},
    NamedNumber<Prediction>{"high_us", [](const Prediction& prediction) { return prediction.high_us; }},
    NamedNumber<Prediction>{"floor_us", [](const Prediction& prediction) { return known(prediction.floor_us); }},
};
// Of a training that has a plan.
constexpr std::array kTraining{
    NamedNumber<TrainingCase>{"layers", [](const TrainingCase& of) { return double(of.training.stack.layers); }},
    NamedNumber<TrainingCase>{"directions",
                              [](const TrainingCase& of) { return double(of.training.stack.directions()); }},
    NamedNumber<TrainingCase>{"us", [](const TrainingCase& of) { return of.planned->prediction.iteration.us; }},
    NamedNumber<TrainingCase>{"stash_bytes",
                              [](const TrainingCase& of) { return double(of.planned->prediction.memory.stash_bytes); }},
    NamedNumber<TrainingCase>{
        "workspace_bytes",
        [](const TrainingCase& of) { return double(of.planned->prediction.memory.workspace_bytes); }},
    NamedNumber<TrainingCase>{"peak_bytes",
                              [](const TrainingCase& of) { return double(of.planned->prediction.memory.peak_bytes); }},
};
// Of an inference that runs.
using Inference = FeedForwardCase;
constexpr std::array kInference{
    NamedNumber<Inference>{"ms", [](const Inference& inference) { return 1e-3 * inference.price.us; }},
    NamedNumber<Inference>{"low_ms", [](const Inference& inference) { return 1e-3 * inference.price.low_us; }},
    NamedNumber<Inference>{"high_ms", [](const Inference& inference) { return 1e-3 * inference.price.high_us; }},
    NamedNumber<Inference>{"floor_ms",
                           [](const Inference& inference) { return 1e-3 * known(inference.price.floor_us); }},
    NamedNumber<Inference>{"gpus", [](const Inference& inference) { return double(inference.gpus); }},
    NamedNumber<Inference>{"images_per_sm", [](const Inference& inference) { return double(inference.images_per_sm); }},
    NamedNumber<Inference>{"tera_edges_per_s", [](const Inference& inference) { return inference.tera_edges_per_s; }},
    NamedNumber<Inference>{"tera_macs_per_s", [](const Inference& inference) { return inference.tera_macs_per_s; }},
};
// Parts of a step, the model's and the simulator's.
constexpr std::array<std::string_view, 13> kTerms{"exchange",   "staging",    "gather", "arithmetic",    "reduction",
                                                  "activation", "streaming",  "launch", "shared_memory", "issue",
                                                  "barrier",    "scoreboard", "skew"};

const TrainingCase* training_of(const Answered& row) {
  const auto* training = std::get_if<SweptTraining>(&row.of);
  return training != nullptr && training->training != nullptr && training->training->planned ? training->training
                                                                                             : nullptr;
}
// Of a recurrent network, whether it is trained or not.
const SweptStep* step_of(const Answered& row) {
  const auto* step = std::get_if<SweptStep>(&row.of);
  return step != nullptr ? step : std::get_if<SweptTraining>(&row.of);
}
const Prediction* prediction_of(const Answered& row) {
  const SweptStep* step = step_of(row);
  return step != nullptr ? step->prediction : nullptr;
}

const RecurrentPlan* plan_of(const Answered& row) {
  const auto* step = std::get_if<SweptStep>(&row.of);
  return step != nullptr ? step->plan : nullptr;
}

// A number of a family's plan; of plans without it 0.
Number_of plan_number(std::string_view name) {
  return [name](const Answered& row) {
    const RecurrentPlan* of_row = plan_of(row);
    if (of_row == nullptr) {
      return kUnknown;
    }
    return std::visit(
        [&](const auto& plan) {
          for (const auto& field : fields(plan)) {
            if (field.is_number() && field.name == name) {
              return static_cast<double>(field.get(plan));
            }
          }
          return 0.0;
        },
        *of_row);
  };
}

const FeedForwardCase* inference_of(const Answered& row) {
  const auto* inference = std::get_if<SweptInference>(&row.of);
  return inference != nullptr ? inference->answer : nullptr;
}

template <typename Of>
Number_of of_step(Of of) {
  return [of](const Answered& row) {
    const SweptStep* step = step_of(row);
    return step != nullptr ? of(*step) : kUnknown;
  };
}
template <typename Of>
Number_of of_what_fits(Of of) {
  return [of](const Answered& row) {
    const Prediction* prediction = prediction_of(row);
    return prediction != nullptr && prediction->footprint.fits ? of(*prediction) : kUnknown;
  };
}
template <typename Of>
Number_of of_what_runs(Of of) {
  return [of](const Answered& row) {
    const FeedForwardCase* inference = inference_of(row);
    return inference != nullptr && inference->runs() ? of(*inference) : kUnknown;
  };
}

}  // namespace

bool runs(const Answered& row) {
  const Prediction* prediction = prediction_of(row);
  const FeedForwardCase* inference = inference_of(row);
  return prediction != nullptr ? prediction->footprint.fits : inference != nullptr && inference->runs();
}

bool fits(const Answered& row) {
  const RecurrentPlan* plan = plan_of(row);
  const FeedForwardCase* inference = inference_of(row);
  return inference != nullptr ? inference->fits() : runs(row) && (plan == nullptr || keeps_weights(*plan));
}

std::string_view tier(const Answered& row) {
  const RecurrentPlan* plan = plan_of(row);
  return plan != nullptr && is_on_chip(*plan) ? name(tier_of(*plan)) : "";
}

std::string_view binding(const Answered& row) {
  const Prediction* prediction = prediction_of(row);
  const FeedForwardCase* inference = inference_of(row);
  return prediction != nullptr  ? binding_name(*prediction, Binding::term)
         : inference != nullptr ? inference->price.binding()
                                : "";
}

std::string plan_text(const Answered& row) {
  if (const RecurrentPlan* plan = plan_of(row)) {
    return to_string(*plan);
  }
  if (const TrainingCase* training = training_of(row)) {
    return to_string(training->planned->plan);
  }
  const FeedForwardCase* inference = inference_of(row);
  return inference != nullptr ? inference->plan_text() : "";
}

namespace {

// All names; of equal ones the first.
using Numbers = std::map<std::string, Number_of, std::less<>>;

template <typename... P>
void add_plan_numbers(Numbers& all, std::type_identity<std::variant<P...>>) {
  const auto add = [&](const auto& table) {
    for (const auto& field : table) {
      if (field.is_number()) {
        all.emplace(field.name, plan_number(field.name));
      }
    }
  };
  (add(fields(P{})), ...);
}

Numbers make_numbers() {
  Numbers all;
  all.emplace("fits", [](const Answered& row) { return fits(row) ? 1.0 : 0.0; });
  all.emplace("runs", [](const Answered& row) { return runs(row) ? 1.0 : 0.0; });
  all.emplace("tier", [](const Answered& row) {  // those further from the registers are larger
    const auto found = std::ranges::find(kTierNames, tier(row));
    return found != kTierNames.end() ? static_cast<double>(found - kTierNames.begin()) : kUnknown;
  });
  for (std::size_t i = 0; i < kTierNames.size(); ++i) {
    all.emplace(kTierNames[i], [i](const Answered&) { return static_cast<double>(i); });
  }
  for (const auto& number : kNumbers) {
    all.emplace(number.name, of_step(number.of));
  }
  for (const auto& time : kTimes) {
    all.emplace(time.name, of_what_fits(time.of));
  }
  for (const auto& number : kTraining) {
    all.emplace(number.name, [of = number.of](const Answered& row) {
      const TrainingCase* training = training_of(row);
      return training != nullptr ? of(*training) : kUnknown;
    });
  }
  for (const auto& number : kInference) {
    all.emplace(number.name, of_what_runs(number.of));
  }
  const auto add_term = [&](std::string_view term) {
    all.emplace(std::string(term) + "_us",
                of_what_fits([term](const Prediction& prediction) { return prediction.terms[term]; }));
  };
  std::ranges::for_each(kPhaseNames, add_term);
  std::ranges::for_each(kTerms, add_term);
  for (const std::string_view term : price_parts::kPartNames) {
    all.emplace(std::string(term) + "_ms",
                of_what_runs([term](const FeedForwardCase& inference) { return 1e-3 * inference.price.terms[term]; }));
  }
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const auto add = [&](const char* what, double ResourceUse::*number) {
      all.emplace(std::string(kResources[i].name) + what, [i, number](const Answered& row) {
        const Prediction* prediction = prediction_of(row);
        return prediction != nullptr ? prediction->footprint.resources[i].*number : kUnknown;
      });
    };
    add("_used", &ResourceUse::used);
    add("_available", &ResourceUse::available);
  }
  for (const ChipKey& key : chip_keys()) {
    all.emplace(key.key, [member = key.member](const Answered& row) { return (row.chip->*member).value; });
  }
  add_plan_numbers(all, std::type_identity<RecurrentPlan>{});
  return all;
}

}  // namespace

Number_of find_number(std::string_view name) {
  static const Numbers kAll = make_numbers();
  if (const auto found = kAll.find(name); found != kAll.end()) {
    return found->second;
  }
  std::vector<std::string_view> names;
  std::ranges::transform(kAll, std::back_inserter(names), [](const auto& one) { return std::string_view(one.first); });
  throw InputError("unknown name " + in_quotes(name) + did_you_mean(name, names));
}

// The parser refers to the values, so both stay where they are.
struct Expression::Parsed {
  struct Variable {
    Number_of of;
    double value = 0;
  };
  std::string where, text;
  mu::Parser parser;
  std::vector<std::unique_ptr<Variable>> variables;

  [[noreturn]] void fail(std::size_t place, const std::string& what) const {
    throw InputError(where + ": column " + std::to_string(place + 1) + " of " + in_quotes(text) + ": " + what);
  }
};

Expression::Expression(std::string where, std::string text, const std::function<Number_of(std::string_view)>& find)
    : parsed_(std::make_unique<Parsed>(Parsed{std::move(where), std::move(text), {}, {}})) {
  Parsed& parsed = *parsed_;
  const std::string_view given = parsed.text;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kNameParts = "0123456789_.";
  if (const std::size_t place = given.find_first_of("\"\\#;`$\n"); place != std::string_view::npos) {
    parsed.fail(place, "found " + in_quotes(given.substr(place, 1)) + ": expected numbers, names and operators");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_comparison = i > 0 && std::string_view("=<>!").find(given[i - 1]) != std::string_view::npos;
    if (given[i] == '=' && !is_comparison && (i + 1 == given.size() || given[i + 1] != '=')) {
      parsed.fail(i, "found '=': equal is '=='");
    }
  }
  // Names as they stand in files, with dots: muParser takes digits from what begins a number before it takes a name.
  const auto is_name = [&](char c) {
    return kLetters.find(c) != std::string_view::npos || kNameParts.find(c) != std::string_view::npos;
  };
  parsed.parser.DefineNameChars((std::string(kNameParts) + std::string(kLetters)).c_str());
  for (std::size_t begin = 0; begin < given.size();) {
    if (kLetters.find(given[begin]) == std::string_view::npos && given[begin] != '_') {
      // The exponent of a number is no name.
      const bool is_digit = given[begin] >= '0' && given[begin] <= '9';
      ++begin;
      while (is_digit && begin < given.size() && is_name(given[begin])) {
        ++begin;
      }
      continue;
    }
    std::size_t end = begin;
    while (end < given.size() && is_name(given[end])) {
      ++end;
    }
    const std::string name(given.substr(begin, end - begin));
    const std::size_t next = std::min(given.find_first_not_of(' ', end), given.size());
    const bool is_function = next < given.size() && given[next] == '(';
    if (!is_function && !parsed.parser.GetVar().contains(name) && !name.starts_with("_")) {
      try {
        auto variable = std::make_unique<Parsed::Variable>(Parsed::Variable{find(name), 0});
        parsed.parser.DefineVar(name, &variable->value);
        parsed.variables.push_back(std::move(variable));
      } catch (const InputError& error) {
        parsed.fail(begin, error.what());
      }
    }
    begin = end;
  }
  try {
    parsed.parser.SetExpr(parsed.text);
    parsed.parser.Eval();
  } catch (const mu::Parser::exception_type& error) {
    std::string what = error.GetMsg();  // "Unexpected end of expression at position 10"
    what = what.substr(0, std::min({what.find('\n'), what.find(" found at position"), what.find(" at position")}));
    what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
    const int place = error.GetPos();
    parsed.fail(place < 0 ? 0 : std::min(static_cast<std::size_t>(place), given.size()), what);
  }
}

Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;

double Expression::operator()(const Answered& row) {
  bool all_known = true;
  for (const auto& variable : parsed_->variables) {
    variable->value = variable->of(row);
    all_known &= !std::isnan(variable->value);
  }
  const double value = parsed_->parser.Eval();
  if (all_known && !std::isfinite(value)) {
    throw InputError(parsed_->where + ": " + in_quotes(parsed_->text) + " is " +
                     (std::isnan(value) ? "no number" : "infinite") + ": it divides by zero, or leaves the numbers");
  }
  return std::isfinite(value) ? value : kUnknown;
}

}  // namespace onchip
