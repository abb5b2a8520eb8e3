// SPDX-License-Identifier: Apache-2.0
// The C API, but for its matrices (matrix.cpp).
#include "kernels/api/handles.hpp"
#include "kernels/recurrent/spill_free_plan.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/plan/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

static_assert(ONCHIP_GRU == static_cast<int>(Cell::gru) && kCells.size() == 4);
static_assert(ONCHIP_FP8 == static_cast<int>(Precision::fp8) && kPrecisions.size() == 4);
static_assert(ONCHIP_SMS == static_cast<int>(Resource::sms) && kResources.size() == ONCHIP_RESOURCES);
static_assert(ONCHIP_TIER_STREAMED == static_cast<int>(Tier::streamed) && kTierNames.size() == 3);
static_assert(ONCHIP_WORKSPACE_ALIGNMENT == kWorkspaceAlignment);

struct Asked {
  Recurrent network;
  Constraints constraints;
};

Asked read_network(const onchip_network* given) {
  require_struct(given, "network");
  require_range("cell", given->cell, 0, static_cast<int>(kCells.size()) - 1);
  require_range("precision", given->precision, 0, static_cast<int>(kPrecisions.size()) - 1);
  require_range("tier", given->tier, 0, static_cast<int>(kTierNames.size()) - 1);
  Asked asked;
  asked.network.cell = static_cast<Cell>(given->cell);
  asked.network.precision = static_cast<Precision>(given->precision);
  asked.network.hidden = given->hidden;
  asked.network.batch = given->batch;
  asked.network.density = given->density;
  asked.constraints.tier = static_cast<Tier>(given->tier);
  return asked;
}

// The weights as the kernels store them.
SparseMatrix rounded_weights(const Recurrent& network, const SparseMatrix& given) {
  if (given.rows != network.rows() || given.columns != network.hidden) {
    throw InputError("the matrix is " + std::to_string(given.rows) + " x " + std::to_string(given.columns) + "; a " +
                     std::string(info(network.cell).name) + " network of " + std::to_string(network.hidden) +
                     " units has " + std::to_string(network.rows()) + " x " + std::to_string(network.hidden));
  }
  if (given.nnz() == 0) {
    throw InputError("the matrix has no non-zero");
  }
  SparseMatrix matrix = given;
  round_weights(matrix, network.precision);
  if (!std::all_of(matrix.value.begin(), matrix.value.end(), [](float value) { return std::isfinite(value); })) {
    throw InputError("a weight is too large for " + std::string(info(network.precision).name));
  }
  return matrix;
}

onchip_fit to_fit(const PlannedNetwork& planned) {
  const Prediction& prediction = planned.prediction;
  onchip_fit fit{};
  fit.struct_bytes = sizeof fit;
  fit.fits = prediction.footprint.fits;
  fit.binding = static_cast<std::int32_t>(prediction.footprint.binding);
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    fit.resources[i].used = prediction.footprint.resources[i].used;
    fit.resources[i].available = prediction.footprint.resources[i].available;
    write(fit.resources[i].name, kResources[i].name);
    write(fit.resources[i].unit, kResources[i].unit);
  }
  fit.streamed_share = streamed_share(planned.network, planned.plan);
  if (fit.fits) {
    fit.step_us = prediction.step_us;
    fit.low_us = prediction.low_us;
    fit.high_us = prediction.high_us;
    fit.floor_us = prediction.floor_us;
  }
  std::string why = explain(prediction.footprint);
  if (fit.fits && fit.streamed_share > 0) {
    why += "; " + std::to_string(std::lround(100 * fit.streamed_share)) +
           " % of the weights are read from L2 in every step";
  }
  write(fit.why, why);
  write(fit.plan, to_string(planned.plan));
  return fit;
}

Sequences read_sequences(const Recurrent& network, const onchip_sequences* given) {
  require_struct(given, "sequences");
  require_range("steps", given->steps, 1, 2147483647);
  if (network.cell != Cell::lstm && (given->initial_cell != nullptr || given->final_cell != nullptr)) {
    throw InputError("the cell '" + std::string(info(network.cell).name) + "' has no cell state");
  }
  const auto check_stride = [](const char* name, std::int64_t stride, std::int64_t least) {
    if (stride != 0 && stride < least) {
      throw InputError("'" + std::string(name) + "' is " + std::to_string(stride) + "; expected 0, or " +
                       std::to_string(least) + " or more");
    }
  };
  check_stride("input_stride", given->input_stride, network.rows());
  check_stride("output_stride", given->output_stride, network.hidden);
  require_range("backward", given->backward, 0, 1);
  Sequences sequences;
  sequences.steps = given->steps;
  sequences.input = given->input;
  sequences.initial = given->initial;
  sequences.initial_cell = given->initial_cell;
  sequences.output = given->output;
  sequences.final_state = given->final_state;
  sequences.final_cell = given->final_cell;
  sequences.input_stride = given->input_stride;
  sequences.output_stride = given->output_stride;
  if (given->lengths != nullptr) {
    sequences.lengths = {given->lengths, static_cast<std::size_t>(network.batch)};
  }
  sequences.backward = given->backward == 1;
  return sequences;
}

}  // namespace
}  // namespace onchip

using namespace onchip;

std::int32_t onchip_api_version(void) {
  return ONCHIP_API_VERSION;
}

onchip_status onchip_chip_create(const char* name_or_file, onchip_chip** chip, onchip_error* error) {
  return guarded(error, [&] {
    require(name_or_file, "name_or_file");
    require(chip, "chip");
    *chip = new onchip_chip{find_chip(name_or_file)};
  });
}

