// SPDX-License-Identifier: Apache-2.0
#include "model/chip/chip_base.hpp"

#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

constexpr std::string_view kEstimated = "estimated: ";

Number possible(const ChipKey& row, Number number) {
  return {std::clamp(number.value, row.minimum, row.maximum), number.half_width};
}

void set(ChipFile& file, std::string_view key, Number number, const std::string& source) {
  const ChipKey& row = *find_key(key);
  file.chip.*row.member = possible(row, number);
  file.provenance[std::string(key)].source = source;
}

}  // namespace

ChipFile taken_from(const ChipFile& base) {
  ChipFile file = base;
  file.base = base.chip.name;
  const std::string whose = "the " + base.chip.name + "'s";
  for (const ChipKey& row : chip_keys()) {
    Number& number = file.chip.*row.member;
    std::string& source = file.provenance.find(row.key)->second.source;
    const bool was_estimated = source.starts_with(kEstimated);
    if (!was_estimated && number.half_width == 0 && !source.starts_with("measured")) {
      source = whose + ": " + source;
      continue;
    }
    if (!was_estimated) {
      const double factor = row.key.ends_with("scatter") ? 2 : 1;
      number =
          possible(row, {number.value * factor, std::max(2 * factor * number.half_width, number.value * factor / 10)});
    }
    source =
        std::string(kEstimated) + whose + " figure, " + (was_estimated ? source.substr(kEstimated.size()) : source);
  }
  return file;
}

Limit limit_after(const Chip& chip, const ChipKey& row) {
  if (row.member == &Chip::registers_per_sm) {
    return {&Chip::registers_per_block, "registers.per_block", chip.registers_per_sm};
  }
  if (row.member == &Chip::smem_bytes_per_sm) {
    return {&Chip::smem_bytes_per_block, "shared_memory.per_block",
            chip.smem_bytes_per_sm - chip.smem_reserved_bytes_per_block};
  }
  return {};
}

void follow_all(ChipFile& file, const ChipFile& base, const IsGiven& is_given) {
  for (const ChipKey& row : chip_keys()) {
    const Limit limit = limit_after(file.chip, row);
    if (limit.member != nullptr && is_given(row.key) && !is_given(limit.key)) {
      const double more = std::max(0.0, file.chip.*row.member - base.chip.*row.member);
      set(file, limit.key, {std::min(file.chip.*limit.member + more, limit.most), 0},
          "follows " + std::string(row.key));
    }
  }
  Chip& chip = file.chip;
  const double sms = chip.sm_count / base.chip.sm_count, cycles = sms * (chip.clock_hz / base.chip.clock_hz);
  const auto scale = [&](std::string_view key, double factor, double step, const char* by) {
    Number number = chip.*find_key(key)->member;
    if (factor != 1 && !is_given(key)) {
      const double value = std::max(step, step > 0 ? std::round(number * factor / step) * step : number * factor);
      set(file, key, {value, std::max(number.half_width * factor, value / 4)},
          std::string(kEstimated) + "the " + base.chip.name + "'s figure scaled by " + by);
    }
  };
  scale("library.l2_bandwidth", cycles, 0, "SMs and clock");
  scale("l2.slices", sms, 8, "SMs, in whole eights");
  const bool has_clusters = chip.compute_capability_major >= 9;
  if (!has_clusters && chip.cluster_sms > 1 && !is_given("cluster.sms")) {
    set(file, "cluster.sms", {1, 0}, "thread block clusters are there from compute capability 9.0 on");
  }
  if (const double most = chip.cluster_sms > 1 ? chip.sm_count : 0.0;
      chip.cluster_usable_sms > most && !is_given("cluster.usable_sms")) {
    set(file, "cluster.usable_sms", {most, 0}, "follows sm.count and cluster.sms");
  }
}

}  // namespace onchip
