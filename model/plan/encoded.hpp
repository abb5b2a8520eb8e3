// SPDX-License-Identifier: Apache-2.0
// What the kernels load of a layout, and what its accesses to shared memory take.
#pragma once

#include <cstdint>
#include <vector>

namespace onchip {

// Words as the kernels load them (kernels/sparse/gather.cuh, kernels/dense/multiply.cuh).
struct Encoded {
  // Per SM. Sparse: [register_words, threads], then [shared_chunks] chunks. Dense: tiles, of 4 words a lane, [warps,
  // those in registers], then [warps, shared_tiles], or of bitmap storage [bank_words, 32 banks], then [warps,
  // metadata_words, 32 lanes].
  std::vector<std::uint32_t> weights;
  std::vector<std::uint32_t> streamed;  // chunks: of each SM and warp, in order of use in a step
  // With overflow, per SM: [rows_per_group, warps] chunks in shared memory | streamed << 16; [warps] the byte of the
  // SM's shared memory where the warp's chunks begin; [row_splits, warps] chunks of the splits; [warps] its first
  // streamed chunk; [warps] how many it streams in a step. Behind that of all SMs, with splits: splits_of_rows().
  std::vector<std::int32_t> overflow;
};

// Shared-memory wavefronts of one step, by the hardware's rule: a phase takes as many wavefronts as the most loaded
// bank has distinct words.
struct Wavefronts {
  std::int64_t total = 0;  // over all SMs
  std::int64_t busiest_sm = 0;
  std::int64_t ideal = 0;  // over all SMs, without a conflict
};

}  // namespace onchip
