// SPDX-License-Identifier: Apache-2.0
// Handles of the C API that own what they are, and calls whose errors are text.
#pragma once

#include "model/workload/mask.hpp"
#include "tests/api/c_caller.h"
#include "tests/catch.hpp"

#include <memory>
#include <string>

namespace onchip {

struct Destroy {
  void operator()(onchip_chip* chip) const { onchip_chip_destroy(chip); }
  void operator()(onchip_matrix* matrix) const { onchip_matrix_destroy(matrix); }
  void operator()(onchip_program* program) const { onchip_program_destroy(program); }
  void operator()(onchip_inference* inference) const { onchip_inference_destroy(inference); }
  void operator()(onchip_recurrence* recurrence) const { onchip_recurrence_destroy(recurrence); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy>;

// A struct of the C API that knows its size.
template <typename T>
T sized() {
  T empty{};
  empty.struct_bytes = sizeof empty;
  return empty;
}

// The handle that create(&handle, &error) makes; the test fails if it makes none.
template <typename T>
Owned<T> made(auto&& create) {
  T* handle = nullptr;
  onchip_error error;
  const onchip_status status = create(&handle, &error);
  INFO(error.message);
  REQUIRE(status == ONCHIP_OK);
  REQUIRE(handle != nullptr);
  return Owned<T>(handle);
}

// "status: message" of call(&error).
inline std::string answer(auto&& call) {
  onchip_error error;
  const onchip_status status = call(&error);
  return std::to_string(status) + ": " + error.message;
}

inline Owned<onchip_chip> chip(const char* name = "h200") {
  return made<onchip_chip>([&](onchip_chip** to, onchip_error* e) { return onchip_chip_create(name, to, e); });
}

inline Owned<onchip_matrix> matrix_of(const SparseMatrix& m) {
  return made<onchip_matrix>([&](onchip_matrix** to, onchip_error* e) {
    return onchip_matrix_create_csr(m.rows, m.columns, m.row_begin.data(), m.column.data(), m.value.data(), to, e);
  });
}

inline onchip_network network_of(const Recurrent& network) {
  return {sizeof(onchip_network),
          static_cast<int>(network.cell),
          static_cast<int>(network.precision),
          network.hidden,
          network.batch,
          network.density,
          ONCHIP_TIER_STREAMED};
}

inline Recurrent small(Cell cell, Precision precision = Precision::fp16) {
  return {cell, precision, 127, 3, 16, 0.25};
}

inline SparseMatrix weights_of(const Recurrent& network) {
  return generate_mask(network.rows(), network.hidden, network.density, 5, network.precision);
}

}  // namespace onchip
