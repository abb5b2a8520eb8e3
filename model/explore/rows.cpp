// SPDX-License-Identifier: Apache-2.0
#include "model/explore/rows.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace onchip {

void Stretch::compute(const MayGoOn& may_go_on) {
  text.clear();
  batch = computer.no_rows();
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
      computer.format() == RowFormat::columns ? computer.append_to(batch) : computer.append_to(text);
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

// All rows in stretches, each of one thread, and their front.
struct Computed {
  std::vector<std::unique_ptr<Stretch>> stretches;
  Front front;
};

Computed compute_all(const SweepSpec& spec, RowFormat format, int threads, const MayGoOn& may_go_on = {}) {
  const std::uint64_t rows = spec.size();
  const std::uint64_t count = std::min<std::uint64_t>(rows, threads == 1 ? 1 : 4 * static_cast<unsigned>(threads));
  Computed computed{{}, Front(spec.keep_front.size())};
  for (std::uint64_t i = 0; i < count; ++i) {
    Stretch& stretch = *computed.stretches.emplace_back(std::make_unique<Stretch>(spec, format));
    stretch.begin = rows * i / count;
    stretch.end = rows * (i + 1) / count;
  }
  parallel_for(static_cast<int>(count), threads, [&](int i) {
    Stretch& stretch = *computed.stretches[static_cast<std::size_t>(i)];
    const std::uint64_t end = stretch.end;
    stretch.compute(may_go_on);
    if (stretch.end < end) {
      throw InputError("the sweep was stopped");
    }
  });
  for (const auto& stretch : computed.stretches) {
    for (const auto& [row, point] : stretch->points) {
      computed.front.add(point, row);
    }
  }
  return computed;
}

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

std::string text_of_rows(const SweepSpec& spec, RowFormat format, int threads) {
  const Computed computed = compute_all(spec, format, threads);
  RowComputer& first = computed.stretches.front()->computer;
  std::string text = first.header();
  for (const auto& stretch : computed.stretches) {
    text += stretch->text;
  }
  return spec.keep_front.empty() ? text : text + text_of_front(first, computed.front);
}

ColumnTable table_of_rows(const SweepSpec& spec, int threads, const MayGoOn& may_go_on) {
  const Computed computed = compute_all(spec, RowFormat::columns, threads, may_go_on);
  ColumnTable table;
  for (const auto& stretch : computed.stretches) {
    if (!spec.keep_front.empty()) {
      append_front(stretch->computer, computed.front, stretch->batch);
    }
    table.batches.push_back(std::make_shared<Batch>(std::move(stretch->batch)));
    if (!spec.keep_front.empty()) {
      break;  // all of it
    }
  }
  return table;
}

}  // namespace onchip
