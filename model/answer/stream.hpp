// SPDX-License-Identifier: Apache-2.0
// How long a request to a stack takes that stays on the chip (model/stream/stream.hpp): what predict --stream and ask()
// say. What was measured stands beside it in experiments/stream.
#pragma once

#include "model/answer/columns.hpp"
#include "model/stream/stream.hpp"

#include <string>
#include <string_view>

namespace onchip {

struct StreamAnswer {
  std::string chip;
  StreamSize size;
  StreamPlan plan;
  StreamShape shape;
  StreamPrice price;
};
// Of the plan, "stream tiles=2 spans=4", or of the chosen one. Throws InputError where the chip has no room.
StreamAnswer predict(const Chip& chip, const StreamSize& size, std::string_view plan);

const Columns<StreamAnswer>& stream_columns();
inline Json to_json(const StreamAnswer& answer) {
  return stream_columns().json(answer);
}

}  // namespace onchip
