// SPDX-License-Identifier: Apache-2.0
// The interpreter of PTX on small texts: each kind of instruction against what C++ says, warps that part and meet, and
// everything that a kernel can do wrong.
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "sim/ptx/machine.hpp"
#include "sim/ptx/numerics.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace onchip {
namespace {

using ptx::Fault;
using ptx::Launch;
using ptx::Machine;

// A kernel with one parameter, the address of its memory; %rd1: of this thread's `stride` bytes of it.
std::string kernel(const std::string& body, int stride = 4, const std::string& before = "") {
  return ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n" + before +
         ".visible .entry k(.param .u64 k_param_0)\n{\n"
         ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .b32 %f<40>;\n.reg .b64 %rd<9>;\n"
         "ld.param.u64 %rd0, [k_param_0];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, " +
         std::to_string(stride) + ";\nadd.s64 %rd1, %rd0, %rd1;\n" + body + "\nret;\n}\n";
}

struct Shape {
  int blocks = 1, threads = 32;
  std::size_t shared = 0;
  bool cooperative = true;
  std::uint64_t most = 1 << 20;
};

ptx::Counts run(const std::string& text, std::span<std::uint32_t> memory, const Shape& shape = {}) {
  Machine machine(ptx::parse(text, "test.ptx"));
  machine.memory().add(std::as_writable_bytes(memory));
  const std::uint32_t* const pointer = memory.data();
  return machine.launch("k", {.blocks = shape.blocks,
                              .threads = shape.threads,
                              .dynamic_shared_bytes = shape.shared,
                              .cooperative = shape.cooperative,
                              .parameters = std::as_bytes(std::span(&pointer, 1)),
                              .most_instructions = shape.most});
}

std::string fault_of(const std::string& text, const Shape& shape = {}, std::size_t words = 64) {
  std::vector<std::uint32_t> memory(words);
  try {
    run(text, memory, shape);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

// "", or the text if one of the phrases is not in it.
std::string unsaid(const std::string& text, std::initializer_list<const char*> phrases) {
  const bool says_all =
      std::ranges::all_of(phrases, [&](const char* phrase) { return text.find(phrase) != std::string::npos; });
  return says_all ? "" : text;
}

// "op %r4, %r1, %r2, %r3;" of 32 lanes with these operands.
std::vector<std::uint32_t> computed(const std::string& instructions,
                                    const std::vector<std::array<std::uint32_t, 3>>& operands) {
  std::vector<std::uint32_t> memory(4 * operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::copy(operands[i].begin(), operands[i].end(), &memory[4 * i]);
  }
  const int threads = static_cast<int>(operands.size());
  run(kernel("ld.global.v2.u32 {%r1, %r2}, [%rd1];\nld.global.u32 %r3, [%rd1+8];\n" + instructions +
                 "\nst.global.u32 [%rd1+12], %r4;",
             16),
      memory, {.threads = threads});
  std::vector<std::uint32_t> results;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    results.push_back(memory[4 * i + 3]);
  }
  return results;
}

using Word = std::uint32_t;
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

float as_float(Word word) {
  return std::bit_cast<float>(word);
}
Word bits(float value) {
  return value == value ? std::bit_cast<Word>(value) : 0x7fffffffu;
}

TEST_CASE("integer and bit instructions of PTX give what C++ says", "[ptx]") {
  struct Row {
    std::string text;
    std::function<Word(Word, Word, Word)> oracle;
  };
  const std::vector<Row> rows{
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
  const auto given = operands();
  for (const Row& row : rows) {
    const auto got = computed(row.text, given);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto [a, b, c] = given[i];
      if (got[i] != row.oracle(a, b, c)) {
        CAPTURE(row.text, a, b, c);
        CHECK(got[i] == row.oracle(a, b, c));
        break;
      }
    }
  }
  SUCCEED();
}

// The nearest half, by trying all of them.
std::uint16_t nearest_half(double value) {
  if (value != value) {
    return 0x7fff;
  }
  const double magnitude = std::abs(value);
  std::uint16_t best = 0;
  double best_error = magnitude;
  for (std::uint16_t half = 1; half <= 0x7c00; ++half) {
    const int exponent = half >> 10;
    const double of = exponent == 0 ? (half & 1023) * 0x1p-24 : std::ldexp(1024 + (half & 1023), exponent - 25);
    const double error = std::abs(of - magnitude);  // infinity counts as 2^16
    if (error < best_error || (error == best_error && half % 2 == 0)) {
      best = half;
      best_error = error;
    }
  }
  return static_cast<std::uint16_t>(magnitude > 65536 ? 0x7c00 : best) |
         static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
}

TEST_CASE("floating-point instructions of PTX round once, and NaN is the canonical one", "[ptx]") {
  struct Row {
    std::string text;
    std::function<Word(float, float, float)> oracle;
  };
  const auto flushed = [](float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; };
  const std::vector<Row> rows{
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
  for (const Row& row : rows) {
    const auto got = computed(row.text, given);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const float a = as_float(given[i][0]), b = as_float(given[i][1]), c = as_float(given[i][2]);
      if (got[i] != row.oracle(a, b, c)) {
        CAPTURE(row.text, i, given[i][0], given[i][1], given[i][2]);
        CHECK(got[i] == row.oracle(a, b, c));
        break;
      }
    }
  }
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
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const int shift : {0, 16}) {
      const double a = of_half(pairs[i][0] >> shift), b = of_half(pairs[i][1] >> shift),
                   c = of_half(pairs[i][2] >> shift);
      CAPTURE(pairs[i][0], pairs[i][1], pairs[i][2], shift);
      REQUIRE((fused[i] >> shift & 0xffff) == nearest_half(a * b + c));
      REQUIRE((products[i] >> shift & 0xffff) == nearest_half(a * b));
    }
  }
}

