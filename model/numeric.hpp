// SPDX-License-Identifier: Apache-2.0
// Numbers as the kernels store them.
#pragma once

#include "model/network.hpp"

#include <cstdint>

namespace onchip {

// `value` rounded to nearest even in `precision`; overflow becomes infinity.
float round_to(Precision precision, float value);

// The bits of round_to(precision, value), in the low half for 16-bit types.
std::uint32_t to_bits(Precision precision, float value);
float from_bits(Precision precision, std::uint32_t bits);

}  // namespace onchip
