// SPDX-License-Identifier: Apache-2.0
// Layers computed whole on tensor cores, zeros and all: a plan of blocks of 16 rows and all columns
// (whole_layers.hpp), for networks that are small or not so sparse and have no blocks of their own.
#pragma once

#include "model/feed_forward/plan/blocks_price.hpp"

#include <string>
#include <string_view>

namespace onchip {

struct DenseLayer {
  static constexpr std::string_view kName = "dense_layer";

  NetworkStructure structure;
  BlocksWork work;
};

// Throws InputError where layers are wider than plans of blocks hold on any chip, so sparse that zeros are most of the
// work, or not monotone.
DenseLayer dense_layer(const FeedForward& network);

// "dense_layer warps=16 phases=...", and back.
std::string dense_layer_text(const BlocksPlan& plan);
BlocksPlan read_dense_layer_plan(std::string_view text, int layers);

}  // namespace onchip
