// SPDX-License-Identifier: Apache-2.0
// The rows of a unit one behind another, cut evenly over the lanes of its group (model/joined_rows.hpp).
//
// A lane has one row of the unit, or the end of one and the beginning of another, which begins with a strip of
// kStripSlots slots: every strip is summed on its own, and the sum joins that of the first row or of the second, under a
// predicate. After the last slot the lane's two sums are taken for those of its rows, and the lanes reduce all rows
// together as ever.
//
//   every strip    products -> fp32 | @first: sum of the first row += it | @!first: sum of the second row += it
//   then           sums of the tile's rows: for each row the first's, the second's or zero
//
// Where the rows of all units of a block are joined over its lanes (ONCHIP_JOINS_BLOCK), the lane table and what becomes of
// the lane's sums are in joined_block.cuh.
//
// Distances (kPackedDelta) begin anew with the second row: what it starts from is in a register of its own, and taken
// instead of where the slot before read, at the strip that is the lane's second row's first.
//
//   lane table     int [kTiles][kThreads] in shared memory: strips before the second row | first row << 8 | second << 16 |
//                  whether rows of the warp have pieces << 24
//
// Where a lane has slots in chunks, too, these are behind all strips: of its last row.

constexpr int kStripSlots = ONCHIP_STRIP_SLOTS;
constexpr int kOneRow = 0xff;            // strips of a lane whose first row is its only one
constexpr int kBehindAll = kOneRow - 1;  // no strip's number
constexpr int kLaneTableBytes = 4 * kTiles * kThreads;
static_assert(kStorage != kDense && kPrecision != kFp8 && kRingChunks == 0, "pairs of value and index, or distances");
#ifdef ONCHIP_JOINS_BLOCK
static_assert(kGates > 1 || kStorage == kPackedPair, "of distances a lane's two rows begin in words of a unit's rows");
#else
static_assert(kGates > 1, "a unit's gates");
#endif
static_assert(kStripSlots % kBundleSlots == 0, "a strip is whole bundles");
#ifdef ONCHIP_JOINS_BLOCK
constexpr int kPartBytes = 4 * kPassSamples;  // see joined_block.cuh
constexpr int kPartsBytes = kPasses * 2 * kThreads * kPartBytes;
constexpr int kRowTableBytes = (4 * kUnitsPerSm * kGates + 15) / 16 * 16;
#else
constexpr int kPartsBytes = 0, kRowTableBytes = 0;
#endif

// Of this lane, in the tile. `tails` is where the warp's number of chunks of the first row is (gather.cuh).
__device__ __forceinline__ u32 lane_table(u32 tails, int thread) {
  return tails - 4 * (thread / 32) + whole_words(4 * kTailInts) + 4 * thread;
}

// `tails`: where the tables begin in shared memory. In the block's data they stand behind those of tails and pieces.
__device__ __forceinline__ void load_lane_table(const Arguments& a, u32 tails, int thread) {
  const int* const table = a.tails + (kHasTail ? kBlocks * (kTailInts + 2 * kWarps) : 0) +
                           (kPieces > 0 ? kBlocks * kUnitsPerSm * kGates : 0) + blockIdx.x * (kTiles * kThreads);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    store_shared_int(lane_table(tails + 4 * (thread / 32), thread) + 4 * tile * kThreads, table[tile * kThreads + thread]);
  }
}

// The sums of a lane's two rows, of one pass.
struct LaneSums {
  float first[kPassSamples], second[kPassSamples];
};