TEST_CASE("lanes that part compute their own and meet again", "[ptx]") {
  // Each lane loops as often as its number says, in a branch of odd ones; then all sum up.
  std::vector<std::uint32_t> memory(32);
  run(kernel("mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nand.b32 %r3, %r0, 1;\nsetp.eq.s32 %p1, %r3, 0;\n@%p1 bra EVEN;\n"
             "LOOP:\nadd.s32 %r1, %r1, %r2;\nadd.s32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, %r0;\n@%p2 bra LOOP;\nbra.uni "
             "MEET;\n"
             "EVEN:\nmul.lo.s32 %r1, %r0, 100;\n"
             "MEET:\nactivemask.b32 %r4;\nsetp.eq.s32 %p3, %r4, -1;\nredux.sync.add.u32 %r5, %r1, -1;\n"
             "@%p3 add.s32 %r1, %r1, %r5;\nst.global.u32 [%rd1], %r1;"),
      memory);
  std::vector<std::uint32_t> expected(32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    expected[lane] = lane % 2 == 0 ? 100 * lane : lane * (lane - 1) / 2;
  }
  const std::uint32_t sum = std::accumulate(expected.begin(), expected.end(), 0u);
  for (std::uint32_t& value : expected) {
    value += sum;
  }
  CHECK(memory == expected);
}

