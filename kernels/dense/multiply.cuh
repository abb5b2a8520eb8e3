// SPDX-License-Identifier: Apache-2.0
// The products of the dense persistent kernel: what a warp polls of the state goes straight into the registers of
// B fragments, and is multiplied with the warp's fragments of W as it comes.
//
// A warp has kWarpSpans spans of the state (spans.cuh) and all rows of its SM for them: kTiles tiles of W of 16 rows x 16
// units, A fragments of mma.m16n8k16, of four words a lane. Of them ONCHIP_SHARED_TILES lie in shared memory, evenly
// between the others, so that the tensor cores and the loads are busy side by side.
//
// Stored with a bitmap, those in shared memory have no empty words (bitmap.cuh).
//
// Stored as 2:4, a tile has 16 rows x 32 units, in A fragments of mma.sp.m16n8k32: as many words, and metadata, which
// stays in registers. It multiplies a whole span at once.
//
//   tile    [kWarpSpans][kSpanTiles: 2 halves of a span, or all of it][kRowTiles]
//   sums    fp32, [kRowTiles][kSampleTiles] tiles of 16 rows x 8 samples, in kChains independent sums, where there are so
//           few that the tensor cores would wait for each other's results
#pragma once

#include "kernels/dense/bitmap.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"

constexpr int kRows = kUnitsPerSm * kGates;
constexpr int kRowTiles = (kRows + 15) / 16;
constexpr int kSampleTiles = (kGroupBatch + 7) / 8;
constexpr int kWarpSpans = (kSpans + kWarps - 1) / kWarps;  // the last warps may have fewer, or none
constexpr int kSpanTiles = kIsStructured ? 1 : 2;
constexpr int kTiles = kWarpSpans * kSpanTiles * kRowTiles;
constexpr int kSharedTiles = ONCHIP_SHARED_TILES;
constexpr int kRegisterTiles = kTiles - kSharedTiles;
constexpr int kTileBytes = 512;
constexpr bool kIsCompact = kStorage == kBitmap && kSharedTiles > 0;
constexpr int kSharedWeightBytes = kIsCompact ? 128 * ONCHIP_BANK_WORDS : kWarps * kSharedTiles * kTileBytes;
constexpr int kMetadataWords = kIsStructured ? (kTiles + 1) / 2 : kIsCompact ? (kSharedTiles + 7) / 8 + 1 : 0;  // of a lane
constexpr int kBegin = kIsCompact ? kMetadataWords - 1 : 0;  // of them: where the lane's words begin
constexpr int kChains = kRowTiles * kSampleTiles == 1 ? 4 : kRowTiles * kSampleTiles == 2 ? 2 : 1;

// Spans are awaited in groups. The first two are asked for at once; each further one when the one before it has come, in
// the place of the one before that, so that it is on its way while the one before it is multiplied.
constexpr int kGroupSpans = ONCHIP_LOADS_IN_FLIGHT / (2 * kSampleTiles);
constexpr int kGroups = (kWarpSpans + kGroupSpans - 1) / kGroupSpans;
static_assert(ONCHIP_LOADS_IN_FLIGHT % (2 * kSampleTiles) == 0 && kGroupSpans > 0, "two groups of whole spans are in flight");
static_assert(kSharedTiles <= kTiles, "no more tiles in shared memory than there are");
static_assert(kPrecision == kFp16 || kPrecision == kBf16, "what the tensor cores multiply");

// Tiles before this one that lie in shared memory.
constexpr __host__ __device__ int shared_before(int tile) { return tile * kSharedTiles / kTiles; }
constexpr __host__ __device__ bool in_shared(int tile) { return shared_before(tile + 1) > shared_before(tile); }

struct Weights {
  u32 registers[kRegisterTiles > 0 ? kRegisterTiles : 1][4];
  u32 metadata[kMetadataWords > 0 ? kMetadataWords : 1];  // of tiles 2 i and 2 i + 1; or of eight in shared memory
  u32 shared;  // this lane's words of the warp's first tile in shared memory
  u32 zero;    // always, of which the compiler knows nothing
};

