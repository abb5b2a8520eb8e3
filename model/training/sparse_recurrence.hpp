// SPDX-License-Identifier: Apache-2.0
// How the recurrences of a sparse LSTM's training step are laid on the SMs
// (kernels/training/device/sparse_recurrence.cu): each SM has the rows of some units that follow one another, of W, or
// of W transposed those of its cluster and its share of the columns. The mask stays: what depends on it is computed
// once, on the host.
#pragma once

#include "model/base/found.hpp"
#include "model/plan/field.hpp"
#include "model/sparse/geometry.hpp"
#include "model/training/training_reference.hpp"
#include "model/workload/mask.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace onchip {

struct SparseRecurrencePlan {
  static constexpr std::string_view kName = "sparse_training";  // of the family whose passes have such plans

  int samples = 0;          // of a launch; a step has a launch for each sub-batch
  int split = 1;            // backward: SMs of a cluster, which share the columns; 1, 2 or 4
  int lanes = 0;            // of a row; 0: those that leave fewest slots empty
  int load_bytes = 8;       // of the state, at once: as many samples are a plane, and a pass
  int buffers = 0;          // planes in shared memory at once; 0: all
  int loads_in_flight = 8;  // of 16 bytes, of a thread that polls
  int poll_delay = 0;       // cycles
  int ahead = 8;            // as in training_plan.hpp
  int register_words = 0;   // of a thread's weights, at most; the rest in shared memory

  friend bool operator==(const SparseRecurrencePlan&, const SparseRecurrencePlan&) = default;
};

// Without what a plan's sizes decide, to be chosen anew.
inline SparseRecurrencePlan unsettled(SparseRecurrencePlan plan) {
  plan.lanes = plan.register_words = 0;
  return plan;
}

std::span<const Field<SparseRecurrencePlan>> fields(const SparseRecurrencePlan&);

// What follows from size, mask and plan.
struct SparseRecurrence {
  SparseRecurrencePlan plan;
  SparseGeometry geometry;    // of an SM's block: a network of as many units as it has rows
  int units = 0, blocks = 0;  // of an SM; SMs
  double mean_nonzeros = 0;   // of an SM
  int sub_batches = 0;
  std::size_t shared_bytes = 0, ring_bytes = 0, bias_bytes = 0;
  std::size_t state_bytes() const {  // of shared memory
    return static_cast<std::size_t>(std::int64_t{plan.buffers} * (geometry.state_units + geometry.zero_units) *
                                    geometry.plane_unit_bytes);
  }
};

inline constexpr int kSparseTrainingThreads = 256;

// A plan of chips with so many SMs and so many bytes of shared memory a block. `w_hh` [4 hidden, hidden]: its mask.
// Nothing, with what it takes and what there is, if the weights do not fit. Throws InputError for a plan that the
// kernel does not have.
Found<SparseRecurrence> sparse_recurrence(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh,
                                          const SparseRecurrencePlan& plan, bool is_backward, int sms,
                                          std::size_t shared_bytes);

// How many non-zeros the SMs' rows have, by how many units each has: counted when first asked for.
class AssignedRows {
 public:
  using Lengths = std::vector<std::vector<int>>;  // of each SM, longest first
  AssignedRows(const TrainingSize& size, const SparseMatrix& w_hh, bool is_backward)
      : size_(size), w_hh_(w_hh), is_backward_(is_backward) {}

  const Lengths& lengths(int units, int blocks, int split);
  const TrainingSize& size() const { return size_; }
  bool is_backward() const { return is_backward_; }
  std::int64_t nonzeros() const { return w_hh_.nnz(); }

 private:
  TrainingSize size_;
  const SparseMatrix& w_hh_;
  bool is_backward_;
  std::map<std::array<int, 3>, Lengths> by_shape_;
};
// The same of several plans.
Found<SparseRecurrence> sparse_recurrence(AssignedRows& assigned, Precision precision, const SparseRecurrencePlan& plan,
                                          int sms, std::size_t shared_bytes);

}  // namespace onchip