TEST_CASE("lanes exchange values, votes and sums", "[ptx]") {
  const auto result = [](const std::string& body) {
    std::vector<std::uint32_t> memory(32);
    run(kernel("add.s32 %r1, %r0, 100;\n" + body + "\nst.global.u32 [%rd1], %r2;"), memory);
    return memory;
  };
  const auto expected = [](auto of) {
    std::vector<std::uint32_t> values(32);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      values[lane] = static_cast<std::uint32_t>(of(lane));
    }
    return values;
  };
  CHECK(result("shfl.sync.bfly.b32 %r2|%p1, %r1, 5, 31, -1;") == expected([](auto l) { return 100 + (l ^ 5); }));
  CHECK(result("shfl.sync.idx.b32 %r2, %r1, 7, 31, -1;") == expected([](auto) { return 107; }));
  CHECK(result("shfl.sync.idx.b32 %r2, %r1, 1, 6175, -1;") ==
        expected([](auto l) { return 100 + (l & 24) + 1; }));  // 8 lanes
  CHECK(result("shfl.sync.up.b32 %r2|%p1, %r1, 3, 0, -1; @!%p1 mov.u32 %r2, 0;") ==
        expected([](auto l) { return l < 3 ? 0 : 97 + l; }));
  CHECK(result("shfl.sync.down.b32 %r2, %r1, 3, 31, -1;") ==
        expected([](auto l) { return l > 28 ? 100 + l : 103 + l; }));
  CHECK(result("setp.gt.u32 %p1, %r1, 120; vote.sync.ballot.b32 %r2, %p1, -1;") ==
        expected([](auto) { return 0xffe00000; }));
  CHECK(result("setp.gt.u32 %p1, %r1, 130; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1; selp.u32 "
               "%r2, 1, 0, %p2; @%p3 add.s32 %r2, %r2, 2;") == expected([](auto) { return 1; }));
  CHECK(result("redux.sync.max.u32 %r2, %r1, -1;") == expected([](auto) { return 131; }));
  // Halves of a warp with masks of their own, at the same place.
  CHECK(result("setp.lt.u32 %p1, %r0, 16; selp.b32 %r3, 65535, -65536, %p1; redux.sync.add.u32 %r2, %r0, %r3;") ==
        expected([](auto l) { return l < 16 ? 120 : 376; }));
}

TEST_CASE("a product of matrices is the plain loop's", "[ptx]") {
  const bool is_bf16 = GENERATE(false, true);
  std::mt19937 random(11);
  const auto small = [&] {  // exact in both types, and so are the sums
    return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4;
  };
  float a[16][16], b[16][8], c[16][8];
  for (auto& row : a)
    std::generate(row, row + 16, small);
  for (auto& row : b)
    std::generate(row, row + 8, small);
  for (auto& row : c)
    std::generate(row, row + 8, small);
  const auto element = [&](float value) {
    return is_bf16 ? std::bit_cast<Word>(value) >> 16 : Word{nearest_half(value)};
  };
  const auto pair = [&](float low, float high) { return element(low) | element(high) << 16; };
  std::vector<std::uint32_t> memory(32 * 16);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4 * 2;
    const Word words[10] = {pair(a[g][t], a[g][t + 1]),
                            pair(a[g + 8][t], a[g + 8][t + 1]),
                            pair(a[g][t + 8], a[g][t + 9]),
                            pair(a[g + 8][t + 8], a[g + 8][t + 9]),
                            pair(b[t][g], b[t + 1][g]),
                            pair(b[t + 8][g], b[t + 9][g]),
                            bits(c[g][t]),
                            bits(c[g][t + 1]),
                            bits(c[g + 8][t]),
                            bits(c[g + 8][t + 1])};
    std::copy(words, words + 10, &memory[16 * lane]);
  }
  const std::string type = is_bf16 ? "bf16" : "f16";
  run(kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\nld.global.v2.u32 {%r5, %r6}, [%rd1+16];\n"
             "ld.global.v2.f32 {%f1, %f2}, [%rd1+24];\nld.global.v2.f32 {%f3, %f4}, [%rd1+32];\n"
             "mma.sync.aligned.m16n8k16.row.col.f32." +
                 type + "." + type +
                 ".f32 {%f1, %f2, %f3, %f4}, "
                 "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};\n"
                 "st.global.v4.f32 [%rd1+48], {%f1, %f2, %f3, %f4};",
             64),
      memory);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t row = lane / 4 + k / 2 * 8, column = lane % 4 * 2 + k % 2;
      float sum = c[row][column];
      for (int i = 0; i < 16; ++i) {
        sum += a[row][i] * b[i][column];
      }
      CHECK(as_float(memory[16 * lane + 12 + k]) == sum);
    }
  }
}

