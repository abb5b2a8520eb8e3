// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence.hpp"

#include "model/error.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace onchip {
namespace {

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
  std::uint32_t* record;
};
struct LengthArguments {
  int* to;
  int lengths[kMaxBatch];
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

int current_device() {
  int device = 0;
  ONCHIP_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

void* checked_workspace(void* workspace, std::size_t bytes, std::size_t needed) {
  if (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
    throw InputError(workspace == nullptr
                         ? "the workspace is null"
                         : "the workspace is not aligned to " + std::to_string(kWorkspaceAlignment) + " bytes");
  }
  if (bytes < needed) {
    throw InputError("the workspace has " + std::to_string(bytes) + " bytes; expected at least " +
                     std::to_string(needed));
  }
  return workspace;
}

}  // namespace

Recurrence::Recurrence(std::shared_ptr<const Program> program, void* workspace, std::size_t workspace_bytes,
                       std::int64_t most_steps, cudaStream_t stream)
    : program_(std::move(program)),
      scratch_(scratch_places(*program_, most_steps)),
      workspace_(static_cast<std::byte*>(checked_workspace(workspace, workspace_bytes, scratch_.bytes))),
      device_(current_device()),
      kernel_(program_->kernel.cubin, std::string(name(program_->plan.family))),
      set_lengths_(program_->order_cubin, "set_lengths"),
      to_input_order_(program_->order_cubin, "to_input_order"),
      to_state_order_(program_->order_cubin, "to_state_order"),
      from_state_order_(program_->order_cubin, "from_state_order"),
      to_final_state_(program_->order_cubin, "to_final_state"),
      to_carry_order_(program_->order_cubin, "to_carry_order"),
      from_carry_order_(program_->order_cubin, "from_carry_order") {
  const Plan& plan = program_->plan;
  const std::int64_t shared = shared_bytes(program_->network, plan);
  if (kernel_.blocks_per_sm(plan.threads, static_cast<std::size_t>(shared)) < 1 ||
      (plan.exchange == ExchangeProtocol::cluster &&
       kernel_.clusters(plan.sms, plan.threads, static_cast<std::size_t>(shared)) < 1)) {
    throw DoesNotFit("one SM cannot hold a block of plan '" + to_string(plan) + "' (" +
                     std::to_string(program_->kernel.resources.registers) + " registers per thread, " +
                     std::to_string(shared) + " bytes of shared memory)");
  }
  int sms = 0;
  ONCHIP_CUDA_CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device_));
  if (plan.blocks() > sms) {
    throw DoesNotFit("the plan needs " + std::to_string(plan.blocks()) + " SMs, but this device has " +
                     std::to_string(sms));
  }
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(workspace_, program_->constants.data(), program_->constants.size(),
                                    cudaMemcpyHostToDevice, stream));
  // All of the scratch, so that a run that was never given an input has one: zeros.
  const std::size_t constants = program_->constants.size();
  ONCHIP_CUDA_CHECK(cudaMemsetAsync(workspace_ + constants, 0, scratch_.bytes - constants, stream));
}

// As an argument of a kernel, so that no host memory is read later: neither by the stream nor by a captured graph.
void Recurrence::set_lengths(cudaStream_t stream, const Sequences& sequences) const {
  const int batch = program_->network.batch;
  if (!sequences.lengths.empty() && sequences.lengths.size() != static_cast<std::size_t>(batch)) {
    throw InputError("there are " + std::to_string(sequences.lengths.size()) + " lengths; expected one for each of " +
                     std::to_string(batch) + " samples");
  }
  LengthArguments arguments{at<int>(scratch_.lengths), {}};
  for (int sample = 0; sample < batch; ++sample) {
    const std::int64_t length = sequences.lengths.empty() ? sequences.steps : sequences.lengths[sample];
    if (length < 1 || length > sequences.steps || length > 2147483647) {
      throw InputError("the length " + std::to_string(length) + " of sample " + std::to_string(sample) +
                       " is out of range: expected 1 to " + std::to_string(sequences.steps));
    }
    arguments.lengths[sample] = static_cast<int>(length);
  }
  void* pointers[] = {&arguments};
  set_lengths_.launch(stream, 1, kMaxBatch, 0, /*cooperative=*/false, pointers);
}

void Recurrence::launch(cudaStream_t stream, std::int64_t first_step, std::int64_t steps) const {
  const Network& network = program_->network;
  const Plan& plan = program_->plan;
  const ConstantPlaces& constants = program_->places;
  const auto state = static_cast<std::size_t>(state_stride(network, plan));
  if (plan.exchange == ExchangeProtocol::lamport) {
    const std::int64_t emptied = std::min<std::int64_t>(steps, kEmptiedAhead);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(at<std::byte>(scratch_.states) + state, 0xff, emptied * state, stream));
  } else if (plan.exchange != ExchangeProtocol::cluster) {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(at<std::uint32_t>(scratch_.barrier), 0, sizeof(std::uint32_t), stream));
  }
  Arguments arguments{.weights = at<std::uint32_t>(constants.weights),
                      .streamed = at<std::uint32_t>(constants.streamed),
                      .tails = at<std::int32_t>(constants.tails),
                      .gates = at<std::uint32_t>(constants.gates),
                      .scales = at<float>(constants.scales),
                      .recurrent_bias = at<float>(constants.recurrent_bias),
                      .input = at<std::byte>(scratch_.input),
                      .states = at<std::byte>(scratch_.states),
                      .carry = at<float>(scratch_.carry),
                      .final_carry = at<float>(scratch_.final_carry),
                      .lengths = at<int>(scratch_.lengths),
                      .first_step = static_cast<int>(first_step),
                      .steps = static_cast<int>(steps),
                      .barrier = at<std::uint32_t>(scratch_.barrier),
                      .status = at<std::uint32_t>(scratch_.status),
                      .record = at<std::uint32_t>(scratch_.record)};
  void* pointers[] = {&arguments};
  kernel_.launch(stream, plan.blocks(), plan.threads, static_cast<std::size_t>(shared_bytes(network, plan)),
                 /*cooperative=*/plan.exchange != ExchangeProtocol::cluster, pointers);
}

