// SPDX-License-Identifier: Apache-2.0
// MLP attention, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "model/base/error.hpp"
#include "tests/experiments/training/with_change.hpp"
#include "tests/kernels/attention/attention_cases.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

constexpr Precision fp16 = Precision::fp16, bf16 = Precision::bf16, fp32 = Precision::fp32;

void check(const AttentionCase& c, std::uint64_t seed = 1) {
  check_attention<InterpretedProgram>(c, seed, "sm_90");
}

}  // namespace

TEST_CASE("interpreted MLP attention of drawn sizes has the scores and the gradients of the reference", "[fast]") {
  constexpr std::array kCounts{1, 3, 17, 33};
  constexpr std::array kHidden{1, 7, 32, 100, 513};
  for (std::uint64_t seed = 0; seed < 15; ++seed) {
    Random random(seed, 5);
    const auto count = [&] { return kCounts[random.below(kCounts.size())]; };
    const int hidden = kHidden[seed % kHidden.size()], batch = 1 + static_cast<int>(random.below(2));
    AttentionCase c{batch, count(), count(), hidden, std::array{fp16, bf16, fp32}[seed / kHidden.size()]};
    c.least_blocks = std::array{1, 8, 264}[random.below(3)];
    check(c, seed);
  }
}

TEST_CASE("interpreted MLP attention of several tiles of queries has the gradients of the reference", "[fast]") {
  check({2, 70, 35, 40, bf16});   // two, shared by two blocks
  check({300, 65, 2, 1, fp16});   // two of one block
  check({180, 130, 1, 1, fp16});  // three of two blocks
}

TEST_CASE("interpreted MLP attention is right where tanh saturates, and where rows are not aligned", "[fast]") {
  check({1, 9, 33, 72, fp16, 60});
  check({1, 3, 5, 513, bf16, 12});
  check({1, 20, 70, 40, bf16, 2, true, 0, 1, 15});
  check({2, 9, 33, 64, fp16, 2, true, 2});
  check({1, 9, 3, 64, fp32, 2, true, 4});
}

TEST_CASE("interpreted MLP attention writes only the gradients that are wanted", "[fast]") {
  check({1, 9, 3, 33, fp16, 2, false});
  check({1, 70, 3, 33, fp16, 2, false});
}

TEST_CASE("whatever is wrong in the kernels of MLP attention is found", "[fast]") {
  struct Changes {
    AttentionCase of;
    std::vector<std::pair<std::string_view, std::string_view>> all;  // from, to
  };
  const std::array<Changes, 4> changes{{
      {{1, 70, 35, 40},
       {{"fmaf(v0, b, v1 * a)", "fmaf(v0, a, v1 * b)"},
        {"v_sum += (w.x + w.y)", "v_sum += (w.x - w.y)"},
        {"fmaf(2.0f, sums[i], -v_sum)", "fmaf(2.0f, sums[i], v_sum)"},
        {"slope = fmaf(-y, y, 1.0f)", "slope = fmaf(y, y, 1.0f)"},
        {"key_sum = fmaf(d[i], slope, key_sum)", "key_sum = fmaf(d[i], slope, -key_sum)"},
        {"v_sum = fmaf(d[i], y, v_sum)", "v_sum = fmaf(d[i], -y, v_sum)"},
        {"to_bits(v * sum)", "to_bits(sum)"},
        {"sum = v * sum +", "sum = sum +"},
        {"g < groups_there", "g < 1"},
        {"= four(gradients + s * kGradientStride + 4)", "= four(gradients + s * kGradientStride)"},
        {"for (int r = 1; r < kRows; ++r)", "for (int r = 2; r < kRows; ++r)"},
        {"split < a.splits; ++split", "split < 1; ++split"}}},
      {{1, 9, 33, 40, fp16, 30},
       {{"return !(fabsf(x) <= kMostRaised)", "return false"},
        {"v1 * quick_sigmoid", "v0 * quick_sigmoid"},
        {"kIsFar ? quick_sigmoid(2.0f * (q + k))", "kIsFar ? quick_sigmoid(q + k)"}}},
      {{1, 9, 70, 40, fp16, 2, true, 0, 1, 15},
       {{"any_far ? q[i]", "any_far ? 0.0f"}, {"is_raised == any_far", "!is_raised"}}},
      {{300, 65, 2, 1}, {{"of_tiles == split ? 0.0f", "true ? 0.0f"}}},
  }};
  for (const Changes& of : changes) {
    const AttentionValues values = random_attention(of.of, 2);
    const KernelProgram program = attention_program(of.of, "sm_90");
    const auto is_right = [&](const KernelProgram& made) {
      InterpretedProgram interpreted(made);
      return std::ranges::all_of(attention_errors(interpreted, of.of, values),
                                 [](double error) { return error <= most_attention_error(fp16); });
    };
    CHECK(is_right(program));
    for (const auto& [from, to] : of.all) {
      INFO(to);
      std::string source;
      CHECK(!is_right(with_change(program, from, to, source)));
    }
  }
}

TEST_CASE("MLP attention's kernels keep everything in registers, four blocks an SM", "[fast]") {
  for (const auto& [precision, architecture] :
       {std::pair{fp16, "sm_80"}, std::pair{bf16, "sm_90"}, std::pair{fp32, "sm_90"}}) {
    INFO(info(precision).name << " " << architecture);
    const CompiledKernel compiled = compile(attention_kernels(precision, architecture).front().request);
    CHECK(!compiled.resources.spills());
    CHECK(compiled.resources.registers <= 64);
  }
  CHECK_THROWS_AS(attention_kernels(Precision::fp8, "sm_90"), InputError);
}

TEST_CASE("the workspace of MLP attention's backward is small beside what is not stored", "[fast]") {
  const auto bytes = [](int batch, int queries, int keys, int hidden) {
    AttentionArguments a{};
    a.batch = batch, a.query_count = queries, a.key_count = keys, a.hidden = hidden;
    return attention_workspace_bytes(a);
  };
  CHECK(bytes(64, 1, 100, 512) == 4 * 64 * 512);
  CHECK(bytes(64, 50, 100, 512) == 4 * 64 * 512);
  CHECK(bytes(64, 100, 100, 512) == 4 * 64 * 101 * 512);
  CHECK(bytes(1, 100, 100, 512) == 2 * 4 * 101 * 512);
}

}  // namespace onchip
