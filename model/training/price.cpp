// SPDX-License-Identifier: Apache-2.0
#include "model/training/price.hpp"

#include "model/training/recurrence_family.hpp"
#include "model/training/recurrence_price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

PhasePrice of(const Price& price, double times = 1) {
  const double us = times * price.terms.total();
  return {us, us - times * price.below_us, us + times * price.above_us};
}

PhasePrice sum(const PhasePrice& a, const PhasePrice& b) {
  return {a.us + b.us, a.low_us + b.low_us, a.high_us + b.high_us, a.bytes + b.bytes};
}

PhasePrice plus(PhasePrice price, double seconds) {
  price.us += 1e6 * seconds;
  price.low_us += 1e6 * seconds;
  price.high_us += 1e6 * seconds;
  return price;
}

double element_bytes(const Recurrent& network) {
  return info(state_type(network.precision)).bytes;
}

// Values of all steps, so many for each unit and sample.
std::int64_t bytes_of(const Recurrent& network, double values) {
  return std::llround(values * element_bytes(network) * network.hidden * network.batch * network.steps);
}

Recurrent with_pass(Recurrent network, Pass pass) {
  network.pass = pass;
  return network;
}

// The gates and c of all steps, as a stash of gates has them.
std::int64_t gates_bytes(const Recurrent& network) {
  const double gates = info(network.cell).gates;
  return gates > 1 ? bytes_of(network, gates + 1) : 0;
}

// Of a sparse training forward and backward, else nothing.
std::vector<SparseRecurrence> sparse_passes(const Chip& chip, const Training& training, const TrainingPlan& plan) {
  check(training, plan);
  const auto* const sparse = std::get_if<SparseTrainingPlan>(&plan);
  return sparse == nullptr ? std::vector<SparseRecurrence>()
                           : std::vector{sparse_recurrence(chip, training, sparse->forward, false).value_or_throw(),
                                         sparse_recurrence(chip, training, sparse->backward, true).value_or_throw()};
}

PhasePrice price_of_recurrence(const Chip& chip, const Training& training, const Phase& phase,
                               const std::vector<SparseRecurrence>& sparse_passes) {
  const Recurrent& network = training.network;
  const bool is_backward = phase.kind == PhaseKind::backward;
  const double gates = info(network.cell).gates;
  PhasePrice price;
  if (!sparse_passes.empty()) {
    const SparseRecurrence& sparse = sparse_passes[is_backward ? 1 : 0];
    constexpr double kWordBytes = 4;
    const double weights = kWordBytes * static_cast<double>(training.mask->nnz());
    price = plus(of(recurrence_price(chip, network.precision, sparse), network.steps),
                 sparse.sub_batches * (chip.library_node_seconds + weights / chip.library_l2_bytes_per_second));
  } else {
    const auto& dense = std::get<RecurrencePlan>(phase.how);
    const double weights =
        dense.batch_groups * (2 * dense.layers - 1) * gates * network.hidden * network.hidden * element_bytes(network);
    price = plus(of(recurrence_price(chip, size_of(training, phase.layer), dense, is_backward),
                    recurrence_steps(network, phase)),
                 phase.times * (chip.library_node_seconds + weights / chip.library_l2_bytes_per_second) +
                     (phase.times - 1) * chip.library_node_seconds);  // and an empty ring
  }
  // Forward: the projected input, h and what is kept. Backward: gates, however they came, c, the gradient from above
  // and dgates.
  price.bytes = bytes_of(network, gates + 1) + (is_backward || phase.keeps ? gates_bytes(network) : 0);
  return price;
}

