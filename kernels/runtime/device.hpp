// SPDX-License-Identifier: Apache-2.0
// Thin, checked CUDA: errors as exceptions, memory and streams as values, kernels from cubins, timing by events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No kernel can run: it spills registers, one SM cannot hold a block, or device memory an image.
class DoesNotFit : public CudaError {
 public:
  using CudaError::CudaError;
};

// Throws CudaError with the expression, its place and CUDA's own words.
void check_cuda(cudaError_t status, const char* expression, const char* file, int line);
#define ONCHIP_CUDA_CHECK(expression) ::onchip::check_cuda((expression), #expression, __FILE__, __LINE__)

int current_device();
int device_attribute(cudaDeviceAttr which);  // of the current device

// Device memory of `count` elements of T.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count) : count_(count) {
    ONCHIP_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T) + 16));
  }
  explicit DeviceBuffer(std::span<const T> host) : DeviceBuffer(host.size()) { upload(host); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

  void upload(std::span<const T> host) {
    ONCHIP_CUDA_CHECK(cudaMemcpy(data_, host.data(), host.size_bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const {
    std::vector<T> host(count_);
    ONCHIP_CUDA_CHECK(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// A cubin loaded into the current device.
class LoadedCubin {
 public:
  explicit LoadedCubin(std::span<const char> cubin);
  ~LoadedCubin();
  LoadedCubin(const LoadedCubin&) = delete;
  LoadedCubin& operator=(const LoadedCubin&) = delete;
  cudaLibrary_t get() const { return library_; }

 private:
  cudaLibrary_t library_ = nullptr;
};

// A kernel of a loaded cubin.
class Kernel {
 public:
  Kernel(std::shared_ptr<const LoadedCubin> cubin, const std::string& name);
  Kernel(std::span<const char> cubin, const std::string& name);

  cudaFuncAttributes attributes() const;
  // Blocks of this kernel that one SM holds at once.
  int blocks_per_sm(int threads, std::size_t smem_bytes) const;
  // Clusters of `size` blocks that the device holds at once, of a kernel that asks for such. Allows sizes of more
  // than 8.
  int clusters(int size, int threads, std::size_t smem_bytes) const;
  // Enqueues a launch; cooperative launches refuse what is not co-resident. Raises the dynamic shared-memory limit.
  void launch(cudaStream_t stream, int blocks, int threads, std::size_t smem_bytes, bool cooperative,
              void** arguments) const;

 private:
  void allow_shared(std::size_t bytes) const;  // of dynamic shared memory

  std::shared_ptr<const LoadedCubin> cubin_;
  cudaKernel_t kernel_ = nullptr;
};

struct DeviceInfo {
  std::string name;          // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string driver, runtime;
  int sm_count = 0;
  double clock_hz = 0;  // highest SM clock
};
// The current device; throws CudaError with a plain sentence if there is none.
DeviceInfo device_info();

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) { ONCHIP_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const { ONCHIP_CUDA_CHECK(cudaEventRecord(event_, stream)); }

 private:
  cudaEvent_t event_ = nullptr;
};

// While it lives, what this thread makes or loads is no part of a graph that is captured.
struct RelaxedCapture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  RelaxedCapture() { ONCHIP_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode)); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
};

// What is enqueued on a stream, as a CUDA graph: the device goes from node to node without the host.
class Graph {
 public:
  // Captures what enqueue() enqueues; what other threads do meanwhile neither fails nor is captured. Throws CudaError
  // if it cannot be captured, is nothing, or has more nodes.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue,
        std::size_t most_nodes = std::numeric_limits<std::size_t>::max());
  void launch(cudaStream_t stream) const { ONCHIP_CUDA_CHECK(cudaGraphLaunch(executable_.get(), stream)); }
  std::size_t nodes() const { return nodes_; }

 private:
  std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)> executable_{nullptr, cudaGraphExecDestroy};
  std::size_t nodes_ = 0;
};

// A pair of events around work on a stream.
class EventTimer {
 public:
  void start(cudaStream_t stream) { start_.record(stream); }
  void stop(cudaStream_t stream) { stop_.record(stream); }
  double milliseconds();  // waits for stop

  // Of device time, that what `enqueue()` enqueues takes.
  template <typename Enqueue>
  double milliseconds_of(cudaStream_t stream, Enqueue&& enqueue) {
    start(stream);
    enqueue();
    stop(stream);
    return milliseconds();
  }

 private:
  Event start_, stop_;
};

}  // namespace onchip
