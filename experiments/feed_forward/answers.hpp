// SPDX-License-Identifier: Apache-2.0
// fit, predict and what-if with --network: the model's answers about sparse feed-forward networks.
#pragma once

#include "experiments/command/options.hpp"

namespace onchip {

int fit_feed_forward(const Options& options);
int predict_feed_forward(const Options& options);
int what_if_feed_forward(const Options& options);

}  // namespace onchip
