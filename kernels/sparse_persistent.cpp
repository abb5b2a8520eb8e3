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
  const std::int32_t* rows;
  const void* input;
  void* states;
  std::uint32_t* status;
  int steps;
};
struct OrderArguments {
  const std::int32_t* order;
  const void* from;
  void* to;
};

constexpr int kOrderThreads = 512;

// Steps of one launch: as many as keep input and states within kWorkspaceBytes.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{256} << 20;
std::int64_t steps_per_launch(const Network& network, const Plan& plan, std::int64_t most_steps) {
  return std::clamp<std::int64_t>(kWorkspaceBytes / 2 / exchange_bytes(network, plan), 1, most_steps);
}

}  // namespace

CompileRequest compile_request(const Network& network, const Plan& plan, const std::string& architecture) {
  if (network.cell != Cell::relu && network.cell != Cell::tanh) {
    throw InputError("no kernel runs the cell '" + std::string(info(network.cell).name) +
                     "' yet: the sparse persistent kernel has relu and tanh");
  }
  const auto define = [](const char* key, const std::string& value) { return std::string(key) + "=" + value; };
  const auto number = [&](const char* key, int value) { return define(key, std::to_string(value)); };
  return {kKernelName,
          kSparsePersistentSource,
          architecture,
          {
              number("ONCHIP_HIDDEN", network.hidden),
              number("ONCHIP_BLOCKS", plan.sms),
              number("ONCHIP_UNITS_PER_SM", units_per_sm(network, plan)),
              number("ONCHIP_BATCH", network.batch),
              number("ONCHIP_BATCH_PADDED", plan.batch_padded),
              number("ONCHIP_THREADS", plan.threads),
              number("ONCHIP_LANES_PER_ROW", plan.lanes_per_row),
              number("ONCHIP_ROWS_PER_GROUP", plan.rows_per_group),
              define("ONCHIP_SLOTS", slots_list(plan)),
              number("ONCHIP_LOADS_IN_FLIGHT", plan.loads_in_flight),
              number("ONCHIP_PROMOTE_EVERY", plan.promote_every),
              number("ONCHIP_UNPACKED", plan.unpacked),
              number("ONCHIP_AHEAD", kEmptiedAhead),
              number("ONCHIP_ZERO_UNITS", zero_units(network, plan)),
              number("ONCHIP_INDEX_SHIFT", index_shift(network, plan)),
              number("ONCHIP_PRECISION", static_cast<int>(network.precision)),
              number("ONCHIP_CELL", static_cast<int>(network.cell)),
              number("ONCHIP_STORAGE", static_cast<int>(plan.storage)),
          }};
}

SparsePersistent::SparsePersistent(const Layout& layout, std::int64_t most_steps)
    : network_(layout.network),
      plan_(layout.plan),
      compiled_(compile(compile_request(network_, plan_, device_info().architecture))),
      kernel_(compiled_.cubin, kKernelName),
      to_state_order_(compiled_.cubin, "to_state_order"),
      from_state_order_(compiled_.cubin, "from_state_order"),
      weights_(encode(layout)),
      rows_(std::span<const std::int32_t>(layout.rows)),
      order_(std::span<const std::int32_t>(layout.order)),
      steps_per_launch_(steps_per_launch(network_, plan_, most_steps)),
      input_(static_cast<std::size_t>(steps_per_launch_ * exchange_bytes(network_, plan_))),
      states_(static_cast<std::size_t>((steps_per_launch_ + 1) * exchange_bytes(network_, plan_))),
      status_(1) {
  const std::uint32_t fine = 0;
  status_.upload({&fine, 1});
  if (resources().spill_bytes > 0 || resources().stack_bytes > 0) {
    throw CudaError("the kernel of plan '" + to_string(plan_) + "' spills " + std::to_string(resources().spill_bytes) +
                    " bytes of registers; a persistent kernel must not");
  }
  if (kernel_.blocks_per_sm(plan_.threads, static_cast<std::size_t>(state_bytes(network_, plan_))) < 1) {
    throw CudaError("one SM cannot hold a block of plan '" + to_string(plan_) + "' (" +
                    std::to_string(resources().registers) + " registers per thread, " +
                    std::to_string(state_bytes(network_, plan_)) + " bytes of shared memory)");
  }
}

void SparsePersistent::enqueue(cudaStream_t stream, const void* input, const void* initial, void* output,
                               std::int64_t steps) {
  const auto state = static_cast<std::size_t>(exchange_bytes(network_, plan_));
  const std::size_t step = static_cast<std::size_t>(network_.batch) * network_.hidden * info(network_.precision).bytes;
  const auto translate = [&](const Kernel& kernel, const void* from, void* to, std::int64_t count) {
    OrderArguments arguments{order_.data(), from, to};
    void* pointers[] = {&arguments};
    kernel.launch(stream, static_cast<int>(count), kOrderThreads, state, /*cooperative=*/false, pointers);
  };
  translate(to_state_order_, initial, states_.data(), 1);
  for (std::int64_t first = 0; first < steps; first += steps_per_launch_) {
    const std::int64_t count = std::min(steps_per_launch_, steps - first);
    if (first > 0) {  // the last state of a full launch starts the next
      ONCHIP_CUDA_CHECK(cudaMemcpyAsync(states_.data(), states_.data() + steps_per_launch_ * state, state,
                                        cudaMemcpyDeviceToDevice, stream));
    }
    const std::int64_t emptied = std::min<std::int64_t>(count, kEmptiedAhead);
    ONCHIP_CUDA_CHECK(cudaMemsetAsync(states_.data() + state, 0xff, emptied * state, stream));
    translate(to_state_order_, static_cast<const std::byte*>(input) + first * step, input_.data(), count);
    Arguments arguments{weights_.data(), rows_.data(),   input_.data(),
                        states_.data(),  status_.data(), static_cast<int>(count)};
    void* pointers[] = {&arguments};
    kernel_.launch(stream, plan_.sms, plan_.threads, static_cast<std::size_t>(state_bytes(network_, plan_)),
                   /*cooperative=*/true, pointers);
    translate(from_state_order_, states_.data() + state, static_cast<std::byte*>(output) + first * step, count);
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
