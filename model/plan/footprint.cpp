// SPDX-License-Identifier: Apache-2.0
#include "model/plan/footprint.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {

void conclude(Footprint& footprint) {
  constexpr double kMayNeedMore = 8, kMayNeedFewer = 16;
  const double spare = footprint[Resource::registers].available - footprint[Resource::registers].used;
  footprint.fits = footprint.indexed_units <= kMostIndexedUnits;
  for (std::size_t i = 0; i < footprint.resources.size(); ++i) {
    const ResourceUse& resource = footprint.resources[i];
    footprint.fits = footprint.fits && resource.used <= resource.available;
    if (resource.share() > footprint[footprint.binding].share()) {
      footprint.binding = static_cast<Resource>(i);
    }
  }
  // Another resource that is short leaves no doubt.
  const bool others_fit = std::ranges::all_of(footprint.resources, [&](const ResourceUse& resource) {
    return &resource == &footprint[Resource::registers] || resource.used <= resource.available;
  });
  footprint.registers_in_doubt = others_fit && spare < kMayNeedMore && spare >= -kMayNeedFewer;
  // A plan may use every SM and still have room: SMs bind only when there are too few.
  if (footprint.fits && footprint.binding == Resource::sms) {
    footprint.binding = footprint[Resource::registers].share() >= footprint[Resource::shared_memory].share()
                            ? Resource::registers
                            : Resource::shared_memory;
  }
}

std::string explain(const Footprint& footprint) {
  const auto numbers = [&](Resource resource) {
    const ResourceUse& use = footprint[resource];
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
