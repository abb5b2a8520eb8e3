// SPDX-License-Identifier: Apache-2.0
#include "kernels/sparse_persistent.hpp"

#include "kernels/sources.hpp"
#include "model/error.hpp"
#include "model/numeric.hpp"

#include <algorithm>
#include <cstring>

namespace onchip {
namespace {

constexpr const char* kKernelName = "sparse_persistent";

std::string slots_list(const Plan& plan) {
  std::string list;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    list += (r ? "," : "") + std::to_string(plan.slots[r]);
  }
  return list;
}

// These mirror the kernels' argument structs.
struct Arguments {
  const std::uint32_t* weights;
  const std::uint32_t* streamed;
  const std::int32_t* tails;
  const std::uint32_t* gates;
  const float* scales;
  const float* recurrent_bias;
  const void* input;
  void* states;
  float* carry;
  float* final_carry;
  const int* lengths;
  int first_step;
  int steps;
  std::uint32_t* barrier;
  std::uint32_t* status;
  std::uint32_t* clocks;
};
struct OrderArguments {
  const std::int32_t* order;
  const void* from;
  void* to;
  const int* lengths;
  const float* bias;
  long long stride;
  int first_step;
  int steps;
  int backward;
};

constexpr int kOrderThreads = 512;

// Steps of one launch: as many as keep input and states within kWorkspaceBytes.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{256} << 20;
std::int64_t steps_per_launch(const Network& network, const Plan& plan, std::int64_t most_steps) {
  const std::int64_t step = exchange_bytes(network, plan) + input_bytes(network, plan);
  return std::clamp<std::int64_t>(kWorkspaceBytes / step, 1, most_steps);
}

// ---- what a launch reads beside the weights, in owner's order -------------------------------------------------------

// [gates * hidden]: all that can be added to the input beforehand.
std::vector<float> bias_of_input(const Network& network, const Biases& biases) {
  std::vector<float> sum(network.rows(), 0.0f);
  const auto add = [&](std::span<const float> bias, std::size_t rows) {
    if (!bias.empty() && bias.size() != sum.size()) {
      throw InputError("a bias has " + std::to_string(bias.size()) + " elements; expected " +
                       std::to_string(sum.size()));
    }
    for (std::size_t row = 0; row < std::min(rows, bias.size()); ++row) {
      sum[row] += bias[row];
    }
  };
  add(biases.input, sum.size());
  add(biases.recurrent, network.cell == Cell::gru ? 2 * static_cast<std::size_t>(network.hidden) : sum.size());
  return sum;
}

// [state units]
std::vector<float> bias_of_reset(const Layout& layout, const Biases& biases) {
  const Network& network = layout.network;
  std::vector<float> bias(state_units(network, layout.plan), 0.0f);
  if (network.cell == Cell::gru && !biases.recurrent.empty()) {
    for (int unit = 0; unit < network.hidden; ++unit) {
      bias[layout.order[unit]] = biases.recurrent[2 * static_cast<std::size_t>(network.hidden) + unit];
    }
  }
  return bias;
}

// [state units], as kernels/cell.cuh wants them: for each gate the place of its row in the unit, for each place its
// gate.
std::vector<std::uint32_t> gates_of_units(const Layout& layout) {
  const int gates = info(layout.network.cell).gates;
  const std::uint32_t empty_row = gates == 3 ? 3u << 6 | 3u << 14 : 0;  // the GRU's, its fourth
  std::vector<std::uint32_t> packed(state_units(layout.network, layout.plan), empty_row);
  const std::vector<std::int32_t> places = row_places(layout);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto gate = static_cast<std::uint32_t>(row / layout.network.hidden);
    const std::uint32_t place = places[row] % gates;
    packed[places[row] / gates] |= place << (2 * gate) | gate << (8 + 2 * place);
  }
  return packed;
}

// [state units, gates]
std::vector<float> scales_of_units(const Layout& layout) {
  const Network& network = layout.network;
  const int gates = info(network.cell).gates;
  const std::vector<float> scales = row_scales(layout);
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<float> ordered(static_cast<std::size_t>(state_units(network, layout.plan)) * gates, 0.0f);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    constexpr float kWidening = 256;  // the kernel's fp16 values are 2^-8 of the stored ones
    ordered[places[row]] = scales[row] * kWidening;
  }
  return ordered;
}

}  // namespace

