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
  int device = 0, major = 0, minor = 0, shared_bytes = 0, l2_bytes = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
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
    chip->compute_capability_major.value = major;
    chip->compute_capability_minor.value = minor;
    chip->l2_bytes.value = l2_bytes;
  }
  chip->sm_count.value = info.sm_count;
  chip->smem_bytes_per_block.value = shared_bytes;
  return *chip;
}

}  // namespace onchip
