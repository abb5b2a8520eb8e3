// SPDX-License-Identifier: Apache-2.0
// What needs no GPU, then (tag [gpu]) what does.
#include "kernels/runtime/device.hpp"

#include "kernels/runtime/compiler.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr std::string_view kCopySource = R"(
extern "C" __global__ void copy(const int* in, int* out, int count) {
  extern __shared__ int staged[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  staged[threadIdx.x] = i < count ? in[i] : 0;
  __syncthreads();
  if (i < count) out[i] = staged[threadIdx.x];
}
)";

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

TEST_CASE("a failed call is told with its expression, place and CUDA's own words") {
  const auto fail = [] { ONCHIP_CUDA_CHECK(cudaErrorInvalidValue); };
  const std::string error = error_of<CudaError>(fail);
  CHECK(error.starts_with("device_test.cpp:"));
  CHECK(error.ends_with(": cudaErrorInvalidValue: invalid argument (cudaErrorInvalidValue)"));
  CHECK(error_of<CudaError>([] { ONCHIP_CUDA_CHECK(cudaSuccess); }) == "no error");
}

TEST_CASE("a machine without a GPU says so") {
  if (!has_device()) {
    CHECK(error_of<CudaError>([] { device_info(); }).starts_with("no CUDA device: "));
  }
}

TEST_CASE("the device says what it is", "[gpu]") {
  const DeviceInfo info = device_info();
  CHECK_FALSE(info.name.empty());
  CHECK(info.architecture.starts_with("sm_"));
  CHECK(says(info.driver, "CUDA "));
  CHECK(info.sm_count > 0);
  CHECK(info.clock_hz > 1e8);
}

TEST_CASE("a compiled kernel launches, also cooperatively and with much shared memory", "[gpu]") {
  const CompiledKernel compiled = compile({"copy", kCopySource, device_info().architecture, {}});
  const Kernel kernel(compiled.cubin, "copy");
  CHECK(kernel.attributes().numRegs == compiled.resources.registers);
  CHECK(kernel.blocks_per_sm(256, 0) > 1);
  CHECK(kernel.blocks_per_sm(256, 90 << 10) >= 1);

  std::vector<int> in(1000);
  std::iota(in.begin(), in.end(), 7);
  const Stream stream;
  const DeviceBuffer<int> source{std::span<const int>(in)};
  for (const bool cooperative : {false, true}) {
    for (const std::size_t smem_bytes : {1u << 10, 90u << 10}) {
      DeviceBuffer<int> target(in.size());
      const std::vector<int> poison(in.size(), -1);
      target.upload(poison);
      ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());
      const int* from = source.data();
      int* to = target.data();
      int count = static_cast<int>(in.size());
      void* arguments[] = {&from, &to, &count};
      kernel.launch(stream.get(), 4, 256, smem_bytes, cooperative, arguments);
      stream.synchronize();
      CHECK(target.download() == in);
    }
  }
}

TEST_CASE("launches that cannot be are refused with CUDA's words", "[gpu]") {
  const CompiledKernel compiled = compile({"copy", kCopySource, device_info().architecture, {}});
  const Kernel kernel(compiled.cubin, "copy");
  const Stream stream;
  const int* from = nullptr;
  int* to = nullptr;
  int count = 0;
  void* arguments[] = {&from, &to, &count};
  CHECK(says(error_of<CudaError>([&] { kernel.launch(stream.get(), 1, 4096, 0, false, arguments); }), "(cudaError"));
  CHECK(
      says(error_of<CudaError>([&] { kernel.launch(stream.get(), 1, 32, 1 << 20, false, arguments); }), "(cudaError"));
  CHECK(says(error_of<CudaError>([&] { kernel.launch(stream.get(), 1 << 20, 32, 0, true, arguments); }),
             "(cudaErrorCooperativeLaunchTooLarge)"));
  // A refused launch leaves the kernel usable.
  kernel.launch(stream.get(), 1, 32, 128, true, arguments);
  stream.synchronize();
}

TEST_CASE("a kernel that is not there, or not for this device, fails when it is loaded", "[gpu]") {
  const std::string here = device_info().architecture;
  const CompiledKernel compiled = compile({"copy", kCopySource, here, {}});
  CHECK(says(error_of<CudaError>([&] { Kernel(compiled.cubin, "absent"); }), "cudaLibraryGetKernel"));
  const CompiledKernel other = compile({"copy", kCopySource, here == "sm_120" ? "sm_90" : "sm_120", {}});
  CHECK(says(error_of<CudaError>([&] { Kernel(other.cubin, "copy"); }), "(cudaError"));
}

TEST_CASE("events time what lies between them", "[gpu]") {
  const Stream stream;
  DeviceBuffer<char> buffer(64u << 20);
  const double ms = EventTimer().milliseconds_of(
      stream.get(), [&] { ONCHIP_CUDA_CHECK(cudaMemsetAsync(buffer.data(), 1, buffer.bytes(), stream.get())); });
  CHECK(ms > 0.001);
  CHECK(ms < 1000);
}

}  // namespace
}  // namespace onchip
