// SPDX-License-Identifier: Apache-2.0
#include "model/dense_time.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

struct Products {
  double tensor = 0;  // cycles of the busiest partition's tensor core, or of a warp's chain of sums
  double loads = 0;   // of the SM's shared memory
};

Products product_cycles(const Chip& chip, const Network& network, const Plan& plan) {
  const double warps_per_partition = std::ceil(plan.warps() / chip.partitions);
  const double tiles = warp_tiles(network, plan);
  const double issue = warps_per_partition * tiles * sample_tiles(network, plan) * chip.tensor_issue_cycles;
  const double chain = static_cast<double>(span_tiles(plan)) * warp_spans(network, plan) /
                       product_chains(network, plan) * chip.tensor_latency_cycles;
  const double shared_tiles = static_cast<double>(plan.shared_tiles) * plan.warps();
  // In a cluster the state comes from shared memory, too, once.
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  const double state = in_cluster ? static_cast<double>(exchange_bytes(network, plan)) : 0;
  const double wavefronts = (kTileBytes * shared_tiles + state) / (chip.smem_banks * chip.smem_bank_bytes);
  return {std::max(issue, chain), wavefronts * chip.lds_wavefront_cycles};
}

}  // namespace

DenseCycles dense_cycles(const Chip& chip, const Network& network, const Plan& plan, double copying) {
  DenseCycles result;
  const Products products = product_cycles(chip, network, plan);
  const double both =
      std::cbrt(products.tensor * products.tensor * products.tensor + products.loads * products.loads * products.loads);
  const int group_spans = std::max(1, plan.loads_in_flight / (2 * sample_tiles(network, plan)));
  const double groups = std::ceil(static_cast<double>(warp_spans(network, plan)) / group_spans);
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  // What is asked for late; in a cluster, once from shared memory.
  const double late = std::max(0.0, groups - 2) * std::max(0.0, chip.exchange_round_trip_cycles - both / groups);
  result.waiting = in_cluster ? chip.lds_latency_cycles : late;
  // A pipeline of two stages; in a cluster, one after the other.
  const double whole =
      in_cluster ? copying + both : (copying + both) / groups + std::max(copying, both) * (groups - 1) / groups;
  const double beyond = whole - copying;
  result.gather = beyond * products.loads / (products.tensor + products.loads);
  result.arithmetic = beyond - result.gather;

  // Sums are written and read once, all warps' through the same shared memory, and added in a tree.
  const double sum_bytes = 4.0 * plan.warps() * 16 * row_tiles(network, plan) * 8 * sample_tiles(network, plan);
  const double transfers = 2 * sum_bytes / (chip.smem_banks * chip.smem_bank_bytes) * chip.lds_wavefront_cycles;
  const double additions = std::ceil(std::log2(plan.warps())) * chip.arithmetic_latency_cycles;
  result.reduction = transfers + 2 * chip.lds_latency_cycles + additions;

  const bool is_gated = info(network.cell).gates > 1;
  const double finished =
      static_cast<double>(units_per_sm(network, plan)) * team_batch(network, plan) / (is_gated ? 1 : 2);
  const double rounds = std::ceil(finished / plan.threads);
  const double joining = is_gated ? 1.0 * chip.shuffle_latency_cycles : 0.0;
  result.activation = rounds * (info(network.cell).transcendentals * chip.tanh_latency_cycles + joining);
  return result;
}

}  // namespace onchip
