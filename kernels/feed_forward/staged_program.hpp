// SPDX-License-Identifier: Apache-2.0
// What a staged plan's kernels are made of and given (feed_forward_staged.cu): the source's definitions, a layer's
// arrays as one record of bytes, and the arguments of a launch.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/feed_forward/staged/layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

inline constexpr const char* kStagedLayerKernel = "feed_forward_staged";
inline constexpr const char* kStagedFirstKernel = "feed_forward_staged_first";  // from bitmaps
inline constexpr const char* kStagedCompactKernel = "feed_forward_staged_compact";
inline constexpr int kCompactThreads = 256;

CompileRequest staged_request(const StagedPlan& plan, const std::string& architecture);

// As the kernels have them.
struct StagedArguments {
  const std::uint32_t *block_chunk, *chunk_map, *slice_begin;
  const std::uint16_t *map, *index;
  const void* value;
  const float* bias;
  const std::uint32_t* row_length;
  const std::uint32_t *count, *rows;
  const float* features;
  const std::uint32_t* bitmaps;
  float* out;
  std::uint32_t* alive;
  std::uint32_t inputs, outputs, blocks, words;
  float clip;
};

struct StagedCompactArguments {
  const std::uint32_t *count, *ids;
  std::uint32_t *alive, *next_count, *next_rows, *next_ids, *categories;
};

// A layer in memory, each array on a boundary of 256 bytes.
struct StagedRecord {
  std::vector<std::byte> bytes;
  std::array<std::size_t, 8> places{};  // in the order of StagedArguments
};
StagedRecord pack(const StagedLayer& layer, const StagedPlan& plan);

// Arguments of a layer whose record lies at `base`; images and features are the caller's.
StagedArguments arguments_of(const StagedLayer& layer, const std::array<std::size_t, 8>& places, const std::byte* base,
                             float clip);

}  // namespace onchip
