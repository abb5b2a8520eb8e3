// SPDX-License-Identifier: Apache-2.0
// What the tests of the planner share: an H200, its plans for networks, and the family of a plan.
#pragma once

#include "model/families/planner.hpp"
#include "tests/model/cases.hpp"

#include <string_view>
#include <variant>

namespace onchip {

inline const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

inline Recurrent headline() {
  return {Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
}

inline PlannedNetwork planned(const Recurrent& network, const Constraints& constraints) {
  return choose_plan(h200(), network, RowProfile::uniform(network), constraints);
}

inline Constraints of_family(std::string_view family) {
  Constraints constraints;
  constraints.family = family;
  return constraints;
}
inline const Constraints kSparse = of_family(SparsePlan::kName), kDense = of_family(DensePlan::kName);

inline Constraints dense_stored_as(Storage storage) {
  Constraints constraints = kDense;
  fix<&DensePlan::storage>(constraints, storage);
  return constraints;
}

inline bool is_sparse(const PlannedNetwork& planned) {
  return family_name(planned.plan) == SparsePlan::kName;
}
inline bool is_dense(const PlannedNetwork& planned) {
  return family_name(planned.plan) == DensePlan::kName;
}
// The plan of either family, of which a test knows that it has it.
inline const SparsePlan& sparse(const PlannedNetwork& planned) {
  return std::get<SparsePlan>(planned.plan);
}
inline const DensePlan& dense(const PlannedNetwork& planned) {
  return std::get<DensePlan>(planned.plan);
}
inline SparseGeometry sparse_geometry(const PlannedNetwork& planned) {
  return {planned.network, sparse(planned)};
}
inline DenseGeometry dense_geometry(const PlannedNetwork& planned) {
  return {planned.network, dense(planned)};
}

}  // namespace onchip
