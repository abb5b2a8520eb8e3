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
//   best_plan(chip, network, rows, constraints, plan)  optional: the best of them, where they are estimates
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

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace onchip {

template <typename P>
using Consider = std::function<void(const P&)>;

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
