// SPDX-License-Identifier: Apache-2.0
#include "model/training/memory.hpp"

#include <algorithm>
#include <initializer_list>

namespace onchip {
namespace {

constexpr std::int64_t kElement = 2, kFloat = 4;

}  // namespace

LayerMemory layer_memory(const TrainingSize& size, const DenseTrainingPlan& plan, bool is_dense, bool is_last) {
  const bool has_lengths = size.length_bytes > 0, is_replay = plan.stash == Stash::replay;
  const bool is_forward = plan.stash == Stash::none;
  const bool recomputes = plan.stash != Stash::gates;  // chunk by chunk
  const std::int64_t state = std::int64_t{size.batch} * size.hidden, cell = size.cell == Cell::lstm ? state : 0;
  const std::int64_t steps = chunk_steps(size, plan), chunks = chunk_count(size, plan);
  const auto copies = [&](std::int64_t columns) { return is_dense && columns != aligned_columns(columns); };
  const std::int64_t gate_columns = is_dense ? aligned_columns(size.hidden) : size.hidden;
  LayerMemory m;
  m.cells = recomputes ? 0 : kElement * (size.steps + (has_lengths ? 0 : 1)) * cell;
  m.kept = is_forward   ? 0
           : is_replay  ? (chunks - 1) * (kFloat + (is_last ? 0 : kElement)) * state
           : recomputes ? kFloat * (chunks - 1) * cell
                        : kElement * kKeptValues * size.steps * size.batch * gate_columns;
  if (is_dense) {
    const RecurrenceShape forward = recurrence_shape(size, plan.forward, false);
    const RecurrenceShape backward = is_forward ? RecurrenceShape{} : recurrence_shape(size, plan.backward, true);
    m.packed = static_cast<std::int64_t>(forward.packed_bytes);
    m.progress = static_cast<std::int64_t>(forward.progress_bytes);
    m.packed_back = static_cast<std::int64_t>(backward.packed_bytes);
    m.ring = static_cast<std::int64_t>(forward.ring_bytes);
    m.ring_back = static_cast<std::int64_t>(backward.ring_bytes);
    m.bias_sums = static_cast<std::int64_t>(backward.bias_bytes);
  }
  m.ranks = has_lengths ? 8 * size.batch + kFloat * (size.steps + 1) : 0;
  m.carry = kFloat * 2 * state * (is_forward ? size.layers : 1);
  m.chunk_gates = recomputes ? kElement * kKeptValues * steps * size.batch * gate_columns : 0;
  m.chunk_cells = recomputes && !is_forward ? kElement * (steps + (has_lengths ? 0 : 1)) * cell : 0;
  m.chunk_y = is_last      ? 0
              : is_replay  ? kElement * (steps + 1) * state
              : is_forward ? kElement * steps * size.batch * gate_columns
                           : 0;
  m.chunk_dy = is_replay && !is_last ? kElement * steps * state : 0;
  const bool has_sums = is_replay || (recomputes && !is_forward && chunks > 1);
  const std::int64_t gate_rows = info(size.cell).gates * gate_columns;
  const std::int64_t rows = (recomputes ? steps : size.steps) * size.batch;
  const std::int64_t w_ih = gate_rows * aligned_columns(size.input), w_hh = gate_rows * aligned_columns(size.hidden);
  const bool copies_w_ih = copies(size.input) || copies(size.hidden);
  if (copies(size.input) || has_lengths) {
    m.copied_x = kElement * rows * aligned_columns(size.input);
  }
  if ((copies(size.hidden) || has_lengths) && !is_forward) {
    m.copied_y = kElement * (rows + (has_sums ? size.batch : 0)) * aligned_columns(size.hidden);
  }
  m.copied_w_ih = copies_w_ih ? kElement * w_ih : 0;
  m.copied_w_hh = copies(size.hidden) && plan.stash == Stash::cells ? kElement * w_hh : 0;
  if (is_forward) {
    return m;
  }
  m.copied_dw_ih = has_sums ? kFloat * w_ih : copies_w_ih ? kElement * w_ih : 0;
  m.copied_dw_hh = has_sums ? kFloat * w_hh : copies(size.hidden) ? kElement * w_hh : 0;
  return m;
}

std::int64_t workspace_bytes(const TrainingSize& size, const DenseTrainingPlan& plan) {
  std::int64_t bytes = 0;
  const auto add = [&](std::int64_t array) {
    bytes += (array + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  };
  if (plan.stash == Stash::replay) {  // its layers run one after another
    for (int layer = 0; layer < size.layers; ++layer) {
      const LayerMemory m = layer_memory(layers_of(size, layer), plan, true, layer + 1 == size.layers);
      for (const std::int64_t array : {m.bias_sums, m.carry, m.chunk_gates, m.chunk_cells, m.chunk_y, m.chunk_dy,
                                       m.copied_x, m.copied_y, m.copied_w_ih}) {
        add(array);
      }
      if (layer == 0) {
        add(std::max(m.packed, m.packed_back));
        add(std::max(m.ring, m.ring_back));
      }
    }
    return bytes + kProductWorkspace;
  }
  if (plan.stepwise) {  // the carries of all layers, h between them
    const std::int64_t state = std::int64_t{size.batch} * size.hidden;
    add(size.steps > 1 ? kFloat * size.layers * state : 0);
    add(size.steps > 1 ? kElement * 2 * size.layers * state : 0);  // read, and written
    add(kElement * (size.layers - 1) * state);
    return bytes;
  }
  if (plan.stash == Stash::none) {  // so do groups of layers, each with its weights
    for (const auto& [first, layers] : layer_groups(size.layers, plan)) {
      const LayerMemory m = layer_memory(layers_of(size, first, layers), plan, true, first + layers == size.layers);
      for (const std::int64_t array :
           {m.packed, m.progress, m.carry, m.chunk_gates, first == 0 ? m.copied_x : 0, m.copied_w_ih, m.chunk_y}) {
        add(array);
      }
      add(first == 0 ? m.ring : 0);
    }
    return bytes + kProductWorkspace;
  }
  const LayerMemory m = layer_memory(size, plan);
  for (const std::int64_t array :
       {m.packed, m.packed_back, m.ring, m.ring_back, m.bias_sums, m.ranks, m.ranks, m.carry, m.chunk_gates,
        m.chunk_cells, m.copied_x, m.copied_y, m.copied_w_ih, m.copied_w_hh, m.copied_dw_ih, m.copied_dw_hh}) {
    add(array);
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
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan); dense && dense->stash == Stash::none) {
    TrainingSize size = size_of(training);
    size.layers = stack.layers;
    memory.workspace_bytes = workspace_bytes(size, *dense);
    memory.peak_bytes = output + stack.layers * finals + memory.workspace_bytes;
    return memory;
  }
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan); dense && dense->stash == Stash::replay) {
    TrainingSize size = size_of(training);
    size.layers = stack.layers;
    std::int64_t bytes = output, sums = 0;
    for (int layer = 0; layer < stack.layers; ++layer) {
      const LayerMemory of = layer_memory(layers_of(size, layer), *dense, true, layer + 1 == stack.layers);
      bytes += of.kept;
      sums += of.copied_dw_ih + of.copied_dw_hh + element * 2 * gate_rows;
    }
    memory.stash_bytes = bytes;
    memory.workspace_bytes = workspace_bytes(size, *dense);
    // Backward: y, what is kept and the last states; the gradients of y and x; of the weights in fp32.
    memory.peak_bytes = bytes + stack.layers * finals + output + element * rows * stack.columns(network, 0) + sums +
                        memory.workspace_bytes;
    return memory;
  }
  std::int64_t kept = 0, gradients = 0;  // of the layers before, that of weights of the layers behind
  const auto of_layer = [&](int layer) {
    TrainingSize size = size_of(training, layer);
    size.length_bytes = length_bytes;
    if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan)) {
      const DenseTrainingPlan own = onchip::of_layer(*dense, layer);
      const LayerMemory of = layer_memory(size, own);
      return std::pair{directions * (of.kept + of.cells), workspace_bytes(size, own)};
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