onchip_status onchip_chip_set(onchip_chip* chip, const char* assignment, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(assignment, "assignment");
    set_chip_key(chip->file, assignment);
  });
}

void onchip_chip_destroy(onchip_chip* chip) {
  delete chip;
}

onchip_status onchip_fit_network(const onchip_chip* chip, const onchip_network* network, const onchip_matrix* matrix,
                                 onchip_fit* fit, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require_struct(fit, "fit");
    auto [asked, constraints] = read_network(network);
    std::optional<SparseMatrix> weights;
    if (matrix != nullptr) {
      weights = rounded_weights(asked, matrix->matrix);
      asked.density = weights->density();
    }
    check(asked);
    const RowProfile rows = weights ? RowProfile::from_matrix(*weights) : RowProfile::uniform(asked);
    *fit = to_fit(choose_plan(chip->file.chip, asked, rows, constraints));
  });
}

onchip_status onchip_largest_hidden(const onchip_chip* chip, const onchip_network* network, std::int32_t granule,
                                    std::int32_t* hidden, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(hidden, "hidden");
    require_range("granule", granule, 1, kMaxHidden);
    auto [asked, constraints] = read_network(network);
    asked.hidden = granule;
    check(asked);
    const Capacity capacity = find_capacity(chip->file.chip, asked, granule, constraints);
    *hidden = capacity.largest ? capacity.largest->network.hidden : 0;
  });
}

onchip_status onchip_program_create(const onchip_chip* chip, const onchip_network* network, const onchip_matrix* matrix,
                                    const float* input_bias, const float* recurrent_bias, const char* architecture,
                                    onchip_program** program, onchip_error* error) {
  return guarded(error, [&] {
    require(chip, "chip");
    require(matrix, "matrix");
    require(program, "program");
    auto [asked, constraints] = read_network(network);
    const SparseMatrix weights = rounded_weights(asked, matrix->matrix);
    asked.density = weights.density();
    check(asked);
    const std::string target = architecture == nullptr ? device_info().architecture : architecture;
    const PlannedNetwork planned =
        choose_spill_free_plan(chip->file.chip, asked, RowProfile::from_matrix(weights), constraints, target);
    if (!planned.prediction.footprint.fits) {
      throw DoesNotFit(describe(asked) + " on " + chip->file.chip.name + " " + explain(planned.prediction.footprint));
    }
    const auto bias = [&, rows = static_cast<std::size_t>(asked.rows())](const float* values) {
      return values == nullptr ? std::span<const float>() : std::span<const float>(values, rows);
    };
    auto made = std::make_shared<const Program>(
        make_program(make_layout(asked, planned.plan, weights), {bias(input_bias), bias(recurrent_bias)}, target));
    *program = new onchip_program{std::move(made), to_fit(planned)};
  });
}

onchip_status onchip_program_workspace_bytes(const onchip_program* program, std::int64_t most_steps, std::size_t* bytes,
                                             onchip_error* error) {
  return guarded(error, [&] {
    require(program, "program");
    require(bytes, "bytes");
    *bytes = Recurrence::workspace_bytes(*program->program, most_steps);
  });
}

onchip_status onchip_program_fit(const onchip_program* program, onchip_fit* fit, onchip_error* error) {
  return guarded(error, [&] {
    require(program, "program");
    require_struct(fit, "fit");
    *fit = program->fit;
  });
}

onchip_status onchip_program_registers(const onchip_program* program, std::int32_t* registers, onchip_error* error) {
  return guarded(error, [&] {
    require(program, "program");
    require(registers, "registers");
    *registers = program->program->kernel.resources.registers;
  });
}

void onchip_program_destroy(onchip_program* program) {
  delete program;
}

onchip_status onchip_recurrence_create(const onchip_program* program, void* workspace, std::size_t workspace_bytes,
                                       std::int64_t most_steps, onchip_stream stream, onchip_recurrence** recurrence,
                                       onchip_error* error) {
  return guarded(error, [&] {
    require(program, "program");
    require(recurrence, "recurrence");
    *recurrence = new onchip_recurrence{Recurrence(program->program, workspace, workspace_bytes, most_steps, stream)};
  });
}

void onchip_recurrence_destroy(onchip_recurrence* recurrence) {
  delete recurrence;
}

onchip_status onchip_recurrence_enqueue(onchip_recurrence* recurrence, onchip_stream stream,
                                        const onchip_sequences* sequences, onchip_error* error) {
  return guarded(error, [&] {
    require(recurrence, "recurrence");
    recurrence->recurrence.enqueue(stream, read_sequences(recurrence->recurrence.program().network, sequences));
  });
}

onchip_status onchip_recurrence_step(onchip_recurrence* recurrence, onchip_stream stream, const void* input,
                                     void* state, void* cell, onchip_error* error) {
  return guarded(error, [&] {
    require(recurrence, "recurrence");
    require(state, "state");
    const Recurrent& network = recurrence->recurrence.program().network;
    if (network.cell == Cell::lstm) {
      require(cell, "cell");
    }
    onchip_sequences one{};
    one.struct_bytes = sizeof one;
    one.steps = 1;
    one.input = input;
    one.initial = one.final_state = state;
    one.initial_cell = one.final_cell = cell;
    recurrence->recurrence.enqueue(stream, read_sequences(network, &one));
  });
}

onchip_status onchip_recurrence_check(const onchip_recurrence* recurrence, onchip_stream stream, onchip_error* error) {
  return guarded(error, [&] {
    require(recurrence, "recurrence");
    recurrence->recurrence.check_status(stream);
  });
}
