// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/graph_switch.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/cubin.hpp"
#include "kernels/runtime/sources.hpp"
#include "tests/catch.hpp"

#include <span>

namespace onchip {

TEST_CASE("what chooses among a graph's ways compiles to a kernel", "[fast]") {
  const CompiledKernel kernel = compile({"graph_switch", kGraphSwitchSource, "sm_90", {}});
  CHECK(code_bytes(kernel.cubin, "choose") > 0);
}

TEST_CASE("a graph with several ways takes that of the device's number of rows", "[gpu]") {
  if (!GraphSwitch::is_known()) {
    return;
  }
  constexpr int kUnit = 5, kWays = 7;
  const GraphSwitch graph_switch(device_info().architecture);
  DeviceBuffer<int> rows(1);
  DeviceBuffer<unsigned char> taken(2);
  const Stream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(taken.data(), 0xff, 2, stream.get()));
  graph_switch.enqueue(stream.get(), rows.data(), kUnit, kWays,
                       [&](int way, cudaStream_t on) { ONCHIP_CUDA_CHECK(cudaMemsetAsync(taken.data(), way, 1, on)); });
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(taken.data() + 1, taken.data(), 1, cudaMemcpyDeviceToDevice, stream.get()));
  ONCHIP_CUDA_CHECK(cudaStreamEndCapture(stream.get(), &graph));
  ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (const int count : {1, 5, 6, 35, 17, 1}) {
    rows.upload(std::span(&count, 1));
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
    ONCHIP_CUDA_CHECK(cudaGraphLaunch(executable, stream.get()));
    stream.synchronize();
    CHECK(taken.download()[1] == (count - 1) / kUnit);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

}  // namespace onchip
