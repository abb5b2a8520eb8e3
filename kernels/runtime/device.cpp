// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/device.hpp"

#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

namespace onchip {

namespace {

const void* function(cudaKernel_t kernel) {
  return reinterpret_cast<const void*>(kernel);
}

// 13000 -> "13.0"
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "580.95.05", or "" where the driver does not say.
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

// `attribute`: the only one; must live as long.
cudaLaunchConfig_t launch_config(int blocks, int threads, std::size_t smem_bytes, cudaStream_t stream,
                                 cudaLaunchAttribute& attribute) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = smem_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

}  // namespace

void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) {
    return;
  }
  const std::string path(file);
  const std::size_t slash = path.find_last_of('/');
  std::ostringstream message;
  message << path.substr(slash == std::string::npos ? 0 : slash + 1) << ":" << line << ": " << expression << ": "
          << cudaGetErrorString(status) << " (" << cudaGetErrorName(status) << ")";
  cudaGetLastError();  // a later check must not see this error again
  throw CudaError(message.str());
}

Stream::Stream() {
  ONCHIP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}
Stream::~Stream() {
  cudaStreamDestroy(stream_);
}
void Stream::synchronize() const {
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

LoadedCubin::LoadedCubin(std::span<const char> cubin) {
  ONCHIP_CUDA_CHECK(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
}

LoadedCubin::~LoadedCubin() {
  cudaLibraryUnload(library_);
}

Kernel::Kernel(std::shared_ptr<const LoadedCubin> cubin, const std::string& name) : cubin_(std::move(cubin)) {
  ONCHIP_CUDA_CHECK(cudaLibraryGetKernel(&kernel_, cubin_->get(), name.c_str()));
  attributes();  // cubins load lazily: one for another architecture is to fail here, not in the first launch
}

Kernel::Kernel(std::span<const char> cubin, const std::string& name)
    : Kernel(std::make_shared<const LoadedCubin>(cubin), name) {}

cudaFuncAttributes Kernel::attributes() const {
  cudaFuncAttributes attributes{};
  ONCHIP_CUDA_CHECK(cudaFuncGetAttributes(&attributes, function(kernel_)));
  return attributes;
}

void Kernel::allow_shared(std::size_t bytes) const {
  ONCHIP_CUDA_CHECK(
      cudaFuncSetAttribute(function(kernel_), cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

int Kernel::blocks_per_sm(int threads, std::size_t smem_bytes) const {
  allow_shared(smem_bytes);
  int blocks = 0;
  ONCHIP_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function(kernel_), threads, smem_bytes));
  return blocks;
}

int Kernel::clusters(int size, int threads, std::size_t smem_bytes) const {
  allow_shared(smem_bytes);
  ONCHIP_CUDA_CHECK(cudaFuncSetAttribute(function(kernel_), cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
  const cudaLaunchConfig_t config = launch_config(size, threads, smem_bytes, nullptr, attribute);
  int clusters = 0;
  ONCHIP_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, function(kernel_), &config));
  return clusters;
}

void Kernel::launch(cudaStream_t stream, int blocks, int threads, std::size_t smem_bytes, bool cooperative,
                    void** arguments) const {
  constexpr std::size_t kOfAnyKernel = 48 << 10;
  if (smem_bytes > kOfAnyKernel) {
    allow_shared(smem_bytes);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = cooperative ? 1 : 0;
  const cudaLaunchConfig_t config = launch_config(blocks, threads, smem_bytes, stream, attribute);
  ONCHIP_CUDA_CHECK(cudaLaunchKernelExC(&config, function(kernel_), arguments));
}

int current_device() {
  int device = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

int device_attribute(cudaDeviceAttr which) {
  int value = 0;
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, current_device()));
  return value;
}

namespace {

DeviceInfo ask_device() {
  int driver = 0, runtime = 0, count = 0;
  ONCHIP_CUDA_CHECK(cudaDriverGetVersion(&driver));  // 0 where no driver is installed
  if (driver == 0) {
    throw CudaError("no CUDA device: no NVIDIA driver was found");
  }
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw CudaError(std::string("no CUDA device: ") +
                    cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status));
  }
  ONCHIP_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  cudaDeviceProp properties{};
  ONCHIP_CUDA_CHECK(cudaGetDeviceProperties(&properties, current_device()));

  DeviceInfo info;
  info.name = properties.name;
  info.architecture = "sm_" + std::to_string(properties.major * 10 + properties.minor);
  const std::string module = kernel_module_version();
  info.driver = (module.empty() ? "" : module + ", ") + "CUDA " + version_text(driver);
  info.runtime = version_text(runtime);
  info.sm_count = properties.multiProcessorCount;
  info.clock_hz = 1e3 * device_attribute(cudaDevAttrClockRate);
  return info;
}

}  // namespace

DeviceInfo device_info() {
  static std::mutex mutex;
  static std::map<int, DeviceInfo> asked;  // what a device is does not change
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) {
    cudaGetLastError();
    return ask_device();  // says why
  }
  const std::lock_guard lock(mutex);
  if (!asked.contains(device)) {
    asked.emplace(device, ask_device());
  }
  return asked.at(device);
}

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue, std::size_t most_nodes) {
  ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::exception_ptr failure;
  try {
    enqueue();
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &captured);
  const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> graph(captured, cudaGraphDestroy);
  if (failure) {
    cudaGetLastError();  // the failed capture's; a later check must not see it
    std::rethrow_exception(failure);
  }
  ONCHIP_CUDA_CHECK(ended);
  ONCHIP_CUDA_CHECK(cudaGraphGetNodes(captured, nullptr, &nodes_));
  if (nodes_ == 0 || nodes_ > most_nodes) {
    throw CudaError("a graph of " + std::to_string(nodes_) + " nodes: expected 1 to " + std::to_string(most_nodes));
  }
  cudaGraphExec_t executable = nullptr;
  ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&executable, captured, 0));
  executable_.reset(executable);
  ONCHIP_CUDA_CHECK(cudaGraphUpload(executable, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
}

double EventTimer::milliseconds() {
  float elapsed = 0;
  ONCHIP_CUDA_CHECK(cudaEventSynchronize(stop_.get()));
  ONCHIP_CUDA_CHECK(cudaEventElapsedTime(&elapsed, start_.get(), stop_.get()));
  return elapsed;
}

}  // namespace onchip