// What a lane has of a sparse product: 4 words of A, 4 of B, 4 of C, the metadata, and room for the result.
struct SparseProduct {
  float a[16][32] = {}, b[32][8], c[16][8];
  std::vector<std::uint32_t> memory = std::vector<std::uint32_t>(32 * 20);

  // Of every four columns two, at random, in order; both lanes that do not supply the metadata have none that is valid.
  SparseProduct(bool is_bf16, unsigned selector) {
    std::mt19937 random(13 + selector);
    const auto small = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4; };
    const auto element = [&](float value) {
      return is_bf16 ? std::bit_cast<Word>(value) >> 16 : Word{nearest_half(value)};
    };
    const auto pair = [&](float low, float high) { return element(low) | element(high) << 16; };
    for (auto& row : b)
      std::generate(row, row + 8, small);
    for (auto& row : c)
      std::generate(row, row + 8, small);
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t group = 0; group < 8; ++group) {
        const std::size_t first = random() % 3, second = first + 1 + random() % (3 - first);
        a[row][4 * group + first] = small();
        a[row][4 * group + second] = small();
        // Lanes 4 g ... 4 g + 3 have rows g and g + 8; of each the first two words are of columns 0 to 15.
        const std::size_t lane = row % 8 * 4;
        memory[20 * (lane + group % 4) + row / 8 + group / 4 * 2] =
            pair(a[row][4 * group + first], a[row][4 * group + second]);
        memory[20 * (lane + 2 * selector + group / 4) + 12] |= static_cast<Word>(first | second << 2)
                                                               << (group % 4 * 4 + row / 8 * 16);
      }
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t n = lane / 4, k = lane % 4 * 2;
      for (std::size_t i = 0; i < 4; ++i) {
        memory[20 * lane + 4 + i] = pair(b[k + 8 * i][n], b[k + 8 * i + 1][n]);
        memory[20 * lane + 8 + i] = bits(c[n + i / 2 * 8][k + i % 2]);
      }
    }
  }

  void run_with(const std::string& opcode, unsigned selector) {
    run(kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\nld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1+16];\n"
               "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+32];\nld.global.u32 %r9, [%rd1+48];\n" +
                   opcode +
                   " {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%f1, %f2, %f3, %f4}, "
                   "%r9, " +
                   std::to_string(selector) + ";\nst.global.v4.f32 [%rd1+64], {%f1, %f2, %f3, %f4};",
               80),
        memory);
  }
};

TEST_CASE("a product with a 2:4 matrix is the plain loop's", "[ptx]") {
  const bool is_bf16 = GENERATE(false, true);
  const unsigned selector = GENERATE(0u, 1u);
  const std::string type = is_bf16 ? "bf16" : "f16";
  const std::string opcode = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32." + type + "." + type + ".f32";
  SparseProduct product(is_bf16, selector);
  SparseProduct other = product;
  product.run_with(opcode, selector);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = product.c[row][column];
      for (int k = 0; k < 32; ++k) {
        sum += product.a[row][k] * product.b[k][column];
      }
      CHECK(as_float(product.memory[20 * lane + 16 + i]) == sum);
    }
  }
  // The other lanes have no metadata: two equal places.
  CHECK_THROWS_WITH(other.run_with(opcode, 1 - selector), Catch::Matchers::Contains("do not ascend"));
  CHECK_THROWS_WITH(other.run_with(opcode, 2), Catch::Matchers::Contains("selector"));
}

