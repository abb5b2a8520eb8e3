// SPDX-License-Identifier: Apache-2.0
// A row's numbers by name, and expressions over them (muParser): + - * / ^, < <= == != >= > && || ?:, min, max, sqrt,
// log, exp and so on.
#pragma once

#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/answer/training/training.hpp"
#include "model/plan/planner.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// What a row tells; its numbers are NaN where nothing is known, e.g. times of what does not fit.
struct Answered {
  const Chip* chip = nullptr;
  const Recurrent* network = nullptr;
  double seed = 0;
  const Plan* plan = nullptr;  // null: none answers
  const Prediction* prediction = nullptr;
  const FeedForwardAnswer* inference = nullptr;  // of a feed-forward network, instead of a plan and its prediction
  const TrainingCase* training = nullptr;        // instead of a plan; its prediction is there
};

using Number_of = std::function<double(const Answered&)>;

// By name: every number of the chip ("sm.count"), of the network ("hidden"), of the plan ("threads"), and of the answer
// ("step_us", "gather_us", "registers_used"). Throws InputError with the nearest name.
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
