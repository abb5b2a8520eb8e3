// SPDX-License-Identifier: Apache-2.0
// How long an inference by a streamed or an unstructured plan takes. A layer of a tile of images takes what its warps
// issue and wait for, or longer where a pipe does:
//
//   streamed      products  instructions and tensor cores, of all warps of a partition
//                 latency   L2, product after product, epilogue, of a warp's items one after another
//                 l2        what the bytes of features and records take beyond, of the rate that streaming kernels get
//                 barriers, images (bitmaps turned), survivors (put together, through device memory), launches
//   unstructured  products  instructions: of steps, and of what an item of rows begins and ends with
//                 shared_memory  what the wavefronts of steps, entries and outputs take beyond
//                 l2        what its entries take beyond
//                 latency, barriers, images, survivors, launches
//
// The warps of an unstructured layer go through their items side by side: in each round the steps of as many as have an
// item, bound by shared memory or by instructions or by the latencies of one warp, then what ends the items. Stores of
// parts of sectors, of streamed plans between phases, take the L2 as long as several whole ones.
//
// No floor.
#pragma once

#include "model/feed_forward/inference_price.hpp"
#include "model/feed_forward/plan/activity.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"
#include "model/feed_forward/plan/unstructured_plan.hpp"

#include <vector>

namespace onchip {

// work: of streamed_geometry().
InferencePrice price_streamed(const Chip& chip, const BlocksWork& work, const Activity& activity,
                              const StreamedPlan& plan);

// What a tile's layer asks for, on average over the layers of a phase; from up to four of them, packed.
struct UnstructuredWork {
  UnstructuredTile tile;
  bool is_fp32 = false;  // weights: an entry has two steps, else four
  double items = 0;      // that have rows
  double steps = 0;      // of all items
  double entries = 0;    // of all items, each of 16 bytes for each row

  friend UnstructuredWork operator*(UnstructuredWork work, double times) {
    work.items *= times;
    work.steps *= times;
    work.entries *= times;
    return work;
  }
};
std::vector<UnstructuredWork> unstructured_work(const FeedForward& network, const UnstructuredPlan& plan);

// Layers first + 1 to end, of which each has so much work on average.
LaunchPrice price_phase(const Chip& chip, const FeedForward& network, const UnstructuredWork& work,
                        const Activity& activity, int warps, int first, int end);

InferencePrice price_unstructured(const Chip& chip, const FeedForward& network,
                                  const std::vector<UnstructuredWork>& work, const Activity& activity,
                                  const UnstructuredPlan& plan);

}  // namespace onchip
