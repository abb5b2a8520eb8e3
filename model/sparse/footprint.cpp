// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/family.hpp"
#include "model/sparse/registers.hpp"

namespace onchip {

Footprint footprint(const Chip& chip, const SparseGeometry& geometry) {
  Footprint result;
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {static_cast<double>(geometry.register_words + working_registers(chip, geometry)),
                              static_cast<double>(registers_available(chip, geometry))};
  use(Resource::shared_memory) = {static_cast<double>(geometry.shared_bytes()), chip.smem_bytes_per_block};
  use(Resource::l2) = {static_cast<double>(geometry.sms) * geometry.streamed_chunks() * geometry.chunk_bytes,
                       chip.l2_bytes};
  use(Resource::threads) = {static_cast<double>(geometry.block_threads()), chip.max_threads_per_block};
  use(Resource::sms) = {static_cast<double>(geometry.blocks), chip.sm_count};
  if (geometry.storage == Storage::packed_pair) {
    result.indexed_units = geometry.state_units + geometry.zero_units;
  }
  conclude(result);
  return result;
}

}  // namespace onchip