// A step of a training iteration of cells with gates, in 16 bits, by the fastest of cuDNN's algorithms in a graph:
//   waiting + 2 W / L2 or DRAM + values of gates through L2 + six products
PhasePrice cudnn_step_price(const Chip& chip, const Recurrent& network, int columns) {
  constexpr int kMostPersistent = 1024, kPersistentSamples = 32;
  const CostValues& cost = chip.cost;
  const bool is_aligned = network.hidden == aligned_columns(network.hidden);  // frameworks pad nothing
  const bool is_persistent = is_aligned && network.cell == Cell::lstm && network.precision == Precision::fp16 &&
                             network.hidden <= kMostPersistent && network.batch <= kPersistentSamples;
  const double values = 1.0 * network.rows() * network.batch;
  const double weights = element_bytes(network) * network.rows() * network.hidden;
  const double width = 0.5 * (network.hidden + columns);
  // Of W and all samples.
  const double multiplying = 1.0 * network.rows() * width * network.batch / (16 * 8 * 16) * chip.tensor_issue_cycles /
                             (chip.partitions * chip.sm_count * chip.clock_hz);
  double seconds =
      cost[is_persistent ? Cost::cudnn_training_persistent : Cost::cudnn_training_products] *
          chip.library_product_seconds +
      2 * weights_seconds(chip, weights) +
      (is_persistent ? 0 : cost[Cost::cudnn_training_value_bytes] * values) / chip.library_l2_bytes_per_second +
      (is_persistent ? 1 : cost[Cost::cudnn_training_multiplications]) *
          (is_aligned ? 1 : cost[Cost::cudnn_training_unaligned]) * multiplying;
  if (const auto small = cudnn_small_seconds(chip, network)) {
    seconds = std::min(seconds, *small * (1 + cost[Cost::cudnn_training_small] * (network.batch - 1)));
  }
  const double us = 1e6 * seconds, scatter = chip.library_scatter;
  return {us, us - us * std::min(1.0, scatter), us + us * scatter};
}

// Of one layer and direction, by cuDNN.
PhasePrice cudnn_price(const Chip& chip, const Recurrent& network, int columns) {
  using Geometry = LibraryGeometry<Library::cudnn>;
  const double gates = info(network.cell).gates;
  PhasePrice all;
  if (gates > 1 && state_type(network.precision) != Precision::fp32) {
    const PhasePrice step = cudnn_step_price(chip, network, columns);
    all = plus({network.steps * step.us, network.steps * step.low_us, network.steps * step.high_us},
               2 * chip.library_node_seconds);  // a call in each direction
  } else {
    all = of(price(chip, Geometry{with_pass(network, Pass::forward)}), network.steps);
    all = sum(all, of(price(chip, Geometry{with_pass(network, Pass::backward)}), network.steps));
    for (const int depth : {columns, network.hidden}) {
      all = sum(all, of(product_price(chip, {network.rows(), depth, std::int64_t{network.steps} * network.batch,
                                             network.precision})));
    }
  }
  all.bytes = bytes_of(network, 3 * gates + 2) + 2 * gates_bytes(network);
  return all;
}

// Steps by cuBLAS: a product for each, and the products over all steps.
PhasePrice cublas_layer_price(const Chip& chip, const Recurrent& network, int columns) {
  using Geometry = LibraryGeometry<Library::cublas_graph>;
  const std::int64_t samples = std::int64_t{network.steps} * network.batch;
  const auto product = [&](std::int64_t rows, std::int64_t of_columns, std::int64_t depth) {
    return of(product_price(chip, {rows, of_columns, depth, network.precision}));
  };
  PhasePrice all = of(price(chip, Geometry{with_pass(network, Pass::forward)}), network.steps);
  for (const PhasePrice& other :
       {of(price(chip, Geometry{with_pass(network, Pass::backward)}), network.steps),
        product(network.rows(), samples, columns), product(columns, samples, network.rows()),
        product(network.rows(), columns, samples), product(network.rows(), network.hidden, samples)}) {
    all = sum(all, other);
  }
  return all;
}

// Of all layers and directions.
template <typename Of>
PhasePrice for_all(const Training& training, Of&& of_layer) {
  PhasePrice all;
  for (int layer = 0; layer < training.stack.layers; ++layer) {
    for (int direction = 0; direction < training.stack.directions(); ++direction) {
      all = sum(all, of_layer(training.stack.columns(training.network, layer)));
    }
  }
  return all;
}

