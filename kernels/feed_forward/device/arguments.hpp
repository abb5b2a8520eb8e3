// SPDX-License-Identifier: Apache-2.0
// What launches of the feed-forward kernels are given, in their constants.
#pragma once

namespace onchip {

// ---- feed_forward_blocks.cu -----------------------------------------------------------------------------------------

struct BlocksArguments {
  const void* records = nullptr;                  // Block [layer][warp][block]
  const void* remainder = nullptr;                // Record [warp][layer][block][record], and kRemainderRing more
  const unsigned* remainder_begin = nullptr;      // [layer][warp]
  int first_layer = 0, end_layer = 0;             // of this launch
  const unsigned* bitmaps = nullptr;              // [image][4 * kBitQuads], or null: features are read
  const unsigned short* input_neurons = nullptr;  // [place], for bitmaps
  const unsigned* features = nullptr;             // [position][kItems]
  const unsigned* ids = nullptr;                  // [position]: number of the image, or null: the position
  const unsigned* count = nullptr;                // positions
  unsigned* out_features = nullptr;               // [position][kItems], or null: images alive are marked in categories
  unsigned* out_ids = nullptr;
  unsigned* out_count = nullptr;
  unsigned* categories = nullptr;  // a bit per image
  float clip = 0, slack = 0;
  float shift = 0;        // added to biases
  unsigned one = 0;       // an input that is set, fp16
  unsigned round_up = 0;  // added to what is cut off to fp16: 0x1fff rounds up, 0 down
  unsigned settled = 0;   // fp16: a feature that is not below it is at the clip
};

// ---- feed_forward_streamed.cu ---------------------------------------------------------------------------------------

// A tile's images, after a layer.
struct Settling {
  unsigned long long alive, unsettled;  // a bit per image
};
constexpr int kSettlings = 3;  // of a tile, of which one is read, one is written and one becomes zero

struct StreamedArguments {
  const void* records = nullptr;              // Block [layer][item][kBlocks]
  const void* remainder = nullptr;            // Record [item][layer][block][record], and more
  const unsigned* remainder_begin = nullptr;  // [layer][item]
  int items;                                  // of a layer
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
  unsigned* status;                // set to 1 if a wait was given up
  float clip = 0, slack = 0;
  float shift = 0;        // added to biases
  unsigned one = 0;       // an input that is set, fp16
  unsigned round_up = 0;  // added to what is cut off to fp16: 0x1fff rounds up, 0 down
  unsigned settled = 0;   // fp16: a feature that is not below it is at the clip
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

// ---- feed_forward_exact.cu ------------------------------------------------------------------------------------------

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
struct UndecidedArguments {
  const unsigned *ids, *count, *wanted, *known;
  unsigned *undecided, *undecided_count;
};

// ---- feed_forward_unstructured.cu -----------------------------------------------------------------------------------

struct UnstructuredArguments {
  const void* entries = nullptr;  // of 16 bytes, a warp's after another's: [item][step / kSteps][row of the item]
  const unsigned* warp_begin = nullptr;     // [warp]: its first entry, over kRows
  const unsigned* layer_items = nullptr;    // [layers]: of each warp; kLinearLayer with it: neither ReLU nor clip
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

// ---- feed_forward_staged.cu -----------------------------------------------------------------------------------------

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
  bool is_linear;  // neither ReLU nor clip
};

// ---- feed_forward_compact.cu ----------------------------------------------------------------------------------------

struct CompactArguments {
  const unsigned* count;
  const unsigned* ids;                          // [*count]: images; null: one after the other
  unsigned* alive;                              // [*count]; all zero afterwards
  unsigned *next_count, *next_rows, *next_ids;  // the images that are alive, in any order
  unsigned* categories;                         // instead of them: a bit per image
};

// ---- feed_forward_layerwise.cu --------------------------------------------------------------------------------------

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
  const float* sums;        // of what activates; without bitmaps, [image][neuron] of what expands
  DeviceFeatures from;      // of what drops
  DeviceFeatures to;
  const float* bias;
  const unsigned* rows;  // of what drops: which images stay
  unsigned* alive;
  unsigned images, neurons, words;
  unsigned long long stride;  // from one neuron to the next, if that is how features lie
  float clip, scale;
  bool is_linear;  // what activates: neither ReLU nor clip
};

}  // namespace onchip
