// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device_chip.hpp"

#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace onchip {
namespace {

// Parsed once, however often a device is asked for.
const std::vector<Chip>& all_shipped_chips() {
  static const std::vector<Chip> chips = [] {
    std::vector<Chip> all;
    for (const std::string& name : shipped_chips()) {
      all.push_back(find_chip(name).chip);
    }
    return all;
  }();
  return chips;
}

}  // namespace

ChipFile device_chip_file() {
  const DeviceInfo info = device_info();
  if (const Chip* const chip = chip_of_gpu(all_shipped_chips(), info.name, info.sm_count)) {
    return find_chip(chip->name);
  }
  throw InputError("no chip file is of this GPU, " + in_quotes(info.name) + " with " + std::to_string(info.sm_count) +
                   " SMs: expected --chip NAME|FILE; docs/add-a-chip.md says how to add one");
}

Chip device_chip() {
  const DeviceInfo info = device_info();
  const std::vector<Chip>& chips = all_shipped_chips();
  const Chip* const by_name = chip_of_gpu(chips, info.name, info.sm_count);
  const auto alike = std::ranges::find_if(chips, [&](const Chip& of) {
    return of.architecture == info.architecture && of.sm_count.value == info.sm_count;
  });
  Chip chip = by_name != nullptr ? *by_name : alike != chips.end() ? *alike : find_chip("h200").chip;
  if (by_name == nullptr) {
    chip.architecture = info.architecture;
    chip.compute_capability_major.value = device_attribute(cudaDevAttrComputeCapabilityMajor);
    chip.compute_capability_minor.value = device_attribute(cudaDevAttrComputeCapabilityMinor);
    chip.l2_bytes.value = device_attribute(cudaDevAttrL2CacheSize);
  }
  chip.sm_count.value = info.sm_count;
  chip.smem_bytes_per_block.value = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return chip;
}

}  // namespace onchip
