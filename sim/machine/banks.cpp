// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/banks.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>

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

BankModel::BankModel(const BankGeometry& geometry, VectorCounter count_by_vectors)
    : count_by_vectors_(count_by_vectors) {
  const auto row_bytes = static_cast<unsigned>(geometry.banks * geometry.bank_bytes);
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const unsigned width = 1u << i, granule = std::max(width, static_cast<unsigned>(geometry.bank_bytes));
    phases_[i] = {std::min(kWarpLanes, static_cast<int>(row_bytes / width)), std::countr_zero(granule),
                  static_cast<int>(row_bytes / granule), static_cast<int>(granule) / geometry.bank_bytes};
  }
  of_set_.resize(static_cast<std::size_t>(std::max(kWarpLanes, geometry.banks)));
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

// Without a branch on the addresses. Plain: every lane is active, and there are no more sets than lanes.
template <int kLanes, bool kPlain>
PhaseCount BankModel::count_lanes(const SharedAccess& access, const BankPhases& phases) {
  constexpr int kPhases = kWarpLanes / kLanes;
  const int sets_of_a_phase = kPlain || kPhases > 1 ? kLanes : std::max(kLanes, phases.sets);
  const int shift = phases.shift;
  const auto set_mask = static_cast<std::uint32_t>(phases.sets - 1);
  const std::uint32_t mask = kPlain ? ~0u : access.mask;
  const std::uint64_t* next = access.addresses.data();
  std::uint16_t* const asked_in_phase = asked_in_phase_.data();  // a member would be read anew after every store
  std::uint8_t* const of_set = of_set_.data();
  std::fill_n(of_set, kPhases * sets_of_a_phase, std::uint8_t{0});
  PhaseCount counted;
#pragma GCC unroll 32
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto number = static_cast<std::uint16_t>(phase_ + 1 + phase);
    const std::uint32_t active = mask >> phase * kLanes & ~0u >> (kWarpLanes - kLanes);
    counted.active += active != 0 ? 1 : 0;
#pragma GCC unroll 32
    for (int lane = 0; lane < kLanes; ++lane) {
      if (active >> lane & 1) {
        const auto granule = static_cast<std::uint32_t>(*next++ >> shift);
        const int is_new = asked_in_phase[granule] != number ? 1 : 0;
        asked_in_phase[granule] = number;
        std::uint8_t& asked = of_set[static_cast<std::uint32_t>(phase * kLanes) + (granule & set_mask)];
        asked = static_cast<std::uint8_t>(asked + is_new);
      }
    }
  }
  phase_ += kPhases;
  for (int i = 0; i < kPhases * sets_of_a_phase; ++i) {
    counted.granules += of_set[i];
  }
  for (int phase = 0; phase < kPhases; ++phase) {
    const std::uint8_t* const first = of_set + phase * sets_of_a_phase;
    std::uint8_t most = 0;
    for (int set = 0; set < sets_of_a_phase; ++set) {
      most = std::max(most, first[set]);
    }
    counted.wavefronts += most;
  }
  return counted;
}

template <int kLanes>
PhaseCount BankModel::count_phases(const SharedAccess& access, const BankPhases& phases) {
  return access.mask == ~0u && phases.sets <= kWarpLanes ? count_lanes<kLanes, true>(access, phases)
                                                         : count_lanes<kLanes, false>(access, phases);
}

// Dispatches on the lanes of a phase, which divide a warp.
PhaseCount BankModel::count_granules(const SharedAccess& access, const BankPhases& phases) {
  assert(access.addresses.size() == static_cast<std::size_t>(std::popcount(access.mask)));
  if (access.sharing == Sharing::nothing) {
    return count_lane_by_lane(access, phases);
  }
  if (count_by_vectors_ != nullptr && phases.sets <= kWarpLanes) {
    return count_by_vectors_(access, phases, of_set_.data());
  }
  make_room(access.addresses, phases.shift);
  switch (phases_merge(access, phases) ? 2 * phases.lanes : phases.lanes) {
    case 1:
      return count_phases<1>(access, phases);
    case 2:
      return count_phases<2>(access, phases);
    case 4:
      return count_phases<4>(access, phases);
    case 8:
      return count_phases<8>(access, phases);
    case 16:
      return count_phases<16>(access, phases);
    default:
      return count_phases<32>(access, phases);
  }
}

PhaseCount BankModel::count_lane_by_lane(const SharedAccess& access, const BankPhases& phases) {
  std::ranges::fill(of_set_, std::uint8_t{0});
  PhaseCount counted;
  std::size_t next = 0;
  for (int first = 0; first < kWarpLanes; first += phases.lanes) {
    const std::vector<std::uint8_t> before = of_set_;
    int most = 0;
    for (int lane = first; lane < first + phases.lanes; ++lane) {
      if (access.mask >> lane & 1) {
        const auto set =
            static_cast<std::size_t>(access.addresses[next++] >> phases.shift) % static_cast<std::size_t>(phases.sets);
        most = std::max(most, ++of_set_[set] - before[set]);
      }
    }
    counted.wavefronts += most;
    counted.active += most > 0 ? 1 : 0;
  }
  counted.granules = static_cast<int>(next);
  return counted;
}

BankCost BankModel::count(const SharedAccess& access) {
  const BankPhases& phases = phases_of(access.width);
  const PhaseCount counted = count_granules(access, phases);
  return {counted.wavefronts, counted.active, counted.granules * phases.banks_of_a_set,
          static_cast<int>(access.addresses.size()) - counted.granules};
}

BankCost BankModel::count(const SharedAccess& access, std::span<std::int64_t> heat) {
  const BankCost cost = count(access);
  const BankPhases& phases = phases_of(access.width);
  for (int set = 0; set < phases.sets; ++set) {
    int granules = 0;
    for (int i = set; i < std::max(kWarpLanes, phases.sets); i += phases.sets) {
      granules += of_set_[static_cast<std::size_t>(i)];
    }
    for (int bank = 0; bank < phases.banks_of_a_set; ++bank) {
      heat[static_cast<std::size_t>(set * phases.banks_of_a_set + bank)] += granules;
    }
  }
  return cost;
}

}  // namespace onchip
