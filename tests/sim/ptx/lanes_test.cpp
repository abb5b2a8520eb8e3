// SPDX-License-Identifier: Apache-2.0
// Lanes of a warp that part, exchange values and multiply matrices together.
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "sim/ptx/numerics.hpp"
#include "tests/catch.hpp"
#include "tests/sim/ptx/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace onchip {
namespace {

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

TEST_CASE("matrices come from shared memory as they are or transposed, and go back", "[ptx]") {
  // Row i of the four matrices, which lane i names, is the 16 bytes at 16 (i ^ 5); element j of it is 8 i + j.
  const std::string begin =
      "mov.u64 %rd2, smem;\ncvt.u32.u64 %r1, %rd2;\nxor.b32 %r2, %r0, 5;\nshl.b32 %r2, %r2, 4;\nadd.s32 %r1, %r1, "
      "%r2;\n"
      "mul.lo.s32 %r3, %r0, 524296;\nadd.s32 %r4, %r3, 65536;\nadd.s32 %r5, %r4, 131074;\nadd.s32 %r6, %r5, 131074;\n"
      "add.s32 %r7, %r6, 131074;\nst.shared.v4.u32 [%r1], {%r4, %r5, %r6, %r7};\nbar.sync 0;\n";
  const auto element = [](std::uint32_t matrix, std::uint32_t row, std::uint32_t column) {
    return 8 * (8 * matrix + row) + column;
  };
  const bool transposed = GENERATE(false, true);
  const std::uint32_t matrices = GENERATE(2u, 4u);
  const std::string count = matrices == 2 ? "x2" : "x4";
  const std::string registers = matrices == 2 ? "{%r10, %r11}" : "{%r10, %r11, %r12, %r13}";
  for (std::uint32_t m = 0; m < matrices; ++m) {
    std::vector<std::uint32_t> memory(32);
    run(kernel(begin + "ldmatrix.sync.aligned.m8n8." + count + (transposed ? ".trans" : "") + ".shared.b16 " +
               registers + ", [%r1];\nst.global.u32 [%rd1], %r1" + std::to_string(m) + ";"),
        memory, {.shared = 512});
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t one = lane / 4, two = lane % 4 * 2;
      CHECK(memory[lane] == (transposed ? element(m, two, one) | element(m, two + 1, one) << 16
                                        : element(m, one, two) | element(m, one, two + 1) << 16));
    }
  }
  // Stored elsewhere, they are the same bytes.
  std::vector<std::uint32_t> memory(32);
  run(kernel(begin + "ldmatrix.sync.aligned.m8n8." + count + ".shared.b16 " + registers +
             ", [%r1];\nstmatrix.sync.aligned.m8n8." + count + ".shared.b16 [%r1+512], " + registers +
             ";\nbar.sync 0;\nmov.u32 %r20, 0;\nsetp.lt.u32 %p1, %r0, " + std::to_string(8 * matrices) +
             ";\n@%p1 ld.shared.u32 %r20, [%r1+524];\nst.global.u32 [%rd1], %r20;"),
      memory, {.shared = 1024});
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(memory[lane] == (lane < 8 * matrices ? (8 * lane + 6) | (8 * lane + 7) << 16 : 0));
  }
}

// Values that are exact in both types, and so are their sums.
struct DrawnElements {
  std::mt19937 random;
  bool is_bf16 = false;

  float small() { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4; }
  void fill(auto& rows) {
    for (auto& row : rows) {
      std::ranges::generate(row, [&] { return small(); });
    }
  }
  Word element(float value) const { return is_bf16 ? std::bit_cast<Word>(value) >> 16 : Word{nearest_half(value)}; }
  Word pair(float low, float high) const { return element(low) | element(high) << 16; }
};

TEST_CASE("a product of matrices is the plain loop's", "[ptx]") {
  const bool is_bf16 = GENERATE(false, true);
  DrawnElements drawn{std::mt19937(11), is_bf16};
  const auto pair = [&](float low, float high) { return drawn.pair(low, high); };
  float a[16][16], b[16][8], c[16][8];
  drawn.fill(a);
  drawn.fill(b);
  drawn.fill(c);
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
    DrawnElements drawn{std::mt19937(13 + selector), is_bf16};
    drawn.fill(b);
    drawn.fill(c);
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t group = 0; group < 8; ++group) {
        const std::size_t first = drawn.random() % 3, second = first + 1 + drawn.random() % (3 - first);
        a[row][4 * group + first] = drawn.small();
        a[row][4 * group + second] = drawn.small();
        // Lanes 4 g ... 4 g + 3 have rows g and g + 8; of each the first two words are of columns 0 to 15.
        const std::size_t lane = row % 8 * 4;
        memory[20 * (lane + group % 4) + row / 8 + group / 4 * 2] =
            drawn.pair(a[row][4 * group + first], a[row][4 * group + second]);
        memory[20 * (lane + 2 * selector + group / 4) + 12] |= static_cast<Word>(first | second << 2)
                                                               << (group % 4 * 4 + row / 8 * 16);
      }
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t n = lane / 4, k = lane % 4 * 2;
      for (std::size_t i = 0; i < 4; ++i) {
        memory[20 * lane + 4 + i] = drawn.pair(b[k + 8 * i][n], b[k + 8 * i + 1][n]);
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

}  // namespace
}  // namespace onchip
