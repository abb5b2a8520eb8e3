// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/recurrence.hpp"

#include "kernels/recurrent/recurrence_run.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

int current_device() {
  int device = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

// A stream of the current device, and the kernels that are launched on it.
struct StreamDevice {
  cudaStream_t stream;
  std::span<const Kernel* const> kernels;  // by Entry

  void fill(void* to, int byte, std::size_t bytes) const {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, stream));
  }
  void upload(void* to, const void* host, std::size_t bytes) const {
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream));
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    ONCHIP_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  }
  template <typename A>
  void launch(Entry entry, int blocks, int threads, std::size_t shared_bytes, bool cooperative,
              const A& arguments) const {
    void* pointers[] = {const_cast<A*>(&arguments)};
    kernels[static_cast<std::size_t>(entry)]->launch(stream, blocks, threads, shared_bytes, cooperative, pointers);
  }
};

void* checked_workspace(void* workspace, std::size_t bytes, std::size_t needed) {
  if (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
    throw InputError(workspace == nullptr
                         ? "the workspace is null"
                         : "the workspace is not aligned to " + std::to_string(kWorkspaceAlignment) + " bytes");
  }
  if (bytes < needed) {
    throw InputError("the workspace has " + std::to_string(bytes) + " bytes; expected at least " +
                     std::to_string(needed));
  }
  return workspace;
}

}  // namespace

Recurrence::Recurrence(std::shared_ptr<const Program> program, void* workspace, std::size_t workspace_bytes,
                       std::int64_t most_steps, cudaStream_t stream)
    : program_(std::move(program)),
      scratch_(scratch_places(*program_, most_steps)),
      workspace_(static_cast<std::byte*>(checked_workspace(workspace, workspace_bytes, scratch_.bytes))),
      device_(current_device()),
      kernel_(program_->kernel.cubin, std::string(program_->shape.kernel)),
      order_(std::make_shared<const LoadedCubin>(program_->order_cubin)),
      set_lengths_(order_, "set_lengths"),
      to_input_order_(order_, "to_input_order"),
      to_state_order_(order_, "to_state_order"),
      from_state_order_(order_, "from_state_order"),
      to_final_state_(order_, "to_final_state"),
      to_carry_order_(order_, "to_carry_order"),
      from_carry_order_(order_, "from_carry_order") {
  const LaunchShape& shape = program_->shape;
  const auto shared = static_cast<std::size_t>(shape.shared_bytes);
  if (kernel_.blocks_per_sm(shape.threads, shared) < 1 ||
      (shape.cluster_blocks > 0 && kernel_.clusters(shape.cluster_blocks, shape.threads, shared) < 1)) {
    throw DoesNotFit("one SM cannot hold a block of plan '" + to_string(program_->plan) + "' (" +
                     std::to_string(program_->kernel.resources.registers) + " registers per thread, " +
                     std::to_string(shared) + " bytes of shared memory)");
  }
  int sms = 0;
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_));
  if (shape.blocks > sms) {
    throw DoesNotFit("the plan needs " + std::to_string(shape.blocks) + " SMs, but this device has " +
                     std::to_string(sms));
  }
  on(stream, [&](const auto& run) { run.fill_workspace(); });
}

template <typename Of>
void Recurrence::on(cudaStream_t stream, Of of) const {
  const Kernel* const kernels[] = {&kernel_,           &set_lengths_,    &to_input_order_, &to_state_order_,
                                   &from_state_order_, &to_final_state_, &to_carry_order_, &from_carry_order_};
  StreamDevice device{stream, kernels};
  of(RecurrenceRun<StreamDevice>(device, *program_, scratch_, workspace_));
}

void Recurrence::enqueue_recurrence(cudaStream_t stream, std::int64_t steps) const {
  on(stream, [&](const auto& run) {
    for (std::int64_t first = 0; first < steps; first += scratch_.steps_per_launch) {
      run.launch(first, std::min(scratch_.steps_per_launch, steps - first));
    }
  });
}

void Recurrence::enqueue(cudaStream_t stream, const Sequences& sequences) const {
  if (sequences.steps < 1) {
    return;
  }
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  on(stream, [&](const auto& run) { run.enqueue(sequences); });
}

void Recurrence::check_status(cudaStream_t stream) const {
  std::uint32_t status = 0;
  ONCHIP_CUDA_CHECK(
      cudaMemcpyAsync(&status, at<std::uint32_t>(scratch_.status), sizeof status, cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (status != 0) {
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::uint32_t> Recurrence::record(cudaStream_t stream) const {
  std::vector<std::uint32_t> record(record_words(*program_, scratch_.steps_per_launch));
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(record.data(), at<std::uint32_t>(scratch_.record),
                                    record.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  return record;
}

}  // namespace onchip
