// SPDX-License-Identifier: Apache-2.0
// A row's numbers by name, and expressions over them (muParser): + - * / ^, < <= == != >= > && || ?:, min, max, sqrt,
// log, exp and so on.
#pragma once

#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/answer/training/training.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace onchip {

// A step of a recurrent network. Where none answers there is neither plan nor prediction.
struct SweptStep {
  const Recurrent* network = nullptr;
  double seed = 0;
  const RecurrentPlan* plan = nullptr;
  const Prediction* prediction = nullptr;
};
// A training of a recurrent network: it has its plan in the case.
struct SweptTraining : SweptStep {
  const TrainingCase* training = nullptr;  // null where there is none, e.g. for a network that cannot be trained
};
// An inference of a feed-forward network; null: none answers.
struct SweptInference {
  const FeedForwardCase* answer = nullptr;
};

// What a row tells, of whatever it is.
struct Answered {
  const Chip* chip = nullptr;
  std::variant<SweptStep, SweptInference, SweptTraining> of = {};
};
bool fits(const Answered& row);
bool runs(const Answered& row);
std::string_view tier(const Answered& row);     // "" of what has none
std::string_view binding(const Answered& row);  // "" where none answers
std::string plan_text(const Answered& row);

using Number_of = std::function<double(const Answered&)>;

// A number by its name: NaN where it is not known, e.g. times of what does not fit, and numbers of other workloads.
// Names are of every number of the chip ("sm.count"), of the network ("hidden"), of the plan ("threads"), and of the
// answer
// ("step_us", "gather_us", "registers_used"). Throws
// InputError with the nearest name.
Number_of find_number(std::string_view name);

class Expression {
 public:
  // Throws InputError "WHERE: column N: ...". `where` is what the user calls it: "--where". `find` knows the names.
  Expression(std::string where, std::string text, const std::function<Number_of(std::string_view)>& find = find_number);
  ~Expression();
  Expression(Expression&&) noexcept;

  // NaN where a number it needs is not known. Throws InputError where it divides by zero, or leaves the numbers in
  // another way.
  double operator()(const Answered& row);

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace onchip