// The warp's tiles of registers, [kWarps][kRegisterTiles][32 lanes].
__device__ __forceinline__ void load_registers(Weights& weights, const Word* tiles, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < kRegisterTiles; ++i) {
    const Word v = tiles[(warp * kRegisterTiles + i) * 32 + lane];
    const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      weights.registers[i][k] = words[k];
      asm volatile("" : "+r"(weights.registers[i][k]));  // not loadable again: the compiler must keep the register
    }
  }
}

// Tiles from shared memory, on their way while those before them are multiplied. Those that are expanded take longer.
constexpr int kMostAhead = kIsCompact ? 4 : 2;
constexpr int kTilesAhead = kSharedTiles < kMostAhead ? kSharedTiles : kMostAhead;
struct Ring {
  Word tiles[kTilesAhead > 0 ? kTilesAhead : 1];
  u32 next;  // compact: the lane's next word
};

struct Sums {
  float of[kChains][kRowTiles][kSampleTiles][4];
};

// ---- the state, polled ----------------------------------------------------------------------------------------------

// What of a state one warp takes.
struct Source {
  const char* state;  // this lane's 16 bytes of the warp's first span and first sample tile
  u32 place;          // of these in a state
  int spans;          // that the warp has, at most kWarpSpans
  int samples;        // this lane's sample is in as many sample tiles
};

// Whether the warp has its span i, and this lane a sample in sample tile j. Where tiles are expanded, and where both warps
// have spans and lanes have samples in different numbers (ONCHIP_RAGGED), the compiler is told that all have the first
// ones: a predicate for each takes up to 80 registers more. Elsewhere it takes none.
constexpr bool kFirstAreOfAll = kIsCompact || ONCHIP_RAGGED != 0;
__device__ __forceinline__ bool is_there(const Source& source, int i, int j) {
  constexpr int kSpansOfAll = kFirstAreOfAll ? kSpans - (kWarps - 1) * kWarpSpans : 0;
  constexpr int kTilesOfAll = kFirstAreOfAll ? kGroupBatch / 8 : 0;
  return (i < kSpansOfAll || i < source.spans) && (j < kTilesOfAll || j < source.samples);
}

// 8 units of one sample for each span and sample tile: two words for either half of the span.
struct Group {
  u32 words[kGroupSpans][kSampleTiles][4];
};

// A word is two units of one SM, written at once; its neighbours may come from other SMs. The largest of them and
// `after`, in an order that lets nothing be compared before `after` is known.
__device__ __forceinline__ u32 largest(const u32 (&words)[4], u32 after) {
  return max(max(max(max(after, words[0]), words[1]), words[2]), words[3]);
}
__device__ __forceinline__ u32 largest(const u32 (&words)[4]) {
  return max(max(words[0], words[1]), max(words[2], words[3]));
}

// Whether something is missing in any lane.
__device__ __forceinline__ bool is_incomplete(const Group& group, u32 after) {
  u32 all = after;
#pragma unroll
  for (int i = 0; i < kGroupSpans; ++i) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      all = max(all, largest(group.words[i][j], after));
    }
  }
  return __any_sync(0xffffffffu, all == ~0u);
}

// Asks for what is missing; without a branch, so that all loads are on their way at once.
template <int kGroup>
__device__ __forceinline__ void poll(Group& group, const Source& source) {
#pragma unroll
  for (int i = 0; i < kGroupSpans; ++i) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      u32(&w)[4] = group.words[i][j];
      if (kGroup * kGroupSpans + i < kWarpSpans) {
        asm volatile(
            "{ .reg .pred p; setp.eq.u32 p, %5, 0xffffffff; @p ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
            : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
            : "l"(source.state + in_l2((kGroup * kGroupSpans + i) * kSpanBytes) + in_l2(j * 512)), "r"(largest(w))
            : "memory");
      }
    }
  }
}

// From a whole state in shared memory. Spans that the warp does not have and samples that there are not are zero.
template <int kGroup>
__device__ __forceinline__ void take_group(Group& group, const Source& source, u32 state) {
#pragma unroll
  for (int i = 0; i < kGroupSpans; ++i) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      Word v{};
      if (is_there(source, kGroup * kGroupSpans + i, j)) {
        v = load_shared(state + source.place + (kGroup * kGroupSpans + i) * kSpanBytes + j * 512);
      }
      group.words[i][j][0] = v.x;
      group.words[i][j][1] = v.y;
      group.words[i][j][2] = v.z;
      group.words[i][j][3] = v.w;
    }
  }
}

