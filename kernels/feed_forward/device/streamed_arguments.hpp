// SPDX-License-Identifier: Apache-2.0
// What launches of feed_forward_streamed.cu are given, in its constants.
#pragma once

namespace onchip {

// A tile's images, after a layer.
struct Settling {
  unsigned long long alive, unsettled;  // a bit per image
};
constexpr int kSettlings = 3;  // of a tile, of which one is read, one is written and one becomes zero

struct StreamedArguments {
  const void* records;              // Block [layer][item][kBlocks]
  const void* remainder;            // Record [item][layer][block][record], and more
  const unsigned* remainder_begin;  // [layer][item]
  int items;                        // of a layer
  int first_layer, end_layer;
  int places;
  const unsigned long long* bits;  // [tile][place], or null: features are read
  const unsigned short* features;  // [tile][place][word][image]
  unsigned short* out_features;    // null: not kept
  unsigned short* scratch;         // [tile of a window][2][place][word][image]
  const unsigned* count;           // images
  unsigned long long* alive;       // [tile]: a bit per image, zero before
  unsigned* arrivals;              // [tile], zero before
  Settling* settling;              // [tile][kSettlings], zero before
  float clip, slack;
  float shift;        // added to biases
  unsigned one;       // an input that is set, fp16
  unsigned round_up;  // added to what is cut off to fp16: 0x1fff rounds up, 0 down
  unsigned settled;   // fp16: a feature that is not below it is at the clip
};

// Before it: bitmaps turned.
struct TransposeArguments {
  const unsigned* bitmaps;  // [image][words]
  int words, inputs, places;
  const unsigned* input_places;  // [inputs]
  const unsigned *ids, *count;   // ids: null: all images
  unsigned long long* bits;      // [tile][place]
};

// After it: images that are alive, together.
struct StreamedCompactArguments {
  const unsigned long long* alive;  // [tile]
  const unsigned *ids, *count;      // of the images before; ids: null: all
  int places;
  const unsigned short* features;
  unsigned short* out_features;  // null: images alive are marked in categories
  unsigned *out_ids, *out_count;
  unsigned* categories;  // a bit per image
};

}  // namespace onchip
