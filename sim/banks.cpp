// SPDX-License-Identifier: Apache-2.0
#include "sim/banks.hpp"

#include "model/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>

namespace onchip {
namespace {

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

constexpr int kWindow = 32;  // sets that are counted at once

// How often each of them was asked: bit i of digits[d] is digit d of the count of set i.
using Digits = std::array<std::uint32_t, 6>;

// Adds a and b to the sum, bit by bit; returns the carries.
std::uint32_t add(std::uint32_t& sum, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t either = sum ^ a;
  const std::uint32_t carry = (sum & a) | (either & b);
  sum = either ^ b;
  return carry;
}

// Of at most 32 words, a bit per set. Eight at a time through a tree of adders (that of Harley and Seal's population
// count): a chain would wait for its own carries.
template <std::size_t kCount>
[[gnu::always_inline]] inline Digits count_bits(const std::array<std::uint32_t, kCount>& words) {
  static_assert(kCount % 8 == 0 && kCount <= 32);
  Digits sum{};
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kCount; i += 8) {
    const std::uint32_t* const w = words.data() + i;
    const std::uint32_t two_a = add(sum[0], w[0], w[1]), two_b = add(sum[0], w[2], w[3]);
    const std::uint32_t two_c = add(sum[0], w[4], w[5]), two_d = add(sum[0], w[6], w[7]);
    const std::uint32_t four_a = add(sum[1], two_a, two_b), four_b = add(sum[1], two_c, two_d);
    const std::uint32_t eight = add(sum[2], four_a, four_b);
    sum[5] |= add(sum[4], add(sum[3], eight, 0), 0);
  }
  return sum;
}

// The sum of all counts, of which there are at most 32: byte by byte, then of the bytes.
template <std::size_t kDigits>
int total(const Digits& digits) {
  std::uint32_t bytes = 0;
  for (std::size_t d = 0; d < kDigits; ++d) {
    const std::uint32_t pairs = digits[d] - ((digits[d] >> 1) & 0x55555555u);
    const std::uint32_t fours = (pairs & 0x33333333u) + ((pairs >> 2) & 0x33333333u);
    bytes += ((fours + (fours >> 4)) & 0x0f0f0f0fu) << d;
  }
  return static_cast<int>(bytes * 0x01010101u >> 24);
}

// The largest count of these sets, digit by digit from the highest: only sets that have the digit stay, if any has.
// Arithmetic instead of a condition, which compilers make a branch that nobody can foretell.
template <std::size_t kDigits>
int largest(const Digits& digits, std::uint32_t sets) {
  std::uint32_t result = 0;
  for (std::size_t d = kDigits; d-- > 0;) {
    const std::uint32_t with = digits[d] & sets;
    const std::uint32_t any = (with | (0 - with)) >> 31;
    sets &= with | (any - 1);
    result = 2 * result + any;
  }
  return static_cast<int>(result);
}

// Of phases whose sets begin at bit 0, kLanes, 2 kLanes, ...
template <int kLanes, std::size_t kDigits>
[[gnu::always_inline]] inline BankModel::Counted summarise(const Digits& digits) {
  BankModel::Counted counted{0, total<kDigits>(digits)};
  for (int first = 0; first < kWarpLanes; first += kLanes) {
    counted.wavefronts += largest<kDigits>(digits, ~0u >> (kWarpLanes - kLanes) << first);
  }
  return counted;
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

BankModel::BankModel(const BankGeometry& geometry) : geometry_(geometry) {
  const auto row_bytes = static_cast<unsigned>(geometry.banks * geometry.bank_bytes);
  for (std::size_t i = 0; i < phases_.size(); ++i) {
    const unsigned width = 1u << i, granule = std::max(width, static_cast<unsigned>(geometry.bank_bytes));
    phases_[i] = {std::min(kWarpLanes, static_cast<int>(row_bytes / width)), std::countr_zero(granule),
                  static_cast<int>(row_bytes / granule)};
  }
}

// For granules below this number, none of which has been asked for in the phases to come.
void BankModel::make_room(std::uint32_t granules) {
  if (granules > asked_in_phase_.size()) {
    asked_in_phase_.resize(std::bit_ceil(granules), 0);
  }
  const int most_phases = kWarpLanes * std::max(1, geometry_.banks / kWindow);
  if (phase_ > std::numeric_limits<std::uint16_t>::max() - most_phases) {
    std::fill(asked_in_phase_.begin(), asked_in_phase_.end(), std::uint16_t{0});
    phase_ = 0;
  }
}

// Without a branch on the addresses, and without counters in memory: a load of those would wait for the stores before.
// A phase has no more sets than lanes, or else all lanes are one phase; then window after window of sets.
// Plain: one window, and every lane is live.
template <int kLanes, bool kPlain, typename Delivered>
BankModel::Counted BankModel::count_window(const Lanes& lanes, int sets, int window, Delivered&& delivered) {
  constexpr int kPhases = kWarpLanes / kLanes;
  std::uint16_t* const asked_in_phase = asked_in_phase_.data();  // a member would be read anew after every store
  const auto set_mask = static_cast<std::uint32_t>(sets - 1);
  const int first_phase = phase_ + 1;
  phase_ += kPhases;
  // [lanes of a phase]: in every phase's bits that of the set whose granule the lane is the first to ask for.
  std::array<std::uint32_t, std::max(8, kLanes)> asked{};
#pragma GCC unroll 32
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto number = static_cast<std::uint16_t>(first_phase + phase);
#pragma GCC unroll 32
    for (int i = 0; i < kLanes; ++i) {
      const int lane = phase * kLanes + i;
      const std::uint32_t granule = lanes.granules[static_cast<std::size_t>(lane)];
      const std::uint32_t set = granule & set_mask;
      const bool counts = kPlain || ((lanes.live >> lane & 1) != 0 && static_cast<int>(set / kWindow) == window);
      const std::uint32_t is_new = counts && asked_in_phase[granule] != number ? 1 : 0;
      asked_in_phase[granule] = number;
      asked[static_cast<std::size_t>(i)] |= is_new << (static_cast<std::uint32_t>(phase * kLanes) + set) % kWindow;
      delivered(set, static_cast<int>(is_new));
    }
  }
  const Digits digits = count_bits(asked);
  const bool few = (digits[3] | digits[4] | digits[5]) == 0;
  return few ? summarise<kLanes, 3>(digits) : summarise<kLanes, 6>(digits);
}

template <int kLanes, typename Delivered>
BankModel::Counted BankModel::count_lanes(const Lanes& lanes, int sets, Delivered&& delivered) {
  if (lanes.live == ~0u && sets <= kWindow) {
    return count_window<kLanes, true>(lanes, sets, 0, delivered);
  }
  Counted all;
  for (int window = 0; window * kWindow < sets; ++window) {
    const Counted counted = count_window<kLanes, false>(lanes, sets, window, delivered);
    all.wavefronts = std::max(all.wavefronts, counted.wavefronts);
    all.granules += counted.granules;
  }
  return all;
}

// Dispatches on the lanes of a phase, which divide a warp.
template <typename Delivered>
BankCost BankModel::count_phases(const SharedAccess& access, Delivered&& delivered) {
  assert(access.addresses.size() == static_cast<std::size_t>(std::popcount(access.mask)));
  Phases phases = phases_[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(access.width)))];
  if (phases.lanes < kWarpLanes && pairs_agree(access)) {
    phases.lanes *= 2;
  }
  BankCost cost;
  Lanes lanes;
  std::uint32_t bits = 0;  // of all granules
  const std::uint64_t* next = access.addresses.data();
  if (access.mask == ~0u) {
    for (std::uint32_t& granule : lanes.granules) {
      granule = static_cast<std::uint32_t>(*next++ >> phases.shift);
      bits |= granule;
    }
    cost.ideal = kWarpLanes / phases.lanes;
  } else {
    lanes = {{}, 0};
    for (int first = 0; first < kWarpLanes; first += phases.lanes) {
      const std::uint32_t all = ~0u >> (kWarpLanes - phases.lanes), active = access.mask >> first & all;
      if (active == 0) {
        continue;
      }
      std::size_t taken = 0;
      for (int lane = 0; lane < phases.lanes; ++lane) {
        taken += active >> lane & 1;
        const std::uint64_t address = next[std::max<std::size_t>(taken, 1) - 1];
        const auto granule = static_cast<std::uint32_t>(address >> phases.shift);
        lanes.granules[static_cast<std::size_t>(first + lane)] = granule;
        bits |= granule;
      }
      next += taken;
      lanes.live |= all << first;
      ++cost.ideal;
    }
  }
  make_room(bits + 1);
  Counted counted;
  switch (phases.lanes) {
    case 1:
      counted = count_lanes<1>(lanes, phases.sets, delivered);
      break;
    case 2:
      counted = count_lanes<2>(lanes, phases.sets, delivered);
      break;
    case 4:
      counted = count_lanes<4>(lanes, phases.sets, delivered);
      break;
    case 8:
      counted = count_lanes<8>(lanes, phases.sets, delivered);
      break;
    case 16:
      counted = count_lanes<16>(lanes, phases.sets, delivered);
      break;
    default:
      counted = count_lanes<32>(lanes, phases.sets, delivered);
  }
  cost.wavefronts = counted.wavefronts;
  cost.words = counted.granules * std::max(1, access.width / geometry_.bank_bytes);
  cost.multicasts = static_cast<int>(access.addresses.size()) - counted.granules;
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
