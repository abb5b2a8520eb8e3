// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device_program.hpp"

#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace onchip {
void enqueue(const ProgramNode& node, std::span<const Kernel> kernels, const Cublas* cublas, cudaStream_t stream) {
  if (node.product) {
    cublas->multiply(*node.product);
  } else if (node.kernel >= 0) {
    void* of_kernel[] = {const_cast<std::byte*>(node.arguments.data())};
    kernels[static_cast<std::size_t>(node.kernel)].launch(stream, node.blocks, node.threads, node.shared_bytes,
                                                          node.cooperative, of_kernel);
  } else if (!node.from.empty()) {
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(node.to, node.from.data(), node.from.size(), cudaMemcpyDefault, stream));
  } else if (!node.filled.empty()) {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(node.filled.data(), node.byte, node.filled.size(), stream));
  }
}

struct DeviceProgram::State {
  int spill_bytes = 0;
  std::vector<Kernel> kernels;
  std::vector<DeviceBuffer<std::byte>> arrays;
  std::vector<ProgramNode> nodes;
  int results = 0;                // the array
  std::uint32_t* host = nullptr;  // what is in it
  std::vector<Stream> streams;
  std::map<int, Event> events;   // of nodes that others wait for
  std::vector<void*> pinned;     // memory of the host
  std::optional<Cublas> cublas;  // where there are products
  std::optional<Graph> graph;    // none where the host does something itself

  std::size_t result_bytes() const { return arrays[results].bytes(); }

  explicit State(KernelProgram& program) : results(program.results) {
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
    check_memory(program);
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
    bool needs_host = false;
    for (const ProgramNode& node : nodes) {
      last_stream = std::max(last_stream, node.stream);
      needs_host = needs_host || node.host;
      if (node.product && !cublas) {
        cublas.emplace(false);
      }
    }
    pin();
    streams = std::vector<Stream>(last_stream + 1);
    if (!needs_host) {
      graph.emplace(streams[0].get(), [this] { enqueue_all(); });
    }
  }
  ~State() {
    graph.reset();
    cudaFreeHost(host);
    for (void* const memory : pinned) {
      cudaHostUnregister(memory);
    }
  }

  static void check_memory(const KernelProgram& program) {
    std::size_t free = 0, total = 0, needs = 0;
    for (const ProgramArray& array : program.arrays) {
      needs += array.bytes;
    }
    ONCHIP_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    if (needs > free) {
      throw InputError("the program takes " + fixed(1e-9 * static_cast<double>(needs), 1) + " GB of device memory, " +
                       fixed(1e-9 * static_cast<double>(free), 1) + " GB are free; a smaller batch takes less");
    }
  }

  // What is copied from the host: pieces that follow each other as one, for two may not have a page in common. Copies
  // of memory that is not pinned are slower: no more than that is lost where it cannot be.
  void pin() {
    std::map<const std::byte*, std::size_t> pieces;
    for (const ProgramNode& node : nodes) {
      if (!node.from.empty()) {
        pieces[node.from.data()] = node.from.size();
      }
    }
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      const std::byte *const begin = piece->first, *end = begin;
      for (; piece != pieces.end() && (end == begin || piece->first == end); ++piece) {
        end = piece->first + piece->second;
      }
      void* const memory = const_cast<std::byte*>(begin);
      if (cudaHostRegister(memory, static_cast<std::size_t>(end - begin), cudaHostRegisterDefault) == cudaSuccess) {
        pinned.push_back(memory);
      }
      cudaGetLastError();
    }
  }

  void enqueue(const ProgramNode& node, cudaStream_t on) const {
    if (node.host) {
      node.host([on](void* to, const void* from, std::size_t bytes) {
        ONCHIP_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on));
        ONCHIP_CUDA_CHECK(cudaStreamSynchronize(on));
      });
      return;
    }
    if (node.product) {
      cublas->use(on);
    }
    onchip::enqueue(node, kernels, cublas ? &*cublas : nullptr, on);
  }

  const Event& event_of(int node) { return events.try_emplace(node, cudaEventDisableTiming).first->second; }

  // All nodes, on their streams; then the results.
  void enqueue_all() {
    const cudaStream_t first = streams[0].get();
    std::set<int> awaited;
    std::map<int, int> last;  // node of each stream
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      awaited.insert(nodes[n].after.begin(), nodes[n].after.end());
      last[nodes[n].stream] = n;
    }
    for (const auto& [stream, node] : last) {
      awaited.insert(node);
    }
    for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
      const cudaStream_t on = streams[nodes[n].stream].get();
      for (const int before : nodes[n].after) {
        ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(on, event_of(before).get()));
      }
      enqueue(nodes[n], on);
      if (awaited.contains(n)) {
        event_of(n).record(on);
      }
    }
    for (const auto& [stream, node] : last) {
      if (stream != 0) {
        ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(first, event_of(node).get()));
      }
    }
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(host, arrays[results].data(), result_bytes(), cudaMemcpyDeviceToHost, first));
  }
};

DeviceProgram::DeviceProgram(const KernelProgram& program)
    : ProgramExecutor(program), state_(std::make_unique<State>(program_)) {}
DeviceProgram::~DeviceProgram() = default;

void DeviceProgram::write(int array, std::span<const std::byte> bytes) {
  state_->arrays[array].upload(bytes);
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // streams do not wait for these copies
}

void DeviceProgram::read(int array, std::span<std::byte> bytes) const {
  ONCHIP_CUDA_CHECK(cudaMemcpy(bytes.data(), state_->arrays[array].data(), bytes.size(), cudaMemcpyDeviceToHost));
}

std::span<const std::uint32_t> DeviceProgram::run() {
  if (state_->graph) {
    state_->graph->launch(state_->streams[0].get());
  } else {
    state_->enqueue_all();
  }
  state_->streams[0].synchronize();
  return results();
}

std::span<const std::uint32_t> DeviceProgram::results() const {
  return {state_->host, state_->result_bytes() / 4};
}

double DeviceProgram::graph_ms() {
  const cudaStream_t on = state_->streams[0].get();
  return EventTimer().milliseconds_of(on, [&] { state_->graph->launch(on); });
}

int DeviceProgram::spill_bytes() const {
  return state_->spill_bytes;
}

std::vector<std::pair<std::string, double>> DeviceProgram::node_ms() {
  const cudaStream_t on = state_->streams[0].get();
  std::vector<EventTimer> timers(state_->nodes.size());
  for (std::size_t i = 0; i < timers.size();
       ++i) {  // without a wait: the host is ahead, and its launches are not in it
    timers[i].start(on);
    state_->enqueue(state_->nodes[i], on);
    timers[i].stop(on);
  }
  std::vector<std::pair<std::string, double>> times;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    times.emplace_back(state_->nodes[i].label, timers[i].milliseconds());
  }
  return times;
}

}  // namespace onchip
