// SPDX-License-Identifier: Apache-2.0
#include "sim/banks.hpp"

#include "model/error.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace onchip {
namespace {

std::uint32_t lanes_below(int lane) {
  return lane >= kWarpLanes ? ~0u : (1u << lane) - 1;
}

// Whether the lanes of every pair ask for the same, as far as both are active.
bool pairs_agree(const SharedAccess& access) {
  std::size_t next = 0;
  for (int lane = 0; lane < kWarpLanes; lane += 2) {
    const std::uint32_t active = access.mask >> lane & 3;
    if (active == 3 && access.addresses[next] != access.addresses[next + 1]) {
      return false;
    }
    next += (active & 1) + (active >> 1);
  }
  return true;
}

// Whether no two lanes ask the same of at most 64 sets.
template <int kLanes>
bool all_apart(const std::uint64_t* addresses, int shift, std::uint32_t set_mask) {
  std::uint64_t used = 0;
  for (int i = 0; i < kLanes; ++i) {
    used |= std::uint64_t{1} << (static_cast<std::uint32_t>(addresses[i] >> shift) & set_mask);
  }
  return std::popcount(used) == kLanes;
}

bool all_apart(std::span<const std::uint64_t> addresses, int shift, std::uint32_t set_mask) {
  if (set_mask >= 64) {
    return false;
  }
  switch (addresses.size()) {
    case 8:
      return all_apart<8>(addresses.data(), shift, set_mask);
    case 16:
      return all_apart<16>(addresses.data(), shift, set_mask);
    case 32:
      return all_apart<32>(addresses.data(), shift, set_mask);
    default:
      return false;
  }
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

BankCost& BankCost::operator+=(const BankCost& other) {
  wavefronts += other.wavefronts;
  ideal += other.ideal;
  words += other.words;
  multicasts += other.multicasts;
  return *this;
}

BankModel::BankModel(const BankGeometry& geometry)
    : geometry_(geometry), words_of_set_(static_cast<std::size_t>(geometry.banks)) {}

// Room for all granules of these addresses, none of them asked for in the phase that begins.
void BankModel::begin_phase(std::span<const std::uint64_t> addresses, int shift, std::uint32_t sets) {
  std::uint64_t bits = 0;
  for (const std::uint64_t address : addresses) {
    bits |= address;
  }
  if (bits >> shift >= asked_in_phase_.size()) {
    asked_in_phase_.resize(std::bit_ceil((bits >> shift) + 1), 0);
  }
  if (++phase_ == 0) {
    std::fill(asked_in_phase_.begin(), asked_in_phase_.end(), 0);
    phase_ = 1;
  }
  std::fill_n(words_of_set_.begin(), sets, std::uint8_t{0});
}

// The common case of a good layout first; then without a branch on the addresses. `delivered`: called for every lane
// with its set and whether the lane is the first to ask for its granule.
template <typename Delivered>
BankModel::Phase BankModel::count_phase(std::span<const std::uint64_t> addresses, int shift, std::uint32_t set_mask,
                                        Delivered&& delivered) {
  if (all_apart(addresses, shift, set_mask)) {
    for (const std::uint64_t address : addresses) {
      delivered(static_cast<std::uint32_t>(address >> shift) & set_mask, 1);
    }
    return {1, static_cast<int>(addresses.size())};
  }
  begin_phase(addresses, shift, set_mask + 1);
  // Bytes alias everything: with members instead of these the compiler would read each anew after every store.
  std::uint32_t* const asked_in_phase = asked_in_phase_.data();
  std::uint8_t* const words_of_set = words_of_set_.data();
  const std::uint32_t this_phase = phase_;
  int most = 0, total = 0;
  for (const std::uint64_t address : addresses) {
    const auto granule = static_cast<std::uint32_t>(address >> shift);
    const std::uint32_t set = granule & set_mask;
    const int is_new = asked_in_phase[granule] != this_phase;
    asked_in_phase[granule] = this_phase;
    const int words = words_of_set[set] + is_new;
    words_of_set[set] = static_cast<std::uint8_t>(words);
    most = std::max(most, words);
    total += is_new;
    delivered(set, is_new);
  }
  return {most, total};
}

template <typename Delivered>
BankCost BankModel::count_phases(const SharedAccess& access, Delivered&& delivered) {
  assert(access.addresses.size() == static_cast<std::size_t>(std::popcount(access.mask)));
  const int row_bytes = geometry_.banks * geometry_.bank_bytes;
  const int granule = std::max(access.width, geometry_.bank_bytes);
  const int shift = std::countr_zero(static_cast<unsigned>(granule));
  const auto set_mask = static_cast<std::uint32_t>(row_bytes / granule - 1);
  int lanes = std::min(kWarpLanes, row_bytes / access.width);
  if (lanes < kWarpLanes && pairs_agree(access)) {
    lanes *= 2;
  }
  BankCost cost;
  std::size_t next = 0;
  for (int lane = 0; lane < kWarpLanes; lane += lanes) {
    const int active = access.mask == ~0u ? lanes : std::popcount(access.mask >> lane & lanes_below(lanes));
    if (active == 0) {
      continue;
    }
    const Phase phase =
        count_phase(access.addresses.subspan(next, static_cast<std::size_t>(active)), shift, set_mask, delivered);
    next += static_cast<std::size_t>(active);
    cost.wavefronts += phase.wavefronts;
    ++cost.ideal;
    cost.words += phase.granules * (granule / geometry_.bank_bytes);
    cost.multicasts += active - phase.granules;
  }
  return cost;
}

BankCost BankModel::count(const SharedAccess& access) {
  return count_phases(access, [](std::uint32_t, int) {});
}

BankCost BankModel::count(const SharedAccess& access, std::span<std::int64_t> heat) {
  const auto banks_of_a_set = static_cast<std::uint32_t>(std::max(1, access.width / geometry_.bank_bytes));
  return count_phases(access, [&](std::uint32_t set, int is_new) {
    for (std::uint32_t i = 0; i < banks_of_a_set; ++i) {
      heat[set * banks_of_a_set + i] += is_new;
    }
  });
}

}  // namespace onchip
