// SPDX-License-Identifier: Apache-2.0
// A case as reports show it, whatever its workload.
#pragma once

#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/answer/training/training.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct ShownNumber {
  std::string name, text;
  double number = 0;  // of which changes are said; 0: none
};

struct Shown {
  std::string title;                            // "relu H=2304 B=4 30 % fp16 on H200"
  std::string_view what = "step", unit = "us";  // what the time is of, and its unit
  PlanTime time = {};
  double low_us = 0, high_us = 0;
  std::string says = {};          // its time, or why it does not fit
  std::string_view binding = {};  // "" where nothing fits
  Terms terms = {};
  int hidden = 0;  // 0 of networks without a size of their own
  std::vector<ShownNumber> more = {};
  std::vector<std::string> cells = {};  // of CSV

  std::string number(double us) const;  // in the unit
};
Shown shown(const RecurrentCase& answer);
Shown shown(const FeedForwardCase& answer);
Shown shown(const TrainingCase& answer);
// With its cells of CSV, and their columns.
template <typename C>
Shown shown_whole(const C& answer) {
  Shown whole = shown(answer);
  whole.cells = columns_of(answer).cells(answer);
  return whole;
}
template <typename C>
std::vector<std::string> csv_columns(const C& answer) {
  return columns_of(answer).table(std::span(&answer, 1)).columns;
}

// "1.93 us (95 %: 1.80 to 2.10)"
std::string time_text(double us, double low_us, double high_us);
inline std::string time_text(const Prediction& prediction) {
  return time_text(prediction.step_us, prediction.low_us, prediction.high_us);
}
std::string bar(double share);  // in 40 characters
// "" for none. `where`: ", in blocks"
std::string remedies_text(const std::vector<Remedy>& remedies, const std::string& where = "");
std::string ms(double us);  // in milliseconds, with as many digits as it is known to

}  // namespace onchip
