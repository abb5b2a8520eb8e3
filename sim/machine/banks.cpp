// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/banks.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

namespace onchip {
namespace {

// Whether lanes i and i ^ apart ask for the same wherever both are active.
bool pairs_agree(const SharedAccess& access, unsigned apart) {
  std::array<std::uint64_t, kWarpLanes> of_lane;
  std::size_t next = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
    if (access.mask >> lane & 1) {
      of_lane[lane] = access.addresses[next++];
      const unsigned partner = lane ^ apart;
      if (partner < lane && (access.mask >> partner & 1) && of_lane[partner] != of_lane[lane]) {
        return false;
      }
    }
  }
  return true;
}

bool phases_merge(const SharedAccess& access, const BankPhases& phases) {
  return phases.lanes < kWarpLanes && access.sharing == Sharing::words_and_phases &&
         (pairs_agree(access, 1) || pairs_agree(access, 2));
}

}  // namespace

BankGeometry bank_geometry(const Chip& chip) {
  const BankGeometry geometry{static_cast<int>(chip.smem_banks), static_cast<int>(chip.smem_bank_bytes)};
  for (const auto& [key, value] :
       {std::pair{"shared_memory.banks", geometry.banks}, std::pair{"shared_memory.bank_width", geometry.bank_bytes}}) {
    if (!std::has_single_bit(static_cast<unsigned>(value))) {
      throw InputError("'" + std::string(key) + "' is " + std::to_string(value) +
                       ": the simulator expects a power of two");
    }
  }
  if (geometry.banks * geometry.bank_bytes < 16) {
    throw InputError("'shared_memory.banks' (" + std::to_string(geometry.banks) + ") and 'shared_memory.bank_width' (" +
                     std::to_string(geometry.bank_bytes) +
                     " B) are too few: the simulator expects that all banks together deliver at least 16 B");
  }
  return geometry;
}

BankModel::BankModel(const BankGeometry& geometry)
    : of_set_(static_cast<std::size_t>(geometry.banks)), of_phase_(of_set_.size()) {
  const auto row_bytes = static_cast<unsigned>(geometry.banks * geometry.bank_bytes);
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const unsigned width = 1u << i, granule = std::max(width, static_cast<unsigned>(geometry.bank_bytes));
    phases_[i] = {std::min(kWarpLanes, static_cast<int>(row_bytes / width)), std::countr_zero(granule),
                  static_cast<int>(row_bytes / granule), static_cast<int>(granule) / geometry.bank_bytes};
  }
}

const BankPhases& BankModel::phases_of(int width) const {
  return phases_[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(width)))];
}

// For the granules at these addresses, none of which has been asked for in the phases to come.
void BankModel::make_room(std::span<const std::uint64_t> addresses, int shift) {
  std::uint64_t bits = 0;
  for (const std::uint64_t address : addresses) {
    bits |= address;
  }
  const std::size_t granules = static_cast<std::size_t>(bits >> shift) + 1;
  if (granules > asked_in_phase_.size()) {
    asked_in_phase_.resize(std::bit_ceil(granules), 0);
  }
  if (phase_ > std::numeric_limits<std::uint16_t>::max() - kWarpLanes) {
    std::fill(asked_in_phase_.begin(), asked_in_phase_.end(), std::uint16_t{0});
    phase_ = 0;
  }
}

BankCost BankModel::count(const SharedAccess& access) {
  assert(access.addresses.size() == static_cast<std::size_t>(std::popcount(access.mask)));
  const BankPhases& phases = phases_of(access.width);
  const int lanes = phases_merge(access, phases) ? 2 * phases.lanes : phases.lanes;
  const bool lanes_share = access.sharing != Sharing::nothing;
  if (lanes_share) {
    make_room(access.addresses, phases.shift);
  }
  std::ranges::fill(of_set_, 0);
  BankCost cost;
  const std::uint64_t* next = access.addresses.data();
  for (int first = 0; first < kWarpLanes; first += lanes) {
    const auto number = static_cast<std::uint16_t>(++phase_);
    std::ranges::fill(of_phase_, 0);
    int most = 0;
    std::uint32_t active = access.mask >> first & ~0u >> (kWarpLanes - lanes);
    cost.ideal += active != 0 ? 1 : 0;
    for (; active != 0; active &= active - 1) {
      const auto granule = static_cast<std::uint32_t>(*next++ >> phases.shift);
      if (lanes_share && std::exchange(asked_in_phase_[granule], number) == number) {
        ++cost.multicasts;
        continue;
      }
      const std::uint32_t set = granule & static_cast<std::uint32_t>(phases.sets - 1);
      cost.words += phases.banks_of_a_set;
      ++of_set_[set];
      most = std::max(most, ++of_phase_[set]);
    }
    cost.wavefronts += most;
  }
  return cost;
}

BankCost BankModel::count(const SharedAccess& access, std::span<std::int64_t> heat) {
  const BankCost cost = count(access);
  const BankPhases& phases = phases_of(access.width);
  for (int bank = 0; bank < phases.sets * phases.banks_of_a_set; ++bank) {
    heat[static_cast<std::size_t>(bank)] += of_set_[static_cast<std::size_t>(bank / phases.banks_of_a_set)];
  }
  return cost;
}

}  // namespace onchip
