// SPDX-License-Identifier: Apache-2.0
// --network and the options beside it, in all verbs: a sparse feed-forward network, its images, and how many of them
// stay alive.
#pragma once

#include "experiments/command/options.hpp"
#include "model/answer/feed_forward/asked.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// --network, and of --images, --sample, --alive and --gpus those that a verb takes.
OptionGroup feed_forward_options(std::initializer_list<std::string_view> beside = {"images", "sample", "alive",
                                                                                   "gpus"});

// What --network says, with --transpose.
std::string network_text(const Options& options);

// Whether --network is given. Throws InputError for options of `others`, which have no meaning beside it, and for those
// of feed-forward networks without it.
bool asks_feed_forward(const Options& options, const std::vector<OptionGroup>& others);

// Throws InputError "--OPTION contradicts --WITH" for each of these that is given.
void refuse_beside(const Options& options, const std::string& with, const std::vector<OptionGroup>& groups,
                   std::initializer_list<const char*> names = {});

// What is asked, without a chip.
FeedForwardQuestion read_feed_forward(const Options& options);

}  // namespace onchip