// The same for the first time. Spans that the warp does not have and samples that there are not stay zero.
template <int kGroup>
__device__ __forceinline__ void begin_poll(Group& group, const Source& source) {
#pragma unroll
  for (int i = 0; i < kGroupSpans; ++i) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      const bool exists = is_there(source, kGroup * kGroupSpans + i, j);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        group.words[i][j][k] = exists ? ~0u : 0u;
      }
    }
  }
  poll<kGroup>(group, source);
}

// Where tiles are expanded, none of their loads behind this moves before the loads of the state. The assembler (ptxas) does
// not keep the order of volatile loads: in some sizes it moves those that ask for the next group behind all that the tiles
// of this one need, and every group waits a whole round trip to L2. The warp is converged here: only a NOP comes of it.
__device__ __forceinline__ void keep_polls_first() {
  if constexpr (kIsCompact) {
    __syncwarp();
  }
}

// ---- products -------------------------------------------------------------------------------------------------------

// Volatile: the compiler would load a tile right before it is used.
__device__ __forceinline__ Word load_tile(u32 address) {
  Word v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

__device__ __forceinline__ void multiply(float (&sum)[4], const Word& a, u32 b0, u32 b1) {
  if constexpr (kPrecision == kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
}

// A span at once: of every four of its units, as word k of the four lanes of a sample has them, two are multiplied.
// `kSelector`: which of the lanes have the metadata, the first two or the last two of every four.
template <int kSelector>
__device__ __forceinline__ void multiply_structured(float (&sum)[4], const Word& a, const u32 (&b)[4], u32 metadata) {
  if constexpr (kPrecision == kBf16) {
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata),
          "n"(kSelector));
  } else {
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata),
          "n"(kSelector));
  }
}

// Tile kTile of those in shared memory, if there are so many.
template <int kTile>
__device__ __forceinline__ void fetch_tile(const Weights& weights, Ring& ring) {
  if constexpr (kTile < kSharedTiles) {
    if constexpr (kIsCompact) {
      ring.tiles[kTile % kTilesAhead] = expand_tile<kTile>(weights.metadata[kTile / 8], ring.next);
    } else {
      ring.tiles[kTile % kTilesAhead] = load_tile(weights.shared + kTileBytes * kTile);
    }
  }
}

// Tiles [kTile, kEnd) with the group of spans that they belong to. A template, not a loop: an array of registers needs
// indices that the compiler knows, and it does not unroll what is long.
template <int kTile, int kEnd>
__device__ __forceinline__ void multiply_tiles(const Weights& weights, const Group& group, Ring& ring, Sums& sums) {
  if constexpr (kTile < kEnd) {
    constexpr int span = kTile / (kSpanTiles * kRowTiles) % kGroupSpans, half = kTile / kRowTiles % kSpanTiles;
    Word a;
    if constexpr (in_shared(kTile)) {
      a = ring.tiles[shared_before(kTile) % kTilesAhead];
    } else {
      const u32(&w)[4] = weights.registers[kTile - shared_before(kTile)];
      a = {w[0], w[1], w[2], w[3]};
    }
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      float(&sum)[4] = sums.of[kTile / kRowTiles % kChains][kTile % kRowTiles][j];
      if constexpr (kIsStructured) {
        multiply_structured<kTile % 2>(sum, a, group.words[span][j], weights.metadata[kTile / 2]);
      } else {
        multiply(sum, a, group.words[span][j][2 * half], group.words[span][j][2 * half + 1]);
      }
    }
    if constexpr (in_shared(kTile)) {
      fetch_tile<shared_before(kTile) + kTilesAhead>(weights, ring);
    }
    multiply_tiles<kTile + 1, kEnd>(weights, group, ring, sums);
  }
}

// Zero, but not before the first of the last products of group kGroup is: where the compiler may look at the words of
// the next group earlier, it does, and the products wait for them too.
template <int kGroup>
__device__ __forceinline__ u32 zero_after(const Weights& weights, const Sums& sums) {
  if constexpr (kGroup < 0 || kExchangeOnly) {
    return 0;
  } else {
    constexpr int last = (kGroup + 1) * kGroupSpans * kSpanTiles - kChains;  // rows of tiles, one for each chain
    constexpr int first = (last > 0 ? last : 0) * kRowTiles;
    return __float_as_uint(sums.of[first / kRowTiles % kChains][first % kRowTiles][0][0]) & weights.zero;
  }
}

