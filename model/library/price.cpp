// SPDX-License-Identifier: Apache-2.0
#include "model/library/price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
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
  return static_cast<double>(network.rows()) * network.hidden;
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

// All multiplications of a step, on tensor cores or, in fp32, without them.
double multiplying_seconds(const Chip& chip, const Recurrent& network) {
  const bool tensor = state_type(network.precision) != Precision::fp32;
  const double per_instruction = tensor ? 16 * 8 * 16 : 32;
  const double samples = tensor ? std::ceil(network.batch / 8.0) * 8 : network.batch;
  const double cycles = tensor ? chip.tensor_issue_cycles : chip.fp32_issue_cycles;
  return elements(network) * samples / per_instruction * cycles / (chip.partitions * chip.sm_count * chip.clock_hz);
}

// In fp32 a block of 64 rows multiplies with all of so many samples, however few there are, and waits for each product:
// read off 18 steps of cuBLAS on an H100. So 50 of them are 17 % off on average, at most 71 % (drawn.csv and
// drawn_again.csv of experiments/data/h100_sxm).
double blocks_seconds(const Chip& chip, const Recurrent& network) {
  constexpr int kFewSamples = 8, kOfFew = 20, kSamples = 32;
  const double samples =
      network.batch <= kFewSamples ? kOfFew : std::ceil(static_cast<double>(network.batch) / kSamples) * kSamples;
  const double waves = std::ceil(std::ceil(static_cast<double>(network.rows()) / kBlockRows) / chip.sm_count);
  return waves * network.hidden * kBlockRows * samples / 32 * chip.fp32_issue_cycles /
         (chip.partitions * chip.clock_hz);
}

// Rows and samples that begin at multiples of 16 bytes are loaded in words: who uses a library pads its units to that.
Recurrent padded(Recurrent network) {
  const int units = 16 / static_cast<int>(element_bytes(network));
  network.hidden = (network.hidden + units - 1) / units * units;
  return network;
}

LibraryStep product(const Chip& chip, const Recurrent& network) {
  const double row_bytes = network.hidden * element_bytes(network);
  const double of_block =
      std::min(kBlockRows, network.rows()) * row_bytes / (chip.library_sm_bytes_per_cycle * chip.clock_hz);
  LibraryStep step;
  step.waiting = chip.library_product_seconds;
  step.streaming = std::max(streaming_seconds(chip, network.rows() * row_bytes), of_block);
  const double multiplying = state_type(network.precision) == Precision::fp32
                                 ? std::max(multiplying_seconds(chip, network), blocks_seconds(chip, network))
                                 : multiplying_seconds(chip, network);
  step.arithmetic = std::max(0.0, multiplying - step.streaming);
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

// For which networks cuDNN 9.14 and 9.19 were quicker with a persistent algorithm than with the standard one, on an
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

// What a step of a persistent algorithm waits, in grid barriers. For few
// units without gates cuDNN has an algorithm of its own.
double barriers(const CostValues& cost, const Recurrent& network) {
  const bool is_few = network.batch <= kFewSamples;
  switch (network.cell) {
    case Cell::lstm:
      return cost[is_few ? Cost::cudnn_lstm_barriers_few : Cost::cudnn_lstm_barriers];
    case Cell::gru:
      return cost[network.batch == 1 ? Cost::cudnn_gru_barriers_one : Cost::cudnn_gru_barriers];
    default:
      return cost[network.batch == 1            ? Cost::cudnn_plain_barriers_one
                  : network.hidden <= kFewUnits ? Cost::cudnn_plain_barriers_small
                                                : Cost::cudnn_plain_barriers];
  }
}

LibraryStep recurrent_network(const Chip& chip, const Recurrent& network) {
  LibraryStep standard = product(chip, network);
  standard.waiting +=
      chip.library_node_seconds * (info(network.cell).gates > 1 ? 1 : chip.cost[Cost::library_plain_node]);
  standard.streaming +=
      chip.cost[Cost::library_value_bytes] * network.rows() * network.batch / chip.library_l2_bytes_per_second.value;
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
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {0, chip.registers_per_thread};
  use(Resource::shared_memory) = {0, chip.smem_bytes_per_block};
  use(Resource::l2) = {std::min<double>(weight_bytes, chip.l2_bytes), chip.l2_bytes};
  use(Resource::threads) = {0, chip.max_threads_per_block};
  use(Resource::sms) = {0, chip.sm_count};
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

}  // namespace onchip
