// SPDX-License-Identifier: Apache-2.0
#include "model/dense/family.hpp"
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

}  // namespace onchip
