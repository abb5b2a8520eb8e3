// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_layer.hpp"

#include "kernels/runtime/cublas.hpp"
#include "kernels/training/sparse_program.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace onchip {
namespace {

constexpr std::size_t kCallers = ~std::size_t{0};

// In host memory: kernels write it there, and who reads it copies nothing and waits for nothing.
std::uint32_t* new_status() {
  void* status = nullptr;
  ONCHIP_CUDA_CHECK(cudaHostAlloc(&status, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped));
  return new (status) std::uint32_t{0};
}

// What layers share. Never destroyed: graphs may still run, and CUDA may be gone before.
struct Shared {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, std::shared_ptr<const LoadedCubin>> cubins;  // by device and fingerprint
  struct Device {
    Cublas cublas{false, 0};
    std::uint32_t* status = new_status();
  };
  std::map<int, Device> devices;
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

int current_device() {
  int device = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

Shared::Device& shared_of(int device) {
  return shared().devices.try_emplace(device).first->second;
}

void take_status(std::uint32_t& status) {
  if (std::atomic_ref(status).exchange(0) != 0) {
    throw CudaError(
        "a training step gave up waiting for the state of another SM; what it and those since have computed is not "
        "valid");
  }
}

TrainingProgram program_for(const TrainingSize& size, Precision precision, const SparseMatrix* mask,
                            const DeviceInfo& info, int device) {
  int shared_bytes = 0;
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const auto most_bytes = static_cast<std::size_t>(shared_bytes);
  if (mask != nullptr && (mask->rows != 4 * size.hidden || mask->columns != size.hidden)) {
    throw InputError("the mask is " + std::to_string(mask->rows) + " x " + std::to_string(mask->columns) +
                     "; W_hh of the layer is " + std::to_string(4 * size.hidden) + " x " + std::to_string(size.hidden));
  }
  try {
    if (mask != nullptr) {
      return sparse_training_program(
          size, precision,
          lay_out_sparse_training(size, precision, *mask, info.sm_count, most_bytes, info.architecture));
    }
    return training_program(size, precision, choose_training_plan(size, info.sm_count, most_bytes), info.architecture);
  } catch (const InputError& problem) {
    throw DoesNotFit(problem.what());
  }
}

std::shared_ptr<const LoadedCubin> loaded(int device, const CompileRequest& request) {
  std::shared_ptr<const LoadedCubin>& cubin = shared().cubins[{device, fingerprint(request)}];
  if (!cubin) {
    cubin = std::make_shared<const LoadedCubin>(compile(request).cubin);
  }
  return cubin;
}

}  // namespace

TrainingHalf half_of(std::string_view label) {
  constexpr std::array<std::string_view, 3> kForward{"prepare forward", "W_ih x", "forward"};
  const bool is_forward = std::ranges::any_of(kForward, [&](std::string_view name) { return label.starts_with(name); });
  return is_forward ? TrainingHalf::forward : TrainingHalf::backward;
}

TrainingLayer::TrainingLayer(const TrainingSize& size, Precision precision, const SparseMatrix* mask) {
  const DeviceInfo info = device_info();
  device_ = current_device();
  training_ = program_for(size, precision, mask, info, device_);
  const InferenceProgram& program = training_.program;
  const std::lock_guard lock(shared().mutex);
  shared_of(device_);
  for (const ProgramKernel& kernel : program.kernels) {
    kernels_.emplace_back(loaded(device_, kernel.request), kernel.entry);
  }

  const auto take = [&](std::size_t bytes) {
    constexpr std::size_t kAlignment = 256;
    return std::exchange(workspace_bytes_, workspace_bytes_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  };
  products_offset_ = take(Cublas::kWorkspaceBytes);
  offsets_.assign(program.arrays.size(), kCallers);
  const TrainingArrays& a = training_.arrays;
  const int last_of_caller =
      std::max({a.x,      a.w_ih,  a.w_hh,  a.b_ih, a.b_hh,  a.h0,    a.c0, a.dy,    a.dhn, a.dcn,
                a.states, a.cells, a.gates, a.dx,   a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0});
  for (int array = 0; array < static_cast<int>(program.arrays.size()); ++array) {
    // The kernel writes the first state's gradients in any case.
    if (const auto contents = program.arrays[array].contents; !contents.empty()) {
      constants_.emplace(array, contents);
    } else if ((array > last_of_caller || array == a.dh0 || array == a.dc0) && array != program.results) {
      offsets_[array] = take(program.arrays[array].bytes);
    }
  }

  for (const ProgramNode& node : program.nodes(std::vector<std::byte*>(program.arrays.size()))) {
    if (!node.cooperative) {
      continue;
    }
    const Kernel& kernel = kernels_[node.kernel];
    const int split = half_of(node.label) == TrainingHalf::forward ? 1
                      : training_.sparse                            ? training_.sparse->backward.recurrence.plan.split
                                                                    : training_.plan.backward.split;
    const int at_once = split > 1 ? split * kernel.clusters(split, node.threads, node.shared_bytes)
                                  : info.sm_count * kernel.blocks_per_sm(node.threads, node.shared_bytes);
    if (at_once < node.blocks) {
      throw DoesNotFit("the device holds " + std::to_string(at_once) + " of " + std::to_string(node.blocks) +
                       " blocks at once with the plan '" + plan() + "'");
    }
  }
}

std::string TrainingLayer::plan() const {
  if (training_.sparse) {
    return "sparse, forward: " + text(training_.sparse->forward.recurrence.plan) +
           "; backward: " + text(training_.sparse->backward.recurrence.plan);
  }
  return "forward: " + text(training_.plan.forward) + "; backward: " + text(training_.plan.backward);
}

void TrainingLayer::enqueue(cudaStream_t stream, TrainingHalf half, std::vector<std::byte*> places,
                            std::byte* workspace) const {
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  const std::lock_guard lock(shared().mutex);  // a cuBLAS handle is one stream's at a time
  const Shared::Device& device = shared_of(device_);
  take_status(*device.status);
  const bool has_bias_gradient = places[training_.arrays.db] != nullptr || places[training_.arrays.db_hh] != nullptr;
  for (std::size_t array = 0; array < places.size(); ++array) {
    if (offsets_[array] != kCallers && places[array] == nullptr) {
      places[array] = workspace + offsets_[array];
    }
  }
  for (const auto& [array, constant] : constants_) {
    places[static_cast<std::size_t>(array)] = constant.data();
  }
  const InferenceProgram& program = training_.program;
  places[program.results] = reinterpret_cast<std::byte*>(device.status);
  for (const ProgramNode& node : program.nodes(places)) {
    const bool clears_status = node.zeros.data() == places[program.results];
    if (clears_status || half_of(node.label) != half || (node.label == "db" && !has_bias_gradient) ||
        (node.label == "dW_hh mask" && places[training_.arrays.dw_hh] == nullptr)) {
      continue;
    }
    if (node.product) {
      if (node.product->c != nullptr) {
        device.cublas.use(stream, workspace + products_offset_);
        device.cublas.multiply(*node.product);
      }
    } else if (node.kernel < 0) {
      ONCHIP_CUDA_CHECK(cudaMemsetAsync(node.zeros.data(), 0, node.zeros.size(), stream));
    } else {
      std::vector<std::byte> arguments = node.arguments;
      void* of_kernel[] = {arguments.data()};
      kernels_[node.kernel].launch(stream, node.blocks, node.threads, node.shared_bytes, node.cooperative, of_kernel);
    }
  }
}

void TrainingLayer::check(cudaStream_t stream) {
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  const std::lock_guard lock(shared().mutex);
  take_status(*shared_of(current_device()).status);
}

}  // namespace onchip
