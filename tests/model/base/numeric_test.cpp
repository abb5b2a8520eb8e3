// SPDX-License-Identifier: Apache-2.0
// e4m3 and the state of fp8; rounding to the other types is tested in mask_test.cpp.
#include "model/base/numeric.hpp"

#include "tests/catch.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

using namespace onchip;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// By the definition of the format.
double decode(int code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  const double magnitude = exponent ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9);
  return code & 0x80 ? -magnitude : magnitude;
}

// The nearest of all finite codes of the value's sign, ties to the even code: slow and obviously right.
int search(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  if (magnitude > 448) {
    return sign | 0x7e;
  }
  int best = 0;
  for (int code = 1; code < 0x7f; ++code) {
    const double distance = std::abs(decode(code) - magnitude);
    const double best_distance = std::abs(decode(best) - magnitude);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
    }
  }
  return sign | best;
}

}  // namespace

TEST_CASE("every e4m3 code stands for its number", "[numeric][fast]") {
  for (int code = 0; code < 256; ++code) {
    const float value = from_e4m3(static_cast<std::uint8_t>(code));
    CAPTURE(code);
    CHECK(std::signbit(value) == (code >= 0x80));
    if ((code & 0x7f) == 0x7f) {
      CHECK(std::isnan(value));
    } else {
      CHECK(value == decode(code));
      CHECK(to_e4m3(value) == code);
    }
  }
  CHECK(from_e4m3(0x7e) == 448);
  CHECK(from_e4m3(0x38) == 1);
  CHECK(from_e4m3(0x01) == 0x1p-9F);
  CHECK(from_e4m3(0x08) == 0x1p-6F);
}

TEST_CASE("rounding to e4m3 finds the nearest of all codes, ties to even", "[numeric][fast]") {
  // Rounding is monotonic, so agreement at every number, every midpoint and their neighbours is agreement everywhere.
  int disagreements = 0;
  const auto check = [&](double centre) {
    const auto value = static_cast<float>(centre);
    for (const float near : {value, std::nextafter(value, 0.0F), std::nextafter(value, kInfinity)}) {
      disagreements += to_e4m3(near) != search(near);
      disagreements += to_e4m3(-near) != search(-near);
    }
  };
  for (int code = 0; code < 0x7e; ++code) {
    check(decode(code));
    check((decode(code) + decode(code + 1)) / 2);
  }
  check(448);
  CHECK(disagreements == 0);
}

TEST_CASE("what is too large for e4m3 saturates, and NaN stays NaN", "[numeric][fast]") {
  for (const float value : {448.0F, 449.0F, 463.9F, 464.0F, 480.0F, 512.0F, kLargest, kInfinity}) {
    CAPTURE(value);
    CHECK(to_e4m3(value) == 0x7e);
    CHECK(to_e4m3(-value) == 0xfe);
  }
  for (const std::uint32_t nan : {0x7f800001U, 0x7fc00000U, 0xff800001U, 0xffffffffU}) {
    CHECK(to_e4m3(std::bit_cast<float>(nan)) == 0x7f);
  }
}

TEST_CASE("the scale of a row brings its largest weight above 14, and to 28 at most", "[numeric][fast]") {
  int outside = 0;
  const auto check = [&](float largest) {
    const float scale = e4m3_scale(largest);
    int exponent = 0;
    outside += std::frexp(scale, &exponent) != 0.5F;
    outside += !(largest / scale > 14 && largest / scale <= 28);
  };
  for (int exponent = -121; exponent < 124; ++exponent) {
    for (const float fraction : {8.0F, 13.0F, 14.0F, 14.1F, 15.0F}) {
      const float value = std::ldexp(fraction, exponent);
      check(value);
      check(std::nextafter(value, 0.0F));
      check(std::nextafter(value, kInfinity));
    }
  }
  check(kLargest);
  CHECK(outside == 0);
  CHECK(e4m3_scale(14) == 0.5F);
  CHECK(e4m3_scale(std::nextafter(14.0F, 15.0F)) == 1);
  CHECK(e4m3_scale(28) == 1);
  CHECK(e4m3_scale(std::nextafter(28.0F, 29.0F)) == 2);
}

TEST_CASE("no scale is zero or subnormal", "[numeric][fast]") {
  CHECK(e4m3_scale(0) == 1);
  CHECK(e4m3_scale(28 * 0x1p-126F) == 0x1p-126F);
  CHECK(e4m3_scale(0x1p-126F) == 0x1p-126F);
  CHECK(e4m3_scale(std::numeric_limits<float>::denorm_min()) == 0x1p-126F);
}

TEST_CASE("the state of fp8 is fp16", "[numeric][fast]") {
  CHECK(state_type(Precision::fp8) == Precision::fp16);
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    CHECK(state_type(precision) == precision);
  }
  CHECK(info(Precision::fp8).bytes == info(Precision::fp16).bytes);
  CHECK(info(Precision::fp8).unit_roundoff == info(Precision::fp16).unit_roundoff);
  int disagreements = 0;
  for (std::uint32_t bits = 0; bits < 1U << 16; ++bits) {
    const float value = from_bits(Precision::fp16, bits);
    const float between = value * 1.0003F;
    const auto same = [&](float a, float b) {
      disagreements += std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
    };
    same(from_bits(Precision::fp8, bits), value);
    same(round_to(Precision::fp8, between), round_to(Precision::fp16, between));
    disagreements += to_bits(Precision::fp8, between) != to_bits(Precision::fp16, between);
  }
  CHECK(disagreements == 0);
}