void Recurrence::enqueue_recurrence(cudaStream_t stream, std::int64_t steps) const {
  for (std::int64_t first = 0; first < steps; first += scratch_.steps_per_launch) {
    launch(stream, first, std::min(scratch_.steps_per_launch, steps - first));
  }
}

void Recurrence::enqueue(cudaStream_t stream, const Sequences& sequences) const {
  if (sequences.steps < 1) {
    return;
  }
  if (const int device = current_device(); device != device_) {
    throw InputError("the kernels are loaded into device " + std::to_string(device_) + ", but the current device is " +
                     std::to_string(device));
  }
  set_lengths(stream, sequences);
  const Network& network = program_->network;
  const Plan& plan = program_->plan;
  const auto state = static_cast<std::size_t>(state_stride(network, plan));
  const auto input_row = static_cast<std::size_t>(input_bytes(network, plan) / network.batch);
  const std::int64_t steps_per_launch = scratch_.steps_per_launch;
  std::byte* const states = at<std::byte>(scratch_.states);
  float* const carry = at<float>(scratch_.carry);
  const std::int32_t* const unit_order = at<std::int32_t>(program_->places.order);
  OrderArguments order{unit_order, nullptr, nullptr, at<int>(scratch_.lengths), nullptr, 0, 0, 0, sequences.backward};
  const auto translate = [&](const Kernel& kernel, const void* from, void* to, std::int64_t blocks,
                             std::size_t smem_bytes) {
    order.from = from;
    order.to = to;
    void* pointers[] = {&order};
    kernel.launch(stream, static_cast<int>(blocks), kOrderThreads, smem_bytes, /*cooperative=*/false, pointers);
  };
  if (sequences.initial) {
    translate(to_state_order_, sequences.initial, states, 1, 0);
  } else {
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(states, 0, state, stream));
  }
  if (info(network.cell).gates > 1) {
    const std::size_t carry_bytes = sizeof(float) * state_units(network, plan) * plan.batch_padded;
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(carry, 0, carry_bytes, stream));
    const void* initial = network.cell == Cell::lstm ? sequences.initial_cell : sequences.initial;
    if (initial) {
      translate(to_carry_order_, initial, carry, network.batch, 0);
    }
  }
  for (std::int64_t first = 0; first < sequences.steps; first += steps_per_launch) {
    const std::int64_t count = std::min(steps_per_launch, sequences.steps - first);
    if (first > 0) {  // the last state of a full launch starts the next
      ONCHIP_CUDA_CHECK(
          cudaMemcpyAsync(states, states + steps_per_launch * state, state, cudaMemcpyDeviceToDevice, stream));
    }
    order.first_step = static_cast<int>(first);
    order.steps = static_cast<int>(count);
    order.order = at<std::int32_t>(program_->places.row_places);
    order.bias = program_->has_input_bias ? at<float>(program_->places.input_bias) : nullptr;
    order.stride = sequences.input_stride != 0 ? sequences.input_stride : network.rows();
    translate(to_input_order_, sequences.input, at<std::byte>(scratch_.input), count * network.batch,
              (input_row + 15) / 16 * 16);
    order.order = unit_order;
    launch(stream, first, count);
    if (sequences.output) {
      order.stride = sequences.output_stride != 0 ? sequences.output_stride : network.hidden;
      translate(from_state_order_, states + state, sequences.output, count,
                plan.family == Family::sparse_persistent ? state : 0);
    }
    if (sequences.final_state) {
      translate(to_final_state_, states, sequences.final_state, network.batch, 0);
    }
  }
  if (sequences.final_cell && network.cell == Cell::lstm) {
    translate(from_carry_order_, at<float>(scratch_.final_carry), sequences.final_cell, network.batch, 0);
  }
}

void Recurrence::check_status(cudaStream_t stream) const {
  std::uint32_t status = 0;
  ONCHIP_CUDA_CHECK(
      cudaMemcpyAsync(&status, at<std::uint32_t>(scratch_.status), sizeof status, cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (status != 0) {
    throw CudaError("a block gave up waiting for the state of another; the results are not valid");
  }
}

std::vector<std::uint32_t> Recurrence::record(cudaStream_t stream) const {
  std::vector<std::uint32_t> record(record_words(*program_, scratch_.steps_per_launch));
  ONCHIP_CUDA_CHECK(cudaMemcpyAsync(record.data(), at<std::uint32_t>(scratch_.record),
                                    record.size() * sizeof(std::uint32_t), cudaMemcpyDeviceToHost, stream));
  ONCHIP_CUDA_CHECK(cudaStreamSynchronize(stream));
  return record;
}

}  // namespace onchip
