// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/graph_switch.hpp"

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"
#include "kernels/training/device/arguments.hpp"

namespace onchip {
bool GraphSwitch::is_known() {
  int driver = 0;
  ONCHIP_CUDA_CHECK(cudaDriverGetVersion(&driver));
  return CUDART_VERSION >= 13000 && driver >= 12080;
}

GraphSwitch::GraphSwitch(const std::string& architecture)
    : choose_(compile({"graph_switch", kGraphSwitchSource, architecture, {}}).cubin, "choose") {}

#if CUDART_VERSION >= 13000

void GraphSwitch::enqueue(cudaStream_t stream, const int* rows, int unit, int ways,
                          const std::function<void(int way, cudaStream_t)>& enqueue_way) const {
  const RelaxedCapture relaxed;  // cuBLAS may load something
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  const auto get_capture = [&] {
    ONCHIP_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &before, &edges, &count));
    if (status != cudaStreamCaptureStatusActive) {
      throw CudaError("the stream is not being captured");
    }
  };
  get_capture();
  cudaGraphConditionalHandle handle = 0;
  ONCHIP_CUDA_CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault));
  GraphChoice choice{handle, rows, unit};
  void* arguments[] = {&choice};
  choose_.launch(stream, 1, 1, 0, false, arguments);

  get_capture();  // the node is behind the launch
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeSwitch;
  parameters.conditional.size = static_cast<unsigned>(ways);
  cudaGraphNode_t node = nullptr;
  ONCHIP_CUDA_CHECK(cudaGraphAddNode(&node, graph, before, edges, count, &parameters));
  for (int way = 0; way < ways; ++way) {
    cudaGraph_t body = parameters.conditional.phGraph_out[way];
    ONCHIP_CUDA_CHECK(
        cudaStreamBeginCaptureToGraph(of_ways_.get(), body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    try {
      enqueue_way(way, of_ways_.get());
    } catch (...) {
      cudaStreamEndCapture(of_ways_.get(), &body);
      throw;
    }
    ONCHIP_CUDA_CHECK(cudaStreamEndCapture(of_ways_.get(), &body));
  }
  ONCHIP_CUDA_CHECK(cudaStreamUpdateCaptureDependencies(stream, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
}

#else

void GraphSwitch::enqueue(cudaStream_t, const int*, int, int, const std::function<void(int, cudaStream_t)>&) const {
  throw CudaError("CUDA " + std::to_string(CUDART_VERSION / 1000) + " has no switch in a graph");
}

#endif

}  // namespace onchip
