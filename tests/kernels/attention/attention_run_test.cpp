// SPDX-License-Identifier: Apache-2.0
// MLP attention on a GPU.
#include "kernels/runtime/device_program.hpp"
#include "tests/kernels/attention/attention_cases.hpp"

namespace onchip {

TEST_CASE("MLP attention on a GPU has the scores and the gradients of the reference, with the same bits every time",
          "[gpu]") {
  const DeviceInfo device = device_info();
  std::uint64_t seed = 0;
  for (const AttentionCase& of_fp16 :
       {AttentionCase{32, 50, 60, 512}, AttentionCase{64, 1, 77, 1024}, AttentionCase{3, 200, 33, 513},
        AttentionCase{1, 7, 500, 100}, AttentionCase{300, 130, 2, 7},
        AttentionCase{2, 33, 90, 136, Precision::fp16, 60}}) {
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
      AttentionCase c = of_fp16;
      c.precision = precision;
      c.least_blocks = 264;
      check_attention<DeviceProgram>(c, ++seed, device.architecture);
      DeviceProgram gpu(attention_program(c, device.architecture));
      CHECK(gpu.spill_bytes() == 0);
      const AttentionValues values = random_attention(c, seed);
      CHECK(run_attention(gpu, c, values) == run_attention(gpu, c, values));
    }
  }
}

}  // namespace onchip
