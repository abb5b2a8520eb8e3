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

// One batch of sequences; pointers to device memory, in the type of the network's state. Null: zeros, or not wanted.
struct Sequences {
  std::int64_t steps = 0;
  const void* input = nullptr;         // [steps, batch, gates, hidden]: input projection
  const void* initial = nullptr;       // [batch, hidden]
  const void* initial_cell = nullptr;  // [batch, hidden], LSTM
  void* output = nullptr;              // [steps, batch, hidden]
  void* final_state = nullptr;         // [batch, hidden]: of each sample's last step
  void* final_cell = nullptr;          // [batch, hidden], LSTM
  // Elements from one sample of the input, or of the output, to the next; 0: gates * hidden, and hidden.
  std::int64_t input_stride = 0, output_stride = 0;
  // Host memory, read before enqueue returns, also when a graph is captured, which keeps them: steps of each sample, 1
  // to `steps`; output beyond is zero. Empty: all.
  std::span<const int> lengths;
  bool backward = false;  // each sample from its last step to its first; the final state is then that of step 0
};

class Recurrence {
 public:
  // Bytes of device memory that sequences of `most_steps` need; longer ones run in several launches of as many.
  static std::size_t workspace_bytes(const Program& program, std::int64_t most_steps) {
    return scratch_places(program, most_steps).bytes;
  }

  // Loads the kernels into the current device, and fills the workspace on the stream; not to be captured. The workspace
  // is device memory of workspace_bytes(*program, most_steps), aligned to kWorkspaceAlignment, and the caller's: it
  // must outlive every run. It holds the weights, so each recurrence has its own.
  //
  // Throws InputError for a workspace that is null, not aligned or too small, DoesNotFit if one SM cannot hold a block
  // or the device has too few SMs, CudaError if the cubin is for another architecture.
  Recurrence(std::shared_ptr<const Program> program, void* workspace, std::size_t workspace_bytes,
             std::int64_t most_steps, cudaStream_t stream);

  const Program& program() const { return *program_; }

  // Enqueues all time steps on the stream: kernels, fills and copies within device memory, so that it may be captured
  // in a graph; allocates no device memory and waits for nothing. One run at a time: the workspace is its own. The
  // caller's arrays may be the same for the initial and the final state. Throws InputError for lengths out of range or
  // if the current device is not the one that the kernels are loaded into.
  void enqueue(cudaStream_t stream, const Sequences& sequences) const;

  // Enqueues the recurrence alone, on the input and the initial state that the last enqueue() left in the workspace,
  // zeros beyond: what remains where neither has to be brought into the plan's order. Results stay in the workspace.
  void enqueue_recurrence(cudaStream_t stream, std::int64_t steps) const;

  // Waits for the stream. Throws CudaError if, in any run since the workspace was filled, a block gave up waiting for
  // another: its results are not valid.
  void check_status(cudaStream_t stream) const;

  // What Work::clocked and Work::captured wrote down in the last launch; waits for the stream.
  std::vector<std::uint32_t> record(cudaStream_t stream) const;

 private:
  // Calls of(run) with the RecurrenceRun of this workspace on a stream.
  template <typename Of>
  void on(cudaStream_t stream, Of of) const;
  template <typename T>
  T* at(std::size_t place) const {
    return reinterpret_cast<T*>(workspace_ + place);
  }

  std::shared_ptr<const Program> program_;
  ScratchPlaces scratch_;
  std::byte* workspace_;
  int device_;
  Kernel kernel_;
  std::shared_ptr<const LoadedCubin> order_;
  Kernel set_lengths_, to_input_order_, to_state_order_, from_state_order_, to_final_state_, to_carry_order_,
      from_carry_order_;
};

}  // namespace onchip