// Awaits group kGroup, asks for the next, in the place of the one before it, and multiplies it. `polls`: how often a warp
// may find a word missing; once that is used up it takes what is there.
template <int kGroup>
__device__ __forceinline__ void multiply_groups(const Weights& weights, const Source& source, Group& group, Group& next,
                                                Ring& ring, int& polls, Sums& sums) {
  if constexpr (kGroup < kGroups) {
    if constexpr (kExchange == kLamport) {
      const u32 after = zero_after<kGroup - 1>(weights, sums);
#pragma unroll 1
      while (is_incomplete(group, after) && polls > 0) {
        --polls;
        poll<kGroup>(group, source);
        if constexpr (kGroup == 0) {
          poll<1>(next, source);
        }
      }
    }
    if constexpr (kGroup > 0 && kGroup + 1 < kGroups) {
      begin_poll<kGroup + 1>(next, source);
    }
    if constexpr (kGroup > 0) {
      keep_polls_first();
    }
    if constexpr (!kExchangeOnly) {
      constexpr int end = (kGroup + 1) * kGroupSpans * kSpanTiles * kRowTiles;
      multiply_tiles<kGroup * kGroupSpans * kSpanTiles * kRowTiles, end < kTiles ? end : kTiles>(weights, group, ring, sums);
    }
    multiply_groups<kGroup + 1>(weights, source, next, group, ring, polls, sums);
  }
}

template <int kTile>
__device__ __forceinline__ void fetch_first_tiles(const Weights& weights, Ring& ring) {
  if constexpr (kTile < kTilesAhead) {
    fetch_tile<kTile>(weights, ring);
    fetch_first_tiles<kTile + 1>(weights, ring);
  }
}

__device__ __forceinline__ Ring first_tiles(const Weights& weights) {
  Ring ring{};
  if constexpr (!kExchangeOnly) {
    ring.next = weights.shared;
    fetch_first_tiles<0>(weights, ring);
  }
  return ring;
}

// The first two groups of a state, asked for.
struct Asked {
  Group group, next;
};
__device__ __forceinline__ void ask(Asked& asked, const Source& source) {
  begin_poll<0>(asked.group, source);
  if constexpr (kGroups > 1) {
    begin_poll<1>(asked.next, source);
  }
}

// This warp's sums of one step.
__device__ __forceinline__ void multiply_asked(const Weights& weights, const Source& source, Asked& asked, int& polls,
                                               Sums& sums) {
  keep_polls_first();
  Ring ring = first_tiles(weights);
  multiply_groups<0>(weights, source, asked.group, asked.next, ring, polls, sums);
}
__device__ __forceinline__ void multiply_state(const Weights& weights, const Source& source, int& polls, Sums& sums) {
  Asked asked{};
  ask(asked, source);
  multiply_asked(weights, source, asked, polls, sums);
}

// The same with a whole state in shared memory, group after group, the next one's words on their way.
template <int kGroup>
__device__ __forceinline__ void multiply_taken(const Weights& weights, const Source& source, u32 state, Group& group,
                                               Group& next, Ring& ring, Sums& sums) {
  if constexpr (kGroup < kGroups) {
    if constexpr (kGroup + 1 < kGroups) {
      take_group<kGroup + 1>(next, source, state);
    }
    constexpr int end = (kGroup + 1) * kGroupSpans * kSpanTiles * kRowTiles;
    multiply_tiles<kGroup * kGroupSpans * kSpanTiles * kRowTiles, end < kTiles ? end : kTiles>(weights, group, ring, sums);
    multiply_taken<kGroup + 1>(weights, source, state, next, group, ring, sums);
  }
}
__device__ __forceinline__ void multiply_shared_state(const Weights& weights, const Source& source, u32 state, Sums& sums) {
  if constexpr (!kExchangeOnly) {
    Group group, next{};
    take_group<0>(group, source, state);
    Ring ring = first_tiles(weights);
    multiply_taken<0>(weights, source, state, group, next, ring, sums);
  }
}
