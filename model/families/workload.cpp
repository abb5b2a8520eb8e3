// SPDX-License-Identifier: Apache-2.0
#include "model/families/workload.hpp"

#include "model/plan/plan_text.hpp"

#include <array>

namespace onchip {
namespace {

constexpr std::array<std::string_view, std::variant_size_v<Workload>> kWorkloadNames{
    "a recurrent network", "a feed-forward network", "a training, --mode train"};

template <typename... P>
constexpr bool are_families(std::type_identity<std::variant<P...>>) {
  return (AnyFamily<P> && ...);
}
static_assert(are_families(std::type_identity<Plan>{}));

}  // namespace

std::string to_string(const Plan& plan) {
  return plan_text_of(plan);
}

Plan parse_plan(std::string_view text) {
  return parse_plan_of(std::type_identity<Plan>{}, text);
}

std::string_view workload_name(const Plan& plan) {
  return std::visit(
      []<typename P>(const P&) {
        constexpr std::size_t kWorkload = std::is_same_v<typename P::Workload, Recurrent>     ? 0
                                          : std::is_same_v<typename P::Workload, FeedForward> ? 1
                                                                                              : 2;
        return kWorkloadNames[kWorkload];
      },
      plan);
}

}  // namespace onchip
