// SPDX-License-Identifier: Apache-2.0
// A question about any workload. fit(), predict(), rank(), what_if() and reach() answer each (model/answer/forms.hpp):
//   std::visit([](const auto& of) { return to_json(predict(of)); }, question)
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/answer/training/training.hpp"
#include "model/families/workload.hpp"

#include <variant>

namespace onchip {

using Question = std::variant<RecurrentQuestion, FeedForwardQuestion, TrainingQuestion>;
static_assert(std::variant_size_v<Question> == std::variant_size_v<Workload>);

}  // namespace onchip
