// SPDX-License-Identifier: Apache-2.0
// How shared memory serves a warp's load of the state: so many lanes at a time, a phase, of which each hits one of so
// many sets of banks. A phase takes as many wavefronts as the most loaded set has distinct words.
#pragma once

#include <algorithm>

namespace onchip {

inline constexpr int kWarpLanes = 32;
inline constexpr int kBanks = 32;
inline constexpr int kBankBytes = 4;
inline constexpr int kMaxBankSets = 32;

struct BankRule {
  int stride;       // bytes between neighbouring units
  int phase_lanes;  // 32 for accesses of up to 4 bytes, 16 for 8, 8 for 16
  int bank_sets;

  explicit BankRule(int unit_bytes)
      : stride(unit_bytes),
        phase_lanes(kWarpLanes * kBankBytes / std::max(kBankBytes, stride)),
        bank_sets(kBanks * kBankBytes / std::max(kBankBytes, stride)) {}

  int set_of(int unit) const { return unit * stride / std::max(kBankBytes, stride) % bank_sets; }
};

}  // namespace onchip