TEST_CASE("warps of a block meet at its barrier, blocks through memory, both as often as they are asked to", "[ptx]") {
  // Every thread writes to shared memory, then reads its neighbour's from the next warp.
  std::vector<std::uint32_t> memory(128);
  run(kernel("mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
             "st.shared.u32 [%r3], %r0;\nbar.sync 0;\nadd.s32 %r4, %r2, 128;\nand.b32 %r4, %r4, 511;\nadd.s32 %r4, "
             "%r4, %r1;\n"
             "ld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd1], %r5;"),
      memory, {.threads = 128, .shared = 512});
  for (std::uint32_t i = 0; i < 128; ++i) {
    CHECK(memory[i] == (i + 32) % 128);
  }
  // The same where half of the warps only announce what they wrote: the others wait for them, at a barrier of their
  // own.
  std::vector<std::uint32_t> half(128);
  run(kernel(
          "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
          "setp.ge.u32 %p1, %r0, 64;\n@%p1 bra READ;\nst.shared.u32 [%r3], %r0;\n"
          "barrier.cta.arrive.aligned 3, 128;\nbra END;\n"
          "READ:\nbarrier.cta.sync.aligned 3, 128;\nld.shared.u32 %r5, [%r3-256];\nst.global.u32 [%rd1], %r5;\nEND:"),
      half, {.threads = 128, .shared = 512});
  for (std::uint32_t i = 0; i < 64; ++i) {
    CHECK(half[64 + i] == i);
  }
  // Eight blocks count up, each when it is its turn: they must all run at once, by turns.
  std::vector<std::uint32_t> counter(2);
  run(kernel("setp.ne.s32 %p1, %r0, 0;\n@%p1 bra END;\nmov.u32 %r1, %ctaid.x;\nxor.b32 %r1, %r1, 7;\n"
             "WAIT:\nld.acquire.gpu.global.u32 %r2, [%rd0];\nsetp.ne.s32 %p2, %r2, %r1;\n@%p2 bra WAIT;\n"
             "atom.global.add.u32 %r3, [%rd0], 1;\nred.relaxed.gpu.global.add.u32 [%rd0+4], %r3;\nEND:"),
      counter, {.blocks = 8, .threads = 64});
  CHECK(counter == std::vector<std::uint32_t>{8, 28});
}

TEST_CASE("a block waits for the bytes of its bulk copies", "[ptx]") {
  std::vector<std::uint32_t> memory(64);
  std::iota(memory.begin(), memory.begin() + 32, 100u);
  run(kernel("mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nsetp.ne.s32 %p1, %r0, 0;\n@%p1 bra READY;\n"
             "mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n"
             "fence.proxy.async;\nREADY:\nbar.sync 0;\nsetp.gt.s32 %p1, %r0, 1;\n@%p1 bra WAIT;\n"
             "mul.lo.s32 %r2, %r0, 64;\nadd.s32 %r3, %r1, %r2;\ncvt.u64.u32 %rd3, %r2;\nadd.s64 %rd3, %rd3, %rd0;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+16], [%rd3], 64, [%r1];\n"
             "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;\n@!%p2 bra WAIT;\n"
             "shl.b32 %r4, %r0, 2;\nadd.s32 %r5, %r4, %r1;\nld.shared.u32 %r6, [%r5+16];\ncvt.u64.u32 %rd3, %r4;\n"
             "add.s64 %rd3, %rd3, %rd0;\nst.global.u32 [%rd3+128], %r6;"),
      memory, {.shared = 144});
  CHECK(std::equal(memory.begin(), memory.begin() + 32, memory.begin() + 32));
}

