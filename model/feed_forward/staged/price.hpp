// SPDX-License-Identifier: Apache-2.0
// How long an inference by a staged plan takes, from what its layout makes the hardware do (StagedCounts) and the
// images that are alive before each layer.
//
// A block of threads stages, gathers and writes, one after the other. Each of these keeps the load-store unit (gathers
// from shared memory with their bank conflicts, stores to it, requests of global memory), L2 and device memory busy
// side by side, and its instructions the schedulers, and takes as long as the busiest. An SM holds some blocks: while
// one gathers, another stages. How long they take is that of a closed queueing network of as many customers, by exact
// mean value analysis (Reiser and Lavenberg 1980), less what a block itself does side by side, and never less than the
// busiest unit. A layer's time is shared out to the terms by how long a block is at each.
//
// What the host takes between two layers is from the champion's own logs of an A100
// (jainmilan/GraphChallengePNNL-SpDNN), 1024 neurons, all time outside of kernels: 4.4 ms of 120 layers and 61 ms of
// 1920, of 395 and 3660 thousand image-layers.
#pragma once

#include "model/chip/chip.hpp"
#include "model/feed_forward/staged/layout.hpp"
#include "model/plan/prediction.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// Of a layer, for one tile of images: every block once. Wavefronts are of one image: others have as many.
struct StagedCounts {
  int inputs = 0, outputs = 0, blocks = 0;
  std::int64_t slice_rows = 0;
  std::int64_t gather_wavefronts = 0;  // staged: by banks; else: lines of L1 that the lanes of a warp read
  std::int64_t store_wavefronts = 0;   // of staged inputs, 32 each
  std::int64_t request_lines = 0;      // lines of 128 bytes of the requests that stage, of fp32 features
  std::int64_t feature_sectors = 0;    // sectors of 32 bytes that are asked for: by what stages, else by gathers
  std::int64_t bitmap_sectors = 0;     // the same of bitmaps, in the first layer
  std::int64_t chunks = 0;
  std::int64_t chain = 0;         // entries of the longest slice of each chunk, which come one after another
  std::int64_t record_bytes = 0;  // map, indices, values
};
StagedCounts count(const StagedLayer& layer, const StagedPlan& plan);

// Wavefronts that one image's read takes, of 32 lanes that read these words of shared memory: the most distinct words
// of a bank.
int read_wavefronts(std::span<const std::uint16_t> words);

// Wavefronts of shared memory, loads and stores, of an inference: what the hardware counts. alive: images that enter
// each layer, [layers].
std::int64_t shared_wavefronts(const StagedPlan& plan, std::span<const StagedCounts> layers,
                               std::span<const std::int64_t> alive);

// Of a thread: sums and rows of the images, and about what else the compiler takes for sm_90 (40 for 4 images, 48 for
// 12, 80 for 24).
int usual_registers(const StagedPlan& plan);

// Of an inference: "gathers", "staging" (with the outputs' stores), "l2", "device_memory", "instructions", "latency",
// "launches", "host", "weight_copies". The floor is that of shared memory's wavefronts. registers: of a thread, 0:
// about what the compiler takes. Throws InputError if not one block fits.
Price price_staged(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> layers,
                   std::span<const std::int64_t> alive, int registers = 0);

// Of each plan, [layers]: layers 1, 2, 3, 5, 9, ..., each in the place of those up to the next.
std::vector<std::vector<StagedCounts>> sampled_counts(const FeedForward& network, std::span<const StagedPlan> plans);

// Why the plan cannot run the network on the chip, "" if it can.
std::string why_not_fitting(const Chip& chip, const FeedForward& network, const StagedPlan& plan);

}  // namespace onchip
