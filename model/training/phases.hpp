// SPDX-License-Identifier: Apache-2.0
// What an iteration of a training runs, in order: phases, which follow from the training and its plan. Price, memory,
// reports and the simulator read the same list.
//
//   packing          W and W^T from the caller's order into the plans'
//   input_product    projected[t] = W_ih x[t], all steps at once; of every layer and direction
//   forward          the recurrence, which leaves the stash
//   gates_product    stash of cells: W_ih x[t] + W h[t-1], one product each; of a GRU two for W
//   gates_cell       stash of cells: the gates and c from these, a unit of a sample over all steps of a chunk
//   replay           stash of replay: input_product and forward of a chunk again, of all layers
//   backward         the recurrence of W^T, which leaves dgates
//   data_product     dx[t] = W_ih^T dgates[t]
//   weight_product   dW_ih = sum of dgates[t] x[t]^T, dW = sum of dgates[t] h[t-1]^T, one product each;
//                    of a GRU two for dW
//   gradient_mask    of a sparse W: zeros in dW where it has none, for dW is one dense product
//   step             of a stepwise plan, a launch for each step and layer, both products and the cell
//   library          cuDNN does all of it
//
// With a stash of cells, products and gates are of a chunk of steps, and there are as many as chunks; with one of
// replay, so are all phases.
#pragma once

#include "model/library/price.hpp"
#include "model/training/training_plan.hpp"

#include <array>
#include <cstdint>
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
  gates_cell,
  replay,
  backward,
  data_product,
  weight_product,
  gradient_mask,
  step,
  library,
};
inline constexpr std::array<std::string_view, 12> kPhaseNames{
    "packing",  "input_product", "forward",        "gates_product", "gates_cell", "replay",
    "backward", "data_product",  "weight_product", "gradient_mask", "step",       "library"};
constexpr std::string_view name(PhaseKind kind) {
  return kPhaseNames[static_cast<std::size_t>(kind)];
}

// Elements that are read and written.
struct Packing {
  std::int64_t elements = 0;  // of W and W^T, all layers and directions; masked: of dW; of a chunk's gates and c
  std::int64_t copied = 0;    // of arrays whose rows are not whole 16 bytes, and back
  friend bool operator==(const Packing&, const Packing&) = default;
};

struct Phase {
  PhaseKind kind = PhaseKind::packing;
  int layer = 0;
  bool reversed = false;  // of the direction that begins at the last step
  bool beside = false;    // begins with the phase before it; else after all before it
  int share = 1;          // it may use one of so many shares of the SMs
  int times = 1;          // once for each chunk; of a recurrence, launches
  bool keeps = false;     // of a forward: it leaves the gates
  std::variant<Packing, ProductSize, RecurrencePlan, SparseRecurrencePlan, CudnnTrainingPlan> how;

  bool is_of_layer() const { return kind != PhaseKind::packing && kind != PhaseKind::library; }
  friend bool operator==(const Phase&, const Phase&) = default;
};

std::vector<Phase> phases_of(const Training& training, const TrainingPlan& plan);
// Of a dense recurrence: of a stack, until its last layer has ended, in every chunk.
double recurrence_steps(const Recurrent& network, const Phase& phase);
std::string how_text(const Phase& phase);  // its plan, or its size

}  // namespace onchip