CompileRequest compile_request(const Network& network, const Plan& plan, const std::string& architecture, Work work) {
  CompileRequest request = compile_order_request(network, plan, architecture);
  request.name = kKernelName;
  request.source = kSparsePersistentSource;
  const auto define = [&](const char* key, const std::string& value) {
    request.defines.push_back(std::string(key) + "=" + value);
  };
  const auto number = [&](const char* key, std::int64_t value) { define(key, std::to_string(value)); };
  number("ONCHIP_THREADS", plan.threads);
  number("ONCHIP_LANES_PER_ROW", plan.lanes_per_row);
  number("ONCHIP_ROWS_PER_GROUP", plan.rows_per_group);
  number("ONCHIP_TILE_ROWS", plan.tile_rows);
  number("ONCHIP_PASS_PLANES", plan.pass_planes);
  define("ONCHIP_SLOTS", slots_list(plan));
  number("ONCHIP_HAS_TAIL", plan.has_tail());
  number("ONCHIP_CHUNKS_IN_FLIGHT", plan.chunks_in_flight);
  number("ONCHIP_CHUNK_SLOTS", chunk_slots(network, plan));
  number("ONCHIP_SHARED_CHUNKS", plan.shared_chunks);
  number("ONCHIP_RING_CHUNKS", plan.ring_chunks);
  number("ONCHIP_EXCHANGE_ONLY", work == Work::exchange_only);
  number("ONCHIP_CLOCKS", work == Work::clocked);
  number("ONCHIP_LOADS_IN_FLIGHT", plan.loads_in_flight);
  number("ONCHIP_PROMOTE_EVERY", plan.promote_every);
  number("ONCHIP_AHEAD", kEmptiedAhead);
  number("ONCHIP_ZERO_UNITS", zero_units(network, plan));
  number("ONCHIP_INDEX_SHIFT", index_shift(network, plan));
  number("ONCHIP_STORAGE", static_cast<int>(plan.storage));
  number("ONCHIP_EXCHANGE", static_cast<int>(plan.exchange));
  number("ONCHIP_SHARED_BYTES", shared_bytes(network, plan));
  return request;
}

CompileRequest compile_order_request(const Network& network, const Plan& plan, const std::string& architecture) {
  const auto number = [](const char* key, int value) { return std::string(key) + "=" + std::to_string(value); };
  return {"state_order",
          kStateOrderSource,
          architecture,
          {
              number("ONCHIP_HIDDEN", network.hidden),
              number("ONCHIP_BLOCKS", plan.sms),
              number("ONCHIP_UNITS_PER_SM", units_per_sm(network, plan)),
              number("ONCHIP_BATCH", network.batch),
              number("ONCHIP_BATCH_PADDED", plan.batch_padded),
              number("ONCHIP_PLANE_UNIT_BYTES", plane_unit_bytes(network, plan)),
              number("ONCHIP_PRECISION", static_cast<int>(network.precision)),
              number("ONCHIP_CELL", static_cast<int>(network.cell)),
          }};
}

SparsePersistent::SparsePersistent(const Layout& layout, const Biases& biases, std::int64_t most_steps, Work work)
    : SparsePersistent(layout, encode(layout), biases, most_steps, work) {}

