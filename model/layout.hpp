// SPDX-License-Identifier: Apache-2.0
// Which non-zero sits in which slot of which lane: computed once on the host, loaded by the kernel, replayed by the
// simulator, read back by the tests. Deterministic in (matrix, network, plan).
//
//   rows     of the units, dealt to (sm, r, group) by falling length in a snake, so that SMs carry equal loads
//   slots    of one row: [slots[r], lanes_per_row]; in bank-aware order the lanes that one shared-memory phase serves
//            (32 lanes for loads of up to 4 bytes, 16 for 8, 8 for 16) get columns in different banks where possible
//   padding  slots that no non-zero fills hold value 0 and a unit behind the state that is always zero, in a free bank
#pragma once

#include "model/mask.hpp"
#include "model/plan.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct Layout {
  Network network;
  Plan plan;
  std::vector<std::int32_t> rows;   // [sms, rows_per_group, groups]: row of W, -1 for none
  std::vector<std::int32_t> order;  // [hidden]: place of each unit in the state, see units_per_sm
  std::vector<std::int32_t> place;  // [sms, slots_total, threads]: what to load; >= state_units: a zero unit
  std::vector<float> value;         // [sms, slots_total, threads]
  std::vector<std::int32_t> done;   // [sms, rows_per_group, warps]: slots that the warp does not skip

  std::size_t entry(int sm, int slot, int thread) const {
    return (static_cast<std::size_t>(sm) * plan.slots_total() + slot) * plan.threads + thread;
  }
};

// Throws InputError if the matrix is not what the network says or a row does not fit its slots.
Layout make_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix);

// The matrix back; equal to what make_layout was given (a dense layout's zeros are dropped).
SparseMatrix unpack(const Layout& layout);

// The kernel's weight words, for every SM [register_words(network, plan), threads], then [quads, threads, 4]: those of
// shared memory, then the streamed ones.
std::vector<std::uint32_t> encode(const Layout& layout);

// fp8: the scale of each row of W, [rows]; else empty.
std::vector<float> row_scales(const Layout& layout);

// Shared-memory wavefronts of one step's gathers, by the hardware's rule: a phase takes as many wavefronts as the
// most loaded bank has distinct words.
struct Wavefronts {
  std::int64_t total = 0;  // over all SMs
  std::int64_t busiest_sm = 0;
  std::int64_t ideal = 0;  // over all SMs, without a conflict
};
Wavefronts gather_wavefronts(const Layout& layout);

}  // namespace onchip
