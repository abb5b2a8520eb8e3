// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/random_fill.hpp"

#include "kernels/recurrent/persistent_kernel.hpp"  // to_elements
#include "model/base/numeric.hpp"

#include <algorithm>
#include <random>

namespace onchip {

std::vector<float> random_pattern(std::size_t count, Precision precision, float limit, unsigned seed) {
  // A prime: no row of a matrix repeats another one in place.
  constexpr std::size_t kPeriod = (1u << 20) + 7;
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> uniform(-limit, limit);
  std::vector<float> pattern(std::min(count, kPeriod));
  std::generate(pattern.begin(), pattern.end(), [&] { return round_to(precision, uniform(generator)); });
  return pattern;
}

void fill(const DeviceBuffer<std::byte>& buffer, Precision precision, std::span<const float> pattern) {
  const std::vector<std::byte> elements = to_elements(pattern, precision);
  ONCHIP_CUDA_CHECK(
      cudaMemcpy(buffer.data(), elements.data(), std::min(elements.size(), buffer.bytes()), cudaMemcpyHostToDevice));
  // What is there is copied behind itself.
  for (std::size_t there = elements.size(); there < buffer.bytes(); there *= 2) {
    ONCHIP_CUDA_CHECK(cudaMemcpy(buffer.data() + there, buffer.data(), std::min(there, buffer.bytes() - there),
                                 cudaMemcpyDeviceToDevice));
  }
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // runs are on streams that do not wait for these copies
}

void poison(const DeviceBuffer<std::byte>& buffer) {
  ONCHIP_CUDA_CHECK(cudaMemset(buffer.data(), 0xff, buffer.bytes()));
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace onchip
