// SPDX-License-Identifier: Apache-2.0
// Loads a pruned LSTM from a .safetensors file and runs it, layer after layer, by the C++ API:
//   1. read the weights     2. ask whether each layer fits, and why     3. compile, still without a GPU
//   4. bind each layer to memory that this program allocates     5. capture the sequence in a CUDA graph and run it
//   6. check against double precision     7. stream the same sequence one step at a time, with kept state
//
//   pruned_lstm FILE [CHIP [BATCH [STEPS]]]        CHIP: h200, ...; for which the layers are planned
//
// The tensors are named as in torch.nn.LSTM's state_dict: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l1.
// Without a GPU it ends after 3.
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/cublas.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/workload/files/weights_file.hpp"
#include "model/workload/reference.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace onchip;

constexpr Precision kPrecision = Precision::fp16;

struct Layer {
  SparseMatrix input;      // W_ih, [4 * hidden, input of the layer]
  SparseMatrix recurrent;  // W_hh, [4 * hidden, hidden]
  std::vector<float> input_bias, recurrent_bias;
  std::vector<float> dense_input;  // W_ih, zeros included
  std::shared_ptr<const RecurrenceProgram> program;
};

std::vector<Layer> read_layers(const std::string& file) {
  std::vector<Layer> layers;
  while (true) {
    const std::string suffix = "_l" + std::to_string(layers.size());
    Layer layer;
    try {
      layer.input = read_safetensors(file, {"weight_ih" + suffix});
    } catch (const InputError&) {
      if (layers.empty()) {
        throw;
      }
      return layers;  // all read
    }
    layer.recurrent = read_safetensors(file, {"weight_hh" + suffix});
    layer.input_bias = read_safetensors_vector(file, "bias_ih" + suffix);
    layer.recurrent_bias = read_safetensors_vector(file, "bias_hh" + suffix);
    if (!layers.empty() && layer.input.columns != layers.back().recurrent.columns) {
      throw InputError(file + ": 'weight_ih" + suffix + "' does not take what the layer before it gives");
    }
    if (layer.input.rows != layer.recurrent.rows || layer.recurrent.columns != layer.recurrent.rows / 4) {
      throw InputError(file + ": 'weight_ih" + suffix + "' and 'weight_hh" + suffix + "' are not those of an LSTM");
    }
    round_weights(layer.recurrent, kPrecision);
    layer.dense_input = to_dense(layer.input);
    layers.push_back(std::move(layer));
  }
}

// Plans and compiles; says whether the layer fits. Null if it does not.
std::shared_ptr<const RecurrenceProgram> plan(const Chip& chip, const Layer& layer, int batch,
                                              const std::string& architecture) {
  Recurrent network;
  network.cell = Cell::lstm;
  network.precision = kPrecision;
  network.hidden = layer.recurrent.columns;
  network.batch = batch;
  network.density = layer.recurrent.density();
  const PlannedNetwork planned =
      confirmed_plan(chip, network, RowProfile::from_matrix(layer.recurrent), {}, architecture).chosen;
  std::cout << describe(network) << " on " << chip.name << " " << explain(planned.prediction.footprint) << '\n';
  if (!planned.prediction.footprint.fits) {
    return nullptr;
  }
  std::cout << "  predicted: " << planned.prediction.step_us << " us per step\n";
  return std::make_shared<const RecurrenceProgram>(make_program(
      make_layout(network, planned.plan, layer.recurrent), {layer.input_bias, layer.recurrent_bias}, architecture));
}

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

std::vector<float> random_input(std::size_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random()) * 0x1p-31F - 1.0F;
  }
  return from_elements(to_elements(values, kPrecision), kPrecision);
}

std::vector<double> expected_output(const std::vector<Layer>& layers, const std::vector<float>& input, int batch,
                                    int steps) {
  std::vector<ReferenceLayer> reference;
  for (const Layer& layer : layers) {
    reference.push_back({layer.dense_input, layer.recurrent, layer.input_bias, layer.recurrent_bias});
  }
  ReferenceStackInput in;
  in.input_size = layers.front().input.columns;
  in.batch = batch;
  in.steps = steps;
  in.input = input;
  return reference_stack(reference, Cell::lstm, kPrecision, in).output;
}

// One layer on the device. All memory is this program's.
struct DeviceLayer {
  DeviceLayer(const Layer& layer, int steps, cudaStream_t stream)
      : weights(to_elements(layer.dense_input, kPrecision)),
        columns(layer.input.columns),
        hidden(layer.recurrent.columns),
        batch(layer.program->network.batch),
        workspace(Recurrence::workspace_bytes(*layer.program, steps)),
        projected(std::size_t{2} * steps * batch * 4 * hidden),
        output(std::size_t{2} * steps * batch * hidden),
        state(std::size_t{2} * batch * hidden),
        cell(state.size()),
        recurrence(layer.program, workspace.data(), workspace.size(), steps, stream) {}

