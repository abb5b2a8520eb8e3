// SPDX-License-Identifier: Apache-2.0
#include "model/library/price.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

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

bool stays_in_l2(const Chip& chip, double bytes) {
  return bytes <= chip.library_l2_share * chip.l2_bytes;
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

constexpr int kFewSamples = 8;

// In fp32 (without TF32) a product is a wait, and what takes longest of the weights' way and their multiplications, for
// more samples also a thread's sum over all units (chip/cost_terms.inc). One sample is a product with a vector, which
// reads weights that stay in L2 as fast as L2 gives them.
LibraryStep product_fp32(const Chip& chip, const Recurrent& network) {
  const CostValues& cost = chip.cost;
  const double bytes = elements(network) * element_bytes(network), l2 = chip.library_l2_bytes_per_second;
  const bool is_few = network.batch <= kFewSamples;
  const double read_share = cost[is_few ? Cost::fp32_few_bandwidth_share : Cost::fp32_bandwidth_share];
  LibraryStep step;
  step.waiting =
      (is_few && (network.batch == 1 || bytes <= cost[Cost::fp32_one_kernel_bytes]) ? 1 : cost[Cost::fp32_products]) *
      chip.library_product_seconds;
  step.streaming = network.batch == 1 && stays_in_l2(chip, bytes)
                       ? bytes / l2
                       : bytes / std::min(read_share * l2, chip.library_dram_share * chip.dram_bytes_per_second);
  step.arithmetic = is_few
                        ? std::max(0.0, cost[Cost::fp32_few_peak] * multiplying_seconds(chip, network) - step.streaming)
                        : cost[Cost::fp32_unit_cycles] * network.hidden / chip.clock_hz;
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
  step.streaming = std::max(weights_seconds(chip, network.rows() * row_bytes), of_block);
  step.arithmetic = std::max(0.0, multiplying_seconds(chip, network) - step.streaming);
  return step;
}

LibraryStep sparse_product(const Chip& chip, const Recurrent& network) {
  const double nnz = network.density * elements(network);
  const double sectors = std::ceil(network.batch * element_bytes(network) / kSectorBytes);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  const double one_by_one = network.density * network.hidden * chip.library_element_seconds;
  step.streaming = std::max(weights_seconds(chip, nnz * (element_bytes(network) + kIndexBytes)) +
                                nnz * sectors * kSectorBytes / chip.library_l2_bytes_per_second,
                            one_by_one);
  return step;
}

// ---- cuDNN: the fastest of its algorithms that take the network -----------------------------------------------------

// A kernel for each step.
LibraryStep standard_step(const Chip& chip, const Recurrent& network) {
  constexpr int kFewSamplesFp32 = 12;
  const CostValues& cost = chip.cost;
  if (!is_fp32(network)) {
    LibraryStep step = product(chip, network);
    step.waiting += chip.library_node_seconds * (info(network.cell).gates > 1 ? 1 : cost[Cost::library_plain_node]);
    step.streaming += cost[Cost::library_value_bytes] * network.rows() * network.values() * network.batch /
                      chip.library_l2_bytes_per_second;
    step.arithmetic += multiplying_seconds(chip, network);  // the input's product
    return step;
  }
  LibraryStep step;
  if (network.batch <= kFewSamplesFp32) {
    const double bytes = elements(network) * element_bytes(network);
    const double tiles = std::ceil(1.0 * network.rows() / kBlockRows / chip.sm_count);
    step.waiting = chip.library_product_seconds;
    step.streaming = std::min(bytes / (cost[Cost::cudnn_fp32_few_bandwidth_share] * chip.library_l2_bytes_per_second),
                              cost[Cost::cudnn_fp32_tile_cycles] * tiles * network.hidden / chip.clock_hz);
  } else {
    step.waiting = cost[Cost::cudnn_fp32_products] * chip.library_product_seconds;
    step.arithmetic = cost[Cost::cudnn_fp32_unit_cycles] * network.hidden / chip.clock_hz +
                      cost[Cost::cudnn_fp32_peak] * multiplying_seconds(chip, network);
  }
  return step;
}

// How many grid barriers a step of the persistent kernel takes: samples are computed in groups, one after another.
double persistent_barriers(const CostValues& cost, const Recurrent& network) {
  constexpr int kGroup = 8, kLstmGroup = 16;
  const double groups = std::ceil(1.0 * network.batch / (network.cell == Cell::lstm ? kLstmGroup : kGroup));
  if (network.batch == 1 && network.cell != Cell::lstm) {
    return 1;
  }
  switch (network.cell) {
    case Cell::lstm:
      return cost[Cost::cudnn_lstm_barriers] * groups;
    case Cell::gru:
      return cost[Cost::cudnn_gru_barriers] * groups;
    default:
      return std::min(cost[Cost::cudnn_plain_barriers] * groups, cost[Cost::cudnn_plain_most_barriers]);
  }
}

// One kernel of all SMs for all steps, with a barrier between them; none in bf16.
std::optional<LibraryStep> persistent_step(const Chip& chip, const Recurrent& network) {
  constexpr int kMostPlain = 2560, kMostGated = 1536, kReadOnceSamples = 16;
  constexpr double kMostBytesFp32 = 20e6;
  const CostValues& cost = chip.cost;
  const double bytes = elements(network) * element_bytes(network);
  const bool is_gated = info(network.cell).gates > 1;
  LibraryStep step;
  if (is_fp32(network)) {
    if (bytes > kMostBytesFp32) {
      return std::nullopt;
    }
    step.waiting = (cost[Cost::cudnn_fp32_barriers] + cost[Cost::cudnn_fp32_sample_barriers] * network.batch) *
                   chip.grid_barrier_seconds;
    step.arithmetic = cost[Cost::fp32_few_peak] * multiplying_seconds(chip, network);
    return step;
  }
  if (state_type(network.precision) != Precision::fp16 || network.hidden > (is_gated ? kMostGated : kMostPlain)) {
    return std::nullopt;
  }
  step.waiting = persistent_barriers(cost, network) * chip.grid_barrier_seconds;
  step.streaming = (!is_gated && network.batch > kReadOnceSamples ? cost[Cost::cudnn_plain_reads] : 1) * bytes /
                   chip.library_l2_bytes_per_second;
  return step;
}

// One SM that computes all steps with weights in its registers, or, when not all fit, reads them anew. None in bf16.
std::optional<LibraryStep> small_step(const Chip& chip, const Recurrent& network) {
  const CostValues& cost = chip.cost;
  const double weights = elements(network), registers = chip.registers_per_sm;
  const double kept = (is_fp32(network) ? cost[Cost::cudnn_small_kept_fp32] : 1) * registers,
               most = (is_fp32(network) ? 1 : cost[Cost::cudnn_small_most]) * registers;
  if (state_type(network.precision) == Precision::bf16 || weights > most) {
    return std::nullopt;
  }
  LibraryStep step;
  step.waiting = cost[is_fp32(network) ? Cost::cudnn_small_fp32_cycles : Cost::cudnn_small_cycles] / chip.clock_hz;
  step.arithmetic = cost[Cost::cudnn_small_weight_cycles] * weights / chip.clock_hz *
                    (weights > kept ? cost[Cost::cudnn_small_reread_byte] * element_bytes(network) : 1);
  return step;
}

LibraryStep recurrent_network(const Chip& chip, const Recurrent& network) {
  LibraryStep fastest = standard_step(chip, network);
  for (const auto& other : {persistent_step(chip, network), small_step(chip, network)}) {
    if (other && other->total() < fastest.total()) {
      fastest = *other;
    }
  }
  return fastest;
}

Footprint footprint_of(const Chip& chip, double weight_bytes) {
  Footprint result;
  result.fits = true;
  result.binding = Resource::l2;
  result[Resource::registers] = {0, chip.registers_per_thread};
  result[Resource::shared_memory] = {0, chip.smem_bytes_per_block};
  const double kept = std::min<double>(weight_bytes, chip.l2_bytes);
  result[Resource::l2] = {kept, chip.l2_bytes, kept};
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

std::optional<double> cudnn_small_seconds(const Chip& chip, const Recurrent& network) {
  const std::optional<LibraryStep> step = small_step(chip, padded(network));
  return step ? std::optional(step->total()) : std::nullopt;
}

double weights_seconds(const Chip& chip, double bytes) {
  return bytes / (stays_in_l2(chip, bytes) ? chip.library_l2_bytes_per_second.value
                                           : chip.library_dram_share * chip.dram_bytes_per_second);
}

Price product_price(const Chip& chip, const ProductSize& size) {
  const double element = info(state_type(size.precision)).bytes;
  const auto rows = static_cast<double>(size.rows), columns = static_cast<double>(size.columns),
             depth = static_cast<double>(size.depth);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  step.streaming = weights_seconds(chip, element * (rows * depth + columns * (depth + rows)));
  step.arithmetic = std::max(0.0, multiplying_seconds(chip, size.precision, rows * depth, columns) - step.streaming);
  return price_of(chip, step);
}

Price input_product_price(const Chip& chip, const Recurrent& network, int columns) {
  return product_price(chip, {network.rows(), std::int64_t{network.steps} * network.batch, columns, network.precision});
}

}  // namespace onchip
