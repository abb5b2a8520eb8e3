// SPDX-License-Identifier: Apache-2.0
// Random device buffers of any size. The values repeat after a million: times do not depend on that, and the
// largest weights are gigabytes.
#pragma once

#include "kernels/runtime/device.hpp"
#include "model/workload/recurrent.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// min(count, a million) values, uniform in [-limit, limit], rounded to `precision`.
std::vector<float> random_pattern(std::size_t count, Precision precision, float limit, unsigned seed);

// Element i of the buffer becomes pattern[i % pattern.size()]; done when this returns.
void fill(const DeviceBuffer<std::byte>& buffer, Precision precision, std::span<const float> pattern);

// Every byte 0xff, which is NaN in every precision; done when this returns.
void poison(const DeviceBuffer<std::byte>& buffer);

// Throws BaselineRefusal unless all elements were written since, are finite and not all the same; of more than 64 MiB,
// those of 16 pieces from the first to the last.
void check_written(const DeviceBuffer<std::byte>& buffer, Precision precision);

// Throws BaselineRefusal if products are farther from sums in double precision than libraries may be, which may add
// parts of a sum in the precision of the result.
void check_products(const std::string& what, std::span<const double> expected, std::span<const float> got,
                    Precision precision);

}  // namespace onchip
