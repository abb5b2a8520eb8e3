// SPDX-License-Identifier: Apache-2.0
// How a network is mapped on a chip: the value that the model prices, the simulator replays and the kernels launch.
// Each family has its own plan; here is their list, and what is asked of any of them.
#pragma once

#include "model/dense/geometry.hpp"
#include "model/library/plan.hpp"
#include "model/plan/prediction.hpp"
#include "model/sparse/geometry.hpp"
#include "model/training/recurrence_plan.hpp"
#include "model/workload/row_profile.hpp"

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace onchip {

using CublasPlan = LibraryPlan<Library::cublas_graph>;
using CudnnPlan = LibraryPlan<Library::cudnn>;
using CusparsePlan = LibraryPlan<Library::cusparse_graph>;

using RecurrentPlan = std::variant<SparsePlan, DensePlan, RecurrencePlan, CublasPlan, CudnnPlan, CusparsePlan>;

// The families of the list, in its order.
struct FamilyInfo {
  std::string_view name;
  bool is_on_chip = false;
  std::string_view computes = "";  // of a step, where that is not all of it
};
std::span<const FamilyInfo> families();

std::string_view family_name(const RecurrentPlan& plan);  // "sparse_persistent"
Tier tier_of(const RecurrentPlan& plan);                  // where its weights lie at most
bool is_on_chip(const RecurrentPlan& plan);               // a kernel's of ours; else it is a library's
// Whether all weights stay on the chip, so that no step reads one from L2 or DRAM.
inline bool keeps_weights(const RecurrentPlan& plan) {
  return is_on_chip(plan) && tier_of(plan) != Tier::streamed;
}
// Of the stored weights' bytes, those that every step reads from L2; of families that stream none, 0.
double streamed_share(const Recurrent& network, const RecurrentPlan& plan);

// "sparse_persistent packed_pair bank_aware lamport sms=132 threads=576 ..." and back (plan/plan_text.hpp).
std::string to_string(const RecurrentPlan& plan);
RecurrentPlan parse_recurrent_plan(std::string_view text);

// Throws InputError for numbers that no kernel can be built from. What comes in as text must pass here.
void check_plan(const Recurrent& network, const RecurrentPlan& plan);
// Throws InputError if the plan cannot hold the rows.
void check_rows(const Recurrent& network, const RecurrentPlan& plan, const RowProfile& rows);

// Allocates nothing; well under a microsecond.
Footprint footprint(const Chip& chip, const Recurrent& network, const RecurrentPlan& plan);
Prediction predict(const Chip& chip, const Recurrent& network, const RecurrentPlan& plan);

}  // namespace onchip
