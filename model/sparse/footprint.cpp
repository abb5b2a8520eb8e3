// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/family.hpp"
#include "model/sparse/registers.hpp"

#include <algorithm>

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

double least_overload(const Chip& chip, const SparseGeometry& geometry, double least_slots, Tier most) {
  // Registers at most, of a warp that computes beside warps that fetch with one load in flight.
  SparsePlan plan = geometry;
  plan.loads_in_flight = 1;
  plan.pass_planes = geometry.planes;
  const double available = registers_available(chip, plan);
  constexpr int kLeastStaging = 4;
  const double working = register_costs(static_cast<int>(chip.compute_capability_major)).base + kLeastStaging;
  const double words = least_slots * geometry.bundle.words / geometry.bundle.slots;
  if (most == Tier::registers) {
    return ResourceUse{words + working, available}.share();
  }
  const double beyond = 4 * std::max(0.0, words - std::max(0.0, available - working)) * geometry.threads;  // bytes
  const auto state = static_cast<double>(SparseGeometry(geometry.network, plan).bytes_without_weights());
  const auto share_of_shared = [&](double bytes) { return ResourceUse{bytes, chip.smem_bytes_per_block}.share(); };
  if (most != Tier::streamed) {
    return share_of_shared(state + beyond);
  }
  const double streamed = geometry.sms * std::max(0.0, beyond - chip.smem_bytes_per_block);
  return std::max(share_of_shared(state), ResourceUse{streamed, chip.l2_bytes}.share());
}

}  // namespace onchip
