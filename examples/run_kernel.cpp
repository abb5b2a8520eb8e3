// SPDX-License-Identifier: Apache-2.0
// Runs a kernel that `onchip measure --compile-only --write` wrote, by the CUDA driver and what its files say alone:
//
//   run_kernel KERNEL.cubin [STEPS]      or the .ptx; KERNEL.json and KERNEL.layout lie beside it
//
//   1. load the module     2. allocate the workspace and fill it     3. fill the kernel's argument, a struct of
//   pointers
//   4. run a few steps and compare the state with the file's          5. time STEPS steps (default: all there is room
//   for)
//
// An edited KERNEL.cu, compiled by the command at its top, runs in its place as long as it takes the same layout.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

void check(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) {
    const char* text = "unknown";
    cuGetErrorString(status, &text);
    throw std::runtime_error(std::string(what) + ": " + text);
  }
}
#define CHECK(call) check(call, #call)

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read '" + path.string() + "'");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// An element of the state or the input, fp16, bf16 or fp32: its size, from a float, to a float.
struct Element {
  explicit Element(const std::string& name) : is_bf16(name == "bf16"), bytes(name == "fp32" ? 4 : 2) {}
  void store(float value, char* to) const {
    const __half half = __float2half(value);
    const __nv_bfloat16 bf16 = __float2bfloat16(value);
    std::memcpy(to,
                bytes == 4 ? static_cast<const void*>(&value)
                : is_bf16  ? static_cast<const void*>(&bf16)
                           : &half,
                bytes);
  }
  float load(const char* from) const {
    float value = 0;
    std::uint16_t bits = 0;
    std::memcpy(bytes == 4 ? static_cast<void*>(&value) : &bits, from, bytes);
    return bytes == 4 ? value : is_bf16 ? __bfloat162float(__nv_bfloat16_raw{bits}) : __half2float(__half_raw{bits});
  }
  bool is_bf16;
  std::size_t bytes;
};

class WrittenKernel {
 public:
  explicit WrittenKernel(std::filesystem::path path)
      : about_(Json::parse(read_file(std::filesystem::path(path).replace_extension(".json")))),
        layout_(read_file(path.replace_filename(about_.at("file").get<std::string>()).string())),
        element_(buffer("states").at("type").get<std::string>()) {}