TEST_CASE("blocks of a cluster store into each other's memory and wait for the bytes", "[ptx]") {
  std::vector<std::uint32_t> memory(4 * 32);
  const std::string body =
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nmov.u32 %r2, %ctaid.x;\nsetp.ne.s32 %p1, %r0, 0;\n@%p1 bra READY;\n"
      "mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n"
      "READY:\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "add.s32 %r3, %r2, 1;\nand.b32 %r3, %r3, 3;\nmapa.shared::cluster.u32 %r4, %r1, %r3;\nshl.b32 %r5, %r0, 2;\n"
      "add.s32 %r5, %r5, %r4;\nmad.lo.s32 %r6, %r2, 1000, %r0;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5+16], %r6, [%r4];\n"
      "WAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r1], 0, 1000;\n@!%p2 bra WAIT;\n"
      "shl.b32 %r7, %r0, 2;\nadd.s32 %r7, %r7, %r1;\nld.shared.u32 %r8, [%r7+16];\nmad.lo.s32 %r9, %r2, 128, %r7;\n"
      "sub.s32 %r9, %r9, %r1;\ncvt.u64.u32 %rd3, %r9;\nadd.s64 %rd3, %rd3, %rd0;\nst.global.u32 [%rd3], %r8;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  std::string text = kernel(body);
  const std::string entry = ".param .u64 k_param_0)\n";
  text.insert(text.find(entry) + entry.size(), ".explicitcluster\n.reqnctapercluster 4, 1, 1\n");
  run(text, memory, {.blocks = 4, .shared = 144, .cooperative = false});
  for (std::uint32_t i = 0; i < 128; ++i) {
    CHECK(memory[i] == (i / 32 + 3) % 4 * 1000 + i % 32);
  }
  CHECK_THROWS_AS(run(text, memory, {.blocks = 6, .shared = 144}), InputError);
}

TEST_CASE("copies land when they are waited for, and are nobody's before", "[ptx]") {
  const std::string begin =
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r1, %r1, %r2;\nmov.u32 %r5, 1;\n"
      "st.global.u32 [%rd1], %r0;\ncp.async.ca.shared.global [%r1], [%rd1], 4;\ncp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+128], [%rd1], 4;\ncp.async.commit_group;\n";
  const auto got = [&](const std::string& rest) {
    std::vector<std::uint32_t> memory(32);
    run(kernel(begin + rest + "\nst.global.u32 [%rd1], %r3;"), memory, {.shared = 256});
    return memory;
  };
  std::vector<std::uint32_t> numbers(32);
  std::iota(numbers.begin(), numbers.end(), 0u);
  const std::vector<std::uint32_t> unknown(32, 0xffffffffu);
  CHECK(got("cp.async.wait_group 1;\nld.shared.u32 %r3, [%r1];") == numbers);
  CHECK(got("cp.async.wait_group 0;\nld.shared.u32 %r3, [%r1+128];") == numbers);
  CHECK(got("cp.async.wait_group 1;\nld.shared.u32 %r3, [%r1+128];") == unknown);
  CHECK(got("ld.shared.u32 %r3, [%r1];") == unknown);
}

TEST_CASE("functions are expanded where they are called, variables have their values", "[ptx]") {
  const std::string before =
      ".global .align 4 .u32 base = 1000;\n.global .align 8 .u64 unset;\n.global .align 4 .b8 table[8] = {7, 0, 0, 0, "
      "9};\n"
      ".func (.param .b32 out) twice(.param .b32 in, .param .b32 flag)\n{\n.reg .b32 %r<4>;\n.reg .b16 %h<2>;\n.reg "
      ".pred %p<2>;\n"
      "ld.param.u32 %r1, [in];\nld.param.s8 %h1, [flag];\ncvt.s32.s16 %r2, %h1;\nsetp.lt.s32 %p1, %r2, 0;\n"
      "@%p1 bra NEGATIVE;\nshl.b32 %r1, %r1, 1;\nst.param.b32 [out], %r1;\nret;\nNEGATIVE:\nst.param.b32 [out], "
      "%r2;\nret;\n}\n";
  const std::string call =
      "{\n.param .b32 a;\nst.param.b32 [a+0], %r1;\n.param .b32 b;\nst.param.b32 [b+0], %r2;\n.param .b32 c;\n"
      "call.uni (c), twice, (a, b);\nld.param.b32 %r1, [c];\n}\n";
  std::vector<std::uint32_t> memory(32);
  run(kernel(
          "ld.global.u32 %r1, [base];\nld.global.u32 %r3, [table+4];\nadd.s32 %r1, %r1, %r3;\nadd.s32 %r1, %r1, %r0;\n"
          "setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r2, 1, 254, %p1;\n" +
              call + call + "st.global.u32 [%rd1], %r1;",
          4, before),
      memory);
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(memory[i] == (i < 16 ? 4 * (1009 + i) : 0xfffffffeu));
  }
}

