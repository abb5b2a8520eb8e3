// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/workload/mask.hpp"

#include <bit>
#include <cstdint>

namespace onchip {

// FNV-1a over everything a mask holds, in little-endian bytes.
inline std::uint64_t hash(const SparseMatrix& matrix) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      hash = (hash ^ (value >> (8 * i) & 255)) * 0x100000001b3;
    }
  };
  for (const std::int64_t begin : matrix.row_begin) {
    add(static_cast<std::uint64_t>(begin), 8);
  }
  for (const std::int32_t column : matrix.column) {
    add(static_cast<std::uint64_t>(column), 4);
  }
  for (const float value : matrix.value) {
    add(std::bit_cast<std::uint32_t>(value), 4);
  }
  return hash;
}

}  // namespace onchip
