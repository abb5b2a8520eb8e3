// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/random_fill.hpp"

#include "kernels/baselines/baseline.hpp"
#include "kernels/recurrent/recurrence.hpp"  // to_elements
#include "model/base/numeric.hpp"
#include "model/workload/reference.hpp"

#include <algorithm>
#include <cstring>
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

namespace {

// By their bits: there may be many. `exponent`: of what is not finite.
template <typename Bits>
void check_bits(const std::vector<std::byte>& bytes, Bits exponent) {
  std::vector<Bits> values(bytes.size() / sizeof(Bits));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Bits));
  const auto bad = std::ranges::find_if(values, [&](Bits bits) { return (bits & exponent) == exponent; });
  if (bad != values.end()) {
    throw BaselineRefusal("output element " + std::to_string(bad - values.begin()) + " of " +
                          std::to_string(values.size()) + " was not written or is not finite");
  }
  if (std::ranges::all_of(values, [&](Bits bits) { return bits == values[0]; })) {
    throw BaselineRefusal("the output is constant");
  }
}

}  // namespace

void check_written(const DeviceBuffer<std::byte>& buffer, Precision precision) {
  // Gigabytes would take longer to read than to compute.
  constexpr std::size_t kPieces = 16, kPieceBytes = std::size_t{4} << 20, kElementBytes = 16;
  std::vector<std::byte> bytes;
  if (buffer.bytes() <= kPieces * kPieceBytes) {
    bytes = buffer.download();
  } else {
    bytes.resize(kPieces * kPieceBytes);
    for (std::size_t i = 0; i < kPieces; ++i) {
      const std::size_t from = (buffer.bytes() - kPieceBytes) / (kPieces - 1) * i / kElementBytes * kElementBytes;
      ONCHIP_CUDA_CHECK(
          cudaMemcpy(bytes.data() + i * kPieceBytes, buffer.data() + from, kPieceBytes, cudaMemcpyDeviceToHost));
    }
  }
  switch (precision) {
    case Precision::fp32:
      return check_bits<std::uint32_t>(bytes, 0x7f800000);
    case Precision::bf16:
      return check_bits<std::uint16_t>(bytes, 0x7f80);
    case Precision::fp16:
    case Precision::fp8:
      return check_bits<std::uint16_t>(bytes, 0x7c00);
  }
}

void check_products(const std::string& what, std::span<const double> expected, std::span<const float> got,
                    Precision precision) {
  const double error = relative_error(expected, got);
  if (!(error <= 16 * info(precision).unit_roundoff + 1e-5)) {
    throw BaselineRefusal("wrong: " + what + " relative error is " + std::to_string(error));
  }
}

}  // namespace onchip
