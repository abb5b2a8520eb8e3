// SPDX-License-Identifier: Apache-2.0
// Everything that follows from a network and a sparse plan: sizes, places, lanes, and the map of shared memory. Derived
// once; price, footprint, layout, definitions, trace and tests read it.
#pragma once

#include "model/exchange/state.hpp"
#include "model/plan/shared_memory.hpp"
#include "model/sparse/plan.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

// Of a block's shared memory, in this order. Sizes: geometry.cpp.
enum class SparseRegion : std::uint8_t {
  state,        // [planes][state_units + zero_units][plane_samples]
  outbox,       // [planes][units_per_sm][plane_samples]: what the SM publishes
  input,        // [2][batch][units_per_sm][gates]: this step's and the next's
  carry,        // gated cells: float [units_per_sm][batch_padded]
  lengths,      // gated cells: int [batch_padded]
  gates,        // gated cells: u32 [units_per_sm], which row of a unit is which gate
  bias,         // GRU: float [units_per_sm]
  scales,       // fp8: float [units_per_sm][gates]
  overflow,     // int [all_rows + 1][warps]: chunks of each row, and where the first is
  split_sums,   // float [row_splits * groups][batch_padded]
  split_table,  // int [units_per_sm][gates]: which splits are of which row
  barriers,     // u64 [passes], of producer warps
  chunks,       // [shared_chunks][chunk_bytes]
  ring,         // [warps][ring_chunks][chunk_bytes]
  end
};
inline constexpr std::array<std::string_view, 14> kSparseRegionNames{
    "state",  "outbox",   "input",      "carry",       "lengths",  "gates",  "bias",
    "scales", "overflow", "split_sums", "split_table", "barriers", "chunks", "ring"};

// Weights are stored in bundles of so many slots in so many 32-bit words; the last of a row may be shorter.
struct Bundle {
  int slots = 1, words = 1;
};

struct SparseGeometry : SparsePlan, StateGeometry {
  // Expects a plan whose numbers are within their ranges (check()).
  // `columns`: of one SM's block of a matrix, a whole number of 16-byte words; 0: those of all SMs' units.
  SparseGeometry(const Recurrent& of_network, const SparsePlan& plan, int columns = 0);

  Recurrent network;
  int gates = 1;

  // The state lies in planes of what one load fetches of a unit, so that the loads reach every bank:
  //   state[plane][unit][samples of the plane]
  int unit_bytes = 0;  // one hidden unit's state of the padded batch
  int plane_unit_bytes = 0;
  int planes = 1;
  int plane_samples = 1;
  int passes = 1;  // over the planes, pass_planes at a time
  int pass_samples = 1;
  int zero_units = 0;   // units behind the state that stay zero, for padding slots
  int index_shift = 0;  // byte offset of a unit = stored 16-bit index << shift

  // Shared memory serves a warp's load in phases of 32, 16 or 8 neighbouring lanes, for 4, 8 or 16 bytes per lane. The
  // lanes of a group are spread over the phases, so that every phase serves all groups of the warp: their rows together
  // are more even over the banks than each alone. Of a lane's number in its group, the lowest bits are the lowest of
  // its thread's, the highest the highest; the group's number stands between them.
  int load_phases = 1;  // of a warp's load: 1, 2 or 4
  int spread = 1;       // phases that a group's lanes take part in
  int thread_of(int group, int lane) const;
  struct GroupLane {
    int group, lane;
  };
  GroupLane group_lane_of(int thread) const;

  int tile_height = 1;  // rows of a tile, without the GRU's empty one
  int tiles = 1;
  int fetched_words = 0;  // of 16 bytes, by the busiest thread, before a pass or step

  // Weights in registers.
  Bundle bundle;
  int start_words = 0;                                          // of each row, per thread: where its first slot reads
  int register_words = 0;                                       // 32-bit words of weights per thread
  int register_weights() const { return slots_total(); }        // of a thread
  int row_words(int row_slots) const;                           // that so many slots of a lane take
  int words_of(int r) const { return row_words(slots_of(r)); }  // of the r-th of all_rows()
  // Slots that a row of so many non-zeros takes, of all its lanes and of each; packed_delta: with those that are
  // expected to be spent on distances beyond kMostDelta.
  std::int64_t slots_of_lanes(std::int64_t length) const;
  int row_slots(std::int64_t length) const;

  // A chunk of the overflow: whole bundles, of every lane of a warp.
  int chunk_slots = 1;
  int chunk_words = 1;  // per lane
  int chunk_bytes = 0;  // of the warp
  // With splits: slots per lane, in registers and chunks, that the r-th row of a group may take, and each split.
  int row_room(int r) const { return slots[r] + row_chunks * chunk_slots; }
  int split_room() const { return split_slots + split_chunks * chunk_slots; }
  // Slots of a lane over all its rows, those of the overflow on average over the warps of an SM.
  double mean_slots() const;

  // Of the stored weights' bytes, those that every step reads from L2.
  double streamed_share() const {
    const double streamed = static_cast<double>(streamed_chunks()) * chunk_bytes;
    return streamed > 0
               ? streamed / (4.0 * register_words * threads + static_cast<double>(overflow_chunks) * chunk_bytes)
               : 0;
  }

  // Whether the passes can be exchanged one by one, so that producer warps have something to do.
  bool can_pipeline() const;
  int pipelined_passes() const { return producer_warps > 0 ? passes : 1; }  // that are exchanged one by one

  SharedMemory<SparseRegion> memory;
  std::int64_t bytes_without_weights() const { return memory.at(SparseRegion::chunks); }
  std::int64_t shared_bytes() const { return memory.bytes(); }
};

inline SparseGeometry geometry(const Recurrent& network, const SparsePlan& plan) {
  return {network, plan};
}

}  // namespace onchip
