// SPDX-License-Identifier: Apache-2.0
// What of a cubin is a kernel's machine code. Needs no GPU.
#include "kernels/runtime/cubin.hpp"

#include "kernels/recurrent/program.hpp"
#include "kernels/runtime/device.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/runtime/small_kernels.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// Everything that a cubin can have beside instructions: constants, variables with and without a first value, shared
// memory, a table of jumps, a function that is called, and addresses that are filled in when it is loaded.
constexpr std::string_view kWordySource = R"(
__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter;
__device__ float scales[4] = {0.5f, 1.5f, 2.5f, 3.5f};
__device__ __noinline__ float helper(float x, int i) { return x * table[i & 7] + scales[i & 3]; }
extern "C" __global__ void wordy(float* out, const float* in) {
  __shared__ float staged[ONCHIP_WORDY];
  staged[threadIdx.x] = in[threadIdx.x];
  atomicAdd(&counter, 1);
  __syncthreads();
  float value = helper(staged[threadIdx.x ^ 1], blockIdx.x);
  switch (blockIdx.x) {
    case 0: value += 1; break;
    case 1: value *= 3; break;
    case 2: value = sqrtf(value); break;
    case 3: value = sinf(value); break;
    case 4: value = logf(value); break;
    case 5: value = helper(value, 3); break;
  }
  out[threadIdx.x] = value;
}
)";

std::string with(std::string text, std::string_view from, std::string_view to) {
  REQUIRE(says(text, from));
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST_CASE("a change of words changes a kernel's fingerprint, but not that of its machine code", "[fast]") {
  const TemporaryCache cache;
  const std::string architecture = GENERATE("sm_80", "sm_90", "sm_90a", "sm_100");
  const CompiledKernel before = compile({"wordy", kWordySource, architecture, {"ONCHIP_WORDY=128"}});
  std::string source =
      "#line 77 \"another_file.cuh\"\n/* Says more,\n   in two lines. */\n" + std::string(kWordySource);
  for (const auto& [from, to] :
       {std::pair{"ONCHIP_WORDY", "A_NEW_WORD"}, std::pair{"wordy", "a_name_that_is_longer"}, std::pair{"helper", "z"},
        std::pair{"table", "values_of_it"}, std::pair{"counter", "zz_counter"}, std::pair{"scales", "aa_scales"},
        std::pair{"staged", "s"}, std::pair{"value", "sum"}}) {
    source = with(source, from, to);
  }
  const CompiledKernel after = compile({"a_name_that_is_longer", source, architecture, {"A_NEW_WORD=128"}});
  CAPTURE(architecture);
  CHECK(after.cubin != before.cubin);
  CHECK(after.fingerprint != before.fingerprint);
  CHECK(after.code_fingerprint == before.code_fingerprint);
  CHECK(before.code_fingerprint.size() == 16);
  CHECK(before.code_fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos);
  setenv("ONCHIP_CACHE", (cache.folder() / "another").c_str(), 1);
  const CompiledKernel again = compile({"wordy", kWordySource, architecture, {"ONCHIP_WORDY=128"}});
  CHECK_FALSE(again.cached);
  CHECK(again.code_fingerprint == before.code_fingerprint);
}

TEST_CASE("sparse_persistent with all its defines renamed has the same machine code", "[fast]") {
  const TemporaryCache cache;
  const Recurrent network = awkward_network(Precision::fp16);
  const SparsePlan plan = shape_sparse_plan(network, RowProfile::uniform(network), Storage::packed_pair, /*sms=*/100,
                                            /*lanes_per_row=*/16, /*rows_per_group=*/2);
  CompileRequest request = compile_request(network, plan, "sm_90");
  const CompiledKernel before = compile(request);
  const std::string source = with(with(std::string(request.source), "ONCHIP_", "A_"), "sparse_persistent", "renamed");
  for (std::string& define : request.defines) {
    define = with(define, "ONCHIP_", "A_");
  }
  request.name = "renamed";
  request.source = source;
  const CompiledKernel after = compile(request);
  CHECK(after.fingerprint != before.fingerprint);
  CHECK(after.code_fingerprint == before.code_fingerprint);
}

TEST_CASE("constants of the source that its code only computes with are no part of its machine code", "[fast]") {
  const TemporaryCache cache;
  const std::string architecture = GENERATE("sm_80", "sm_90", "sm_100");
  CAPTURE(architecture);
  const std::string more = "constexpr int kFirst = ONCHIP_TINY - 2;\n" + std::string(kTinySource) +
                           "constexpr bool kIsLast = true;\nconstexpr long long kNothing = 0;\n";
  const CompiledKernel before = compile(tiny(architecture));
  const CompiledKernel after = compile({"tiny", more, architecture, {"ONCHIP_TINY=1"}});
  CHECK(after.cubin != before.cubin);
  CHECK(after.code_fingerprint == before.code_fingerprint);
  CHECK(compile(tiny(architecture, 2)).code_fingerprint != before.code_fingerprint);
}

TEST_CASE("whatever a kernel computes with changes the fingerprint of its machine code", "[fast]") {
  const TemporaryCache cache;
  std::vector<std::string> found{compile({"wordy", kWordySource, "sm_90", {"ONCHIP_WORDY=128"}}).code_fingerprint};
  const std::string source(kWordySource);
  for (const auto& [from, to] : {std::pair{"value *= 3", "value *= 5"},                // an instruction
                                 std::pair{"3, 4, 5", "3, 4.5f, 5"},                   // a constant in memory
                                 std::pair{"2.5f", "2.25f"},                           // a variable's first value
                                 std::pair{"ONCHIP_WORDY]", "ONCHIP_WORDY + 32]"}}) {  // shared memory
    const CompiledKernel other = compile({"wordy", with(source, from, to), "sm_90", {"ONCHIP_WORDY=128"}});
    CAPTURE(from, to);
    CHECK(std::count(found.begin(), found.end(), other.code_fingerprint) == 0);
    found.push_back(other.code_fingerprint);
  }
  CHECK(compile({"wordy", source, "sm_80", {"ONCHIP_WORDY=128"}}).code_fingerprint != found.front());
}

TEST_CASE("a torn cubin has no machine code", "[fast]") {
  const TemporaryCache cache;
  const CompiledKernel kernel = compile({"wordy", kWordySource, "sm_90", {"ONCHIP_WORDY=128"}});
  const std::span<const char> cubin(kernel.cubin);
  for (std::size_t size = 0; size < cubin.size() * 3 / 4; size += 97) {  // its table of sections stands behind
    CHECK_THROWS_AS(significant_code(cubin.first(size)), CudaError);
  }
  CHECK_THROWS_AS(significant_code(std::string_view("no ELF file, but as long as the header of one has to be")),
                  CudaError);
}

}  // namespace
}  // namespace onchip
