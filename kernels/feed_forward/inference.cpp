// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/inference.hpp"

#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>

namespace onchip {
namespace {

class Event {
 public:
  explicit Event(unsigned flags) { ONCHIP_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::vector<std::uint32_t> padded_bitmaps(const Bitmaps& images) {
  const int words = bitmap_words(images.neurons);
  std::vector<std::uint32_t> padded(static_cast<std::size_t>(words) * images.images);
  for (int i = 0; i < images.images; ++i) {
    std::ranges::copy(images.of(i), padded.begin() + static_cast<std::ptrdiff_t>(words) * i);
  }
  return padded;
}

Inference read_results(const InferenceProgram& program, std::span<const std::uint32_t> results, int images) {
  Inference inference = program.read(results);
  inference.entering.insert(inference.entering.begin(), images);
  return inference;
}

void check_images(const InferenceProgram& program, const Bitmaps& images) {
  if (images.neurons != program.neurons) {
    throw InputError("the images have " + std::to_string(images.neurons) + " neurons; the network's input has " +
                     std::to_string(program.neurons));
  }
  if (images.images > program.most_images) {
    throw InputError("there are " + std::to_string(images.images) + " images; at most " +
                     std::to_string(program.most_images) + " are taken at once");
  }
}

struct DeviceInference::State {
  int spill_bytes = 0, images = 0;
  std::vector<Kernel> kernels;
  std::vector<DeviceBuffer<std::byte>> arrays;
  std::vector<ProgramNode> nodes;
  InferenceProgram program;
  std::uint32_t* host = nullptr;  // the results
  std::vector<Stream> streams;
  std::vector<Event> ended;  // of nodes that others wait for
  cudaGraphExec_t graph = nullptr;

  std::size_t result_bytes() const { return program.arrays[program.results].bytes; }

  explicit State(const InferenceProgram& of) : program(of) {
    std::map<std::string, std::shared_ptr<const LoadedCubin>> loaded;
    for (const ProgramKernel& kernel : program.kernels) {
      const CompiledKernel compiled = compile(kernel.request);
      std::shared_ptr<const LoadedCubin>& cubin = loaded[compiled.fingerprint];
      if (!cubin) {
        cubin = std::make_shared<const LoadedCubin>(compiled.cubin);
        spill_bytes += compiled.resources.spill_bytes;
      }
      kernels.emplace_back(cubin, kernel.entry);
    }
    std::vector<std::byte*> places;
    for (ProgramArray& array : program.arrays) {
      arrays.emplace_back(array.bytes);
      if (!array.contents.empty()) {
        arrays.back().upload(array.contents);
        array.contents = {};
      }
      places.push_back(arrays.back().data());
    }
    nodes = program.nodes(places);
    ONCHIP_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&host), result_bytes()));
    int last_stream = 0;
    for (const ProgramNode& node : nodes) {
      last_stream = std::max(last_stream, node.stream);
    }
    streams = std::vector<Stream>(last_stream + 1);
    capture();
  }
  ~State() {
    if (graph != nullptr) {
      cudaGraphExecDestroy(graph);
    }
    cudaFreeHost(host);
  }

  void enqueue(const ProgramNode& node, cudaStream_t on) const {
    if (node.kernel < 0) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(node.zeros.data(), 0, node.zeros.size(), on));
      return;
    }
    std::vector<std::byte> arguments = node.arguments;
    void* of_kernel[] = {arguments.data()};
    kernels[node.kernel].launch(on, node.blocks, node.threads, node.shared_bytes, false, of_kernel);
  }

  // All nodes, on their streams; then the results.
  void capture() {
    const cudaStream_t first = streams[0].get();
    std::map<int, Event> events;  // of nodes
    const auto event_of = [&](int node) {
      return events.try_emplace(node, cudaEventDisableTiming).first->second.get();
    };
    std::set<int> awaited;
    std::map<int, int> last;  // node of each stream
    for (const ProgramNode& node : nodes) {
      awaited.insert(node.after.begin(), node.after.end());
    }
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      last[nodes[n].stream] = n;
    }
    for (const auto& [stream, node] : last) {
      awaited.insert(node);
    }
    cudaGraph_t captured = nullptr;
    ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      const cudaStream_t on = streams[nodes[n].stream].get();
      for (const int before : nodes[n].after) {
        ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(on, event_of(before)));
      }
      enqueue(nodes[n], on);
      if (awaited.contains(n)) {
        ONCHIP_CUDA_CHECK(cudaEventRecord(event_of(n), on));
      }
    }
    for (const auto& [stream, node] : last) {
      if (stream != 0) {
        ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(first, event_of(node)));
      }
    }
    ONCHIP_CUDA_CHECK(
        cudaMemcpyAsync(host, arrays[program.results].data(), result_bytes(), cudaMemcpyDeviceToHost, first));
    ONCHIP_CUDA_CHECK(cudaStreamEndCapture(first, &captured));
    ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&graph, captured, 0));
    cudaGraphDestroy(captured);
  }
};

DeviceInference::DeviceInference(const InferenceProgram& program) : state_(std::make_unique<State>(program)) {}
DeviceInference::~DeviceInference() = default;

void DeviceInference::upload(const Bitmaps& images) {
  check_images(state_->program, images);
  const std::vector<std::uint32_t> bits = padded_bitmaps(images);
  const std::array<std::uint32_t, 1> count{static_cast<std::uint32_t>(images.images)};
  state_->images = images.images;
  state_->arrays[state_->program.bitmaps].upload(std::as_bytes(std::span(bits)));
  state_->arrays[state_->program.image_count].upload(std::as_bytes(std::span(count)));
}

int DeviceInference::spill_bytes() const {
  return state_->spill_bytes;
}

Inference DeviceInference::infer() {
  const auto begin = std::chrono::steady_clock::now();
  ONCHIP_CUDA_CHECK(cudaGraphLaunch(state_->graph, state_->streams[0].get()));
  state_->streams[0].synchronize();
  Inference inference = read_results(state_->program, {state_->host, state_->result_bytes() / 4}, state_->images);
  inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return inference;
}

std::vector<std::pair<std::string, double>> DeviceInference::node_ms() {
  std::vector<std::pair<std::string, double>> times;
  EventTimer timer;
  const cudaStream_t on = state_->streams[0].get();
  for (const ProgramNode& node : state_->nodes) {
    timer.start(on);
    state_->enqueue(node, on);
    timer.stop(on);
    times.emplace_back(node.label, timer.milliseconds());
  }
  return times;
}

}  // namespace onchip
