// SPDX-License-Identifier: Apache-2.0
// Numbers as the kernels store them.
#pragma once

#include "model/base/precision.hpp"

#include <cstdint>

namespace onchip {

// ---- elements of the state and the input: those of fp8 are fp16 (see state_type) ------------------------------------

// `value` rounded to nearest even in `precision`; overflow becomes infinity.
float round_to(Precision precision, float value);

// The bits of round_to(precision, value), in the low half for 16-bit types.
std::uint32_t to_bits(Precision precision, float value);
float from_bits(Precision precision, std::uint32_t bits);

// ---- weights of fp8: e4m3, 1 sign, 4 exponent (bias 7) and 3 fraction bits ------------------------------------------

// Nearest even; beyond +-448, infinities too, saturates there; NaN is 0x7f. -0 and underflow keep their sign.
std::uint8_t to_e4m3(float value);
float from_e4m3(std::uint8_t code);

// What a row's weights are divided by before to_e4m3: the power of two s with `largest_magnitude` / s in (14, 28], but
// at least 2^-126, so that no chip flushes it to zero; 1 for a row of zeros. Must be finite and not negative. Why not
// up to 448: products with the state are summed in fp16, whose largest number is 65504.
float e4m3_scale(float largest_magnitude);

}  // namespace onchip