// kCount slots whose words `word(0)`, `word(1)`, ... are, times one plane of the state. `offset`: see bundle_offset();
// returns that for the slots that follow.
template <int kCount, typename WordAt>
__device__ __forceinline__ u32 multiply_strip(WordAt word, u32 plane, u32 offset, float (&sum)[kPlaneSamples]) {
  u32 bundle[kBundleWords] = {};
  u32 partial[kUnitWords];
#pragma unroll
  for (int s = 0; s < kCount; ++s) {
    if (s % kBundleSlots == 0) {
#pragma unroll
      for (int k = 0; k < kBundleWords; ++k) {
        const int i = s / kBundleSlots * kBundleWords + k;
        if (i < row_words(kCount)) {
          bundle[k] = word(i);
        }
      }
    }
    u32 h[kUnitWords];
    offset = bundle_offset(bundle, s % kBundleSlots, s, offset);
    load_unit(plane + offset, h);
    bool upper;
    const u32 factor = bundle_value(bundle, s % kBundleSlots, upper);
    if constexpr (kHalf2Sums) {
      const u32 both = both_halves(factor, upper);
#pragma unroll
      for (int i = 0; i < kUnitWords; ++i) {
        if (s % kPromoteEvery == 0) {
          asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(partial[i]) : "r"(both), "r"(h[i]));
        } else {
          asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(partial[i]) : "r"(both), "r"(h[i]));
        }
      }
      if (s % kPromoteEvery == kPromoteEvery - 1 || s == kCount - 1) {
#pragma unroll
        for (int b = 0; b < kPlaneSamples; ++b) {
          sum[b] = s < kPromoteEvery ? element(partial, b) : sum[b] + element(partial, b);
        }
      }
    } else {
      const float single = element(&factor, kPrecision == kFp32 ? 0 : upper);
#pragma unroll
      for (int b = 0; b < kPlaneSamples; ++b) {
        sum[b] = s == 0 ? single * element(h, b) : fmaf(single, element(h, b), sum[b]);
      }
    }
  }
  return offset;
}

// Adds a strip's sums of one plane to the lane's; `strip`: its number.
__device__ __forceinline__ void join(const float (&of_strip)[kPlaneSamples], int strip, int strips_of_first, int plane,
                                     LaneSums& sums) {
#pragma unroll
  for (int b = 0; b < kPlaneSamples; ++b) {
    const int i = plane * kPlaneSamples + b;
    asm("{ .reg .pred first; setp.lt.s32 first, %3, %4; @first add.f32 %0, %0, %2; @!first add.f32 %1, %1, %2; }"
        : "+f"(sums.first[i]), "+f"(sums.second[i])
        : "f"(of_strip[b]), "r"(strip), "r"(strips_of_first));
  }
}

// What a lane has in a tile.
struct JoinedLane {
  int strips_of_first, first, second;  // rows of the tile; ONCHIP_JOINS_BLOCK: parts
  bool awaits_pieces;                  // its warp
  int chunks;                          // of the warp
};
template <int kTile>
__device__ __forceinline__ JoinedLane find_lane(u32 tails, int thread) {
#ifdef ONCHIP_PIECES_ANYWHERE
  constexpr bool kHasTail = ONCHIP_ROW_CHUNKS != 0;  // pieces may have tails where rows have none
#endif
  const int table = load_shared_int(lane_table(tails, thread) + 4 * kTile * kThreads);
  JoinedLane lane{table & 0xff, table >> 8 & 0xff, table >> 16 & 0xff, table >> 24 != 0, 0};
  if constexpr (kHasTail) {
    lane.chunks = load_shared_int(tails + 4 * kTile * kTileHeight * kWarps);
  }
  return lane;
}

// In registers.
template <int kTile>
__device__ __forceinline__ constexpr int strips_of() {
  return (kSlots[kTile * kTileHeight] + kStripSlots - 1) / kStripSlots;
}

// Where the slots from strip kStrip on read on from; `offset`: where the slot before them reads.
template <int kTile, int kStrip>
__device__ __forceinline__ u32 offset_of_strip(const Weights& w, const JoinedLane& lane, u32 offset) {
  if constexpr (kStorage != kPackedDelta) {
    return 0;
  } else if constexpr (kStrip == 0) {
    return kept(w.registers[first_word(kTile * kTileHeight)]);
  } else {
    return lane.strips_of_first == kStrip ? kept(w.registers[first_word(kTile * kTileHeight + 1)]) : offset;
  }
}

