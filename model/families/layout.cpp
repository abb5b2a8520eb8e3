// SPDX-License-Identifier: Apache-2.0
#include "model/families/layout.hpp"

#include "model/base/error.hpp"

#include <type_traits>

namespace onchip {
namespace {

const SparsePlan& plan_in(const SparseGeometry& geometry) {
  return geometry;
}
const DensePlan& plan_in(const DenseGeometry& geometry) {
  return geometry;
}
const RecurrencePlan& plan_in(const RecurrenceGeometry& geometry) {
  return geometry;
}

}  // namespace

Layout make_layout(const Recurrent& network, const RecurrentPlan& plan, const SparseMatrix& matrix, int threads) {
  if (matrix.rows != network.rows() || matrix.columns != network.hidden) {
    throw InputError("the recurrent matrix is " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
                     ", but " + describe(network) + " needs " + std::to_string(network.rows()) + " x " +
                     std::to_string(network.hidden));
  }
  return std::visit(
      [&](const auto& of_family) -> Layout {
        if constexpr (std::remove_cvref_t<decltype(of_family)>::kIsOnChip) {
          return make_layout(geometry(network, of_family), matrix, threads);
        } else {
          throw InputError("a plan of " + std::string(of_family.kName) + " has no layout: the library has its own");
        }
      },
      plan);
}

SparseMatrix unpack(const Layout& layout) {
  return std::visit([](const auto& of_family) { return unpack(of_family); }, layout);
}

Encoded encode(const Layout& layout) {
  return std::visit([](const auto& of_family) { return encode(of_family); }, layout);
}

Wavefronts gather_wavefronts(const Layout& layout) {
  return std::visit([](const auto& of_family) { return gather_wavefronts(of_family); }, layout);
}

const Recurrent& network_of(const Layout& layout) {
  return std::visit([](const auto& of_family) -> const Recurrent& { return of_family.geometry.network; }, layout);
}

RecurrentPlan plan_of(const Layout& layout) {
  return std::visit([](const auto& of_family) -> RecurrentPlan { return plan_in(of_family.geometry); }, layout);
}

const StateGeometry& state_of(const Layout& layout) {
  return std::visit([](const auto& of_family) -> const StateGeometry& { return of_family.geometry; }, layout);
}

}  // namespace onchip
