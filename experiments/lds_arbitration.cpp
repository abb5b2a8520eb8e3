// SPDX-License-Identifier: Apache-2.0
// Launches kernels/microbench/arbitration.cu once, for a profiler to count (experiments/arbitration).
//   lds_arbitration nothing|stores|copies|global_loads
// Prints how many shared-memory loads, of warps, the launch has; each takes four wavefronts.
#include "kernels/compiler.hpp"
#include "kernels/device.hpp"
#include "kernels/sources.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr std::array<std::string_view, 4> kBeside{"nothing", "stores", "copies", "global_loads"};  // by ONCHIP_BESIDE
constexpr int kThreads = 512, kLoaders = 8, kLoads = 16, kIterations = 1024;                       // as in the kernel

void run(std::size_t beside) {
  using namespace onchip;
  const DeviceInfo device = device_info();
  CompileRequest request;
  request.name = "microbench_arbitration";
  request.source = kArbitrationSource;
  request.architecture = device.architecture;
  request.defines = {"ONCHIP_BESIDE=" + std::to_string(beside)};
  const CompiledKernel compiled = compile(request);
  const Kernel kernel(compiled.cubin, "microbench_arbitration");
  const DeviceBuffer<char> global(static_cast<std::size_t>(device.sm_count) * kThreads * 16);
  const DeviceBuffer<std::uint32_t> sink(1);
  ONCHIP_CUDA_CHECK(cudaMemset(global.data(), 0, global.bytes()));
  const Stream stream;
  char* from = global.data();
  std::uint32_t* to = sink.data();
  int iterations = kIterations;
  void* arguments[] = {&from, &to, &iterations};
  kernel.launch(stream.get(), device.sm_count, kThreads, 0, /*cooperative=*/false, arguments);
  stream.synchronize();
  std::printf("%d\n", device.sm_count * kLoaders * kLoads * kIterations);
}

}  // namespace

int main(int argc, char** argv) {
  const auto beside = argc == 2 ? std::find(kBeside.begin(), kBeside.end(), argv[1]) : kBeside.end();
  if (beside == kBeside.end()) {
    std::fputs("usage: lds_arbitration nothing|stores|copies|global_loads\n", stderr);
    return 2;
  }
  try {
    run(static_cast<std::size_t>(beside - kBeside.begin()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lds_arbitration: %s\n", error.what());
    return 1;
  }
  return 0;
}
