// SPDX-License-Identifier: Apache-2.0
// A training step of a recurrent network as a value: what runs, in which order, each phase a recurrence with its plan
// or a product with its size. Gradients are of the input, of all weights and biases and of the first state.
//
//   packing          W and W^T from the caller's order into the plans'
//   input_product    projected[t] = W_ih x[t], all steps at once; of every layer and direction
//   forward          the recurrence, which leaves the stash
//   gates_product    stash=cells: gates = [W_ih W] [x[t]; h[t-1]], all steps at once
//   backward         the recurrence of W^T, which leaves dgates
//   data_product     dx[t] = W_ih^T dgates[t]
//   weight_product   dW_ih = sum of dgates[t] x[t]^T, dW = sum of dgates[t] h[t-1]^T, one product each;
//                    of a GRU two for dW
//   gradient_mask    of a sparse W: zeros in dW where it has none, for dW is one dense product
//   library          cuDNN does all of it, as a CUDA graph, by the quickest of its algorithms
#pragma once

#include "model/families/plan.hpp"
#include "model/library/price.hpp"
#include "model/training/sparse_recurrence.hpp"
#include "model/training/training_plan.hpp"
#include "model/workload/stack.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace onchip {

enum class PhaseKind : std::uint8_t {
  packing,
  input_product,
  forward,
  gates_product,
  backward,
  data_product,
  weight_product,
  gradient_mask,
  library,
};
inline constexpr std::array<std::string_view, 9> kPhaseNames{"packing",        "input_product", "forward",
                                                             "gates_product",  "backward",      "data_product",
                                                             "weight_product", "gradient_mask", "library"};
constexpr std::string_view name(PhaseKind kind) {
  return kPhaseNames[static_cast<std::size_t>(kind)];
}

// What the forward pass leaves for the backward pass beside h, which is the output.
//   gates  every step's gates, of an LSTM c, of a GRU the product of h that its reset gate multiplies
//   cells  of an LSTM every 16th c in fp32, of others nothing: gates are computed anew from x and h
enum class Stash : std::uint8_t { gates, cells };
inline constexpr std::array<std::string_view, 2> kStashNames{"gates", "cells"};
inline constexpr int kStashedSteps = 16;

// Elements that are read and written.
struct Packing {
  std::int64_t elements = 0;  // of W and W^T, all layers and directions; masked: of dW
  friend bool operator==(const Packing&, const Packing&) = default;
};

struct Phase {
  PhaseKind kind = PhaseKind::packing;
  int layer = 0;
  bool reversed = false;  // of the direction that begins at the last step
  bool beside = false;    // begins with the phase before it; else after all before it
  int of_sms = 0;         // that it may use; 0: all
  std::variant<Packing, ProductSize, RecurrencePlan, SparseTrainingPlan, Plan> how;

  friend bool operator==(const Phase&, const Phase&) = default;
};

struct TrainingStep {
  Stash stash = Stash::gates;
  std::vector<Phase> phases;

  friend bool operator==(const TrainingStep&, const TrainingStep&) = default;
};

// What is trained: every layer and direction has the network's cell, size and batch.
struct Training {
  Recurrent network;
  Stack stack;
  std::shared_ptr<const SparseMatrix> mask = {};  // of W [4 hidden, hidden], whatever its values; none: W is dense
};

TrainingSize size_of(const Training& training, int layer = 0);
// Why a network with a mask has no kernels, or nothing.
std::string what_lacks_sparse(const Training& training);
// With a mask: the plan on this chip, or the one that is chosen. Throws InputError if the weights do not fit.
SparseRecurrence sparse_recurrence(const Chip& chip, const Training& training, const SparseTrainingPlan& plan,
                                   bool is_backward);
SparseRecurrence choose_sparse_recurrence(const Chip& chip, const Training& training, bool is_backward);

// "stash=gates | packing elements=2097152 | input_product layer=0 rows=2048 columns=16384 depth=512 | forward layer=0
// groups=4 turns=1 ... | ..." and back. Parsing throws InputError with the word that it does not know.
std::string to_string(const TrainingStep& step);
std::string how_text(const Phase& phase);  // its plan, or its size
TrainingStep parse_training_step(std::string_view text);

// The quickest step of on-chip recurrences, with the given stash. Directions run beside each other where that is
// quicker. Throws InputError where a recurrence fits on no SMs, or the cell or type has no kernel; with a mask also for
// more than one layer and direction of an LSTM.
TrainingStep own_step(const Chip& chip, const Training& training, Stash stash = Stash::gates);
TrainingStep library_step();
// With other plans of its recurrences, as text.
TrainingStep with_plans(TrainingStep step, const std::string& forward, const std::string& backward);
// How far the library's price is off where the two are near each other: the pick must not lose to it.
constexpr double kLibraryDoubt = 0.08;
// The quicker of the two; the library's where there is no other, and where the two prices are too close to tell.
TrainingStep plan_training(const Chip& chip, const Training& training, Stash stash = Stash::gates);

// Throws InputError for a step that is not of this training, or with a plan that no kernel can be built from. What
// comes in as text must pass here.
void check(const Training& training, const TrainingStep& step);

}  // namespace onchip
