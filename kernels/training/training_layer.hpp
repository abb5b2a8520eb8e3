// SPDX-License-Identifier: Apache-2.0
// The training step of one layer (training_program.hpp), of one direction or both, in two halves, in the caller's
// memory and on the caller's streams.
#pragma once

#include "kernels/runtime/device.hpp"
#include "kernels/training/training_program.hpp"
#include "model/chip/chip.hpp"
#include "model/workload/mask.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace onchip {

CompileRequest outcome_request(const std::string& architecture);
// The launch of `kernel`, outcome_request()'s, behind a half of all directions: where a kernel of the half has set
// `status`, it becomes zero again, `report` what it was, and all that the half writes NaN. `places` of each direction;
// `rows` as TrainingRows::packed.
ProgramNode outcome_node(int kernel, const TrainingSize& size, std::span<const TrainingProgram> directions,
                         std::span<const std::vector<std::byte*>> places, TrainingHalf half, std::int64_t rows,
                         std::uint32_t* status, std::uint32_t* report);

class TrainingLayer {
 public:
  // Compiles and loads for the current device; not while a stream is captured. Kernels stay loaded until the process
  // ends, one for all layers that share it, so that a captured graph may outlive the layer. Throws DoesNotFit if the
  // device holds fewer blocks at once than the plan has, InputError for a plan that is not possible. `chip`: that the
  // plan is of. `mask` of an LSTM's W_hh, [4 hidden, hidden], which stays, whatever its values: what follows from it
  // lies in device memory of the layer's own, which then must outlive its graphs.
  TrainingLayer(const TrainingSize& size, Precision precision, const TrainingPlan& plan, const Chip& chip,
                const SparseMatrix* mask = nullptr);

  const TrainingProgram& training() const { return training_[0]; }  // of the first direction
  const TrainingSize& size() const { return size_; }
  const TrainingPlan& plan() const { return training().plan; }
  std::size_t workspace_bytes() const { return workspace_.bytes; }
  // Whether there is a forward that no backward follows, and which keeps nothing; and what that needs.
  bool has_forward_alone() const { return training().nodes_of_rows != nullptr; }
  std::size_t forward_bytes() const { return forward_workspace_.bytes; }
  std::size_t kept_bytes() const { return training().program.arrays[training().arrays.kept].bytes; }

  // `places`: of the caller's arrays of each direction, those of TrainingArrays; null where there is none. A forward
  // that has no place for what is kept keeps nothing: its workspace is of forward_bytes(), and no backward may follow.
  // `rows`: with lengths, TrainingRows::packed. `workspace`: aligned to 256 bytes, free again when the half is done.
  // Waits for nothing and allocates no device memory: it may be captured in a graph. Several streams and threads may do
  // so at once. Of a half that gives up a wait or finds a length that is none, all results are NaN, and the next call
  // on this device, or to check(), throws CudaError, once.
  //
  // With lengths and padded arrays, the host does not know how many rows the products have: they are over all, zeros
  // among them; in a graph over a multiple of a sixteenth, which the device chooses (graph_switch.hpp).
  void enqueue(cudaStream_t stream, TrainingHalf half, std::vector<std::vector<std::byte*>> places, std::int64_t rows,
               std::byte* workspace) const;

  // Waits for the stream, and throws as enqueue() does.
  static void check(cudaStream_t stream);

 private:
  struct Nodes;
  Nodes nodes_of(std::size_t direction, TrainingHalf half, const std::vector<std::byte*>& places, std::int64_t rows,
                 bool keeps, bool has_ways) const;
  // `products`: what cuBLAS works in.
  void run(const ProgramNode& node, cudaStream_t stream, std::byte* products) const;
  void run(const Nodes& of, std::size_t first, std::size_t last, cudaStream_t stream, std::byte* products) const;
  void run(const std::vector<Nodes>& nodes, cudaStream_t stream, std::byte* products) const;  // of each direction
  // Of a stack without a stash: what prepares a recurrence is beside its products.
  void run_stack(const std::vector<ProgramNode>& nodes, cudaStream_t stream, std::byte* products) const;
  void run_recurrences(const ProgramNode& first, const ProgramNode& second, cudaStream_t stream,
                       std::byte* products) const;

  TrainingSize size_;
  std::vector<TrainingProgram> training_;  // of each direction
  std::vector<Kernel> kernels_;
  struct Workspace {
    std::vector<std::size_t> offsets = {};  // of arrays; kCallers: not there
    std::size_t products_offset = 0, direction_bytes = 0, bytes = 0;
  };
  Workspace laid_out(const std::vector<std::pair<int, std::size_t>>& arrays) const;  // of each direction; in bytes
  Workspace workspace_, forward_workspace_;
  std::map<int, DeviceBuffer<std::byte>> constants_;  // arrays that never change
  bool has_products_ = false, waits_ = false;         // products; SMs for each other, which may give up
  int device_ = 0;
};

}  // namespace onchip
