// SPDX-License-Identifier: Apache-2.0
// Answers about sparse feed-forward networks, in the three forms of an answer.
#pragma once

#include "experiments/command/output.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"

#include <string>

namespace onchip {

std::string to_text(const FeedForwardCase& answer);
Report report_of(const FeedForwardFit& answer);
Report report_of(const FeedForwardAnswer& answer);

}  // namespace onchip