SparsePersistent::SparsePersistent(const Layout& layout, const Encoded& encoded, const Biases& biases,
                                   std::int64_t most_steps, Work work)
    : network_(layout.network),
      plan_(layout.plan),
      compiled_(compile(compile_request(network_, plan_, device_info().architecture, work))),
      kernel_(compiled_.cubin, kKernelName),
      order_cubin_(compile(compile_order_request(network_, plan_, device_info().architecture)).cubin),
      to_input_order_(order_cubin_, "to_input_order"),
      to_state_order_(order_cubin_, "to_state_order"),
      from_state_order_(order_cubin_, "from_state_order"),
      to_final_state_(order_cubin_, "to_final_state"),
      to_carry_order_(order_cubin_, "to_carry_order"),
      from_carry_order_(order_cubin_, "from_carry_order"),
      weights_(encoded.weights),
      streamed_(encoded.streamed),
      tails_(encoded.tails),
      gates_(gates_of_units(layout)),
      order_(std::span<const std::int32_t>(layout.order)),
      row_places_(row_places(layout)),
      input_bias_(bias_of_input(network_, biases)),
      recurrent_bias_(bias_of_reset(layout, biases)),
      scales_(scales_of_units(layout)),
      has_input_bias_(!biases.input.empty() || !biases.recurrent.empty()),
      steps_per_launch_(steps_per_launch(network_, plan_, most_steps)),
      input_(static_cast<std::size_t>(steps_per_launch_ * input_bytes(network_, plan_))),
      states_(static_cast<std::size_t>((steps_per_launch_ + 1) * exchange_bytes(network_, plan_))),
      carry_(static_cast<std::size_t>(state_units(network_, plan_)) * plan_.batch_padded),
      final_carry_(carry_.size()),
      host_lengths_(plan_.batch_padded, 0),
      lengths_(host_lengths_),
      barrier_(1),
      status_(1),
      clocks_(work == Work::clocked
                  ? static_cast<std::size_t>(steps_per_launch_) * plan_.sms * plan_.warps() * kStepMarks.size()
                  : 0) {
  const std::uint32_t fine = 0;
  status_.upload({&fine, 1});
  if (resources().spill_bytes > 0 || resources().stack_bytes > 0) {
    throw CudaError("the kernel of plan '" + to_string(plan_) + "' spills " + std::to_string(resources().spill_bytes) +
                    " bytes of registers; a persistent kernel must not");
  }
  const std::int64_t shared = shared_bytes(network_, plan_);
  if (kernel_.blocks_per_sm(plan_.threads, static_cast<std::size_t>(shared)) < 1) {
    throw CudaError("one SM cannot hold a block of plan '" + to_string(plan_) + "' (" +
                    std::to_string(resources().registers) + " registers per thread, " + std::to_string(shared) +
                    " bytes of shared memory)");
  }
}

void SparsePersistent::set_lengths(cudaStream_t stream, const Sequences& sequences) {
  if (!sequences.lengths.empty() && sequences.lengths.size() != static_cast<std::size_t>(network_.batch)) {
    throw InputError("there are " + std::to_string(sequences.lengths.size()) + " lengths; expected one for each of " +
                     std::to_string(network_.batch) + " samples");
  }
  std::vector<int> lengths(plan_.batch_padded, 0);
  for (int sample = 0; sample < network_.batch; ++sample) {
    const std::int64_t length = sequences.lengths.empty() ? sequences.steps : sequences.lengths[sample];
    if (length < 1 || length > sequences.steps || length > 2147483647) {
      throw InputError("the length " + std::to_string(length) + " of sample " + std::to_string(sample) +
                       " is out of range: expected 1 to " + std::to_string(sequences.steps));
    }
    lengths[sample] = static_cast<int>(length);
  }
  if (lengths != host_lengths_) {
    host_lengths_ = std::move(lengths);
    ONCHIP_CUDA_CHECK(
        cudaMemcpyAsync(lengths_.data(), host_lengths_.data(), lengths_.bytes(), cudaMemcpyHostToDevice, stream));
  }
}

void SparsePersistent::launch(cudaStream_t stream, std::int64_t first_step, std::int64_t steps) {
  const auto state = static_cast<std::size_t>(exchange_bytes(network_, plan_));
  if (plan_.exchange == ExchangeProtocol::lamport) {
    const std::int64_t emptied = std::min<std::int64_t>(steps, kEmptiedAhead);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(states_.data() + state, 0xff, emptied * state, stream));
  } else {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(barrier_.data(), 0, barrier_.bytes(), stream));
  }
  Arguments arguments{weights_.data(),         streamed_.data(),       tails_.data(),   gates_.data(),
                      scales_.data(),          recurrent_bias_.data(), input_.data(),   states_.data(),
                      carry_.data(),           final_carry_.data(),    lengths_.data(), static_cast<int>(first_step),
                      static_cast<int>(steps), barrier_.data(),        status_.data(),  clocks_.data()};
  void* pointers[] = {&arguments};
  kernel_.launch(stream, plan_.sms, plan_.threads, static_cast<std::size_t>(shared_bytes(network_, plan_)),
                 /*cooperative=*/true, pointers);
}

