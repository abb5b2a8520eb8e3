// SPDX-License-Identifier: Apache-2.0
// Many rows of a sweep: stretches of them, each computed by one thread, and all of a sweep that is kept in memory.
#pragma once

#include "model/explore/front.hpp"
#include "model/explore/row.hpp"
#include "model/explore/spec.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

// Asked before each row, by any thread.
using MayGoOn = std::function<bool()>;

// Rows from `begin` to `end`: their text or columns or, where a sweep keeps only its front, the points of those that
// may be on it.
struct Stretch {
  RowComputer computer;
  bool keeps_front = false;
  std::uint64_t begin = 0, end = 0;
  std::string text = {};
  ColumnBatch batch = {};
  std::vector<std::pair<std::uint64_t, Point>> points = {};  // with their rows

  Stretch(const SweepSpec& spec, RowFormat format, const AskEngine& engine = {})
      : computer(spec, format, engine), keeps_front(!spec.keep_front.empty()) {}
  // Until it may not go on: `end` then says how far it came.
  void compute(const MayGoOn& may_go_on = {});
};

// All rows of a spec, or those of its front, in order: the same for any number of threads. Throws InputError for an
// expression that divides by zero, and where it may not go on.
ColumnTable table_of_rows(const SweepSpec& spec, int threads, const MayGoOn& may_go_on);

// The rows of a front, in order.
std::string text_of_front(RowComputer& computer, const Front& front);

}  // namespace onchip
