// SPDX-License-Identifier: Apache-2.0
// What a family of plans provides, by overload for its plan `P`; docs/add-a-family.md has an example.
//
//   P::Workload                                     what its plans map: Recurrent
//   P::kName, P::kIsOnChip                          how its plans are called; whether their weights stay on the chip
//   beyond_limits(network, plan)                    "takes at most 64 samples", or "" for a network within its limits
//   fields(plan)                                    the table of its plan's fields
//   check(network, plan)                            throws InputError for what no kernel can be built from
//   check_rows(network, plan, rows)                 throws InputError if the plan cannot hold the rows
//   geometry(network, plan)                         everything that follows from both, derived once
//   footprint(chip, geometry), price(chip, geometry)
//   for_each_candidate(chip, network, rows, constraints, consider)   the plans worth pricing
//   remark(chip, network, rows, constraints, plan)  optional: what else a ranking says of the plan
//   settled(chip, network, rows, constraints, plan) the chosen plan with what was estimated so far
//   why_none(chip, network, constraints, plan)      what a user must change where there is no candidate
//
// kernels/ and sim/ add layout, program and trace for the families that run and are replayed.
#pragma once

#include "model/chip/chip.hpp"
#include "model/plan/constraints.hpp"
#include "model/plan/field.hpp"
#include "model/plan/footprint.hpp"
#include "model/plan/prediction.hpp"
#include "model/workload/recurrent.hpp"
#include "model/workload/row_profile.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {

// How much is looked at: what may still be the answer; everything, which gives the same answer; or no more than tells
// whether any plan fits.
enum class Effort : std::uint8_t { bounded, exhaustive, whether_fits };

// Below what plans take and need, all of a kind: proven, so that an answer does not depend on it.
struct Bound {
  double step_us = 0;
  double overload = 0;  // of the resource that they need most of, over what there is; above 1 none of them fits
};

// What may fit comes first, the fastest before others; then what misses by least.
inline bool is_first(const Bound& a, const Bound& b) {
  const double over_a = std::max(1.0, a.overload), over_b = std::max(1.0, b.overload);
  return over_a != over_b ? over_a < over_b : a.step_us < b.step_us;
}

// What a family calls with every plan that is worth pricing. It may ask before whether plans of some kind are.
template <typename P>
class Consider {
 public:
  explicit Consider(std::function<void(const P&)> plan, std::function<bool(const Bound&)> is_worth = {})
      : plan_(std::move(plan)), is_worth_(std::move(is_worth)) {}
  void operator()(const P& plan) const { plan_(plan); }
  bool is_worth(const Bound& bound) const { return !is_worth_ || is_worth_(bound); }

 private:
  std::function<void(const P&)> plan_;
  std::function<bool(const Bound&)> is_worth_;
};

// A network with a plan of any family, or of one.
template <typename Plan, typename Workload = Recurrent>
struct Planned {
  Workload network;
  Plan plan;
  Prediction prediction;
};

template <typename P>
concept Family = requires(const Chip& chip, const typename P::Workload& network, const RowProfile& rows,
                          const Constraints& constraints, const P& plan, const Consider<P>& consider) {
  { P::kName } -> std::convertible_to<std::string_view>;
  { P::kIsOnChip } -> std::convertible_to<bool>;
  { fields(plan) } -> std::same_as<std::span<const Field<P>>>;
  { beyond_limits(network, plan) } -> std::convertible_to<std::string>;
  check(network, plan);
  check_rows(network, plan, rows);
  { footprint(chip, geometry(network, plan)) } -> std::same_as<Footprint>;
  { price(chip, geometry(network, plan)) } -> std::same_as<Price>;
  for_each_candidate(chip, network, rows, constraints, consider);
  { settled(chip, network, rows, constraints, plan) } -> std::same_as<P>;
  { why_none(chip, network, constraints, plan) } -> std::same_as<std::string>;
};

}  // namespace onchip