void SparsePersistent::enqueue_recurrence(cudaStream_t stream, std::int64_t steps) {
  for (std::int64_t first = 0; first < steps; first += steps_per_launch_) {
    launch(stream, first, std::min(steps_per_launch_, steps - first));
  }
}

void SparsePersistent::enqueue(cudaStream_t stream, const Sequences& sequences) {
  if (sequences.steps < 1) {
    return;
  }
  set_lengths(stream, sequences);
  const auto state = static_cast<std::size_t>(exchange_bytes(network_, plan_));
  const auto input_row = static_cast<std::size_t>(input_bytes(network_, plan_) / network_.batch);
  OrderArguments order{order_.data(), nullptr, nullptr, lengths_.data(), nullptr, 0, 0, 0, sequences.backward};
  const std::int64_t input_stride = sequences.input_stride != 0 ? sequences.input_stride : network_.rows();
  const std::int64_t output_stride = sequences.output_stride != 0 ? sequences.output_stride : network_.hidden;
  const auto translate = [&](const Kernel& kernel, const void* from, void* to, std::int64_t blocks,
                             std::size_t smem_bytes) {
    order.order = &kernel == &to_input_order_ ? row_places_.data() : order_.data();
    order.from = from;
    order.to = to;
    void* pointers[] = {&order};
    kernel.launch(stream, static_cast<int>(blocks), kOrderThreads, smem_bytes, /*cooperative=*/false, pointers);
  };
  const bool carries = info(network_.cell).gates > 1;
  if (sequences.initial) {
    translate(to_state_order_, sequences.initial, states_.data(), 1, 0);
  } else {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(states_.data(), 0, state, stream));
  }
  if (carries) {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(carry_.data(), 0, carry_.bytes(), stream));
    const void* initial = network_.cell == Cell::lstm ? sequences.initial_cell : sequences.initial;
    if (initial) {
      translate(to_carry_order_, initial, carry_.data(), network_.batch, 0);
    }
  }
  for (std::int64_t first = 0; first < sequences.steps; first += steps_per_launch_) {
    const std::int64_t count = std::min(steps_per_launch_, sequences.steps - first);
    if (first > 0) {  // the last state of a full launch starts the next
      ONCHIP_CUDA_CHECK(cudaMemcpyAsync(states_.data(), states_.data() + steps_per_launch_ * state, state,
                                        cudaMemcpyDeviceToDevice, stream));
    }
    order.first_step = static_cast<int>(first);
    order.steps = static_cast<int>(count);
    order.bias = has_input_bias_ ? input_bias_.data() : nullptr;
    order.stride = input_stride;
    translate(to_input_order_, sequences.input, input_.data(), count * network_.batch, (input_row + 15) / 16 * 16);
    launch(stream, first, count);
    if (sequences.output) {
      order.stride = output_stride;
      translate(from_state_order_, states_.data() + state, sequences.output, count, state);
    }
    if (sequences.final_state) {
      translate(to_final_state_, states_.data(), sequences.final_state, network_.batch, 0);
    }
  }
  if (sequences.final_cell && network_.cell == Cell::lstm) {
    translate(from_carry_order_, final_carry_.data(), sequences.final_cell, network_.batch, 0);
  }
}

void SparsePersistent::check_status() const {
  if (status_.download()[0] != 0) {
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::byte> to_elements(std::span<const float> values, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<std::byte> elements(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = to_bits(precision, values[i]);
    std::memcpy(&elements[i * size], &bits, size);
  }
  return elements;
}

std::vector<float> from_elements(std::span<const std::byte> elements, Precision precision) {
  const int size = info(precision).bytes;
  std::vector<float> values(elements.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &elements[i * size], size);
    values[i] = from_bits(precision, bits);
  }
  return values;
}

}  // namespace onchip
