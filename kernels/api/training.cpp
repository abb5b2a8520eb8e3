// SPDX-License-Identifier: Apache-2.0
// The C API's training of one layer.
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/api/cuda_errors.hpp"
#include "kernels/runtime/device_chip.hpp"
#include "kernels/training/training_layer.hpp"
#include "kernels/training/tuned_plans.hpp"
#include "model/answer/whole_network.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct onchip_training {
  onchip::TrainingLayer layer;
  std::optional<onchip::TrainingPlan> refused;  // by the compiler
};

namespace onchip {
namespace {

using Given = onchip_training_arrays;

// An array of the caller's: where the program has it, and which halves cannot do without.
struct CallersArray {
  const char* name;
  int TrainingArrays::*array;
  std::byte* (*of)(const Given&);
  bool forward_needs, backward_needs;
};

#define ONCHIP_ARRAY(name, array, forward_needs, backward_needs)                                                    \
  {                                                                                                                 \
#name, &TrainingArrays::array,                                                                                  \
        [](const Given&                                                                                             \
               given) { return const_cast<std::byte*>(static_cast<const std::byte*>(given.name)); }, forward_needs, \
                                                                                                  backward_needs    \
  }
constexpr std::array<CallersArray, 23> kArrays{{
    ONCHIP_ARRAY(x, x, true, true),
    ONCHIP_ARRAY(w_ih, w_ih, true, true),
    ONCHIP_ARRAY(w_hh, w_hh, true, true),
    ONCHIP_ARRAY(b_ih, b_ih, false, false),
    ONCHIP_ARRAY(b_hh, b_hh, false, false),
    ONCHIP_ARRAY(h0, h0, false, false),
    ONCHIP_ARRAY(c0, c0, false, false),
    ONCHIP_ARRAY(y, y, true, true),
    ONCHIP_ARRAY(hn, hn, false, false),
    ONCHIP_ARRAY(cn, cn, false, false),
    ONCHIP_ARRAY(cells, cells, true, true),
    ONCHIP_ARRAY(kept, kept, true, true),
    ONCHIP_ARRAY(dy, dy, false, true),
    ONCHIP_ARRAY(dhn, dhn, false, false),
    ONCHIP_ARRAY(dcn, dcn, false, false),
    ONCHIP_ARRAY(dx, dx, false, false),
    ONCHIP_ARRAY(dw_ih, dw_ih, false, false),
    ONCHIP_ARRAY(dw_hh, dw_hh, false, false),
    ONCHIP_ARRAY(db, db, false, false),
    ONCHIP_ARRAY(dh0, dh0, false, false),
    ONCHIP_ARRAY(dc0, dc0, false, false),
    ONCHIP_ARRAY(db_hh, db_hh, false, false),
    ONCHIP_ARRAY(lengths, lengths, false, false),
}};
#undef ONCHIP_ARRAY

onchip_status enqueue(const onchip_training* training, onchip_cuda_stream stream, const Given* given, TrainingHalf half,
                      onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    require_struct(given, "arrays");
    const bool is_replay = stash_of(training->layer.plan()) == Stash::replay;
    const bool is_forward = stash_of(training->layer.plan()) == Stash::none;
    if (is_forward && half == TrainingHalf::backward) {
      throw InputError("a stack without a stash has no backward");
    }
    if (!is_forward || training->layer.forward_bytes() > 0) {
      require(given->workspace, "workspace");
    }
    if (reinterpret_cast<std::uintptr_t>(given->workspace) % ONCHIP_WORKSPACE_ALIGNMENT != 0) {
      throw InputError("the workspace is not aligned to " + std::to_string(ONCHIP_WORKSPACE_ALIGNMENT) + " bytes");
    }
    const TrainingProgram& program = training->layer.training();
    const std::int64_t rows = given->rows;
    const TrainingSize& size = training->layer.size();
    const bool keeps =
        half == TrainingHalf::backward || given->kept != nullptr || !training->layer.has_forward_alone() || is_replay;
    std::vector<std::vector<std::byte*>> places(size.directions,
                                                std::vector<std::byte*>(program.program.arrays.size()));
    for (int direction = 0; direction < std::max(size.directions, size.layers); ++direction) {  // or layer
      require_struct(given + direction, "arrays");
      if (given[direction].rows != rows) {
        throw InputError("'rows' is " + std::to_string(rows) + " and " + std::to_string(given[direction].rows) +
                         "; expected one number for all");
      }
      std::vector<std::byte*>& of_direction = places[size.layers > 1 ? 0 : direction];
      const TrainingArrays& arrays = program.layers[size.layers > 1 ? direction : 0];
      for (const CallersArray& array : kArrays) {
        std::byte* const place = array.of(given[direction]);
        const int of_program = arrays.*array.array;
        const bool needs = half == TrainingHalf::forward ? array.forward_needs : array.backward_needs;
        const bool is_kept = array.array == &TrainingArrays::kept || array.array == &TrainingArrays::cells;
        if (needs && (keeps || !is_kept) && program.program.arrays[of_program].bytes > 0) {
          require(place, array.name);
        }
        of_direction[of_program] = is_kept && !keeps ? nullptr : place;
      }
      if (size.length_bytes > 0) {
        require(given[direction].lengths, "lengths");
      }
    }
    training->layer.enqueue(stream, half, std::move(places), rows, static_cast<std::byte*>(given->workspace));
  });
}

}  // namespace
}  // namespace onchip

