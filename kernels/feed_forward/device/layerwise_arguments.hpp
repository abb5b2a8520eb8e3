// SPDX-License-Identifier: Apache-2.0
// What launches of feed_forward_layerwise.cu are given, in its constants.
#pragma once

namespace onchip {

struct DeviceFeatures {
  void *value = nullptr, *residual = nullptr;
};

// Of feed_forward_dense.
struct DenseArguments {
  const long long* row_begin;  // [rows + 1]
  const int* column;
  const float* value;
  void* dense;  // [rows, columns], zero before
  unsigned rows, columns;
};

// Of feed_forward_expand, feed_forward_activate and feed_forward_drop.
struct LayerwiseArguments {
  const unsigned* bitmaps;  // [image][words], of what expands
  const float* sums;        // of what activates
  DeviceFeatures from;      // of what drops
  DeviceFeatures to;
  const float* bias;
  const unsigned* rows;  // of what drops: which images stay
  unsigned* alive;
  unsigned images, neurons, words;
  unsigned long long stride;  // from one neuron to the next, if that is how features lie
  float clip, scale;
};

}  // namespace onchip
