// SPDX-License-Identifier: Apache-2.0
// What a launch of feed_forward_unstructured.cu is given, in its constants.
#pragma once

namespace onchip {

struct UnstructuredArguments {
  const void* entries = nullptr;  // of 16 bytes, a warp's after another's: [item][step / kSteps][row of the item]
  const unsigned* warp_begin = nullptr;     // [warp]: its first entry, over kRows
  const unsigned* layer_items = nullptr;    // [layers]: of each warp
  const unsigned* halves = nullptr;         // [warp][item]: half entries of a row
  const unsigned* destinations = nullptr;   // [warp][item][kRows]: a place, or kNowhere
  const float* biases = nullptr;            // [warp][item][kRows]
  int items = 0;                            // of a warp, in all layers
  int layers = 0, inputs = 0, outputs = 0;  // neurons of the first layer's input, of the last layer
  unsigned may_end = 0;                     // dead images stay dead
  float clip = 0;
  const unsigned* bitmaps = nullptr;  // [image][words], or
  int words = 0;
  const unsigned long long* list_begin = nullptr;  // [image + 1], or
  const unsigned* list_neuron = nullptr;
  const float* list_value = nullptr;
  const float* features = nullptr;  // [position][inputs]
  const unsigned* ids = nullptr;    // [position]: number of the image, or null: the position
  const unsigned* count = nullptr;  // positions
  float* out_features = nullptr;    // [position][outputs], or null: images alive are marked in categories
  unsigned* out_ids = nullptr;
  unsigned* out_count = nullptr;
  unsigned* categories = nullptr;  // a bit per image
};

}  // namespace onchip
