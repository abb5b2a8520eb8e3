// SPDX-License-Identifier: Apache-2.0
#include "model/training/memory.hpp"

#include <algorithm>
#include <initializer_list>

namespace onchip {
namespace {

constexpr std::int64_t kElement = 2, kFloat = 4;

}  // namespace

LayerMemory layer_memory(const TrainingSize& size, const DenseTrainingPlan& plan, bool is_dense) {
  const bool has_lengths = size.length_bytes > 0, recomputes = plan.stash == Stash::cells;
  const std::int64_t state = std::int64_t{size.batch} * size.hidden, cell = size.cell == Cell::lstm ? state : 0;
  const std::int64_t steps = chunk_steps(size, plan), chunks = chunk_count(size, plan);
  const auto copies = [&](std::int64_t columns) { return is_dense && columns != aligned_columns(columns); };
  const std::int64_t gate_columns = is_dense ? aligned_columns(size.hidden) : size.hidden;
  LayerMemory m;
  m.cells = recomputes ? 0 : kElement * (size.steps + (has_lengths ? 0 : 1)) * cell;
  m.kept = recomputes ? kFloat * (chunks - 1) * cell : kElement * kKeptValues * size.steps * size.batch * gate_columns;
  if (is_dense) {
    const RecurrenceShape forward = recurrence_shape(size, plan.forward, false);
    const RecurrenceShape backward = recurrence_shape(size, plan.backward, true);
    m.packed = static_cast<std::int64_t>(forward.packed_bytes);
    m.packed_back = static_cast<std::int64_t>(backward.packed_bytes);
    m.ring = static_cast<std::int64_t>(forward.ring_bytes);
    m.ring_back = static_cast<std::int64_t>(backward.ring_bytes);
    m.bias_sums = static_cast<std::int64_t>(backward.bias_bytes);
  }
  m.ranks = has_lengths ? 8 * size.batch + kFloat * (size.steps + 1) : 0;
  m.carry = kFloat * 2 * state;
  m.chunk_gates = recomputes ? kElement * kKeptValues * steps * size.batch * gate_columns : 0;
  m.chunk_cells = recomputes ? kElement * (steps + (has_lengths ? 0 : 1)) * cell : 0;
  const bool has_sums = recomputes && chunks > 1;
  const std::int64_t gate_rows = info(size.cell).gates * gate_columns;
  const std::int64_t rows = (recomputes ? steps : size.steps) * size.batch;
  const std::int64_t w_ih = gate_rows * aligned_columns(size.input), w_hh = gate_rows * aligned_columns(size.hidden);
  const bool copies_w_ih = copies(size.input) || copies(size.hidden);
  if (copies(size.input) || has_lengths) {
    m.copied_x = kElement * rows * aligned_columns(size.input);
  }
  if (copies(size.hidden) || has_lengths) {
    m.copied_y = kElement * (rows + (has_sums ? size.batch : 0)) * aligned_columns(size.hidden);
  }
  m.copied_w_ih = copies_w_ih ? kElement * w_ih : 0;
  m.copied_w_hh = copies(size.hidden) && recomputes ? kElement * w_hh : 0;
  m.copied_dw_ih = has_sums ? kFloat * w_ih : copies_w_ih ? kElement * w_ih : 0;
  m.copied_dw_hh = has_sums ? kFloat * w_hh : copies(size.hidden) ? kElement * w_hh : 0;
  return m;
}

std::int64_t workspace_bytes(const TrainingSize& size, const DenseTrainingPlan& plan) {
  const LayerMemory m = layer_memory(size, plan);
  std::int64_t bytes = 0;
  for (const std::int64_t array :
       {m.packed, m.packed_back, m.ring, m.ring_back, m.bias_sums, m.ranks, m.ranks, m.carry, m.chunk_gates,
        m.chunk_cells, m.copied_x, m.copied_y, m.copied_w_ih, m.copied_w_hh, m.copied_dw_ih, m.copied_dw_hh}) {
    bytes += (array + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  }
  return size.directions * bytes + kProductWorkspace;
}

TrainingMemory training_memory(const Training& training, const TrainingPlan& plan, int length_bytes) {
  const Recurrent& network = training.network;
  const Stack& stack = training.stack;
  const std::int64_t element = info(state_type(network.precision)).bytes, directions = stack.directions();
  const std::int64_t rows = std::int64_t{network.steps} * network.batch, hidden = network.hidden;
  const std::int64_t gate_rows = std::int64_t{info(network.cell).gates} * hidden, state = network.batch * hidden;
  const std::int64_t output = element * rows * directions * hidden;
  const std::int64_t finals = element * directions * state * (network.cell == Cell::lstm ? 2 : 1);
  TrainingMemory memory;
  std::int64_t kept = 0, gradients = 0;  // of the layers before, that of weights of the layers behind
  const auto of_layer = [&](int layer) {
    TrainingSize size = size_of(training, layer);
    size.length_bytes = length_bytes;
    if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan)) {
      const LayerMemory of = layer_memory(size, *dense);
      return std::pair{directions * (of.kept + of.cells), workspace_bytes(size, *dense)};
    }
    // A library's: the gates and c; it works in what the gates' gradients take. A sparse plan's: and packs what is
    // left.
    const LayerMemory of = layer_memory(size, DenseTrainingPlan{}, false);
    const bool is_gated = gate_rows > hidden;
    return std::pair{is_gated ? directions * (of.kept + of.cells) * element / kElement : 0,
                     directions * element * (rows * gate_rows + 2 * gate_rows * hidden)};
  };
  for (int layer = 0; layer < stack.layers; ++layer) {
    const auto [bytes, workspace] = of_layer(layer);
    kept += bytes + output;
    memory.workspace_bytes = std::max(memory.workspace_bytes, workspace);
    memory.peak_bytes = std::max(memory.peak_bytes, kept + (layer + 1) * finals + workspace);
  }
  memory.stash_bytes = kept;
  for (int layer = stack.layers; layer-- > 0;) {
    const auto [bytes, workspace] = of_layer(layer);
    const std::int64_t columns = stack.columns(network, layer), held = layer + 1 < stack.layers ? output : 0;
    gradients += element * directions * gate_rows * (columns + hidden + 2);
    memory.peak_bytes = std::max(memory.peak_bytes, kept + held + stack.layers * finals + output +
                                                        element * rows * columns + workspace + gradients);
    kept -= bytes + output;
  }
  return memory;
}

}  // namespace onchip
