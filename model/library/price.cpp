// SPDX-License-Identifier: Apache-2.0
#include "model/library/price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {

double multiplying_seconds(const Chip& chip, Precision precision, double weights, double batch) {
  const bool is_fp32 = state_type(precision) == Precision::fp32;
  const double per_instruction = is_fp32 ? 32 : 16 * 8 * 16;
  const double samples = is_fp32 ? batch : std::ceil(batch / 8) * 8;
  const double cycles = is_fp32 ? chip.fp32_issue_cycles : chip.tensor_issue_cycles;
  return weights * samples / per_instruction * cycles / (chip.partitions * chip.sm_count * chip.clock_hz);
}

namespace {

constexpr double kIndexBytes = 4, kSectorBytes = 32;
constexpr int kBlockRows = 64;

// Seconds of a step.
struct LibraryStep {
  double waiting = 0;  // for kernels to begin, to end and to be seen
  double streaming = 0;
  double arithmetic = 0;  // beyond the streaming
  double total() const { return waiting + streaming + arithmetic; }
};

double elements(const Recurrent& network) {
  return static_cast<double>(network.rows()) * network.columns();
}

// Of a library's elements: fp8 weights are fp16 there.
double element_bytes(const Recurrent& network) {
  return info(state_type(network.precision)).bytes;
}

double streaming_seconds(const Chip& chip, double bytes) {
  return bytes / (bytes <= chip.library_l2_share * chip.l2_bytes
                      ? chip.library_l2_bytes_per_second.value
                      : chip.library_dram_share * chip.dram_bytes_per_second);
}

bool is_fp32(const Recurrent& network) {
  return state_type(network.precision) == Precision::fp32;
}

double multiplying_seconds(const Chip& chip, const Recurrent& network) {  // of a step
  return multiplying_seconds(chip, network.precision, elements(network), network.batch);
}

// Rows and samples that begin at multiples of 16 bytes are loaded in words: who uses a library pads its units to that.
Recurrent padded(Recurrent network) {
  const int units = 16 / static_cast<int>(element_bytes(network));
  network.hidden = (network.hidden + units - 1) / units * units;
  return network;
}

// In fp32 (without TF32) no formula of what a product does is near the choices that the libraries make, so these are
// sums of a wait, of what a thread sums over, and of the weights' way or their multiplications (chip/cost_terms.inc).
LibraryStep product_fp32(const Chip& chip, const Recurrent& network) {
  constexpr int kFewSamples = 8;
  const CostValues& cost = chip.cost;
  LibraryStep step;
  step.waiting = cost[Cost::fp32_products] * chip.library_product_seconds;
  if (network.batch <= kFewSamples) {
    step.arithmetic = cost[Cost::fp32_few_peak] * multiplying_seconds(chip, network);
  } else {
    step.arithmetic = cost[Cost::fp32_unit_cycles] * network.hidden / chip.clock_hz;
    step.streaming = elements(network) * element_bytes(network) /
                     (cost[Cost::fp32_bandwidth_share] * chip.library_l2_bytes_per_second);
  }
  return step;
}

LibraryStep recurrent_network_fp32(const Chip& chip, const Recurrent& network) {
  constexpr int kPersistentSamples = 8, kFewSamples = 12;
  constexpr double kPersistentBytes = 20e6;
  const CostValues& cost = chip.cost;
  const double bytes = elements(network) * element_bytes(network);
  LibraryStep step;
  if (network.batch <= kPersistentSamples && bytes <= kPersistentBytes) {
    step.waiting = cost[Cost::cudnn_fp32_sample_barriers] * network.batch * chip.grid_barrier_seconds;
    step.arithmetic = cost[Cost::fp32_few_peak] * multiplying_seconds(chip, network);
  } else if (network.batch <= kFewSamples) {
    step.streaming = bytes / (cost[Cost::cudnn_fp32_few_bandwidth_share] * chip.library_l2_bytes_per_second);
    step.waiting = chip.library_product_seconds;
  } else {
    step.waiting = cost[Cost::fp32_products] * chip.library_product_seconds;
    step.arithmetic = cost[Cost::cudnn_fp32_unit_cycles] * network.hidden / chip.clock_hz +
                      cost[Cost::cudnn_fp32_peak] * multiplying_seconds(chip, network);
  }
  return step;
}

LibraryStep product(const Chip& chip, const Recurrent& network) {
  if (is_fp32(network)) {
    return product_fp32(chip, network);
  }
  const double row_bytes = network.columns() * element_bytes(network);
  const double of_block =
      std::min(kBlockRows, network.rows()) * row_bytes / (chip.library_sm_bytes_per_cycle * chip.clock_hz);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  step.streaming = std::max(streaming_seconds(chip, network.rows() * row_bytes), of_block);
  step.arithmetic = std::max(0.0, multiplying_seconds(chip, network) - step.streaming);
  return step;
}

LibraryStep sparse_product(const Chip& chip, const Recurrent& network) {
  const double nnz = network.density * elements(network);
  const double sectors = std::ceil(network.batch * element_bytes(network) / kSectorBytes);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  const double one_by_one = network.density * network.hidden * chip.library_element_seconds;
  step.streaming = std::max(streaming_seconds(chip, nnz * (element_bytes(network) + kIndexBytes)) +
                                nnz * sectors * kSectorBytes / chip.library_l2_bytes_per_second,
                            one_by_one);
  return step;
}

constexpr int kFewUnits = 256, kFewSamples = 8;

// For which networks cuDNN 9.14 and 9.19 were faster with a persistent algorithm than with the standard one, on an
// H200: fp16, of so many units, and with few samples.
bool takes_persistent(const Recurrent& network) {
  constexpr int kMostPlain = 2560, kMostGated = 1536, kLstmSamples = 32;
  const bool is_gated = info(network.cell).gates > 1;
  if (state_type(network.precision) != Precision::fp16 || network.hidden > (is_gated ? kMostGated : kMostPlain)) {
    return false;
  }
  return network.batch <= (network.cell == Cell::lstm ? kLstmSamples : kFewSamples) ||
         (!is_gated && network.hidden <= kFewUnits);
}

// What a step of a persistent algorithm waits, in grid barriers. cuDNN has algorithms of their own for LSTMs of few
// samples and for few units without gates.
double barriers(const CostValues& cost, const Recurrent& network) {
  const bool is_lstm = network.cell == Cell::lstm, is_gated = info(network.cell).gates > 1;
  if (is_lstm ? network.batch <= kFewSamples : !is_gated && network.batch > 1 && network.hidden <= kFewUnits) {
    return cost[Cost::cudnn_barriers_few];
  }
  return network.batch == 1 ? 1 : cost[is_gated ? Cost::cudnn_gated_barriers : Cost::cudnn_plain_barriers];
}

LibraryStep recurrent_network(const Chip& chip, const Recurrent& network) {
  if (is_fp32(network)) {
    return recurrent_network_fp32(chip, network);
  }
  LibraryStep standard = product(chip, network);
  standard.waiting +=
      chip.library_node_seconds * (info(network.cell).gates > 1 ? 1 : chip.cost[Cost::library_plain_node]);
  standard.streaming += chip.cost[Cost::library_value_bytes] * network.rows() * network.values() * network.batch /
                        chip.library_l2_bytes_per_second.value;
  standard.arithmetic += multiplying_seconds(chip, network);  // the input's product
  if (!takes_persistent(network)) {
    return standard;
  }
  LibraryStep persistent;
  persistent.waiting = barriers(chip.cost, network) * chip.grid_barrier_seconds;
  persistent.streaming = elements(network) * element_bytes(network) / chip.library_l2_bytes_per_second;
  return persistent.total() < standard.total() ? persistent : standard;
}

Footprint footprint_of(const Chip& chip, double weight_bytes) {
  Footprint result;
  result.fits = true;
  result.binding = Resource::l2;
  result[Resource::registers] = {0, chip.registers_per_thread};
  result[Resource::shared_memory] = {0, chip.smem_bytes_per_block};
  result[Resource::l2] = {std::min<double>(weight_bytes, chip.l2_bytes), chip.l2_bytes};
  result[Resource::threads] = {0, chip.max_threads_per_block};
  result[Resource::sms] = {0, chip.sm_count};
  return result;
}

Price price_of(const Chip& chip, const LibraryStep& step) {
  Price result;
  result.terms.add("launch", step.waiting * 1e6);
  result.terms.add("arithmetic", step.arithmetic * 1e6);
  result.terms.add("streaming", step.streaming * 1e6);
  const double step_us = result.terms.total();
  result.below_us = step_us * std::min(1.0, chip.library_scatter.value);
  result.above_us = step_us * chip.library_scatter;
  return result;
}

}  // namespace

Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cublas_graph>& geometry) {
  return footprint_of(chip, elements(geometry.network) * element_bytes(geometry.network));
}
Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cudnn>& geometry) {
  return footprint_of(chip, elements(geometry.network) * element_bytes(geometry.network));
}
Footprint footprint(const Chip& chip, const LibraryGeometry<Library::cusparse_graph>& geometry) {
  const Recurrent& network = geometry.network;
  return footprint_of(chip, network.density * elements(network) * (element_bytes(network) + kIndexBytes));
}

Price price(const Chip& chip, const LibraryGeometry<Library::cublas_graph>& geometry) {
  return price_of(chip, product(chip, padded(geometry.network)));
}
Price price(const Chip& chip, const LibraryGeometry<Library::cudnn>& geometry) {
  return price_of(chip, recurrent_network(chip, padded(geometry.network)));
}
Price price(const Chip& chip, const LibraryGeometry<Library::cusparse_graph>& geometry) {
  return price_of(chip, sparse_product(chip, geometry.network));
}

Price product_price(const Chip& chip, const ProductSize& size) {
  const double element = info(state_type(size.precision)).bytes;
  const auto rows = static_cast<double>(size.rows), columns = static_cast<double>(size.columns),
             depth = static_cast<double>(size.depth);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  step.streaming = streaming_seconds(chip, element * (rows * depth + columns * (depth + rows)));
  step.arithmetic = std::max(0.0, multiplying_seconds(chip, size.precision, rows * depth, columns) - step.streaming);
  return price_of(chip, step);
}

Price input_product_price(const Chip& chip, const Recurrent& network, int columns) {
  return product_price(chip, {network.rows(), std::int64_t{network.steps} * network.batch, columns, network.precision});
}

}  // namespace onchip
