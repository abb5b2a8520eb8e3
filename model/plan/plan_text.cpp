// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan_text.hpp"

#include <array>
#include <utility>

namespace onchip {

std::string_view new_name(std::string_view old_name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kNames{{
      {"first_look", "poll_delay"},
      {"tail_chunks", "overflow_chunks"},
      {"longest_tail", "longest_overflow"},
      {"pieces", "row_splits"},
      {"piece_slots", "split_slots"},
      {"most_pieces", "most_splits"},
      {"piece_chunks", "split_chunks"},
      {"exchange_warps", "producer_warps"},
      {"teams", "batch_groups"},
      {"opponents", "baselines"},
      {"wishes", "constraints"},
  }};
  const auto found = std::ranges::find(kNames, old_name, &std::pair<std::string_view, std::string_view>::first);
  return found == kNames.end() ? "" : found->second;
}

}  // namespace onchip
