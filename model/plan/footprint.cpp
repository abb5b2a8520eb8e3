// SPDX-License-Identifier: Apache-2.0
#include "model/plan/footprint.hpp"

#include "model/library/time.hpp"
#include "model/plan/registers.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {

Footprint footprint(const Chip& chip, const Network& network, const Plan& plan) {
  if (is_library(plan.family)) {
    return library_footprint(chip, network, plan);
  }
  Footprint result;
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {
      static_cast<double>(register_words(network, plan) + working_registers(chip, network, plan)),
      static_cast<double>(registers_available(chip, plan))};
  use(Resource::shared_memory) = {static_cast<double>(shared_bytes(network, plan)), chip.smem_bytes_per_block};
  use(Resource::l2) = {static_cast<double>(plan.sms) * plan.streamed_chunks() * chunk_bytes(network, plan),
                       chip.l2_bytes};
  use(Resource::threads) = {static_cast<double>(plan.block_threads()), chip.max_threads_per_block};
  const bool in_cluster = plan.exchange == ExchangeProtocol::cluster;
  use(Resource::sms) = {static_cast<double>(plan.blocks()),
                        in_cluster ? std::min<double>(chip.cluster_usable_sms, chip.sm_count) : chip.sm_count};
  if (plan.family == Family::sparse_persistent && plan.storage == Storage::packed_pair) {
    result.indexed_units = state_units(network, plan) + zero_units(network, plan);
  }

  constexpr double kMayNeedMore = 8, kMayNeedFewer = 16;
  const double spare = use(Resource::registers).available - use(Resource::registers).used;
  result.registers_in_doubt = spare < kMayNeedMore && spare >= -kMayNeedFewer;

  result.fits = result.indexed_units <= kMostIndexedUnits;
  for (std::size_t i = 0; i < result.resources.size(); ++i) {
    const ResourceUse& resource = result.resources[i];
    result.fits = result.fits && resource.used <= resource.available;
    if (resource.share() > use(result.binding).share()) {
      result.binding = static_cast<Resource>(i);
    }
  }
  // A plan may use every SM and still have room: SMs bind only when there are too few.
  if (result.fits && result.binding == Resource::sms) {
    result.binding = use(Resource::registers).share() >= use(Resource::shared_memory).share() ? Resource::registers
                                                                                              : Resource::shared_memory;
  }
  return result;
}

std::string explain(const Footprint& footprint) {
  const auto numbers = [&](Resource resource) {
    const ResourceUse& use = footprint.resources[static_cast<int>(resource)];
    return std::to_string(static_cast<long long>(std::ceil(use.used))) + " of " +
           std::to_string(static_cast<long long>(use.available)) + " " + std::string(info(resource).unit);
  };
  const std::string doubt = footprint.registers_in_doubt ? "; in doubt, the compiler decides" : "";
  if (footprint.fits) {
    return "fits: " + std::string(info(footprint.binding).name) + " bind, " + numbers(footprint.binding) + doubt;
  }
  std::string needs;
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    if (footprint.resources[i].used > footprint.resources[i].available) {
      needs += (needs.empty() ? "" : " and ") + numbers(static_cast<Resource>(i));
    }
  }
  if (footprint.indexed_units > kMostIndexedUnits) {
    needs += (needs.empty() ? "" : " and ") + ("indices of " + std::to_string(footprint.indexed_units)) +
             " units, of which 16 bits tell " + std::to_string(kMostIndexedUnits) + " apart";
  }
  return "does not fit: needs " + needs + doubt;
}

}  // namespace onchip
