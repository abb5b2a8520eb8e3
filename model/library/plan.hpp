// SPDX-License-Identifier: Apache-2.0
// A library that reads the weights anew in every step (model/library/price.hpp), each a family of its own, of whose
// plan nothing is chosen here.
#pragma once

#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace onchip {

enum class Library : std::uint8_t { cublas_graph, cudnn, cusparse_graph };
inline constexpr std::array<std::string_view, 3> kLibraryNames{"cublas_graph", "cudnn", "cusparse_graph"};

template <Library kLibrary>
struct LibraryPlan {
  using Workload = Recurrent;
  static constexpr std::string_view kName = kLibraryNames[static_cast<std::size_t>(kLibrary)];
  static constexpr bool kIsOnChip = false;
  // Of a step.
  static constexpr std::string_view kComputes = kLibrary == Library::cudnn
                                                    ? "its input's product included"
                                                    : "its products alone, without input, bias and activation";

  Tier tier() const { return Tier::streamed; }
  friend bool operator==(const LibraryPlan&, const LibraryPlan&) = default;
};

template <Library kLibrary>
std::span<const Field<LibraryPlan<kLibrary>>> fields(const LibraryPlan<kLibrary>&) {
  return {};
}

}  // namespace onchip
