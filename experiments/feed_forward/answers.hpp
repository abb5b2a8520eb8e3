// SPDX-License-Identifier: Apache-2.0
// fit, predict and what-if with --network: the model's answers about sparse feed-forward networks.
#pragma once

#include "experiments/command/options.hpp"
#include "experiments/command/output.hpp"

#include <vector>

namespace onchip {

OptionGroup feed_forward_options();

// Whether --network is given. Throws InputError for options of `others`, which are of recurrent networks, beside it,
// and for --images, --alive and --sample without it.
bool asks_feed_forward(const Options& options, const std::vector<OptionGroup>& others);

int fit_feed_forward(const Options& options);
int predict_feed_forward(const Options& options);
int what_if_feed_forward(const Options& options);

}  // namespace onchip
