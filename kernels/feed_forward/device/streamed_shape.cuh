// SPDX-License-Identifier: Apache-2.0
// Sizes of the streamed kernel, and what a warp reads of a layer.
#pragma once

#include "kernels/feed_forward/device/fragments.cuh"
#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/integers.cuh"
#include "model/feed_forward/plan/blocks_constants.hpp"

constexpr int kGroups = ONCHIP_GROUPS;  // of 8 images
constexpr int kWords = ONCHIP_WORDS;    // of a feature
constexpr int kWarps = ONCHIP_WARPS;    // of a block of threads
constexpr int kBlocks = ONCHIP_BLOCKS;  // output blocks of an item
constexpr int kTiles = ONCHIP_TILES;    // of 16 inputs, of an output block
constexpr bool kRemainder = ONCHIP_REMAINDER;  // there are weights outside of tiles
constexpr int kSms = ONCHIP_SMS;  // of a batch group
constexpr int kAtOnce = ONCHIP_AT_ONCE;
constexpr int kMostTiles = 1024;  // of a window
constexpr u32 kSettled = 0x40000000u;  // in a tile's arrivals: it has ended
constexpr bool kSettles = ONCHIP_SETTLES;  // a tile ends when all features of its images are 0, or all at the clip
constexpr int kThreads = 32 * kWarps;
constexpr int kImages = 8 * kGroups;
constexpr int kPairs = kGroups / 2;  // 32-bit words of what a lane reads of a place's word
constexpr int kWordHalves = kImages;
constexpr int kPlaceHalves = kWords * kWordHalves;
constexpr bool kHolds = kBlocks * kTiles * kWarps <= 64;  // an item's weights, for all tiles at once; else they are read when used
constexpr bool kHoles = ONCHIP_HOLES;     // a layer may have rows without a neuron
constexpr u32 kSameInputs = 0x80000000u;  // with a place: a tile's inputs are those of the tile before it

static_assert(kGroups == 2 || kGroups == 4 || kGroups == 8);

using Block = OutputBlock<u32, kTiles>;
using Record = RemainderRecord<u32>;

using Arguments = onchip::StreamedArguments;
using onchip::Settling, onchip::kSettlings, onchip::kSettlesEach;