struct PriceOf {
  const Chip& chip;
  const Training& training;
  const std::vector<SparseRecurrence>& sparse_passes;
  const Phase& phase;
  bool is_forward_alone = false;

  PhasePrice operator()(const Packing& packing) const {
    // Sparse: a sector for every weight; a word that is read and written, and its two sources.
    constexpr double kSparseBytes = 32 + 2 * 4 + 2 * 4;
    const bool is_sparse = training.mask && phase.kind == PhaseKind::packing;
    const double bytes =
        (is_sparse ? kSparseBytes : 2 * element_bytes(training.network)) * static_cast<double>(packing.elements);
    const double weights = element_bytes(training.network) * training.network.rows() * training.network.hidden;
    const double copied = 2 * element_bytes(training.network) * static_cast<double>(packing.copied);
    const bool is_in_l2 =
        phase.kind == PhaseKind::gates_cell ? bytes <= chip.l2_bytes : !training.mask || weights <= chip.l2_bytes;
    // A packing is of all layers and directions, each with nodes of its own.
    const double layers = training.stack.layers * training.stack.directions();
    const double nodes =
        phase.kind == PhaseKind::packing ? layers * chip.cost[Cost::training_nodes] / (is_forward_alone ? 2 : 1) : 1;
    PhasePrice price = plus({}, nodes * chip.library_node_seconds +
                                    bytes / (is_in_l2 ? chip.library_l2_bytes_per_second
                                                      : chip.dram_bytes_per_second * chip.library_dram_share) +
                                    chip.cost[Cost::training_copies] * copied / chip.library_l2_bytes_per_second);
    price.bytes = std::llround(bytes + copied);
    return price;
  }
  PhasePrice operator()(const ProductSize& size) const {
    PhasePrice price = of(product_price(chip, size));
    const auto rows = static_cast<double>(size.rows), columns = static_cast<double>(size.columns),
               depth = static_cast<double>(size.depth);
    price.bytes =
        std::llround(info(state_type(size.precision)).bytes * (rows * depth + columns * depth + rows * columns));
    return price;
  }
  PhasePrice operator()(const RecurrencePlan&) const {
    return price_of_recurrence(chip, training, phase, sparse_passes);
  }
  PhasePrice operator()(const SparseRecurrencePlan&) const {
    return price_of_recurrence(chip, training, phase, sparse_passes);
  }
  PhasePrice operator()(const CudnnTrainingPlan&) const {
    return for_all(training, [&](int columns) { return cudnn_price(chip, training.network, columns); });
  }
};

// What the busiest SM needs in either pass.
Footprint footprint(const Chip& chip, const Training& training, const TrainingPlan& plan,
                    const std::vector<SparseRecurrence>& sparse_passes) {
  Footprint need;
  const auto use = [&](Resource resource, const ResourceUse& of_pass) {
    ResourceUse& most = need[resource];
    most = of_pass.share() > most.share() ? of_pass : most;
  };
  if (const auto* const dense = std::get_if<DenseTrainingPlan>(&plan); dense && !dense->stepwise) {
    for (const bool is_backward : {false, true}) {
      if (is_backward && dense->stash == Stash::none) {
        continue;
      }
      const RecurrencePlan& pass = is_backward ? dense->backward : dense->forward;
      const RecurrenceShape shape = recurrence_shape(size_of(training), pass, is_backward);
      const Footprint of_pass = footprint(chip, pass, shape, dense->beside ? training.stack.directions() : 1);
      for (std::size_t i = 0; i < kResources.size(); ++i) {
        use(static_cast<Resource>(i), of_pass.resources[i]);
      }
    }
  }
  for (const SparseRecurrence& pass : sparse_passes) {
    use(Resource::shared_memory,
        {static_cast<double>(pass.shared_bytes), chip.smem_bytes_per_block,
         1.0 * pass.geometry.chunk_bytes * pass.geometry.shared_chunks, static_cast<double>(pass.state_bytes())});
    use(Resource::threads, {1.0 * pass.geometry.threads, chip.max_threads_per_block});
    use(Resource::sms, {1.0 * pass.blocks, chip.sm_count});
  }
  conclude(need);
  return need;
}

}  // namespace

