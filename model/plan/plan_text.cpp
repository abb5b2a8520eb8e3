// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan_text.hpp"

#include "model/base/number.hpp"

#include <array>
#include <utility>

namespace onchip {

std::string_view new_name(std::string_view old_name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kNames{{
      {"first_look", "poll_delay"},
      {"tail_chunks", "overflow_chunks"},
      {"longest_tail", "longest_overflow"},
      {"pieces", "row_splits"},
      {"piece_slots", "split_slots"},
      {"most_pieces", "most_splits"},
      {"piece_chunks", "split_chunks"},
      {"exchange_warps", "producer_warps"},
      {"teams", "batch_groups"},
      {"team", "sms"},
      {"groups", "batch_groups"},
      {"turns", "sub_batches"},
      {"opponents", "baselines"},
      {"wishes", "constraints"},
  }};
  const auto found = std::ranges::find(kNames, old_name, &std::pair<std::string_view, std::string_view>::first);
  return found == kNames.end() ? "" : found->second;
}

int parse_count(std::string_view text, std::string_view what) {
  if (const auto value = number_in<int>(text); value && *value >= 0) {
    return *value;
  }
  throw InputError("plan: '" + std::string(what) + "' expects a whole number, found '" + std::string(text) + "'");
}

std::vector<std::string_view> split_text(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (text[i] == between && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace onchip
