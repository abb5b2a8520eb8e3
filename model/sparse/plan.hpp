// SPDX-License-Identifier: Apache-2.0
// The plan of the sparse persistent family: one block per SM, one *lane group* (lanes_per_row lanes of a warp) per
// hidden unit, or several units one after another; a unit has one row of W per gate. Units are assigned to groups by
// falling length of their longest row, so that the r-th row of every group is about equally long; each lane holds
// slots[r] (value, index) pairs of it.
//
// Where few rows are longer than most, groups have fewer slots than the longest need. What a row has beyond them is
// split, and the splits go to all groups of its SM, row_splits to each, whoever's they are. Rows and splits may have
// chunks of slots in shared memory beside those in registers, each as many as it needs.
//
// Where a thread's weights are: registers first; what they cannot hold overflows to shared memory, in chunks; what that
// cannot hold is streamed from L2 in every step, chunk by chunk, through a ring in shared memory.
//
// The state of several samples may be computed in passes, some samples each. With producer warps passes are pipelined:
// one is computed while the state of another is on its way.
#pragma once

#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/workload/recurrent.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string_view>

namespace onchip {

inline constexpr int kMaxRowsPerGroup = 32;
inline constexpr int kMaxTileRows = 8;
inline constexpr int kWidestLoad = 16;  // bytes
inline constexpr int kMostRingChunks = 4;
inline constexpr int kMostChunksInFlight = 4;
inline constexpr int kMostLoadsInFlight = 16;
inline constexpr int kMostPromoteEvery = 64;
inline constexpr int kMostProducerWarps = 8;
inline constexpr int kMostRowSplits = 4;  // of a group
inline constexpr int kMostPipelined = 4;  // passes: a block has 16 barriers
inline constexpr int kMostDelta = 127;    // packed_delta: units between neighbouring slots of a lane
inline constexpr int kMostSlots = 65536, kMostChunks = 1 << 20;

using Slots = std::array<int, kMaxRowsPerGroup>;  // of every row of a group

struct SparsePlan {
  using Workload = Recurrent;
  static constexpr std::string_view kName = "sparse_persistent";
  static constexpr bool kIsOnChip = true;  // the weights stay on the chip

  Storage storage = Storage::packed_pair;
  RowOrder order = RowOrder::bank_aware;
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  int sms = 0;                   // blocks, one per SM
  int threads = 0;               // per block that compute, a multiple of 32
  int lanes_per_row = 32;        // 1, 2, 4, ... 32; gated cells: at least 4
  int rows_per_group = 1;        // units per group * gates: the gates of the first unit, then of the second, ...
  Slots slots{};                 // per lane in registers, for the r-th row of a group
  int tile_rows = 1;             // rows reduced together, a power of two; gated cells: 4, a unit's gates
  int pass_planes = 1;           // planes of the state reduced together, a power of two
  int load_bytes = kWidestLoad;  // widest load of the state; the size of an element: a sample at a time
  int loads_in_flight = 2;       // 16-byte words of the state that a thread polls at once
  int line_words = kLineWords;   // 16-byte words of the state in each line of L2, a power of two
  int poll_delay = 0;            // cycles from publishing an SM's part of the state to the first poll for the next
  int promote_every = 1;         // products summed in fp16 before they join the fp32 sum; 1: all sums in fp32
  int overflow_chunks = 0;       // of an SM, on average; 0: all weights are in registers
  int longest_overflow = 0;      // chunks of the warp that has most
  int shared_chunks = 0;         // room for them in shared memory, of an SM
  int chunks_in_flight = 1;      // that a warp takes from shared memory at once, a power of two
  int ring_chunks = 0;           // per warp, of the ring that streamed chunks come through; 0: none are streamed
  int row_splits = 0;            // per group, a power of two: parts of rows that are too long for their own slots
  int split_slots = 0;           // per lane in registers, of each split
  int most_splits = 0;           // of a row
  int row_chunks = 0;            // with splits: of a row, at most, beyond its slots in registers; the rest is split
  int split_chunks = 0;          // of a split, at most, beyond split_slots
  int producer_warps = 0;        // beside the threads that compute: one publishes the state of a pass, the others fetch
                                 // it while another pass is computed; 0: every thread fetches its share before a step

  int block_threads() const { return threads + 32 * producer_warps; }
  int fetching_threads() const {
    return exchange == ExchangeProtocol::bulk_copy ? 32 : producer_warps > 0 ? 32 * (producer_warps - 1) : threads;
  }
  int groups() const { return threads / lanes_per_row; }
  int warps() const { return threads / 32; }
  int all_rows() const { return rows_per_group + row_splits; }  // that a group multiplies: its own, then the splits
  int slots_of(int r) const { return r < rows_per_group ? slots[r] : split_slots; }
  int slots_total() const {  // in registers
    return std::accumulate(slots.begin(), slots.begin() + rows_per_group, row_splits * split_slots);
  }
  // The order in which a step takes the overflow of all_rows(): the splits, then the rows of the group.
  int overflow_row(int i) const { return i < row_splits ? rows_per_group + i : i - row_splits; }
  bool has_overflow() const { return overflow_chunks > 0; }
  bool has_overflow(int r) const {  // the r-th of all_rows()
    return has_overflow() && (row_splits == 0 || (r < rows_per_group ? row_chunks : split_chunks) > 0);
  }
  int rows_with_overflow() const {  // of a group, with its splits
    return (has_overflow(0) ? rows_per_group : 0) + (row_splits > 0 && has_overflow(rows_per_group) ? row_splits : 0);
  }
  int streamed_chunks() const {  // of an SM, on average
    return ring_chunks > 0 ? std::max(0, overflow_chunks - shared_chunks) : 0;
  }
  Tier tier() const {  // where its weights lie at most
    return ring_chunks > 0 ? Tier::streamed : has_overflow() ? Tier::shared_memory : Tier::registers;
  }
  friend bool operator==(const SparsePlan&, const SparsePlan&) = default;
};

std::span<const Field<SparsePlan>> fields(const SparsePlan&);

}  // namespace onchip
