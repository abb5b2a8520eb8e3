// SPDX-License-Identifier: Apache-2.0
// What a launch of feed_forward_blocks.cu is given, in its constants.
#pragma once

namespace onchip {

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

}  // namespace onchip
