// SPDX-License-Identifier: Apache-2.0
// Each arithmetic instruction of PTX against what C++ says.
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "sim/ptx/numerics.hpp"
#include "tests/catch.hpp"
#include "tests/sim/ptx/kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace onchip {
namespace {

using Signed = std::int32_t;

// Operands at the edges of everything, and random ones.
std::vector<std::array<Word, 3>> operands() {
  const std::vector<Word> edges{0,          1,          31,         32,         33,         0x7fffffff,
                                0x80000000, 0xffffffff, 0x3f800000, 0x7f800000, 0x7fc00000, 0x00000001,
                                0x80000001, 0x477fe000, 0x477ff000, 0x33000000, 0x33000001, 0x38ffe000};
  std::vector<std::array<Word, 3>> all;
  std::mt19937 random(7);
  for (std::size_t i = 0; i < 512; ++i) {
    const auto one = [&] { return random() % 3 == 0 ? edges[random() % edges.size()] : static_cast<Word>(random()); };
    all.push_back({one(), one(), one()});
  }
  return all;
}

// A text, and what of three operands it puts into %r4.
template <typename Operand>
struct Row {
  std::string text;
  std::function<Word(Operand, Operand, Operand)> oracle;
};

template <typename Operand>
void check_rows(const std::vector<Row<Operand>>& rows, const std::vector<std::array<Word, 3>>& given) {
  for (const Row<Operand>& row : rows) {
    const auto got = computed(row.text, given);
    REQUIRE(got.size() == given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto [a, b, c] = given[i];
      const Word expected = row.oracle(std::bit_cast<Operand>(a), std::bit_cast<Operand>(b), std::bit_cast<Operand>(c));
      if (got[i] != expected) {
        FAIL(row.text << " of " << a << ", " << b << ", " << c << ": " << got[i] << " instead of " << expected);
      }
    }
  }
}

TEST_CASE("integer and bit instructions of PTX give what C++ says", "[ptx]") {
  const std::vector<Row<Word>> rows{
      {"add.s32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a + b; }},
      {"sub.s32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a - b; }},
      {"mul.lo.s32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a * b; }},
      {"mul.hi.s32 %r4, %r1, %r2;",
       [](Word a, Word b, Word) {
         return static_cast<Word>(std::int64_t{static_cast<Signed>(a)} * static_cast<Signed>(b) >> 32);
       }},
      {"mul.hi.u32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return static_cast<Word>(std::uint64_t{a} * b >> 32); }},
      {"mad.lo.s32 %r4, %r1, %r2, %r3;", [](Word a, Word b, Word c) { return a * b + c; }},
      {"mul.wide.s32 %rd2, %r1, %r2; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r4, %rd2;",
       [](Word a, Word b, Word) {
         return static_cast<Word>(std::int64_t{static_cast<Signed>(a)} * static_cast<Signed>(b) >> 32);
       }},
      {"min.s32 %r4, %r1, %r2;",
       [](Word a, Word b, Word) { return static_cast<Signed>(a) < static_cast<Signed>(b) ? a : b; }},
      {"max.u32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return std::max(a, b); }},
      {"div.u32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return b == 0 ? ~0u : a / b; }},
      {"rem.u32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return b == 0 ? a : a % b; }},
      {"div.s32 %r4, %r1, 7;", [](Word a, Word, Word) { return static_cast<Word>(static_cast<Signed>(a) / 7); }},
      {"div.s32 %r4, %r1, -1;", [](Word a, Word, Word) { return 0 - a; }},
      {"shl.b32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return b > 31 ? 0 : a << b; }},
      {"shr.u32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return b > 31 ? 0 : a >> b; }},
      {"shr.s32 %r4, %r1, %r2;",
       [](Word a, Word b, Word) { return static_cast<Word>(static_cast<Signed>(a) >> std::min(b, 31u)); }},
      {"shf.r.wrap.b32 %r4, %r1, %r2, %r3;",
       [](Word a, Word b, Word c) { return c % 32 == 0 ? a : a >> c % 32 | b << (32 - c % 32); }},
      {"and.b32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a & b; }},
      {"or.b32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a | b; }},
      {"xor.b32 %r4, %r1, %r2;", [](Word a, Word b, Word) { return a ^ b; }},
      {"not.b32 %r4, %r1;", [](Word a, Word, Word) { return ~a; }},
      {"neg.s32 %r4, %r1;", [](Word a, Word, Word) { return 0 - a; }},
      {"bfi.b32 %r4, %r1, %r2, 5, 11;", [](Word a, Word b, Word) { return (b & ~(0x7ffu << 5)) | (a & 0x7ff) << 5; }},
      {"bfi.b32 %r4, %r1, %r2, 2, 30;", [](Word a, Word b, Word) { return (b & 3) | a << 2; }},
      {"bfe.u32 %r4, %r1, 5, 11;", [](Word a, Word, Word) { return a >> 5 & 0x7ff; }},
      {"bfe.s32 %r4, %r1, 5, 11;",
       [](Word a, Word, Word) { return static_cast<Word>(static_cast<Signed>(a << 16) >> 21); }},
      {"prmt.b32 %r4, %r1, %r2, 21554;",  // 0x5432
       [](Word a, Word b, Word) { return a >> 16 | b << 16; }},
      {"prmt.b32 %r4, %r1, 0, 45040;",  // 0xaff0: the sign of byte 7, byte 7's sign, byte 2's sign
       [](Word a, Word, Word) { return (a & 255) | ((a >> 16 & 128) != 0 ? 0xff000000u : 0); }},
      {"brev.b32 %r4, %r1; bfind.shiftamt.u32 %r4, %r4;",
       [](Word a, Word, Word) { return a == 0 ? ~0u : static_cast<Word>(std::countr_zero(a)); }},
      {"popc.b32 %r4, %r1;", [](Word a, Word, Word) { return static_cast<Word>(std::popcount(a)); }},
      {"clz.b32 %r4, %r1;", [](Word a, Word, Word) { return static_cast<Word>(std::countl_zero(a)); }},
      {"lop3.b32 %r4, %r1, %r2, %r3, 202;",  // 0xca: a ? b : c
       [](Word a, Word b, Word c) { return (a & b) | (~a & c); }},
      {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r4, %r3, 5, %p1;",
       [](Word a, Word b, Word c) { return static_cast<Signed>(a) < static_cast<Signed>(b) ? c : 5; }},
      {"setp.ge.u32 %p1, %r1, %r2; not.pred %p2, %p1; setp.ne.s32 %p3, %r3, 0; and.pred %p4, %p2, %p3; selp.u32 %r4, "
       "1, 0, "
       "%p4;",
       [](Word a, Word b, Word c) { return Word{a < b && c != 0}; }},
      {"mov.pred %p1, -1; mov.pred %p2, 0; selp.u32 %r4, %r1, 0, %p1; @%p2 mov.u32 %r4, 3;",
       [](Word a, Word, Word) { return a; }},
      {"mov.u32 %r4, 9; setp.eq.s32 %p1, %r1, %r1; @!%p1 mov.u32 %r4, 3; @%p1 add.s32 %r4, %r4, %r2;",
       [](Word, Word b, Word) { return 9 + b; }},
      {"cvt.u16.u32 %h1, %r1; cvt.s32.s16 %r4, %h1;",
       [](Word a, Word, Word) { return static_cast<Word>(Signed{static_cast<std::int16_t>(a)}); }},
      {"cvt.s64.s32 %rd2, %r1; shr.s64 %rd2, %rd2, 4; cvt.u32.u64 %r4, %rd2;",
       [](Word a, Word, Word) { return static_cast<Word>(static_cast<Signed>(a) >> 4); }},
      {"mov.b32 {%h1, %h2}, %r1; mov.b32 %r4, {%h2, %h1};", [](Word a, Word, Word) { return a >> 16 | a << 16; }},
      {"mov.b64 %rd2, {%r1, %r2}; mov.b64 {%r5, %r4}, %rd2;", [](Word, Word b, Word) { return b; }},
      {"{ .reg .b128 word; .reg .b64 low, high; mov.b64 low, {%r1, %r2}; mov.b64 high, {%r3, %r1}; mov.b128 word, "
       "{low, "
       "high}; mov.b128 {low, high}, word; mov.b64 {%r4, %r5}, high; }",
       [](Word, Word, Word c) { return c; }},
  };
  check_rows(rows, operands());
}

// The largest half that is not above, by bisection; 0 of what is negative.
std::uint16_t positive_half_below(float value) {
  if (value != value) {
    return 0x7fff;
  }
  std::uint16_t low = 0, high = 0x7c00;  // infinity: only if it is that
  if (std::isinf(value) && value > 0) {
    return high;
  }
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (ptx::half_to_float(middle) <= value ? low : high) = middle;
  }
  return low;
}

TEST_CASE("floating-point instructions of PTX round once, and NaN is the canonical one", "[ptx]") {
  const auto flushed = [](float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; };
  const std::vector<Row<float>> rows{
      {"add.f32 %r4, %r1, %r2;", [](float a, float b, float) { return bits(a + b); }},
      {"sub.f32 %r4, %r1, %r2;", [](float a, float b, float) { return bits(a - b); }},
      {"mul.f32 %r4, %r1, %r2;", [](float a, float b, float) { return bits(a * b); }},
      {"fma.rn.f32 %r4, %r1, %r2, %r3;", [](float a, float b, float c) { return bits(std::fma(a, b, c)); }},
      {"abs.f32 %r4, %r1;", [](float a, float, float) { return std::bit_cast<Word>(a) & 0x7fffffff; }},
      {"copysign.f32 %r4, %r1, %r2;",
       [](float a, float b, float) {
         return (std::bit_cast<Word>(b) & 0x7fffffff) | (std::bit_cast<Word>(a) & 0x80000000);
       }},
      {"setp.geu.f32 %p1, %r1, %r2; selp.u32 %r4, 1, 0, %p1;", [](float a, float b, float) { return Word{!(a < b)}; }},
      {"setp.ge.f32 %p1, %r1, %r2; selp.u32 %r4, 1, 0, %p1;", [](float a, float b, float) { return Word{a >= b}; }},
      {"setp.nan.f32 %p1, %r1, %r1; selp.u32 %r4, 1, 0, %p1;", [](float a, float, float) { return Word{a != a}; }},
      {"ex2.approx.ftz.f32 %r4, %r1;",
       [=](float a, float, float) { return bits(flushed(static_cast<float>(std::exp2(double{flushed(a)})))); }},
      {"rcp.approx.ftz.f32 %r4, %r1;", [=](float a, float, float) { return bits(flushed(1.0f / flushed(a))); }},
      {"cvt.rn.f16.f32 %h1, %r1; cvt.u32.u16 %r4, %h1;", [](float a, float, float) { return Word{nearest_half(a)}; }},
      {"min.NaN.f32 %r4, %r1, %r2;",
       [](float a, float b, float) {
         return a != a || b != b ? Word{0x7fffffff} : bits(a < b || (a == b && std::signbit(a)) ? a : b);
       }},
      {"cvt.rn.relu.f16x2.f32 %r4, %r1, %r2;",
       [](float a, float b, float) { return Word{nearest_half(a <= 0 ? 0 : a)} << 16 | nearest_half(b <= 0 ? 0 : b); }},
      {"cvt.rz.relu.f16x2.f32 %r4, %r1, %r2;",
       [](float a, float b, float) { return Word{positive_half_below(a)} << 16 | positive_half_below(b); }},
      {"cvt.rn.bf16.f32 %h1, %r1; cvt.u32.u16 %r4, %h1;",
       [](float a, float, float) {
         const Word word = std::bit_cast<Word>(a);
         return a != a ? 0x7fffu : word / 0x10000 + Word{(word & 0xffff) + (word >> 16 & 1) > 0x8000};
       }},
  };
  auto given = operands();
  for (std::size_t i = 0; i < given.size(); i += 2) {  // and some of like size
    for (Word& word : given[i]) {
      word = std::bit_cast<Word>((static_cast<float>(word >> 8) * 0x1p-23f - 1.0f) * (i % 4 == 0 ? 1.0f : 70000.0f));
    }
  }
  check_rows(rows, given);
  // Pairs of halves: exact in long double, but for what overflows anyway.
  std::mt19937 random(3);
  std::vector<std::array<Word, 3>> pairs(256);
  const auto of_half = [](Word half) {
    const int exponent = static_cast<int>(half >> 10 & 31);
    const double magnitude = exponent == 0 ? (half & 1023) * 0x1p-24 : std::ldexp(1024 + (half & 1023), exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
  };
  for (auto& three : pairs) {
    for (Word& word : three) {
      word = static_cast<Word>(random()) & 0xbbffbbffu;  // no infinities, exponents up to 14
    }
  }
  const auto fused = computed("fma.rn.f16x2 %r4, %r1, %r2, %r3;", pairs);
  const auto products = computed("mul.rn.f16x2 %r4, %r1, %r2;", pairs);
  const auto lesser = computed("min.f16x2 %r4, %r1, %r2;", pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const int shift : {0, 16}) {
      const double a = of_half(pairs[i][0] >> shift), b = of_half(pairs[i][1] >> shift),
                   c = of_half(pairs[i][2] >> shift);
      CAPTURE(pairs[i][0], pairs[i][1], pairs[i][2], shift);
      REQUIRE((fused[i] >> shift & 0xffff) == nearest_half(a * b + c));
      REQUIRE((products[i] >> shift & 0xffff) == nearest_half(a * b));
      REQUIRE((lesser[i] >> shift & 0xffff) == (pairs[i][a < b ? 0 : 1] >> shift & 0xffff));
    }
  }
}

TEST_CASE("the interpreter rounds as the reference does, whose code is another", "[fast]") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = ptx::half_to_float(static_cast<std::uint16_t>(bits)), other = from_bits(Precision::fp16, bits);
    if (!(half == other || (std::isnan(half) && std::isnan(other)))) {
      FAIL(bits << " as a half: " << half << ", " << other);
    }
  }
  std::mt19937 random(11);
  for (int trial = 0; trial < 1000000; ++trial) {
    // Exponents around those of a half.
    const auto bits = static_cast<std::uint32_t>((random() & 0x807fffffu) | (100 + random() % 48) << 23);
    const float value = std::bit_cast<float>(bits);
    if (ptx::to_half(value) != to_bits(Precision::fp16, value) ||
        ptx::to_bf16(value) != to_bits(Precision::bf16, value)) {
      FAIL(value << " rounded");
    }
  }
}

}  // namespace
}  // namespace onchip
