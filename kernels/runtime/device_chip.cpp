// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device_chip.hpp"

#include "kernels/runtime/device.hpp"

#include <optional>
#include <string>
#include <string_view>
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

Chip device_chip() {
  constexpr std::string_view kMaker = "NVIDIA ";
  const DeviceInfo info = device_info();
  const std::string name = info.name.substr(info.name.starts_with(kMaker) ? kMaker.size() : 0);
  std::optional<Chip> chip;
  bool is_by_name = false;
  for (const Chip& of : all_shipped_chips()) {
    const bool is_alike = of.architecture == info.architecture && of.sm_count.value == info.sm_count;
    if (of.name == name || (is_alike && !chip)) {
      chip = of;
      is_by_name = of.name == name;
    }
  }
  if (!chip) {
    chip = find_chip("h200").chip;
  }
  if (!is_by_name) {
    chip->architecture = info.architecture;
    chip->compute_capability_major.value = device_attribute(cudaDevAttrComputeCapabilityMajor);
    chip->compute_capability_minor.value = device_attribute(cudaDevAttrComputeCapabilityMinor);
    chip->l2_bytes.value = device_attribute(cudaDevAttrL2CacheSize);
  }
  chip->sm_count.value = info.sm_count;
  chip->smem_bytes_per_block.value = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return *chip;
}

}  // namespace onchip
