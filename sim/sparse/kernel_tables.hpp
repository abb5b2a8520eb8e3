// SPDX-License-Identifier: Apache-2.0
// What stands in the tables that kernels/sparse/sparse_persistent.cu reads in shared memory: how many chunks a row has,
// which splits, which gate a row of a unit is.
#pragma once

#include "model/sparse/layout/layout.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct KernelTables {
  explicit KernelTables(const SparseLayout& layout);

  std::vector<OverflowChunks> overflow;   // see split_overflow(); empty without overflow
  std::vector<std::int64_t> first_chunk;  // [sms * warps]: where the warp's chunks begin in shared memory
  std::vector<std::int32_t> splits;       // see splits_of_rows()
  std::vector<std::uint8_t> gates;        // [state units, gates]: the gate of the unit's row of that place
};

}  // namespace onchip
