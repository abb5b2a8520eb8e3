// SPDX-License-Identifier: Apache-2.0
// What launches of feed_forward_exact.cu are given.
#pragma once

namespace onchip {

struct ExactArguments {
  const void* weights;          // fours of column | fp16 << 16, [longest row / 4][32 rows]; ~0: none
  const unsigned* slice_begin;  // [slices of all layers + 1]
  const unsigned* layer_slice;  // [layers + 1]
  const float* biases;          // [slices of all layers, 32]
  const unsigned* rows;         // [layers]
  int layers, inputs;
  unsigned buffer;          // floats of one of the two
  float* scratch;           // [clusters][2][buffer], of feed_forward_exact_wide
  const unsigned* bitmaps;  // [image][words]
  int words;
  const unsigned* ids;  // [*count]: images
  const unsigned* count;
  unsigned* categories;  // a bit per image
  float clip;
};
// Blocks of threads of a cluster, and threads of a block; of feed_forward_exact_wide.
constexpr int kExactCluster = 4, kExactThreads = 512;
constexpr int kWideCluster = 8, kWideThreads = 256;

// The images of a list, or all *count without one, that are in `wanted`, if there is such a bitmap, and not in `known`:
// to another list.
struct OpenArguments {
  const unsigned *ids, *count, *wanted, *known;
  unsigned *open, *open_count;
};

}  // namespace onchip