Stash stash_of(const TrainingPlan& plan) {
  return std::visit(
      []<typename P>(const P& of_family) {
        if constexpr (P::kIsOnChip) {
          return of_family.stash;
        } else {
          return Stash::gates;
        }
      },
      plan);
}

TrainingPrediction predict(const Chip& chip, const Training& training, const TrainingPlan& plan) {
  TrainingPrediction result;
  const std::vector<SparseRecurrence> sparse = sparse_passes(chip, training, plan);
  result.footprint = footprint(chip, training, plan, sparse);
  PhasePrice& iteration = result.iteration;
  PhasePrice group;  // of phases beside each other
  std::array<double, kPhaseNames.size()> of_kind{};
  PhaseKind longest = PhaseKind::packing;
  const auto end_group = [&] {
    iteration.us += group.us;
    iteration.low_us += group.low_us;
    iteration.high_us += group.high_us;
    of_kind[static_cast<std::size_t>(longest)] += group.us;
    group = {};
  };
  for (const Phase& phase : phases_of(training, plan)) {
    PhasePrice one = std::visit(PriceOf{chip, training, sparse, phase, stash_of(plan) == Stash::none}, phase.how);
    if (std::holds_alternative<ProductSize>(phase.how) || std::holds_alternative<Packing>(phase.how)) {
      one = {phase.times * one.us, phase.times * one.low_us, phase.times * one.high_us, phase.times * one.bytes};
    }
    if (!phase.beside) {
      end_group();
    }
    longest = one.us > group.us ? phase.kind : longest;
    group.us = std::max(group.us, one.us);
    group.low_us = std::max(group.low_us, one.low_us);
    group.high_us = std::max(group.high_us, one.high_us);
    iteration.bytes += one.bytes;
    result.phases.push_back(one);
  }
  end_group();
  const Recurrent& network = training.network;
  for (std::size_t kind = 0; kind < of_kind.size(); ++kind) {
    if (of_kind[kind] > 0) {
      result.terms.add(kPhaseNames[kind], of_kind[kind] / network.steps);
    }
  }
  result.step_us = iteration.us / network.steps;
  result.low_us = iteration.low_us / network.steps;
  result.high_us = iteration.high_us / network.steps;
  result.memory = training_memory(training, plan);
  return result;
}

double inference_us(const Chip& chip, const Training& training, const TrainingPlan& plan) {
  using Geometry = LibraryGeometry<Library::cudnn>;
  double us = 1e6 * chip.library_node_seconds, last = 0;
  if (!is_on_chip(plan)) {
    const Price step = price(chip, Geometry{with_pass(training.network, Pass::forward)});
    // A step's price has the arithmetic of W_ih x, but not that it is a product of its own, once in a call, which reads
    // W_ih beside W.
    const double rows = element_bytes(training.network) * training.network.rows();
    return us + for_all(training, [&](int columns) {
                  const double w = rows * training.network.hidden;
                  return plus(of(step, training.network.steps), chip.library_product_seconds +
                                                                    weights_seconds(chip, w + rows * columns) -
                                                                    weights_seconds(chip, w));
                }).us;
  }
  const std::vector<Phase> phases = phases_of(training, plan);
  const std::vector<PhasePrice> prices = predict(chip, training, plan).phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const PhaseKind kind = phases[i].kind;
    if (kind == PhaseKind::packing || kind == PhaseKind::input_product || kind == PhaseKind::forward ||
        kind == PhaseKind::step) {
      const bool is_of_both = kind == PhaseKind::packing && stash_of(plan) != Stash::none;
      const double one = prices[i].us / (is_of_both ? 2 : 1);
      us += phases[i].beside ? std::max(0.0, one - last) : one;
      last = phases[i].beside ? std::max(last, one) : one;
    }
  }
  return us;
}

PhasePrice cublas_price(const Chip& chip, const Training& training) {
  return for_all(training, [&](int columns) { return cublas_layer_price(chip, training.network, columns); });
}

}  // namespace onchip