using namespace onchip;

static TrainingSize size_of(const onchip_layer* layer, const SparseMatrix* mask) {
  require_struct(layer, "layer");
  require_range("cell", layer->cell, ONCHIP_RELU, ONCHIP_GRU);
  const auto cell = static_cast<Cell>(layer->cell);
  if (cell != Cell::lstm && cell != Cell::gru) {
    throw InputError("the cell '" + std::string(info(cell).name) + "' has no training kernels; 'lstm' and 'gru' have");
  }
  if (mask != nullptr && cell != Cell::lstm) {
    throw InputError("a 'gru' has no training kernels with a mask; 'lstm' has");
  }
  if (mask != nullptr && (layer->directions != 1 || layer->length_bytes != 0)) {
    throw InputError("with a mask, a layer has one direction and no lengths");
  }
  require_range("precision", layer->precision, ONCHIP_FP16, ONCHIP_BF16);
  constexpr std::int32_t kMost = 1 << 20;
  require_range("input", layer->input, 1, kMost);
  require_range("hidden", layer->hidden, 1, kMost);
  require_range("batch", layer->batch, 1, kMost);
  require_range("steps", layer->steps, 1, std::numeric_limits<std::int32_t>::max() / layer->batch);
  require_range("directions", layer->directions, 1, 2);
  require_range("stash", layer->stash, ONCHIP_STASH_GATES, ONCHIP_STASH_NONE);
  require_range("chunk", layer->chunk, 0, std::numeric_limits<std::int32_t>::max());
  const bool is_stack = layer->stash == ONCHIP_STASH_REPLAY || layer->stash == ONCHIP_STASH_NONE;
  require_range("layers", layer->layers, 0, is_stack ? kMostReplayed : 1);
  require_range("is_reverse", layer->is_reverse, 0, layer->stash == ONCHIP_STASH_NONE ? 1 : 0);
  if (is_stack && (layer->directions != 1 || layer->length_bytes != 0)) {
    throw InputError("a stack, with a stash of replay or none, has one direction and no lengths");
  }
  if (mask != nullptr && layer->stash != ONCHIP_STASH_GATES) {
    throw InputError("with a mask, a layer keeps the gates");
  }
  if (layer->length_bytes != 0 && layer->length_bytes != 4 && layer->length_bytes != 8) {
    throw InputError("'length_bytes' is " + std::to_string(layer->length_bytes) + "; expected 0, 4 or 8");
  }
  return {.input = layer->input,
          .hidden = layer->hidden,
          .batch = layer->batch,
          .steps = layer->steps,
          .cell = cell,
          .directions = layer->directions,
          .is_reverse = layer->is_reverse != 0,
          .length_bytes = layer->length_bytes,
          .layers = std::max(1, layer->layers)};
}

