// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/feed_forward_plan.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace onchip {

std::string_view family_name(const FeedForwardPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kName; }, plan);
}

std::string library_call(const FeedForwardPlan& plan) {
  return std::visit(
      []<typename P>(const P& of_family) -> std::string {
        if constexpr (OfLibrary<P>) {
          return library_call(of_family) + std::string(dead_images_text(of_family.dead));
        } else {
          return "";
        }
      },
      plan);
}

std::optional<FeedForwardPlan> plan_of_library_call(std::string_view call) {
  std::optional<FeedForwardPlan> found;
  const auto look = [&](const auto& plans) {
    for (const auto& plan : plans) {
      if (library_call(FeedForwardPlan(plan)) == call) {
        found = plan;
      }
    }
  };
  look(plans_of_library<CublasLayersPlan>());
  look(plans_of_library<CusparseLayersPlan>());
  return found;
}

bool is_on_chip(const FeedForwardPlan& plan) {
  return std::visit([](const auto& of_family) { return of_family.kIsOnChip; }, plan);
}

std::string_view values_read(const FeedForwardPlan& plan) {
  return std::visit(
      []<typename P>(const P& of_family) -> std::string_view {
        if constexpr (std::is_base_of_v<BlocksPlan, P>) {
          return weight_class(of_family.weight_bytes);
        } else {
          return std::is_same_v<P, StreamedPlan> ? weight_class(BlocksPlan().weight_bytes) : "one per weight";
        }
      },
      plan);
}

std::string to_string(const FeedForwardPlan& plan) {
  return plan_text_of(plan);
}

FeedForwardPlan parse_feed_forward_plan(std::string_view text) {
  if (text.starts_with("warps=")) {
    throw InputError("plan: found '" + std::string(text) + "': expected the family first, 'blocks " +
                     std::string(text) + "'");
  }
  if (const std::size_t order = text.find(" order="); order != std::string_view::npos) {
    const std::string_view word = text.substr(order + 1, text.find(' ', order + 1) - order - 1);
    throw InputError("plan: found '" + std::string(word) + "': expected the name alone, '" +
                     std::string(word.substr(word.find('=') + 1)) + "'");
  }
  return parse_plan_of(std::type_identity<FeedForwardPlan>{}, text);
}

void check_plan(const FeedForward& network, const FeedForwardPlan& plan) {
  std::visit(
      [&](const auto& of_family) {
        check_ranges(of_family);
        check(network, of_family);
      },
      plan);
}

std::vector<int> end_layers(const FeedForwardPlan& plan) {
  return std::visit(
      []<typename P>(const P& of_family) {
        std::vector<int> ends;
        if constexpr (requires { of_family.phases; }) {
          std::ranges::transform(of_family.phases, std::back_inserter(ends),
                                 [](const auto& phase) { return phase.end_layer; });
        } else if constexpr (std::is_same_v<P, StreamedPlan>) {
          ends = of_family.end_layers;
        }
        return ends;
      },
      plan);
}

}  // namespace onchip
