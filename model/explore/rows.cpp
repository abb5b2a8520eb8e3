// SPDX-License-Identifier: Apache-2.0
#include "model/explore/rows.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace onchip {

void Stretch::compute(const MayGoOn& may_go_on) {
  const bool are_columns = computer.format() == RowFormat::columns;
  text.clear();
  batch = are_columns ? computer.no_rows() : ColumnBatch();  // which looks at all values of all axes
  Front front(computer.objectives().size());
  for (std::uint64_t i = begin; i < end; ++i) {
    if (may_go_on && !may_go_on()) {
      end = i;
      break;
    }
    if (!computer.compute(i)) {
      continue;
    }
    if (!keeps_front) {
      if (are_columns) {
        computer.append_to(batch);
      } else {
        computer.append_to(text);
      }
      continue;
    }
    const auto& objectives = computer.objectives();
    if (std::ranges::all_of(objectives, [](double value) { return std::isfinite(value); })) {
      Point point{};
      std::ranges::copy(objectives, point.begin());
      front.add(point, i);
    }
  }
  points = front.all();
}

namespace {

template <typename To>
void append_front(RowComputer& computer, const Front& front, To& to) {
  auto rows = front.all();
  std::ranges::sort(rows, {}, [](const auto& row) { return row.first; });
  for (const auto& [row, point] : rows) {
    computer.compute(row);
    computer.append_to(to);
  }
}

}  // namespace

std::string text_of_front(RowComputer& computer, const Front& front) {
  std::string text;
  append_front(computer, front, text);
  return text;
}

ColumnTable table_of_rows(const SweepSpec& spec, int threads, const MayGoOn& may_go_on) {
  const std::uint64_t rows = spec.size();
  const std::uint64_t count = std::min<std::uint64_t>(rows, threads == 1 ? 1 : 4 * static_cast<unsigned>(threads));
  std::vector<std::unique_ptr<Stretch>> stretches;
  for (std::uint64_t i = 0; i < count; ++i) {
    stretches.push_back(std::make_unique<Stretch>(spec, RowFormat::columns));
    stretches.back()->begin = rows * i / count;
    stretches.back()->end = rows * (i + 1) / count;
  }
  parallel_for(static_cast<int>(count), threads, [&](int i) {
    Stretch& stretch = *stretches[static_cast<std::size_t>(i)];
    const std::uint64_t end = stretch.end;
    stretch.compute(may_go_on);
    if (stretch.end < end) {
      throw InputError("the sweep was stopped");
    }
  });
  ColumnTable table;
  Front front(spec.keep_front.size());
  for (const auto& stretch : stretches) {
    for (const auto& [row, point] : stretch->points) {
      front.add(point, row);
    }
    table.batches.push_back(std::make_shared<const ColumnBatch>(std::move(stretch->batch)));
  }
  if (!spec.keep_front.empty()) {
    RowComputer& computer = stretches.front()->computer;
    auto batch = std::make_shared<ColumnBatch>(computer.no_rows());
    append_front(computer, front, *batch);
    table.batches = {std::move(batch)};
  }
  return table;
}

}  // namespace onchip