  // x = W_ih input for `steps` steps, then the recurrence. With `keeps_state` from the state that the last call left.
  void enqueue(cudaStream_t stream, const Cublas& cublas, const void* input, int steps, bool keeps_state) const {
    cublas.multiply({.rows = 4 * hidden,
                     .columns = steps * batch,
                     .depth = columns,
                     .precision = kPrecision,
                     .transposed = true,
                     .a = weights.data(),
                     .leading_a = columns,
                     .b = input,
                     .leading_b = columns,
                     .c = projected.data(),
                     .leading_c = 4 * hidden});
    Sequences sequences;
    sequences.steps = steps;
    sequences.input = projected.data();
    sequences.initial = keeps_state ? state.data() : nullptr;
    sequences.initial_cell = keeps_state ? cell.data() : nullptr;
    sequences.output = output.data();
    sequences.final_state = state.data();
    sequences.final_cell = cell.data();
    recurrence.enqueue(stream, sequences);
  }

  DeviceBuffer<std::byte> weights;  // W_ih, [4 * hidden, columns]
  int columns, hidden, batch;
  DeviceBuffer<std::byte> workspace;
  DeviceBuffer<std::byte> projected;    // [steps, batch, 4 * hidden]
  DeviceBuffer<std::byte> output;       // [steps, batch, hidden]
  DeviceBuffer<std::byte> state, cell;  // [batch, hidden]
  Recurrence recurrence;
};

double run(const std::vector<Layer>& layers, int batch, int steps) {
  const std::size_t input_size = layers.front().input.columns;
  const std::vector<float> input = random_input(input_size * batch * steps);
  const std::vector<double> expected = expected_output(layers, input, batch, steps);

  const Stream stream;
  const Cublas cublas(/*allows_short_sums=*/false);
  cublas.use(stream.get());
  const DeviceBuffer<std::byte> device_input(to_elements(input, kPrecision));
  std::vector<DeviceLayer> on_device;
  on_device.reserve(layers.size());
  for (const Layer& layer : layers) {
    on_device.emplace_back(layer, steps, stream.get());
  }
  ONCHIP_CUDA_CHECK(cudaDeviceSynchronize());

  // The whole sequence as a graph: captured once, launched as often as there is input.
  const auto enqueue = [&](const void* from, int count, bool keeps_state) {
    for (const DeviceLayer& layer : on_device) {
      layer.enqueue(stream.get(), cublas, from, count, keeps_state);
      from = layer.output.data();
    }
  };
  enqueue(device_input.data(), steps, false);  // cuBLAS loads its kernels now, not while capturing
  stream.synchronize();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ONCHIP_CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  enqueue(device_input.data(), steps, false);
  ONCHIP_CUDA_CHECK(cudaStreamEndCapture(stream.get(), &graph));
  ONCHIP_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  EventTimer timer;
  Way way{.name = "graph", .sample = [&] {
            return std::vector{1e3 * timer.milliseconds_of(stream.get(), [&] {
              ONCHIP_CUDA_CHECK(cudaGraphLaunch(executable, stream.get()));
            })};
          }};
  time_ways({&way, 1}, {});
  if (!way.ran()) {
    throw CudaError(way.failure);
  }
  for (const DeviceLayer& layer : on_device) {
    layer.recurrence.check_status(stream.get());
  }
  const double error = relative_error(expected, from_elements(on_device.back().output.download(), kPrecision));
  const double us = way.time.median;
  std::cout << steps << " steps: " << us << " us, " << us / steps << " us per step; relative error " << error << '\n';
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);

  // The same one step at a time: what a program does whose input arrives so.
  const std::size_t step_bytes = device_input.size() / steps;
  std::vector<std::byte> streamed;
  for (int step = 0; step < steps; ++step) {
    enqueue(device_input.data() + step * step_bytes, 1, step > 0);
    stream.synchronize();
    std::vector<std::byte> output = on_device.back().output.download();
    output.resize(output.size() / steps);
    streamed.insert(streamed.end(), output.begin(), output.end());
  }
  const double streamed_error = relative_error(expected, from_elements(streamed, kPrecision));
  std::cout << "one step at a time: relative error " << streamed_error << '\n';
  return std::max(error, streamed_error);
}

}  // namespace

int main(int count, char** words) {
  if (count < 2 || count > 5) {
    std::cerr << "usage: pruned_lstm FILE [CHIP [BATCH [STEPS]]]\n";
    return 2;
  }
  try {
    const int batch = count > 3 ? std::atoi(words[3]) : 4, steps = count > 4 ? std::atoi(words[4]) : 100;
    if (batch < 1 || batch > kMostSamples || steps < 1) {
      throw InputError("expected a batch of 1 to " + std::to_string(kMostSamples) + ", and at least one step");
    }
    Chip chip = find_chip(count > 2 ? words[2] : "h200").chip;
    std::vector<Layer> layers = read_layers(words[1]);
    const bool runs = has_device();
    if (runs) {
      chip.sm_count.value = std::min<double>(chip.sm_count, device_info().sm_count);
    }
    for (Layer& layer : layers) {
      layer.program = plan(chip, layer, batch, runs ? device_info().architecture : chip.architecture);
      if (!layer.program) {
        return 1;
      }
      std::cout << "  compiled: " << layer.program->kernel.resources.registers << " registers per thread, "
                << Recurrence::workspace_bytes(*layer.program, steps) << " bytes of workspace\n";
    }
    if (!runs) {
      std::cout << "no CUDA device: planned and compiled only\n";
      return 0;
    }
    return run(layers, batch, steps) < 1e-2 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "pruned_lstm: " << error.what() << '\n';
    return 2;
  }
}
