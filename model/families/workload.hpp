// SPDX-License-Identifier: Apache-2.0
// What is to be computed, and the plans that map it on a chip, of all workloads and families.
#pragma once

#include "model/base/error.hpp"
#include "model/families/plan.hpp"
#include "model/feed_forward/plan/feed_forward_plan.hpp"
#include "model/training/training_plan.hpp"

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace onchip {

using Workload = std::variant<Recurrent, FeedForward, Training>;

namespace detail {
template <typename... Variants>
struct Joined;
template <typename... A, typename... B, typename... C>
struct Joined<std::variant<A...>, std::variant<B...>, std::variant<C...>> {
  using type = std::variant<A..., B..., C...>;
};
}  // namespace detail

// Each family's P::Workload says what its plans map.
using Plan = detail::Joined<RecurrentPlan, FeedForwardPlan, TrainingPlan>::type;

// What every family has, of whatever workload; a workload's own concept asks for more (model/plan/family.hpp).
template <typename P>
concept AnyFamily = requires(const P& plan) {
  requires std::constructible_from<Workload, typename P::Workload>;
  { P::kName } -> std::convertible_to<std::string_view>;
  { P::kIsOnChip } -> std::convertible_to<bool>;
  { fields(plan) } -> std::same_as<std::span<const Field<P>>>;
};

// As a workload is called where a plan is of another.
template <typename W>
inline constexpr std::string_view kWorkloadName = std::is_same_v<W, Recurrent>     ? "a recurrent network"
                                                  : std::is_same_v<W, FeedForward> ? "a feed-forward network"
                                                                                   : "a training, --mode train";

// Whether a workload has a family of this name, or of the name that a plan's text begins with.
template <typename W>
bool has_family(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(' '));
  return [&]<typename... P>(std::type_identity<std::variant<P...>>) {
    return ((std::is_same_v<typename P::Workload, W> && P::kName == name) || ...);
  }(std::type_identity<Plan>{});
}

// The name of the workload that has such a family; "": none has.
std::string_view workload_of(std::string_view text);

// A plan that a user gives for one workload: RecurrentPlan, FeedForwardPlan or TrainingPlan. Throws InputError for a
// plan of another, and with the nearest name for a family or a field that is none.
template <typename Of>
Of parse_plan_as(std::string_view text) {
  const std::string_view of = workload_of(text);
  if (!of.empty() && of != kWorkloadName<typename std::variant_alternative_t<0, Of>::Workload>) {
    throw InputError("plan: '" + std::string(text.substr(0, text.find(' '))) + "' is a plan of " + std::string(of));
  }
  if constexpr (std::is_same_v<Of, TrainingPlan>) {
    return parse_training_plan(text);
  } else if constexpr (std::is_same_v<Of, FeedForwardPlan>) {
    return parse_feed_forward_plan(text);
  } else {
    return parse_recurrent_plan(text);
  }
}

}  // namespace onchip
