// SPDX-License-Identifier: Apache-2.0
// Plans as text.
#include "model/base/error.hpp"
#include "model/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace onchip {

namespace {

struct PlanField {
  std::string_view name;
  int Plan::*member;
  bool sparse = true, dense = false;  // of which family
};
// Between lanes_per_row and tile_rows stand the slots.
constexpr PlanField kPlanFields[] = {
    {"sms", &Plan::sms, true, true},
    {"threads", &Plan::threads, true, true},
    {"lanes_per_row", &Plan::lanes_per_row},
    {"tile_rows", &Plan::tile_rows},
    {"pass_planes", &Plan::pass_planes},
    {"batch_padded", &Plan::batch_padded, true, true},
    {"load_bytes", &Plan::load_bytes},
    {"loads_in_flight", &Plan::loads_in_flight, true, true},
    {"line_words", &Plan::line_words, true, true},
    {"first_look", &Plan::first_look, true, true},
    {"promote_every", &Plan::promote_every},
    {"tail_chunks", &Plan::tail_chunks},
    {"longest_tail", &Plan::longest_tail},
    {"shared_chunks", &Plan::shared_chunks},
    {"chunks_in_flight", &Plan::chunks_in_flight},
    {"ring_chunks", &Plan::ring_chunks},
    {"pieces", &Plan::pieces},
    {"piece_slots", &Plan::piece_slots},
    {"most_pieces", &Plan::most_pieces},
    {"row_chunks", &Plan::row_chunks},
    {"piece_chunks", &Plan::piece_chunks},
    {"exchange_warps", &Plan::exchange_warps},
    {"shared_tiles", &Plan::shared_tiles, false, true},
    {"bank_words", &Plan::bank_words, false, true},
    {"teams", &Plan::teams, false, true},
};

// Fields that few plans have.
constexpr std::array kLeftOutIfZero{&Plan::first_look, &Plan::pieces,       &Plan::piece_slots, &Plan::most_pieces,
                                    &Plan::row_chunks, &Plan::piece_chunks, &Plan::bank_words,  &Plan::exchange_warps};

}  // namespace

std::string to_string(const Plan& plan) {
  if (is_library(plan.family)) {
    return std::string(name(plan.family));
  }
  std::ostringstream text;
  const bool is_dense = plan.family == Family::dense_persistent;
  text << name(plan.family) << ' ' << name(plan.storage) << ' ' << name(plan.order) << ' ' << name(plan.exchange);
  for (const PlanField& field : kPlanFields) {
    const bool is_usual =
        field.member == &Plan::line_words
            ? plan.line_words == kLineWords
            : std::ranges::find(kLeftOutIfZero, field.member) != kLeftOutIfZero.end() && plan.*field.member == 0;
    if ((is_dense ? field.dense : field.sparse) && !is_usual) {
      text << ' ' << field.name << '=' << plan.*field.member;
    }
    if (field.member == &Plan::lanes_per_row && !is_dense) {
      text << " slots=";
      for (int r = 0; r < plan.rows_per_group; ++r) {
        text << (r ? "/" : "") << plan.slots[r];
      }
    }
  }
  return text.str();
}

namespace {

int parse_count(std::string_view text, std::string_view what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw InputError("plan: '" + std::string(what) + "' expects a whole number, found '" + std::string(text) + "'");
  }
  return value;
}

template <typename Enum, std::size_t N>
bool parse_name(std::string_view word, const std::array<std::string_view, N>& names, Enum& result) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) {
    return false;
  }
  result = static_cast<Enum>(found - names.begin());
  return true;
}

}  // namespace

Plan parse_plan(std::string_view text) {
  Plan plan;
  plan.rows_per_group = 0;
  std::optional<Storage> storage;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (parse_name(word, kStorageNames, plan.storage)) {
        storage = plan.storage;
      } else if (!parse_name(word, kFamilyNames, plan.family) && !parse_name(word, kRowOrderNames, plan.order) &&
                 !parse_name(word, kExchangeNames, plan.exchange)) {
        throw InputError("plan: unknown word '" + word + "'");
      }
      continue;
    }
    const std::string_view key = std::string_view(word).substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    if (key == "slots") {
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find('/', begin), value.size());
        if (plan.rows_per_group == kMaxRowsPerGroup) {
          throw InputError("plan: more than " + std::to_string(kMaxRowsPerGroup) + " rows per group");
        }
        plan.slots[plan.rows_per_group++] = parse_count(value.substr(begin, end - begin), key);
        begin = end + 1;
      }
    } else {
      const auto* field = std::find_if(std::begin(kPlanFields), std::end(kPlanFields),
                                       [&](const PlanField& f) { return f.name == key; });
      if (field == std::end(kPlanFields)) {
        std::vector<std::string_view> names{"slots"};
        std::transform(std::begin(kPlanFields), std::end(kPlanFields), std::back_inserter(names),
                       [](const PlanField& f) { return f.name; });
        throw InputError("plan: unknown key '" + std::string(key) + "'" + did_you_mean(key, names));
      }
      plan.*field->member = parse_count(value, key);
    }
  }
  plan.storage = storage.value_or(plan.family == Family::dense_persistent ? Storage::dense : Plan{}.storage);
  return plan;
}

}  // namespace onchip
