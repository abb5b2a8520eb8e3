// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_layer.hpp"

#include "kernels/runtime/cublas.hpp"
#include "kernels/training/sparse/program.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/training/price.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kCallers = ~std::size_t{0};

// In host memory: kernels write it there, and who reads it copies nothing and waits for nothing.
std::uint32_t* new_status() {
  void* status = nullptr;
  ONCHIP_CUDA_CHECK(cudaHostAlloc(&status, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped));
  return new (status) std::uint32_t{0};
}

// A stream for what runs beside the caller's, and events to fork and to join.
struct BesideStream {
  cudaStream_t stream = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  BesideStream() {
    // A stream that is captured at this moment has nothing to do with it.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    ONCHIP_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
    ONCHIP_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ONCHIP_CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    ONCHIP_CUDA_CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    ONCHIP_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  }
};

// What layers share. Never destroyed: graphs may still run, and CUDA may be gone before.
struct Shared {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, std::shared_ptr<const LoadedCubin>> cubins;  // by device and fingerprint
  struct Device {
    Cublas cublas{false, 0};
    std::uint32_t* status = new_status();
    std::map<cudaStream_t, BesideStream> beside;  // of each caller's stream, so that no capture reaches another's
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
  const std::uint32_t found = std::atomic_ref(status).exchange(0);
  if (found == 2) {
    throw CudaError("a length of a training step's sample is not from 1 to its steps");
  }
  if (found != 0) {
    throw CudaError(
        "a training step gave up waiting for the state of another SM; what it and those since have computed is not "
        "valid");
  }
}

std::size_t shared_bytes_of(int device) {
  int shared_bytes = 0;
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(shared_bytes);
}

// Parsed once, whatever number of layers there are.
const std::vector<Chip>& all_shipped_chips() {
  static const std::vector<Chip> chips = [] {
    std::vector<Chip> all;
    for (const std::string& name : shipped_chips()) {
      all.push_back(find_chip(name).chip);
    }
    return all;
  }();
  return chips;
}

// The shipped chip of that name, or one of its architecture, with the device's own SMs and shared memory.
Chip chip_of(const DeviceInfo& info, std::size_t shared_bytes) {
  constexpr std::string_view kMaker = "NVIDIA ";
  const std::string name = info.name.substr(info.name.starts_with(kMaker) ? kMaker.size() : 0);
  std::optional<Chip> chip;
  for (const Chip& of : all_shipped_chips()) {
    const bool is_alike = of.architecture == info.architecture && of.sm_count.value == info.sm_count;
    if (of.name == name || (is_alike && !chip)) {
      chip = of;
    }
  }
  if (!chip) {
    chip = find_chip("h200").chip;
  }
  chip->sm_count.value = info.sm_count;
  chip->smem_bytes_per_block.value = static_cast<double>(shared_bytes);
  return *chip;
}

TrainingPlan plan_for(const TrainingSize& size, const Chip& chip) {
  try {
    return choose_training_plan(size, chip);
  } catch (const InputError& problem) {
    throw DoesNotFit(problem.what());
  }
}

TrainingProgram sparse_program_for(const TrainingSize& size, Precision precision, const SparseMatrix& mask,
                                   const DeviceInfo& info, int device) {
  if (mask.rows != 4 * size.hidden || mask.columns != size.hidden) {
    throw InputError("the mask is " + std::to_string(mask.rows) + " x " + std::to_string(mask.columns) +
                     "; W_hh of the layer is " + std::to_string(4 * size.hidden) + " x " + std::to_string(size.hidden));
  }
  try {
    return sparse_training_program(
        size, precision,
        lay_out_sparse_training(size, precision, mask, info.sm_count, shared_bytes_of(device), info.architecture));
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

std::string why_a_library(const TrainingSize& size, Precision precision) {
  const Chip chip = chip_of(device_info(), shared_bytes_of(current_device()));
  plan_for(size, chip);
  const Training training{{size.cell, precision, size.hidden, size.batch, static_cast<int>(size.steps), 1},
                          {1, size.directions == 2, size.input}};
  if (size.length_bytes != 0 || plan_training(chip, training) != library_step()) {
    return "";
  }
  const auto us = [&](const TrainingStep& step) {
    return fixed(price(chip, training, step).us / static_cast<double>(size.steps), 1) + " us";
  };
  return "cuDNN is the pick at this size: a step is priced " + us(library_step()) +
         ", with the quickest plan on the chip " + us(own_step(chip, training));
}

TrainingHalf half_of(std::string_view label) {
  constexpr std::array<std::string_view, 3> kForward{"prepare forward", "W_ih x", "forward"};
  const bool is_forward = std::ranges::any_of(kForward, [&](std::string_view name) { return label.starts_with(name); });
  return is_forward ? TrainingHalf::forward : TrainingHalf::backward;
}

TrainingLayer::TrainingLayer(const TrainingSize& size, Precision precision, const SparseMatrix* mask) : size_(size) {
  const DeviceInfo info = device_info();
  device_ = current_device();
  if (mask != nullptr) {
    training_.push_back(sparse_program_for(size, precision, *mask, info, device_));
  }
  const TrainingPlan plan_of_size =
      mask != nullptr ? TrainingPlan{} : plan_for(size, chip_of(info, shared_bytes_of(device_)));
  for (int direction = 0; mask == nullptr && direction < size.directions; ++direction) {
    TrainingSize of_direction = size;
    of_direction.is_reverse = direction == 1;
    training_.push_back(training_program(of_direction, precision, plan_of_size, info.architecture));
  }
  const KernelProgram& program = training().program;
  const std::lock_guard lock(shared().mutex);
  shared_of(device_);
  for (const ProgramKernel& kernel : program.kernels) {  // of all directions
    kernels_.emplace_back(loaded(device_, kernel.request), kernel.entry);
  }

  const auto take = [](std::size_t& from, std::size_t bytes) {
    constexpr std::size_t kAlignment = 256;
    return std::exchange(from, from + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  };
  offsets_.assign(program.arrays.size(), kCallers);
  const TrainingArrays& a = training().arrays;
  const int last_of_caller =
      std::max({a.x,  a.w_ih, a.w_hh,  a.b_ih,  a.b_hh, a.h0,    a.c0,    a.dhn, a.dcn,   a.lengths, a.y,  a.dy,
                a.hn, a.cn,   a.cells, a.gates, a.dx,   a.dw_ih, a.dw_hh, a.db,  a.db_hh, a.dh0,     a.dc0});
  for (int array = last_of_caller + 1; array < static_cast<int>(program.arrays.size()); ++array) {
    if (const auto contents = program.arrays[array].contents; !contents.empty()) {
      constants_.emplace(array, contents);
    } else if (array != program.results) {
      offsets_[array] = take(direction_bytes_, program.arrays[array].bytes);
    }
  }
  take(workspace_bytes_, direction_bytes_ * training_.size());
  products_offset_ = take(workspace_bytes_, Cublas::kWorkspaceBytes);

  for (const ProgramNode& node : program.nodes(std::vector<std::byte*>(program.arrays.size()))) {
    if (!node.cooperative) {
      continue;
    }
    const Kernel& kernel = kernels_[node.kernel];
    const int split = half_of(node.label) == TrainingHalf::forward ? 1
                      : training().sparse                          ? training().sparse->backward.recurrence.plan.split
                                                                   : training().plan.backward.split;
    const int at_once = split > 1 ? split * kernel.clusters(split, node.threads, node.shared_bytes)
                                  : info.sm_count * kernel.blocks_per_sm(node.threads, node.shared_bytes);
    const int needed = node.blocks * (training().plan.beside ? 2 : 1);
    if (at_once < needed) {
      throw DoesNotFit("the device holds " + std::to_string(at_once) + " of " + std::to_string(needed) +
                       " blocks at once with the plan '" + plan() + "'");
    }
  }
}

std::string TrainingLayer::plan() const {
  if (training().sparse) {
    return "sparse, forward: " + text(training().sparse->forward.recurrence.plan) +
           "; backward: " + text(training().sparse->backward.recurrence.plan);
  }
  const TrainingPlan& plan = training().plan;
  return "forward: " + text(plan.forward) + "; backward: " + text(plan.backward) +
         (plan.aligned ? "; products of aligned copies" : "") + (plan.beside ? "; both directions at once" : "");
}

void TrainingLayer::run(const ProgramNode& node, cudaStream_t stream, std::byte* workspace) const {
  if (node.product) {
    if (node.product->c != nullptr) {
      const Cublas& cublas = shared_of(device_).cublas;
      cublas.use(stream, workspace + products_offset_);
      cublas.multiply(*node.product);
    }
  } else if (node.kernel >= 0) {
    std::vector<std::byte> arguments = node.arguments;
    void* of_kernel[] = {arguments.data()};
    kernels_[node.kernel].launch(stream, node.blocks, node.threads, node.shared_bytes, node.cooperative, of_kernel);
  } else if (node.zeros.data() != nullptr) {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(node.zeros.data(), 0, node.zeros.size(), stream));
  }
}

void TrainingLayer::enqueue(cudaStream_t stream, TrainingHalf half, std::vector<std::vector<std::byte*>> places,
                            std::byte* workspace) const {
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  const std::lock_guard lock(shared().mutex);  // a cuBLAS handle is one stream's at a time
  Shared::Device& device = shared_of(device_);
  take_status(*device.status);
  std::vector<std::vector<ProgramNode>> nodes;  // of each direction, those of this half
  for (std::size_t direction = 0; direction < training_.size(); ++direction) {
    const TrainingProgram& of = training_[direction];
    std::vector<std::byte*>& of_direction = places[direction];
    for (std::size_t array = 0; array < of_direction.size(); ++array) {
      if (offsets_[array] != kCallers) {
        of_direction[array] = workspace + direction * direction_bytes_ + offsets_[array];
      }
    }
    for (const auto& [array, constant] : constants_) {
      of_direction[static_cast<std::size_t>(array)] = constant.data();
    }
    std::byte* const status = reinterpret_cast<std::byte*>(device.status);
    of_direction[of.program.results] = status;
    nodes.emplace_back();
    for (ProgramNode& node : of.program.nodes(of_direction)) {
      const bool clears_status = node.zeros.data() == status;
      const bool is_unwanted = node.label == "dW_hh mask" && of_direction[of.arrays.dw_hh] == nullptr;
      if (!clears_status && half_of(node.label) == half && !is_unwanted) {
        nodes.back().push_back(std::move(node));
      }
    }
  }
  if (training_.size() == 1) {
    for (const ProgramNode& node : nodes[0]) {
      run(node, stream, workspace);
    }
    return;
  }
  // What is no recurrence before it and behind it, so that the two recurrences are beside each other.
  const auto recurrence = [&](std::size_t direction) {
    return std::ranges::find_if(nodes[direction], &ProgramNode::cooperative);
  };
  for (std::size_t direction : {0, 1}) {
    std::for_each(nodes[direction].begin(), recurrence(direction),
                  [&](const ProgramNode& node) { run(node, stream, workspace); });
  }
  run_recurrences(*recurrence(0), *recurrence(1), stream, workspace);
  for (std::size_t direction : {0, 1}) {
    std::for_each(recurrence(direction) + 1, nodes[direction].end(),
                  [&](const ProgramNode& node) { run(node, stream, workspace); });
  }
}

void TrainingLayer::run_recurrences(const ProgramNode& first, const ProgramNode& second, cudaStream_t stream,
                                    std::byte* workspace) const {
  if (!training().plan.beside) {
    run(first, stream, workspace);
    run(second, stream, workspace);
    return;
  }
  const BesideStream& beside = shared_of(device_).beside[stream];
  ONCHIP_CUDA_CHECK(cudaEventRecord(beside.fork, stream));
  ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(beside.stream, beside.fork));
  run(first, stream, workspace);
  run(second, beside.stream, workspace);
  ONCHIP_CUDA_CHECK(cudaEventRecord(beside.join, beside.stream));
  ONCHIP_CUDA_CHECK(cudaStreamWaitEvent(stream, beside.join));
}

void TrainingLayer::check(cudaStream_t stream) {
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  const std::lock_guard lock(shared().mutex);
  take_status(*shared_of(current_device()).status);
}

}  // namespace onchip