// That was timed on the current device, else the model's.
static TrainingPlan chosen_plan(const Chip& chip, const TrainingSize& size, Precision precision,
                                const SparseMatrix* mask, const onchip_layer* layer) {
  const auto stash = static_cast<Stash>(layer->stash);
  const std::optional<TrainingPlan> tuned =
      mask == nullptr && stash != Stash::none ? tuned_plan(device_info(), size, precision, stash) : std::nullopt;
  TrainingPlan plan = tuned && is_on_chip(*tuned) ? *tuned : planned_layer(chip, size, precision, mask, stash).plan;
  if (auto* const dense = std::get_if<DenseTrainingPlan>(&plan)) {
    dense->chunk = layer->chunk;
  }
  return plan;
}

// Why cuDNN is chosen on the current device, or nothing where these kernels are: with lengths, they always are.
static std::string why_a_library(const TrainingSize& size, Precision precision, bool is_inference) {
  if (const auto tuned = tuned_plan(device_info(), size, precision, Stash::gates); tuned && !is_inference) {
    return is_on_chip(*tuned) ? "" : "cuDNN is chosen at this size: 'onchip tune' has timed it as the faster one";
  }
  const Found<CallPrices> prices = call_prices(device_chip(), training_of(size, precision), is_inference);
  if (!prices) {
    throw DoesNotFit(prices.why());
  }
  if (size.length_bytes != 0 || !prices->takes_library()) {
    return "";
  }
  return "cuDNN is chosen at this size: a call " + std::string(is_inference ? "without" : "with") +
         " gradients is priced " + fixed(prices->library_us, 1) + " us, with the fastest plan on the chip " +
         fixed(prices->own_us, 1) + " us";
}

static onchip_status create(const onchip_layer* layer, const SparseMatrix* mask, onchip_training** training,
                            onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    const TrainingSize size = size_of(layer, mask);
    if (mask != nullptr && (mask->rows != 4 * size.hidden || mask->columns != size.hidden)) {
      throw InputError("the mask is " + std::to_string(mask->rows) + " x " + std::to_string(mask->columns) +
                       "; W_hh of the layer is " + std::to_string(4 * size.hidden) + " x " +
                       std::to_string(size.hidden));
    }
    const auto precision = static_cast<Precision>(layer->precision);
    const Chip chip = device_chip();
    const TrainingPlan planned = chosen_plan(chip, size, precision, mask, layer);
    const Confirmed<TrainingPlan> plan =
        confirmed_plan(chip, size, precision, mask, planned, device_info().architecture);
    *training = new onchip_training{TrainingLayer(size, precision, plan.chosen, chip, mask), plan.refused};
  });
}

onchip_status onchip_training_create(const onchip_layer* layer, onchip_training** training, onchip_error* error) {
  return create(layer, nullptr, training, error);
}

onchip_status onchip_training_library(const onchip_layer* layer, std::int32_t is_inference, char** why,
                                      onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(why, "why");
    require_range("is_inference", is_inference, 0, 1);
    const TrainingSize size = size_of(layer, nullptr);
    *why = copy_of(why_a_library(size, static_cast<Precision>(layer->precision), is_inference == 1));
  });
}

onchip_status onchip_training_inference_us(const onchip_layer* layer, double step_us, double* layer_us,
                                           double* program_us, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(layer_us, "layer_us");
    require(program_us, "program_us");
    const Chip chip = device_chip();
    const Training training = training_of(size_of(layer, nullptr), static_cast<Precision>(layer->precision));
    const Found<CallPrices> prices = call_prices(chip, training, true);
    if (!prices) {
      throw DoesNotFit(prices.why());
    }
    *layer_us = prices->takes_library() ? std::numeric_limits<double>::infinity() : prices->own_us;
    Prediction step;
    step.step_us = step_us;
    *program_us = 0;
    for (const SequencePart& part : sequence_parts(chip, training.network, step, training.stack)) {
      *program_us += part.us;
    }
  });
}

onchip_status onchip_training_create_sparse(const onchip_layer* layer, const onchip_matrix* mask,
                                            onchip_training** training, onchip_error* error) {
  if (mask == nullptr) {
    return guarded(error, [&] { require(mask, "mask"); });
  }
  return create(layer, &mask->matrix, training, error);
}

