// SPDX-License-Identifier: Apache-2.0
#include "model/dense/family.hpp"
#include "model/dense/price.hpp"
#include "model/dense/registers.hpp"

#include <algorithm>

namespace onchip {

Footprint footprint(const Chip& chip, const DenseGeometry& geometry) {
  Footprint result;
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {static_cast<double>(geometry.register_words + working_registers(chip, geometry)),
                              static_cast<double>(registers_available(chip, geometry))};
  use(Resource::shared_memory) = {static_cast<double>(geometry.shared_bytes()), chip.smem_bytes_per_block};
  use(Resource::l2) = {0, chip.l2_bytes};
  use(Resource::threads) = {static_cast<double>(geometry.threads), chip.max_threads_per_block};
  const bool in_cluster = geometry.exchange == ExchangeProtocol::cluster;
  use(Resource::sms) = {static_cast<double>(geometry.blocks),
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
