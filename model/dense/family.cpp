// SPDX-License-Identifier: Apache-2.0
#include "model/dense/family.hpp"

#include "model/dense/bitmap.hpp"
#include "model/dense/price.hpp"
#include "model/dense/registers.hpp"
#include "model/plan/require.hpp"

#include <algorithm>
#include <bit>

namespace onchip {

void check(const Recurrent& network, const DensePlan& plan) {
  require(network.precision == Precision::fp16 || network.precision == Precision::bf16,
          "fp16 or bf16, which the tensor cores of dense_persistent multiply, found " +
              std::string(info(network.precision).name));
  require(plan.threads % 32 == 0, "threads in whole warps of 32, found " + std::to_string(plan.threads));
  require(plan.batch_groups == 1 || plan.exchange == ExchangeProtocol::lamport ||
              plan.exchange == ExchangeProtocol::cluster,
          "batch_groups=1 with a barrier of all SMs, found " + std::to_string(plan.batch_groups));
  require(plan.exchange != ExchangeProtocol::cluster ||
              (std::has_single_bit(static_cast<unsigned>(plan.sms)) && plan.sms <= kMostOfCluster),
          "sms of a cluster to be a power of two of at most 16, found " + std::to_string(plan.sms));
  require(plan.line_words == kLineWords || plan.exchange != ExchangeProtocol::cluster,
          "line_words=8 in a cluster, whose state has no lines, found " + std::to_string(plan.line_words));
  require(plan.padded_samples == 0 || plan.padded_samples > network.batch,
          "padded_samples above the batch of " + std::to_string(network.batch) + ", found " +
              std::to_string(plan.padded_samples));
  require(plan.padded_units == 0 || plan.padded_units > network.hidden,
          "padded_units above the hidden size of " + std::to_string(network.hidden) + ", found " +
              std::to_string(plan.padded_units));
  const DenseGeometry geometry(network, plan);
  require(geometry.samples % plan.batch_groups == 0, "batch_groups that divide the " +
                                                         std::to_string(geometry.samples) + " samples, found " +
                                                         std::to_string(plan.batch_groups));
  const int step = 2 * geometry.sample_tiles;
  require(plan.loads_in_flight % step == 0, "loads_in_flight in multiples of " + std::to_string(step) + ", found " +
                                                std::to_string(plan.loads_in_flight));
  constexpr int kMostSpansInFlight = 16;
  require_range("loads_in_flight", plan.loads_in_flight, 1, (geometry.samples + 7) / 8 * 2 * kMostSpansInFlight);
  require_range("shared_tiles", plan.shared_tiles, 0, geometry.warp_tiles);
  const int most_words = plan.storage == Storage::bitmap ? kLaneWords * plan.shared_tiles * plan.warps() : 0;
  require_range("bank_words", plan.bank_words, 0, most_words);
}

void check_rows(const Recurrent& network, const DensePlan& plan, const RowProfile& rows) {
  if (plan.storage == Storage::structured_2_4) {
    check_two_four(rows);
  }
  if (plan.storage == Storage::bitmap && rows.words() != nullptr) {
    check_bank_words(DenseGeometry(network, plan), *rows.words());
  }
}

Footprint footprint(const Chip& chip, const DenseGeometry& geometry) {
  Footprint result;
  result[Resource::registers] = {static_cast<double>(geometry.register_words + working_registers(chip, geometry)),
                                 static_cast<double>(registers_available(chip, geometry)),
                                 static_cast<double>(geometry.register_words)};
  const auto& memory = geometry.memory;
  result[Resource::shared_memory] = {
      static_cast<double>(geometry.shared_bytes()), chip.smem_bytes_per_block,
      static_cast<double>(memory.bytes(DenseRegion::tiles)),
      static_cast<double>(memory.bytes(DenseRegion::carry) + memory.bytes(DenseRegion::cluster))};
  result[Resource::l2] = {0, chip.l2_bytes};
  result[Resource::threads] = {static_cast<double>(geometry.threads), chip.max_threads_per_block};
  const bool in_cluster = geometry.exchange == ExchangeProtocol::cluster;
  result[Resource::sms] = {static_cast<double>(geometry.blocks),
                           in_cluster ? std::min<double>(chip.cluster_usable_sms, chip.sm_count) : chip.sm_count};
  conclude(result);
  return result;
}

double least_overload(const Chip& chip, const DenseGeometry& geometry, double share, Tier most) {
  constexpr double kLeastWorking = 16;
  const double available = registers_available(chip, geometry);
  const double words = 4.0 * geometry.warp_tiles;
  if (most == Tier::registers) {
    return ResourceUse{words + kLeastWorking, available}.share();
  }
  const double beyond = share * std::max(0.0, words - std::max(0.0, available - kLeastWorking));
  return ResourceUse{static_cast<double>(geometry.shared_bytes()) + 4 * beyond * geometry.threads,
                     chip.smem_bytes_per_block}
      .share();
}

Bound least_of_sms(const Chip& chip, const DenseGeometry& geometry, double share, Tier most) {
  const double tiles = 1.0 * geometry.spans * geometry.span_tiles * geometry.row_tiles;  // of weights, of an SM
  const double words = 4 * 32 * tiles;
  const double beyond = share * std::max(0.0, words - chip.registers_per_sm);
  return {least_products_us(chip, geometry, tiles), most == Tier::registers
                                                        ? ResourceUse{words, chip.registers_per_sm}.share()
                                                        : ResourceUse{4 * beyond, chip.smem_bytes_per_block}.share()};
}

}  // namespace onchip