onchip_status onchip_training_bytes(const onchip_training* training, std::size_t* workspace, std::size_t* kept,
                                    onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    if (workspace != nullptr) {
      *workspace = training->layer.workspace_bytes();
    }
    if (kept != nullptr) {
      *kept = training->layer.kept_bytes();
    }
  });
}

onchip_status onchip_training_forward_bytes(const onchip_training* training, std::size_t* workspace,
                                            onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    require(workspace, "workspace");
    *workspace = training->layer.forward_bytes();
  });
}

// A stack of such layers, and the plan of each with its stash.
static std::pair<Training, DenseTrainingPlan> stack_of(const Chip& chip, const onchip_layer* layer,
                                                       std::int32_t layers) {
  require_range("layers", layers, 1, kMostLayers);
  const TrainingSize size = size_of(layer, nullptr);
  const auto precision = static_cast<Precision>(layer->precision);
  std::pair stack{training_of(size, precision),
                  std::get<DenseTrainingPlan>(chosen_plan(chip, size, precision, nullptr, layer))};
  stack.first.stack.layers = layers;
  return stack;
}

onchip_status onchip_training_within(const onchip_layer* layer, std::int32_t layers, std::size_t bytes,
                                     std::int32_t* stash, std::int32_t* cell_layers, std::int32_t* chunk,
                                     std::size_t* peak, onchip_error* error) {
  return guarded_cuda(error, [&] {
    const Chip chip = device_chip();
    const auto [training, chosen] = stack_of(chip, layer, layers);
    const PlannedTraining found = within_budget(chip, training, chosen, static_cast<double>(bytes),
                                                layer->stash == ONCHIP_STASH_REPLAY, layer->length_bytes);
    const auto& plan = std::get<DenseTrainingPlan>(found.plan);
    for (const auto& [to, value] :
         {std::pair{stash, static_cast<int>(plan.stash)}, {cell_layers, plan.cell_layers}, {chunk, plan.chunk}}) {
      require(to, "stash, cell_layers or chunk");
      *to = value;
    }
    if (peak != nullptr) {
      *peak = static_cast<std::size_t>(found.prediction.memory.peak_bytes);
    }
  });
}

onchip_status onchip_training_memory(const onchip_layer* layer, std::int32_t layers, std::int32_t cell_layers,
                                     std::size_t* stash, std::size_t* peak, onchip_error* error) {
  return guarded_cuda(error, [&] {
    auto [training, plan] = stack_of(device_chip(), layer, layers);
    require_range("cell_layers", cell_layers, 0, layer->stash == ONCHIP_STASH_GATES ? layers : 0);
    plan.cell_layers = cell_layers;
    const TrainingMemory memory = training_memory(training, plan, layer->length_bytes);
    for (const auto& [to, bytes] : {std::pair{stash, memory.stash_bytes}, {peak, memory.peak_bytes}}) {
      if (to != nullptr) {
        *to = static_cast<std::size_t>(bytes);
      }
    }
  });
}

onchip_status onchip_training_plan(const onchip_training* training, char** plan, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    require(plan, "plan");
    *plan = copy_of(to_string(training->layer.plan()) +
                    (training->refused ? "; the compiler spills " + to_string(*training->refused) : ""));
  });
}

onchip_status onchip_training_forward(const onchip_training* training, onchip_cuda_stream stream,
                                      const onchip_training_arrays* arrays, onchip_error* error) {
  return enqueue(training, stream, arrays, TrainingHalf::forward, error);
}

onchip_status onchip_training_backward(const onchip_training* training, onchip_cuda_stream stream,
                                       const onchip_training_arrays* arrays, onchip_error* error) {
  return enqueue(training, stream, arrays, TrainingHalf::backward, error);
}

onchip_status onchip_training_check(const onchip_training* training, onchip_cuda_stream stream, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(training, "training");
    TrainingLayer::check(stream);
  });
}

void onchip_training_destroy(onchip_training* training) {
  delete training;
}
