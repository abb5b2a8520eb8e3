// SPDX-License-Identifier: Apache-2.0
// Which non-zero sits in which slot of which lane: computed once on the host, loaded by the kernel, replayed by the
// simulator, read back by the tests. Deterministic in (matrix, network, plan).
//
//   rows     of the units, as model/sparse/row_assignment.hpp deals them, so that SMs carry equal loads, and model/banks/bank_balance.hpp
//            exchanges them; a unit's longest row first; then the pieces of rows, one after another in the order of
//            their rows, over the groups of the SM
//   slots    of the rows that a warp works on at the same time: the plan's, and whole chunks for what a row has beyond,
//            unless it is cut into pieces. In bank-aware order the lanes that one shared-memory phase serves (32 lanes
//            for loads of up to 4 bytes, 16 for 8, 8 for 16) get columns in different banks where possible
//   padding  slots that no non-zero fills hold value 0 and a unit behind the state that is always zero, in a free bank;
//            packed_delta: some unit of the state (model/sparse/delta_order.hpp)
//
// The dense persistent family has neither slots nor padding: its units stand in their own order, and of a layout it
// uses `order` and `value`, [sms, warps, warp_tiles, 32 lanes, 8], and `metadata`, as model/dense/fragments.hpp says. What
// bitmap storage leaves out is left out when it is encoded.
#pragma once

#include "model/workload/mask.hpp"
#include "model/plan/plan.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct Layout {
  Network network;
  Plan plan;
  std::vector<std::int32_t> rows;  // [sms, all_rows, groups]: row of W, -1 for none
  // With pieces, [sms, all_rows, groups]: which of the row's non-zeros are there, the first and the one behind the
  // last; packed_delta: in the order of the state.
  std::vector<std::int32_t> begins, ends;
  std::vector<std::int32_t> order;      // [hidden]: place of each unit in the state, see units_per_sm
  std::vector<std::int64_t> first;      // [sms * all_rows * warps + 1]: first slot of each warp's rows
  std::vector<std::int32_t> place;      // [slots, 32 lanes]: what to load; >= state_units: a zero unit
  std::vector<float> value;             // [slots, 32 lanes]
  std::vector<std::uint32_t> metadata;  // structured_2_4: [sms, warps, metadata_words, 32 lanes]

  // The r-th rows of a warp's groups: their slots are [first[i], first[i + 1]).
  std::size_t warp_row(int sm, int r, int warp) const {
    return (static_cast<std::size_t>(sm) * plan.all_rows() + r) * plan.warps() + warp;
  }
  int slots(std::size_t warp_row) const { return static_cast<int>(first[warp_row + 1] - first[warp_row]); }
  std::size_t entry(std::size_t warp_row, int slot, int lane) const {
    return static_cast<std::size_t>(first[warp_row] + slot) * 32 + lane;
  }
  // Where `rows` and `begins` have the r-th row of a group.
  std::size_t group_row(int sm, int r, int group) const {
    return (static_cast<std::size_t>(sm) * plan.all_rows() + r) * plan.groups() + group;
  }
  // Row of W that the group of this thread works on, -1 for none.
  std::int32_t row(int sm, int r, int group) const { return rows[group_row(sm, r, group)]; }
};

// Throws InputError if the matrix is not what the network says, or a row does not fit: longer than its slots if the
// plan has neither tail nor pieces, or of more pieces than its SM's groups take, or of more chunks than shared memory
// has room for if nothing may be streamed; structured_2_4: if the matrix is not 2:4; bitmap: if a bank has no room for
// the words of its tiles. Works on so many threads; the layout does not depend on how many.
Layout make_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix, int threads = 1);

// The matrix back; equal to what make_layout was given (but all layouts except packed_pair ones drop its zeros).
SparseMatrix unpack(const Layout& layout);

// Chunks of each warp's rows beyond the plan's slots, and where they are: those in shared memory come first.
struct TailChunks {
  int shared = 0, streamed = 0;
};
std::vector<TailChunks> split_tails(const Layout& layout);  // [sms * all_rows * warps], see warp_row()

// What the kernel loads; words as encoded in kernels/sparse/gather.cuh, or in kernels/dense/multiply.cuh.
struct Encoded {
  // Per SM: [register_words, threads], then [shared_chunks] chunks; dense persistent: tiles, of 4 words a lane,
  // [warps, those in registers], then [warps, shared_tiles], or of bitmap storage [bank_words, 32 banks], then [warps,
  // metadata_words, 32 lanes].
  std::vector<std::uint32_t> weights;
  std::vector<std::uint32_t> streamed;  // chunks: of each SM and warp, in order of use in a step
  // With a tail, per SM: [rows_per_group, warps] chunks in shared memory | streamed << 16; [warps] the byte of the SM's
  // shared memory where the warp's chunks begin; [pieces, warps] chunks of the pieces; [warps] its first streamed
  // chunk; [warps] how many it streams in a step. Behind that of all SMs, with pieces: pieces_of_rows().
  std::vector<std::int32_t> tails;
};
Encoded encode(const Layout& layout);

// Of each row of W, where its result is: place of its unit in the state * gates + place of the row in its unit.
std::vector<std::int32_t> row_places(const Layout& layout);

// Of each row of W, at its row_places: the number of its first piece | how many it has << 16; without pieces: none.
std::vector<std::int32_t> pieces_of_rows(const Layout& layout);

// fp8: the scale of each row of W, [rows]; else empty.
std::vector<float> row_scales(const Layout& layout);

// Shared-memory wavefronts of one step's gathers, by the hardware's rule: a phase takes as many wavefronts as the
// most loaded bank has distinct words. Dense persistent: those of its weights in shared memory; of bitmap storage a
// load of words that no lane has takes none.
struct Wavefronts {
  std::int64_t total = 0;  // over all SMs
  std::int64_t busiest_sm = 0;
  std::int64_t ideal = 0;  // over all SMs, without a conflict
};
Wavefronts gather_wavefronts(const Layout& layout);

}  // namespace onchip
