// SPDX-License-Identifier: Apache-2.0
// What the dense recurrence of trainings provides as a family of recurrent networks (plan/family.hpp): its forward
// pass, which keeps nothing, for more samples than one launch of the other families takes. onchip.LSTM and GRU run it
// where no gradients are wanted.
#pragma once

#include "model/plan/family.hpp"
#include "model/training/recurrence_layout.hpp"

#include <string>

namespace onchip {

std::string beyond_limits(const Recurrent& network, const RecurrencePlan& plan);
void check(const Recurrent& network, const RecurrencePlan& plan);
inline void check_rows(const Recurrent&, const RecurrencePlan&, const RowProfile&) {}

Footprint footprint(const Chip& chip, const RecurrenceGeometry& geometry);
Price price(const Chip& chip, const RecurrenceGeometry& geometry);

// Those of rank_recurrences(), which the model prices itself.
void for_each_candidate(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                        const Constraints& constraints, const Consider<RecurrencePlan>& consider);
inline RecurrencePlan settled(const Chip&, const Recurrent&, const RowProfile&, const Constraints&,
                              const RecurrencePlan& plan) {
  return plan;
}
std::string why_none(const Chip& chip, const Recurrent& network, const Constraints& constraints, const RecurrencePlan&);

// Of a pass: what it takes of an SM with `directions` of them beside each other.
Footprint footprint(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape, int directions);

}  // namespace onchip
