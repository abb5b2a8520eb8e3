// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/recurrence.hpp"

#include "kernels/runtime/device_program.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

// Of the arrays, in a workspace of so many bytes.
std::vector<std::byte*> checked_places(const RecurrenceProgram& program, std::int64_t most_steps, void* workspace,
                                       std::size_t bytes) {
  if (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % kArrayAlignment != 0) {
    throw InputError(workspace == nullptr
                         ? "the workspace is null"
                         : "the workspace is not aligned to " + std::to_string(kArrayAlignment) + " bytes");
  }
  const std::vector<std::size_t> offsets = array_offsets(program.kernels_and_arrays(most_steps));
  if (bytes < offsets.back()) {
    throw InputError("the workspace has " + std::to_string(bytes) + " bytes; expected at least " +
                     std::to_string(offsets.back()));
  }
  std::vector<std::byte*> places;
  for (const std::size_t offset : offsets) {
    places.push_back(static_cast<std::byte*>(workspace) + offset);
  }
  return places;
}

}  // namespace

Recurrence::Recurrence(std::shared_ptr<const RecurrenceProgram> program, void* workspace, std::size_t workspace_bytes,
                       std::int64_t most_steps, cudaStream_t stream)
    : program_(std::move(program)),
      steps_per_launch_(program_->steps_per_launch(most_steps)),
      places_(checked_places(*program_, most_steps, workspace, workspace_bytes)),
      device_(current_device()) {
  const auto kernel = std::make_shared<const LoadedCubin>(program_->kernel.cubin);
  const auto order = std::make_shared<const LoadedCubin>(program_->order.cubin);
  const KernelProgram of_steps = program_->kernels_and_arrays(most_steps);
  for (const ProgramKernel& of : of_steps.kernels) {
    kernels_.emplace_back(of.request.name == program_->kernel_request.name ? kernel : order, of.entry);
  }
  const LaunchShape& shape = program_->shape;
  const auto shared = static_cast<std::size_t>(shape.shared_bytes);
  if (kernels_[0].blocks_per_sm(shape.threads, shared) < 1 ||
      (shape.cluster_blocks > 0 && kernels_[0].clusters(shape.cluster_blocks, shape.threads, shared) < 1)) {
    throw DoesNotFit("one SM cannot hold a block of plan '" + to_string(program_->plan) + "' (" +
                     std::to_string(program_->kernel.resources.registers) + " registers per thread, " +
                     std::to_string(shared) + " bytes of shared memory)");
  }
  if (const int sms = device_attribute(cudaDevAttrMultiProcessorCount); shape.blocks > sms) {
    throw DoesNotFit("the plan needs " + std::to_string(shape.blocks) + " SMs, but this device has " +
                     std::to_string(sms));
  }
  // All of the scratch, so that a run that was never given an input has one: zeros.
  const std::byte* const end = places_.back();
  std::byte* const scratch = places_[RecurrenceArray::input];
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(scratch, 0, static_cast<std::size_t>(end - scratch), stream));
  for (std::size_t array = 0; array < program_->constants.size(); ++array) {
    const std::vector<std::byte>& constant = program_->constants[array];
    if (!constant.empty()) {
      ONCHIP_CUDA_CHECK(
          cudaMemcpyAsync(places_[array], constant.data(), constant.size(), cudaMemcpyHostToDevice, stream));
    }
  }
}

void Recurrence::enqueue(cudaStream_t stream, const std::vector<ProgramNode>& nodes) const {
  for (const ProgramNode& node : nodes) {
    onchip::enqueue(node, kernels_, nullptr, stream);
  }
}

void Recurrence::enqueue_recurrence(cudaStream_t stream, std::int64_t steps) const {
  enqueue(stream, program_->recurrence_nodes(places_, steps_per_launch_, steps));
}

void Recurrence::enqueue(cudaStream_t stream, const Sequences& sequences) const {
  if (sequences.steps < 1) {
    return;
  }
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  enqueue(stream, program_->nodes(places_, steps_per_launch_, sequences));
}

void Recurrence::check_status(cudaStream_t stream) const {
  std::uint32_t status = 0;
  std::byte* const place = places_[RecurrenceArray::status];
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(&status, place, sizeof status, cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (status != 0) {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(place, 0, sizeof status, stream));
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::uint32_t> Recurrence::record(cudaStream_t stream) const {
  std::vector<std::uint32_t> record(program_->record_words(steps_per_launch_));
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(record.data(), places_[RecurrenceArray::record],
                                    record.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  return record;
}

std::vector<std::byte> to_elements(std::span<const float> values, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<std::byte> elements(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = to_bits(precision, values[i]);
    std::memcpy(&elements[i * size], &bits, size);
  }
  return elements;
}

std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<float> values(elements.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &elements[i * size], size);
    values[i] = from_bits(precision, bits);
  }
  return values;
}

}  // namespace onchip