TEST_CASE("what a kernel does wrong is one fault with line, block and thread", "[ptx]") {
  const std::string smem = "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\n";
  CHECK(unsaid(fault_of(kernel("st.global.u32 [%rd1], %r0;"), {.threads = 96}),
               {"test.ptx:16: block 0, thread 64: st.global.u32: address 0x", "no range"}) == "");
  CHECK(unsaid(fault_of(kernel("mov.u64 %rd2, 0;\nld.global.u32 %r1, [%rd2];")), {"address 0x0 lies in no range"}) ==
        "");
  CHECK(unsaid(fault_of(kernel("ld.global.v2.u32 {%r1, %r2}, [%rd1];")), {"thread 1", "not aligned to 8"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "ld.shared.u32 %r2, [%r1+16];"), {.shared = 32}),
               {"at 0x10 is read, but was never written"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "st.shared.u32 [%r1+32], %r0;"), {.shared = 32}),
               {"4 bytes at 32 are outside of the 32 bytes"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "sub.s32 %r1, %r1, 4;\nst.shared.u32 [%r1], %r0;"), {.shared = 32}),
               {"4 bytes at -4 are outside"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "cp.async.cg.shared.global [%r1], [%rd0+248], 16;"), {.shared = 32}),
               {"not aligned to 16"}) == "");
  CHECK(unsaid(fault_of(kernel(smem + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4;"), {.shared = 32}),
               {"no initialised mbarrier"}) == "");
  const auto bulk = [&](const std::string& bytes) {
    return fault_of(kernel(smem + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], " +
                           bytes + ", [%r1+32];"),
                    {.shared = 48});
  };
  CHECK(unsaid(bulk("8"), {"a multiple of 16 bytes, not 8"}) == "");
  CHECK(unsaid(bulk("64"), {"64 bytes at 0 are outside of the 48 bytes"}) == "");
  CHECK(unsaid(bulk("16"), {"no initialised mbarrier"}) == "");
  CHECK(unsaid(fault_of(kernel("trap;"), {.blocks = 2}), {"block 0, thread 0: trap: the kernel stops with a trap"}) ==
        "");
  // Half of a warp, or of a block, at a barrier that the others never come to.
  const std::string apart = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW:\nbar.sync 1;\nEND:";
  CHECK(unsaid(fault_of(kernel(apart)), {"wait for one another in different places", "(bar.sync)"}) == "");
  const std::string ends = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra END;\nbar.warp.sync -1;\nEND:";
  CHECK(unsaid(fault_of(kernel(ends)), {"which have ended"}) == "");
  const std::string half = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra END;\nbar.sync 1;\nEND:\nbar.sync 0;";
  CHECK(unsaid(fault_of(kernel(half), {.threads = 64}), {"all threads wait", "all lanes at line"}) == "");
  CHECK(unsaid(fault_of(kernel("bar.sync 1, 96;"), {.threads = 64}), {"a barrier of 96 threads"}) == "");
  CHECK(unsaid(fault_of(kernel("bar.sync 1, 64;"), {.threads = 32}), {"a barrier of 64 threads"}) == "");
  const std::string unlike =
      "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra LOW;\nbar.sync 1, 64;\nbra END;\nLOW:\nbar.sync 1;\nEND:";
  CHECK(unsaid(fault_of(kernel(unlike), {.threads = 64}), {"another number of threads"}) == "");
  CHECK(unsaid(fault_of(kernel("shfl.sync.idx.b32 %r1, %r0, 2, 31, 65535;")), {"not in the mask"}) == "");
  CHECK(unsaid(fault_of(kernel(
                   "setp.lt.u32 %p1, %r0, 16;\n@!%p1 bra END;\nshfl.sync.idx.b32 %r1, %r0, 20, 31, 65535;\nEND:")),
               {"reads from lane 20, which takes no part"}) == "");
  // Nobody ever changes what these threads look at.
  CHECK(unsaid(fault_of(kernel("WAIT:\nld.volatile.global.u32 %r1, [%rd0];\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 bra WAIT;"),
                        {.most = 5000}),
               {"more than 5000 instructions", "all lanes at line"}) == "");
  // Weights are read only.
  const std::vector<std::uint32_t> constant(64);
  Machine machine(ptx::parse(kernel("st.global.u32 [%rd1], %r0;"), "test.ptx"));
  machine.memory().add(std::as_bytes(std::span(constant)));
  const std::uint32_t* const pointer = constant.data();
  CHECK_THROWS_AS(machine.launch("k", {.parameters = std::as_bytes(std::span(&pointer, 1))}), Fault);
  CHECK_THROWS_AS(machine.launch("other", {.parameters = std::as_bytes(std::span(&pointer, 1))}), InputError);
  CHECK_THROWS_AS(machine.launch("k", {.threads = 2000, .parameters = std::as_bytes(std::span(&pointer, 1))}),
                  InputError);
  CHECK_THROWS_AS(machine.launch("k", {}), InputError);
}