// Strips [kStrip, kEnd) of a tile in registers, times one plane of a pass; `offset` and what is returned: see
// multiply_strip(). Templates for the same reason as gather_registers().
template <int kTile, int kPlane, int kStrip, int kEnd>
__device__ __forceinline__ u32 gather_plane(const Weights& w, u32 plane, u32 offset, const JoinedLane& lane,
                                            LaneSums& sums) {
  if constexpr (kStrip == kEnd) {
    return offset;
  } else {
    constexpr int kRow = kTile * kTileHeight, kDone = kStrip * kStripSlots;
    constexpr int kCount = kSlots[kRow] - kDone < kStripSlots ? kSlots[kRow] - kDone : kStripSlots;
    float of_strip[kPlaneSamples];
    const u32 next = multiply_strip<kCount>(
        [&](int i) { return kept(w.registers[first_word(kRow) + start_words(kRow) + row_words(kDone) + i]); }, plane,
        offset_of_strip<kTile, kStrip>(w, lane, offset), of_strip);
    join(of_strip, kStrip, lane.strips_of_first, kPlane, sums);
    return gather_plane<kTile, kPlane, kStrip + 1, kEnd>(w, plane, next, lane, sums);
  }
}

// Times all planes of a pass.
template <int kTile, int kPass, int kStrip, int kEnd, int kPlane = 0>
__device__ __forceinline__ u32 gather_strips(const Weights& w, u32 shared, u32 offset, const JoinedLane& lane,
                                             LaneSums& sums) {
  const u32 next = gather_plane<kTile, kPlane, kStrip, kEnd>(
      w, shared + (kPass * kPassPlanes + kPlane) * kPlaneBytes, offset, lane, sums);
  if constexpr (kPlane + 1 < kPassPlanes) {
    return gather_strips<kTile, kPass, kStrip, kEnd, kPlane + 1>(w, shared, offset, lane, sums);
  } else {
    return next;
  }
}

// `left` chunks in shared memory, kChunks at a time and the rest in halves of that.
template <int kChunks, int kPass>
__device__ __forceinline__ void gather_joined_chunks(Weights& w, int left, u32 shared, u32 offset,
                                                     const JoinedLane& lane, LaneSums& sums) {
#pragma unroll 1
  for (; left >= kChunks; left -= kChunks) {
    u32 words[kChunks * kChunkWords];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      load_chunk(w.chunk + kChunkBytes * i, words + kChunkWords * i);
    }
    u32 next = 0;
#pragma unroll
    for (int plane = 0; plane < kPassPlanes; ++plane) {
      float of_chunks[kPlaneSamples];
      next = multiply_strip<kChunks * kChunkSlots>([&](int i) { return words[i]; },
                                                   shared + (kPass * kPassPlanes + plane) * kPlaneBytes, offset,
                                                   of_chunks);
      join(of_chunks, kBehindAll, lane.strips_of_first, plane, sums);
    }
    offset = next;
    w.chunk += kChunks * kChunkBytes;
  }
  if constexpr (kChunks > 1) {
    gather_joined_chunks<kChunks / 2, kPass>(w, left, shared, offset, lane, sums);
  }
}

template <int kTile, int kPass>
__device__ __forceinline__ void gather_joined_tail(Weights& w, u32 shared, u32 offset, const JoinedLane& lane,
                                                   LaneSums& sums) {
  if constexpr (kHasTail) {
    offset = offset_of_strip<kTile, strips_of<kTile>()>(w, lane, offset);
    gather_joined_chunks<kChunksInFlight, kPass>(w, lane.chunks, shared, offset, lane, sums);
  }
}

// The sums of the tile's rows, in this lane.
__device__ __forceinline__ void choose(const JoinedLane& lane, const LaneSums& sums, float (&sum)[kValues]) {
#pragma unroll
  for (int row = 0; row < kTileRows; ++row) {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      sum[b * kTileRows + row] = lane.first == row ? sums.first[b] : lane.second == row ? sums.second[b] : 0.0f;
    }
  }
}

// All rows of tile kTile, in one pass.
template <int kTile, int kPass>
__device__ __forceinline__ void gather_tile(Weights& w, u32 shared, u32 tails, int, int thread, float (&sum)[kValues]) {
  const JoinedLane lane = find_lane<kTile>(tails, thread);
  LaneSums sums{};
  const u32 begin = w.chunk;
  const u32 offset = gather_strips<kTile, kPass, 0, strips_of<kTile>()>(w, shared, 0, lane, sums);
  gather_joined_tail<kTile, kPass>(w, shared, offset, lane, sums);
  if constexpr (kHasTail && kPass < kPasses - 1) {
    w.chunk = begin;  // the next pass takes the same chunks again
  }
  choose(lane, sums, sum);
}