  void load(const std::string& module) {
    CHECK(cuModuleLoadData(&module_, module.c_str()));
    CHECK(cuModuleGetFunction(&kernel_, module_, text("kernel").c_str()));
    CHECK(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             number<int>("dynamic_shared_bytes")));
    if (number<int>("cluster") > 0) {
      CHECK(cuFuncSetAttribute(kernel_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    }
    CHECK(cuMemAlloc(&workspace_, number<std::size_t>("workspace_bytes")));  // aligned to 256 bytes
  }

  // Constants from the file, zeros, and an input of which every element is `input`.
  void fill(float input, int steps) {
    CHECK(cuMemsetD8(workspace_, 0, number<std::size_t>("workspace_bytes")));
    CHECK(cuMemcpyHtoD(workspace_, layout_.data(), number<std::size_t>("file_bytes")));
    std::vector<char> values(buffer("input").at("bytes").get<std::size_t>());
    for (std::size_t at = 0; at + element_.bytes <= values.size(); at += element_.bytes) {
      element_.store(input, &values[at]);
    }
    CHECK(cuMemcpyHtoD(place("input"), values.data(), values.size()));
    CHECK(cuMemsetD32(place("lengths"), static_cast<unsigned>(steps),
                      buffer("lengths").at("bytes").get<std::size_t>() / 4));
  }

  void launch(int steps) {
    for (const Json& fill : about_.at("filled_before_each_launch")) {
      CHECK(cuMemsetD8Async(workspace_ + fill.at("at").get<std::size_t>(), fill.at("byte").get<unsigned char>(),
                            fill.at("bytes").get<std::size_t>(), nullptr));
    }
    const Json& argument = about_.at("argument");
    std::vector<char> bytes(argument.at("bytes").get<std::size_t>());
    for (const Json& member : argument.at("members")) {
      char* const to = &bytes.at(member.at("at").get<std::size_t>());
      if (member.contains("buffer")) {
        const CUdeviceptr pointer = place(member.at("buffer").get<std::string>());
        std::memcpy(to, &pointer, sizeof pointer);
      } else {
        const int value = member.at("name") == "steps" ? steps : member.at("value").get<int>();
        std::memcpy(to, &value, sizeof value);
      }
    }
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = about_.at("cooperative").get<bool>() ? 1 : 0;
    CUlaunchConfig config{};
    config.gridDimX = number<unsigned>("grid");
    config.blockDimX = number<unsigned>("block");
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = number<unsigned>("dynamic_shared_bytes");
    config.attrs = &attribute;
    config.numAttrs = 1;
    void* arguments[] = {bytes.data()};
    CHECK(cuLaunchKernelEx(&config, kernel_, arguments, nullptr));
  }

  // After so many steps: the first sample's units, in the network's order.
  std::vector<float> state(int steps, std::size_t units) const {
    unsigned given_up = 0;
    CHECK(cuMemcpyDtoH(&given_up, place("status"), sizeof given_up));  // waits
    if (given_up != 0) {
      throw std::runtime_error("a block gave up waiting for another: the results are not valid");
    }
    const auto stride = number<std::size_t>("state_bytes");
    std::vector<char> bytes(stride);
    CHECK(cuMemcpyDtoH(bytes.data(), place("states") + static_cast<std::size_t>(steps) * stride, stride));
    const char* const table = &layout_.at(about_.at("state_elements").at("at_in_file").get<std::size_t>());
    std::vector<float> values(units);
    for (std::size_t unit = 0; unit < units; ++unit) {
      std::int32_t index = 0;
      std::memcpy(&index, table + unit * sizeof index, sizeof index);
      values[unit] = element_.load(&bytes.at(static_cast<std::size_t>(index) * element_.bytes));
    }
    return values;
  }

  const Json& about() const { return about_; }

 private:
  template <typename T>
  T number(const char* key) const {
    return about_.at(key).get<T>();
  }
  std::string text(const char* key) const { return about_.at(key).get<std::string>(); }
  const Json& buffer(const std::string& name) const {
    const Json& all = about_.at("buffers");
    const auto found = std::find_if(all.begin(), all.end(), [&](const Json& each) { return each.at("name") == name; });
    return found == all.end() ? throw std::runtime_error("the description has no buffer '" + name + "'") : *found;
  }
  CUdeviceptr place(const std::string& name) const { return workspace_ + buffer(name).at("at").get<std::size_t>(); }

  Json about_;
  std::string layout_;
  Element element_;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUdeviceptr workspace_ = 0;
};

// Microseconds of a launch, the median of some.
double launch_us(WrittenKernel& kernel, int steps) {
  constexpr int kRepeats = 15, kWarmUps = 3;
  CUevent begin = nullptr, end = nullptr;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  std::vector<float> ms;
  for (int repeat = -kWarmUps; repeat < kRepeats; ++repeat) {
    float elapsed = 0;
    CHECK(cuEventRecord(begin, nullptr));
    kernel.launch(steps);
    CHECK(cuEventRecord(end, nullptr));
    CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&elapsed, begin, end));
    if (repeat >= 0) {
      ms.push_back(elapsed);
    }
  }
  std::nth_element(ms.begin(), ms.begin() + kRepeats / 2, ms.end());
  return 1e3 * ms[kRepeats / 2];
}

int run(const std::string& path, const char* wanted_steps) {
  WrittenKernel kernel(path);
  const Json& test = kernel.about().at("check");
  const int most = kernel.about().at("steps").get<int>(), steps = wanted_steps ? std::atoi(wanted_steps) : most;
  if (steps < 2 || steps > most) {
    throw std::runtime_error("expected 2 to " + std::to_string(most) + " steps: the workspace has room for those");
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  kernel.load(read_file(path));

  const auto expected = test.at("states").get<std::vector<float>>();
  const int checked = std::min(test.at("steps").get<int>(), most);
  kernel.fill(test.at("input").get<float>(), most);
  kernel.launch(checked);
  const std::vector<float> got = kernel.state(checked, expected.size());
  double difference = 0, norm = 0;
  std::cout << "after " << checked << " steps:";
  for (std::size_t i = 0; i < got.size(); ++i) {
    std::cout << ' ' << got[i];
    difference += std::pow(got[i] - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  const double error = std::sqrt(difference / norm);
  const bool is_right = error <= test.at("tolerance").get<double>();
  std::cout << "\nrelative error " << error << (is_right ? "\n" : ": WRONG\n");

  const double whole = launch_us(kernel, steps), half = launch_us(kernel, steps / 2);
  std::cout << steps << " steps: " << whole << " us; a step in steady state " << (whole - half) / (steps - steps / 2)
            << " us\n";
  return is_right ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 3) {
    std::cerr << "usage: run_kernel KERNEL.cubin|KERNEL.ptx [STEPS]\n";
    return 2;
  }
  try {
    return run(words[1], count > 2 ? words[2] : nullptr);
  } catch (const std::exception& error) {
    std::cerr << "run_kernel: " << error.what() << '\n';
    return 2;
  }
}
