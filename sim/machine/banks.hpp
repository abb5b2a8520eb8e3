// SPDX-License-Identifier: Apache-2.0
// Shared-memory wavefronts of one warp access.
//
// A bank delivers one bank word per wavefront. Lanes are served in phases of as many neighbouring lanes as fill all
// banks: 32 for accesses of up to 4 bytes, 16 for 8, 8 for 16 (32 banks of 4 bytes). A phase takes as many wavefronts
// as its most loaded bank has distinct words; lanes that ask for the same word share it (multicast).
//
//   loads     two neighbouring phases become one if the active lanes i and i ^ 1 of all pairs ask for the same, or
//   those
//             of all pairs i and i ^ 2; halves and quarters that repeat do not merge
//   stores and loads of matrices    phases do not merge
//   atomics and copies from L2      nor do lanes share words: a phase takes as many wavefronts as its most loaded bank
//                                   has lanes
//
// Counted on an H100: experiments/data/h100_sxm/access_patterns.csv.
#pragma once

#include "model/banks/bank_rule.hpp"
#include "model/chip/chip.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

struct BankGeometry {
  int banks = kBanks;
  int bank_bytes = kBankBytes;
};

// Throws InputError unless both are powers of two and all banks together deliver at least 16 bytes.
BankGeometry bank_geometry(const Chip& chip);

// How lanes and phases share wavefronts, see above.
enum class Sharing : std::uint8_t { words_and_phases, words, nothing };

struct SharedAccess {
  std::span<const std::uint64_t> addresses;  // of the active lanes, lowest lane first; multiples of `width`, below 2^28
  std::uint32_t mask = 0;                    // of the active lanes
  int width = 4;                             // bytes per lane: 1, 2, 4, 8 or 16
  Sharing sharing = Sharing::words_and_phases;
};

struct BankCost {
  int wavefronts = 0;
  int ideal = 0;       // without a conflict: the phases that have an active lane
  int words = 0;       // distinct ones: those that the banks deliver
  int multicasts = 0;  // lanes that got a word which a lower lane of their phase had asked for

  double conflict_degree() const { return ideal > 0 ? static_cast<double>(wavefronts) / ideal : 0; }
  BankCost& operator+=(const BankCost& other) {
    wavefronts += other.wavefronts;
    ideal += other.ideal;
    words += other.words;
    multicasts += other.multicasts;
    return *this;
  }
  friend bool operator==(const BankCost&, const BankCost&) = default;
};

// How the lanes of a warp are served. A granule is what one lane fetches: a bank word, or several neighbouring ones
// from a set of banks. A phase has no more sets than lanes, or else all lanes are one phase.
struct BankPhases {
  int lanes = kWarpLanes;  // of each, before they merge
  int shift = 0;           // from the address of a byte to the number of its granule
  int sets = 0;
  int banks_of_a_set = 1;
};

// Counts accesses one after another; keeps its scratch memory, so each thread needs its own.
class BankModel {
 public:
  explicit BankModel(const BankGeometry& geometry);

  BankCost count(const SharedAccess& access);
  // The same, and adds the bank words delivered to heat[bank].
  BankCost count(const SharedAccess& access, std::span<std::int64_t> heat);

 private:
  const BankPhases& phases_of(int width) const;
  void make_room(std::span<const std::uint64_t> addresses, int shift);

  std::array<BankPhases, 5> phases_;           // by the logarithm of the width
  std::vector<int> of_set_, of_phase_;         // [sets]: granules of the last access, of one of its phases
  std::vector<std::uint16_t> asked_in_phase_;  // [granules]
  int phase_ = 0;                              // number of the last one
};

}  // namespace onchip
