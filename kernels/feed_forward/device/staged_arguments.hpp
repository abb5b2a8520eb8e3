// SPDX-License-Identifier: Apache-2.0
// What a launch of feed_forward_staged.cu is given.
#pragma once

namespace onchip {

struct StagedArguments {
  const unsigned *block_chunk, *chunk_map, *slice_begin;  // StagedLayer (model/feed_forward/staged/layout.hpp)
  const unsigned short *map, *index;
  const void* value;
  const float* bias;
  const unsigned* row_length;
  const unsigned* count;    // of images
  const unsigned* rows;     // [*count]: where their features are; null: one after the other
  const float* features;    // [row][inputs]
  const unsigned* bitmaps;  // [row][words], of the first layer
  float* out;               // [*count][outputs]
  unsigned* alive;          // [*count]; null: not wanted
  unsigned inputs, outputs, blocks, words;
  float clip;
};

}  // namespace onchip
