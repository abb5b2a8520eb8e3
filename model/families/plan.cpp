// SPDX-License-Identifier: Apache-2.0
#include "model/families/plan.hpp"

#include "model/dense/family.hpp"
#include "model/library/family.hpp"
#include "model/plan/plan_text.hpp"
#include "model/plan/require.hpp"
#include "model/plan/search.hpp"
#include "model/sparse/family.hpp"
#include "model/training/recurrence_family.hpp"

#include <array>

namespace onchip {
namespace {

template <typename P>
constexpr FamilyInfo info_of() {
  if constexpr (requires { P::kComputes; }) {
    return {P::kName, P::kIsOnChip, P::kComputes};
  } else {
    return {P::kName, P::kIsOnChip};
  }
}
template <typename... P>
constexpr std::array<FamilyInfo, sizeof...(P)> infos(std::type_identity<std::variant<P...>>) {
  return {{info_of<P>()...}};
}
constexpr auto kFamilies = infos(std::type_identity<RecurrentPlan>{});

}  // namespace

std::span<const FamilyInfo> families() {
  return kFamilies;
}

std::string_view family_name(const RecurrentPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kName; }, plan);
}

bool is_on_chip(const RecurrentPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kIsOnChip; }, plan);
}

Tier tier_of(const RecurrentPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.tier(); }, plan);
}

double streamed_share(const Recurrent& network, const RecurrentPlan& plan) {
  return std::visit(
      [&](const auto& of_family) {
        if constexpr (requires { geometry(network, of_family).streamed_share(); }) {
          return geometry(network, of_family).streamed_share();
        } else {
          return 0.0;
        }
      },
      plan);
}

std::string to_string(const RecurrentPlan& plan) {
  return plan_text_of(plan);
}

RecurrentPlan parse_recurrent_plan(std::string_view text) {
  return parse_plan_of(std::type_identity<RecurrentPlan>{}, text);
}

void check_plan(const Recurrent& network, const RecurrentPlan& plan) {
  std::visit(
      [&](const auto& of_family) {
        const std::string beyond = beyond_limits(network, of_family);
        require(beyond.empty(), "another family: " + std::string(of_family.kName) + " " + beyond);
        check_ranges(of_family);
        check(network, of_family);
      },
      plan);
}

void check_rows(const Recurrent& network, const RecurrentPlan& plan, const RowProfile& rows) {
  std::visit([&](const auto& of_family) { check_rows(network, of_family, rows); }, plan);
}

Footprint footprint(const Chip& chip, const Recurrent& network, const RecurrentPlan& plan) {
  return std::visit([&](const auto& of_family) { return footprint(chip, geometry(network, of_family)); }, plan);
}

Prediction predict(const Chip& chip, const Recurrent& network, const RecurrentPlan& plan) {
  return std::visit([&](const auto& of_family) { return predict_one(chip, network, of_family); }, plan);
}

}  // namespace onchip
