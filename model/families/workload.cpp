// SPDX-License-Identifier: Apache-2.0
#include "model/families/workload.hpp"

namespace onchip {
namespace {

template <typename... P>
constexpr bool are_families(std::type_identity<std::variant<P...>>) {
  return (AnyFamily<P> && ...);
}
static_assert(are_families(std::type_identity<Plan>{}));

}  // namespace

std::string_view workload_of(std::string_view text) {
  return has_family<Recurrent>(text)     ? kWorkloadName<Recurrent>
         : has_family<FeedForward>(text) ? kWorkloadName<FeedForward>
         : has_family<Training>(text)    ? kWorkloadName<Training>
                                         : "";
}

}  // namespace onchip