TEST_CASE("a text that is not PTX is one error with its place", "[ptx]") {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      ptx::parse(text, "test.ptx");
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  CHECK(unsaid(error_of(kernel("frobnicate.u32 %r1, %r2;")), {"test.ptx:16:1: unknown instruction 'frobnicate.u32'"}) ==
        "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %r2;")), {"operands of this form do not fit 'add.s32'"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %rd2, 1;")), {"do not fit"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 5, %r2, 1;")), {"do not fit"}) == "");
  CHECK(unsaid(error_of(kernel("add.s32 %r1, %r99, 1;")), {"unknown register '%r99'"}) == "");
  CHECK(unsaid(error_of(kernel("bra NOWHERE;")), {"there is no label"}) == "");
  CHECK(unsaid(error_of(kernel("A:\nA:")), {"two labels"}) == "");
  CHECK(unsaid(error_of(kernel("mov.u32 %r1, 99999999999999999999;")), {"expected a number"}) == "");
  CHECK(unsaid(error_of(kernel("call.uni nothing, ();")), {"there is no function"}) == "");
  CHECK(unsaid(error_of(kernel("", 4, ".func f()\n{\ncall.uni f;\n}\n")), {"no error"}) == "");  // is never called
  CHECK(unsaid(error_of(kernel("call.uni f;", 4, ".func f()\n{\ncall.uni f;\nret;\n}\n")), {"too deep"}) == "");
  CHECK(unsaid(error_of(kernel(".reg .b32 %x<2000000>;")), {"too many registers"}) == "");
  CHECK(unsaid(error_of("\x7f\x01"), {"unexpected '\\x7f'"}) == "");
  // Every beginning of a text, and every text with a character changed: an error or none, and nothing worse.
  const std::string whole =
      kernel("mov.u64 %rd2, smem;\nld.global.v2.u32 {%r1, %r2}, [%rd1+8];\n@%p1 bra L;\nL:\n{ .reg .pred p; }", 4,
             ".global .align 4 .b8 t[8] = {7, 0, -1};\n");
  for (std::size_t length = 0; length < whole.size() - 4; ++length) {
    CHECK(error_of(whole.substr(0, length)) != "");
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'{', '}', ';', '9', '%', '\n', '['}) {
      std::string changed = whole;
      changed[i] = c;
      error_of(changed);
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
