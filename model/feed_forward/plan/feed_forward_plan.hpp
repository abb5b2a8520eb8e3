// SPDX-License-Identifier: Apache-2.0
// How a feed-forward network is mapped on a chip: the families' list, and what is asked of any of them.
#pragma once

#include "model/feed_forward/library/layers.hpp"
#include "model/feed_forward/plan/blocks_plan.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"
#include "model/feed_forward/plan/unstructured_plan.hpp"
#include "model/feed_forward/staged/plan.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace onchip {

using FeedForwardPlan = std::variant<BlocksPlan, StreamedPlan, DenseLayerPlan, UnstructuredPlan, StagedPlan,
                                     CublasLayersPlan, CusparseLayersPlan>;

// Of a plan of a library its call, "cublas GEMM fp16, dead images dropped"; "" of a kernel's.
std::string library_call(const FeedForwardPlan& plan);
std::optional<FeedForwardPlan> plan_of_library_call(std::string_view call);
std::string_view family_name(const FeedForwardPlan& plan);  // "blocks"
bool is_on_chip(const FeedForwardPlan& plan);               // whether features stay on the SMs from layer to layer
// What it reads of weights: weight_class() of plans of blocks, else "one per weight".
std::string_view values_read(const FeedForwardPlan& plan);

// "blocks warps=16 phases=3:4x1,120:2x1 lower=2x1 wide=2x2!" and back (model/plan/plan_text.hpp).
std::string to_string(const FeedForwardPlan& plan);
FeedForwardPlan parse_feed_forward_plan(std::string_view text);

// Throws InputError for what is no plan of the network. What comes in as text must pass here.
void check_plan(const FeedForward& network, const FeedForwardPlan& plan);

// The last layers of the phases, after which dead images are dropped; of a staged plan none: it may drop after each.
std::vector<int> end_layers(const FeedForwardPlan& plan);

}  // namespace onchip
