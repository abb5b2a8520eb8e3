// SPDX-License-Identifier: Apache-2.0
#include "model/training/phases.hpp"

#include "model/plan/plan_text.hpp"
#include "model/training/memory.hpp"

#include <type_traits>

namespace onchip {
namespace {

template <typename P>
std::vector<Phase> phases_on_chip(const Training& training, const P& plan) {
  const Recurrent& network = training.network;
  bool is_beside = false;
  if constexpr (requires { plan.beside; }) {
    is_beside = plan.beside;
  }
  const Stack& stack = training.stack;
  const bool is_replay = plan.stash == Stash::replay, is_forward = plan.stash == Stash::none;
  const auto recomputes = [&](int layer) {
    if constexpr (requires { plan.cell_layers; }) {
      return of_layer(plan, layer).stash == Stash::cells;
    } else {
      return false;
    }
  };
  const auto chunks_of = [&](int layer) {
    if constexpr (requires { plan.chunk; }) {
      return recomputes(layer) || is_replay || is_forward
                 ? static_cast<int>(chunk_count(size_of(training), of_layer(plan, layer)))
                 : 1;
    } else {
      return 1;
    }
  };
  // As the products are (memory.hpp).
  const auto multiplied = [](std::int64_t columns) {
    return std::is_same_v<P, DenseTrainingPlan> ? aligned_columns(columns) : columns;
  };
  const std::int64_t all_samples = std::int64_t{network.steps} * network.batch, hidden = multiplied(network.hidden);
  const auto samples_of = [&](int layer) { return (all_samples + chunks_of(layer) - 1) / chunks_of(layer); };
  const std::int64_t rows = info(network.cell).gates * hidden;
  std::vector<Phase> phases;
  if constexpr (std::is_same_v<P, DenseTrainingPlan>) {
    for (int layer = 0; plan.stepwise && layer < stack.layers; ++layer) {
      const std::int64_t depth = stack.columns(network, layer) + network.hidden;
      phases.push_back({.kind = PhaseKind::step,
                        .layer = layer,
                        .times = network.steps,
                        .how = ProductSize{network.rows(), network.batch, depth, network.precision}});
    }
    if (plan.stepwise) {
      return phases;
    }
  }
  const auto product = [&](PhaseKind kind, int layer, int direction, std::int64_t of_rows, std::int64_t columns,
                           std::int64_t depth) {
    phases.push_back({.kind = kind,
                      .layer = layer,
                      .reversed = direction == 1,
                      .times = chunks_of(layer),
                      .how = ProductSize{of_rows, columns, depth, network.precision}});
  };
  const auto recurrence = [&]<typename How>(PhaseKind kind, int layer, const How& how) {
    int times = chunks_of(layer);
    if constexpr (requires { how.launches; }) {
      times *= how.launches;
    }
    for (int direction = 0; direction < stack.directions(); ++direction) {
      phases.push_back({kind, layer, direction == 1, is_beside && direction > 0, is_beside ? stack.directions() : 1,
                        times, kind == PhaseKind::replay || (!recomputes(layer) && !is_replay && !is_forward), how});
    }
  };
  const std::int64_t weights = training.mask ? training.mask->nnz() : rows * hidden;
  std::int64_t copied = 0;  // for a direction of each layer
  int at_once = 1;          // without a stash: only the first of a group of layers has products
  if constexpr (std::is_same_v<P, DenseTrainingPlan>) {
    at_once = is_forward ? plan.forward.layers : 1;
  }
  for (int layer = 0; layer < stack.layers; layer += at_once) {
    const std::int64_t columns = stack.columns(network, layer);
    const bool copies_x = columns != multiplied(columns), copies_y = hidden != network.hidden;
    if (is_forward) {
      copied += (copies_x && layer == 0 ? all_samples * columns : 0) + (copies_x || copies_y ? rows * columns : 0);
      continue;
    }
    copied += copies_x ? 3 * all_samples * columns : 0;  // in both passes, and back of its gradient
    copied += copies_y ? all_samples * hidden + rows * hidden : 0;
    copied += copies_x || copies_y ? 3 * rows * columns : 0;
  }
  phases.push_back({.kind = PhaseKind::packing,
                    .how = Packing{(is_replay    ? 3 * chunks_of(0)
                                    : is_forward ? 1
                                                 : 2) *
                                       weights * stack.layers * stack.directions(),
                                   copied * stack.directions()}});
  if constexpr (std::is_same_v<P, DenseTrainingPlan>) {
    if (is_forward) {
      for (const LayerGroup& group : layer_groups(stack.layers, plan)) {
        const int first = group.first;
        product(PhaseKind::input_product, first, 0, rows, samples_of(first), multiplied(stack.columns(network, first)));
        recurrence(PhaseKind::forward, first, plan.forward);
      }
      return phases;
    }
  }
  for (int layer = 0; layer < stack.layers; ++layer) {
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::input_product, layer, direction, rows, samples_of(layer),
              multiplied(stack.columns(network, layer)));
    }
    recurrence(PhaseKind::forward, layer, plan.forward);
  }
  for (int layer = 0; is_replay && layer < stack.layers; ++layer) {
    product(PhaseKind::replay, layer, 0, rows, samples_of(layer), multiplied(stack.columns(network, layer)));
    recurrence(PhaseKind::replay, layer, plan.forward);
  }
  for (int layer = stack.layers; layer-- > 0;) {
    const std::int64_t columns = multiplied(stack.columns(network, layer)), samples = samples_of(layer);
    // Of a GRU, the last gate's products with W are others than those with W_ih, and so are their gradients.
    const std::int64_t apart = network.cell == Cell::gru ? hidden : 0;
    for (int direction = 0; recomputes(layer) && direction < stack.directions(); ++direction) {
      product(PhaseKind::gates_product, layer, direction, rows, samples, columns);
      product(PhaseKind::gates_product, layer, direction, rows - apart, samples, hidden);
      if (apart > 0) {
        product(PhaseKind::gates_product, layer, direction, apart, samples, hidden);
      }
      const std::int64_t values = network.cell == Cell::lstm ? 9 : 8;  // four gates, read and written; c, written
      phases.push_back({.kind = PhaseKind::gates_cell,
                        .layer = layer,
                        .reversed = direction == 1,
                        .times = chunks_of(layer),
                        .how = Packing{values * samples * hidden / 2}});
    }
    recurrence(PhaseKind::backward, layer, plan.backward);
    for (int direction = 0; direction < stack.directions(); ++direction) {
      product(PhaseKind::data_product, layer, direction, columns, samples, rows);
      product(PhaseKind::weight_product, layer, direction, rows, columns, samples);
      product(PhaseKind::weight_product, layer, direction, rows - apart, hidden, samples);
      if (apart > 0) {
        product(PhaseKind::weight_product, layer, direction, apart, hidden, samples);
      }
      if (training.mask) {
        phases.push_back({.kind = PhaseKind::gradient_mask, .layer = layer, .how = Packing{rows * hidden}});
      }
    }
  }
  return phases;
}

}  // namespace

