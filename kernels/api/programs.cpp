// SPDX-License-Identifier: Apache-2.0
// The half of the C API that compiles and runs kernels.
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/api/cuda_errors.hpp"
#include "kernels/recurrent/recurrence.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/families/planner.hpp"

#include <memory>
#include <new>
#include <string>
#include <utility>

struct onchip_program {
  std::shared_ptr<const onchip::RecurrenceProgram> program;
  onchip_fit fit;
};
struct onchip_recurrence {
  onchip::Recurrence recurrence;
};

namespace onchip {
namespace {

static_assert(ONCHIP_WORKSPACE_ALIGNMENT == kArrayAlignment);

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

onchip_status onchip_program_create(const onchip_chip* chip, const onchip_network* network, const onchip_matrix* matrix,
                                    const float* input_bias, const float* recurrent_bias, const char* architecture,
                                    onchip_program** program, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(chip, "chip");
    require(matrix, "matrix");
    require(program, "program");
    const Configuration configuration = read_configuration(network, matrix);
    const Recurrent& asked = configuration.network;
    const SparseMatrix& weights = *configuration.weights;
    const std::string target = architecture == nullptr ? device_info().architecture : architecture;
    const PlannedNetwork planned =
        confirmed_plan(chip->file.chip, asked, RowProfile::from_matrix(weights), configuration.constraints, target)
            .chosen;
    if (!planned.prediction.footprint.fits) {
      throw DoesNotFit(describe(asked) + " on " + chip->file.chip.name + " " + explain(planned.prediction.footprint));
    }
    const auto bias = [&, rows = static_cast<std::size_t>(asked.rows())](const float* values) {
      return values == nullptr ? std::span<const float>() : std::span<const float>(values, rows);
    };
    auto made = std::make_shared<const RecurrenceProgram>(
        make_program(make_layout(asked, planned.plan, weights), {bias(input_bias), bias(recurrent_bias)}, target));
    *program = new onchip_program{std::move(made), to_fit(planned)};
  });
}

onchip_status onchip_program_workspace_bytes(const onchip_program* program, std::int64_t most_steps, std::size_t* bytes,
                                             onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(program, "program");
    require(bytes, "bytes");
    *bytes = Recurrence::workspace_bytes(*program->program, most_steps);
  });
}

onchip_status onchip_program_fit(const onchip_program* program, onchip_fit* fit, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(program, "program");
    require_struct(fit, "fit");
    *fit = program->fit;
  });
}

onchip_status onchip_program_registers(const onchip_program* program, std::int32_t* registers, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(program, "program");
    require(registers, "registers");
    *registers = program->program->kernel.resources.registers;
  });
}

void onchip_program_destroy(onchip_program* program) {
  delete program;
}

onchip_status onchip_recurrence_create(const onchip_program* program, void* workspace, std::size_t workspace_bytes,
                                       std::int64_t most_steps, onchip_cuda_stream stream,
                                       onchip_recurrence** recurrence, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(program, "program");
    require(recurrence, "recurrence");
    *recurrence = new onchip_recurrence{Recurrence(program->program, workspace, workspace_bytes, most_steps, stream)};
  });
}

void onchip_recurrence_destroy(onchip_recurrence* recurrence) {
  delete recurrence;
}

onchip_status onchip_recurrence_enqueue(onchip_recurrence* recurrence, onchip_cuda_stream stream,
                                        const onchip_sequences* sequences, onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(recurrence, "recurrence");
    recurrence->recurrence.enqueue(stream, read_sequences(recurrence->recurrence.program().network, sequences));
  });
}

onchip_status onchip_recurrence_step(onchip_recurrence* recurrence, onchip_cuda_stream stream, const void* input,
                                     void* state, void* cell, onchip_error* error) {
  return guarded_cuda(error, [&] {
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

onchip_status onchip_recurrence_check(const onchip_recurrence* recurrence, onchip_cuda_stream stream,
                                      onchip_error* error) {
  return guarded_cuda(error, [&] {
    require(recurrence, "recurrence");
    recurrence->recurrence.check_status(stream);
  });
}
