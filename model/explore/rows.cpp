// SPDX-License-Identifier: Apache-2.0
#include "model/explore/rows.hpp"

#include "model/base/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace onchip {

void Stretch::compute(const std::atomic<bool>* is_stopped) {
  text.clear();
  Front front(computer.objectives().size());
  for (std::uint64_t i = begin; i < end; ++i) {
    if (is_stopped != nullptr && is_stopped->load(std::memory_order_relaxed)) {
      end = i;
      break;
    }
    if (!computer.compute(i)) {
      continue;
    }
    if (!keeps_front) {
      computer.append_to(text);
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

std::string text_of_front(RowComputer& computer, const Front& front) {
  auto rows = front.all();
  std::ranges::sort(rows, {}, [](const auto& row) { return row.first; });
  std::string text;
  for (const auto& [row, point] : rows) {
    computer.compute(row);
    computer.append_to(text);
  }
  return text;
}

std::string text_of_rows(const SweepSpec& spec, RowFormat format, int threads) {
  const std::uint64_t rows = spec.size();
  const std::uint64_t count = std::min<std::uint64_t>(rows, threads == 1 ? 1 : 4 * static_cast<unsigned>(threads));
  std::vector<std::unique_ptr<Stretch>> stretches;
  for (std::uint64_t i = 0; i < count; ++i) {
    stretches.push_back(std::make_unique<Stretch>(spec, format));
    stretches.back()->begin = rows * i / count;
    stretches.back()->end = rows * (i + 1) / count;
  }
  parallel_for(static_cast<int>(count), threads, [&](int i) { stretches[static_cast<std::size_t>(i)]->compute(); });
  std::string text = stretches.front()->computer.header();
  Front front(spec.keep_front.size());
  for (const auto& stretch : stretches) {
    text += stretch->text;
    for (const auto& [row, point] : stretch->points) {
      front.add(point, row);
    }
  }
  return spec.keep_front.empty() ? text : text + text_of_front(stretches.front()->computer, front);
}

}  // namespace onchip
