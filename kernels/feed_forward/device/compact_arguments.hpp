// SPDX-License-Identifier: Apache-2.0
// What a launch of feed_forward_compact.cu is given.
#pragma once

namespace onchip {

struct CompactArguments {
  const unsigned* count;
  const unsigned* ids;                          // [*count]: images; null: one after the other
  unsigned* alive;                              // [*count]; all zero afterwards
  unsigned *next_count, *next_rows, *next_ids;  // the images that are alive, in any order
  unsigned* categories;                         // instead of them: a bit per image
};

}  // namespace onchip