std::vector<Phase> phases_of(const Training& training, const TrainingPlan& plan) {
  return std::visit(
      [&]<typename P>(const P& of_family) {
        if constexpr (P::kIsOnChip) {
          return phases_on_chip(training, of_family);
        } else {
          return std::vector<Phase>{{.kind = PhaseKind::library, .how = of_family}};
        }
      },
      plan);
}

double recurrence_steps(const Recurrent& network, const Phase& phase) {
  return network.steps + phase.times * (std::get<RecurrencePlan>(phase.how).layers - 1.0);
}

std::string how_text(const Phase& phase) {
  return std::visit(
      []<typename How>(const How& how) {
        if constexpr (std::is_same_v<How, Packing>) {
          return "elements=" + std::to_string(how.elements) +
                 (how.copied > 0 ? " copied=" + std::to_string(how.copied) : "");
        } else if constexpr (std::is_same_v<How, ProductSize>) {
          return "rows=" + std::to_string(how.rows) + " columns=" + std::to_string(how.columns) +
                 " depth=" + std::to_string(how.depth) + ' ' + std::string(info(how.precision).name);
        } else if constexpr (std::is_same_v<How, CudnnTrainingPlan>) {
          return std::string(How::kName);
        } else {
          return fields_text(how);
        }
      },
      phase.how);
}

}  // namespace onchip
