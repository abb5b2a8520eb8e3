// SPDX-License-Identifier: Apache-2.0
// Plans of training recurrences as words, "turns=2 warps=16": a table of names and fields says which.
#pragma once

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {

template <typename Plan, std::size_t kCount>
using PlanWords = std::array<std::pair<std::string_view, int Plan::*>, kCount>;

template <typename Plan, std::size_t kCount>
std::string words_of(const Plan& plan, const PlanWords<Plan, kCount>& fields) {
  std::string words;
  for (const auto& [name, field] : fields) {
    words += (words.empty() ? "" : " ") + std::string(name) + "=" + std::to_string(plan.*field);
  }
  return words;
}

// The plan with these fields. Throws InputError for a word that is none of them, or whose value is no number.
template <typename Plan, std::size_t kCount>
Plan with_words(Plan plan, const std::string& words, const PlanWords<Plan, kCount>& fields) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto field =
        std::ranges::find(fields, std::string_view(word).substr(0, equals), [](const auto& of) { return of.first; });
    const std::string value = word.substr(std::min(equals + 1, word.size()));
    if (field == fields.end() || value.empty() || value.size() > 6 ||
        !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
      throw InputError("the plan has no '" + word + "'; it has " + words_of(plan, fields));
    }
    plan.*field->second = std::stoi(value);
  }
  return plan;
}

}  // namespace onchip
