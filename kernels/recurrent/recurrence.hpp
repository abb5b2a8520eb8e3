// SPDX-License-Identifier: Apache-2.0
// Runs a program (program.hpp) in the caller's memory and on the caller's streams.
#pragma once

#include "kernels/recurrent/program.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace onchip {

class Recurrence {
 public:
  // Bytes of device memory that sequences of `most_steps` need; longer ones run in several launches of as many.
  static std::size_t workspace_bytes(const RecurrenceProgram& program, std::int64_t most_steps) {
    return array_offsets(program.kernels_and_arrays(most_steps)).back();
  }

  // Loads the kernels into the current device, and fills the workspace on the stream; not to be captured. The workspace
  // is device memory of workspace_bytes(*program, most_steps), aligned to kArrayAlignment, and the caller's: it
  // must outlive every run. It holds the weights, so each recurrence has its own.
  //
  // Throws InputError for a workspace that is null, not aligned or too small, DoesNotFit if one SM cannot hold a block
  // or the device has too few SMs, CudaError if the cubin is for another architecture.
  Recurrence(std::shared_ptr<const RecurrenceProgram> program, void* workspace, std::size_t workspace_bytes,
             std::int64_t most_steps, cudaStream_t stream);

  const RecurrenceProgram& program() const { return *program_; }

  // Enqueues all time steps on the stream: kernels, fills and copies within device memory, so that it may be captured
  // in a graph; allocates no device memory and waits for nothing. One run at a time: the workspace is its own. The
  // caller's arrays may be the same for the initial and the final state. Throws InputError for lengths out of range or
  // if the current device is not the one that the kernels are loaded into.
  void enqueue(cudaStream_t stream, const Sequences& sequences) const;

  // Enqueues the recurrence alone, on the input and the initial state that the last enqueue() left in the workspace,
  // zeros beyond: what remains where neither has to be brought into the plan's order. Results stay in the workspace.
  void enqueue_recurrence(cudaStream_t stream, std::int64_t steps) const;

  // Waits for the stream. Throws CudaError if, in any run since the last call, a block gave up waiting for another.
  // From then until this call, all that runs write is NaN, also those of a captured graph.
  void check_status(cudaStream_t stream) const;

  // What Work::clocked and Work::captured wrote down in the last launch; waits for the stream.
  std::vector<std::uint32_t> record(cudaStream_t stream) const;

 private:
  void enqueue(cudaStream_t stream, const std::vector<ProgramNode>& nodes) const;

  std::shared_ptr<const RecurrenceProgram> program_;
  std::int64_t steps_per_launch_;
  std::vector<std::byte*> places_;  // of the arrays, in the workspace
  int device_;
  std::vector<Kernel> kernels_;
};

// The same in a workspace of its own: what measurements and tests use.
class PersistentKernel {
 public:
  // Compiles (or takes from the cache) for the current device, loads, and uploads the weights. Throws CudaError if the
  // kernel spills registers or if one SM cannot hold a block, so that a launch could not be co-resident.
  // Sequences longer than `most_steps` run in several launches: workspace against launches.
  explicit PersistentKernel(const Layout& layout, const Biases& biases = {}, std::int64_t most_steps = 2048,
                            Work work = Work::whole)
      : PersistentKernel(
            std::make_shared<const RecurrenceProgram>(make_program(layout, biases, device_info().architecture, work)),
            most_steps) {}

  const LaunchShape& shape() const { return recurrence_.program().shape; }
  const ResourceReport& resources() const { return recurrence_.program().kernel.resources; }
  const std::string& fingerprint() const { return recurrence_.program().kernel.fingerprint; }
  const std::string& code_fingerprint() const { return recurrence_.program().kernel.code_fingerprint; }

  // As those of Recurrence.
  void enqueue(cudaStream_t stream, const Sequences& sequences) { recurrence_.enqueue(stream, sequences); }
  void enqueue_recurrence(cudaStream_t stream, std::int64_t steps) { recurrence_.enqueue_recurrence(stream, steps); }

  // After the stream is synchronised.
  std::vector<std::uint32_t> record() const { return recurrence_.record(Stream().get()); }
  void check_status() const { recurrence_.check_status(Stream().get()); }

 private:
  PersistentKernel(const std::shared_ptr<const RecurrenceProgram>& program, std::int64_t most_steps)
      : workspace_(Recurrence::workspace_bytes(*program, most_steps)),
        recurrence_(program, workspace_.data(), workspace_.bytes(), most_steps, Stream().get()) {
    ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());  // the workspace is filled
  }

  DeviceBuffer<std::byte> workspace_;
  Recurrence recurrence_;
};

// Floats as the kernel's elements (rounded to nearest even), and back.
std::vector<std::byte> to_elements(std::span<const float> values, Precision precision);
std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision);

}  // namespace onchip
