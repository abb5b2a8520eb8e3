// SPDX-License-Identifier: Apache-2.0
// A lane's share of the products of W and the state.
//
// Of each of its rows a lane has kSlots[row] slots in registers, and as many of each split of other rows
// (row_splits.cuh). What a row has beyond them, its overflow, comes in chunks of kChunkSlots slots for every lane of the
// warp, as many as this warp's rows need: first the chunks in shared memory, then those that are streamed from L2 through
// a ring of kRingChunks chunks, the warp's own, each asked for kRingChunks - 1 chunks ahead of its use, across steps too.
//
// Sums are fp32, but with fp16 values ONCHIP_PROMOTE_EVERY consecutive products of a lane are first summed in fp16. fp8
// (e4m3) values are widened to fp16 bit by bit, which leaves them 2^8 too small; the row's scale makes up for it.
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"

constexpr Storage kStorage = static_cast<Storage>(ONCHIP_STORAGE);
constexpr int kLanesPerRow = ONCHIP_LANES_PER_ROW;     // power of two
constexpr int kRowsPerGroup = ONCHIP_ROWS_PER_GROUP;   // gated cells: gates * units per group, a unit's gates together
constexpr int kTileRows = ONCHIP_TILE_ROWS;            // reduced together, a power of two
constexpr int kRowSplits = ONCHIP_ROW_SPLITS;          // of longer rows, per group, a power of two; 0: none
constexpr int kSlots[] = {ONCHIP_SLOTS};               // per lane in registers, of the group's r-th row, then of its splits
constexpr bool kHasOverflow = ONCHIP_HAS_OVERFLOW;     // of rows or splits
constexpr bool kRowsOverflow = ONCHIP_ROWS_OVERFLOW;
constexpr bool kSplitsOverflow = ONCHIP_SPLITS_OVERFLOW;
constexpr int kChunksInFlight = ONCHIP_CHUNKS_IN_FLIGHT;  // that a warp takes from shared memory at once, a power of two
constexpr int kRingChunks = ONCHIP_RING_CHUNKS;        // per warp; 0: nothing is streamed
constexpr int kPassPlanes = ONCHIP_PASS_PLANES;        // planes reduced together
constexpr int kPromoteEvery = ONCHIP_PROMOTE_EVERY;
constexpr int kIndexShift = ONCHIP_INDEX_SHIFT;        // byte offset of a unit = stored index << shift

constexpr int kTileHeight = kGates > 1 ? kGates : kTileRows;  // without the GRU's empty row
constexpr int kTiles = (kRowsPerGroup + kTileHeight - 1) / kTileHeight;
constexpr int kPassSamples = kPassPlanes * kPlaneSamples;
constexpr int kPasses = kPlanes / kPassPlanes;
constexpr int kValues = kTileRows * kPassSamples;  // sums of a tile, of one pass: [kPassSamples][kTileRows]

static_assert(sizeof(kSlots) / sizeof(int) == kRowsPerGroup + kRowSplits, "every row of a group has its number of slots");
static_assert((kTileRows & (kTileRows - 1)) == 0, "a tile has a power of two of rows");
static_assert(kPlanes % kPassPlanes == 0, "a pass takes whole planes");
static_assert((kPrecision != kBf16 && kPrecision != kFp32) || kPromoteEvery == 1, "only fp16 products are summed below fp32");
static_assert(((kStateUnits + kZeroUnits - 1) * kPlaneUnitBytes >> kIndexShift) < 65536 || kStorage != kPackedPair,
              "a stored index has 16 bits");
static_assert(kStorage != kPackedDelta || kPrecision != kFp32, "distances are stored beside values of 8 or 16 bits");
static_assert(kRingChunks != 1, "the ring holds what is used and what is under way");
static_assert((kChunksInFlight & (kChunksInFlight - 1)) == 0, "taken in halves");

// Weights come in bundles, whose words follow one another: packed 16-bit values one slot in one word, value << 16 |
// index; packed fp32 two slots in three words, two indices and then the values; packed fp8 four slots in three words,
// the values and then the indices; dense as many values as fill a word; distances of four slots, a byte each, in one
// word and then the values in one (fp8) or two.
constexpr int kValueBytes = kPrecision == kFp8 ? 1 : kElementBytes;
constexpr int kBundleSlots = kStorage == kPackedDelta ? 4
                             : kStorage == kDense       ? 4 / kValueBytes
                             : kPrecision == kFp32      ? 2
                             : kPrecision == kFp8       ? 4
                                                        : 1;
constexpr int kBundleWords = kStorage == kPackedDelta ? 1 + kValueBytes : kStorage == kDense || kBundleSlots == 1 ? 1 : 3;
constexpr __host__ __device__ int row_words(int slots) {
  return kStorage == kDense ? (slots * kValueBytes + 3) / 4
         : kStorage == kPackedDelta ? (slots * kValueBytes + 3) / 4 + (slots + 3) / 4
         : kPrecision == kFp32 ? slots + (slots + 1) / 2
         : kPrecision == kFp8 ? (slots + 3) / 4 + (slots + 1) / 2
                              : slots;
}
constexpr int kStartWords = kStorage == kPackedDelta ? 1 : 0;  // of a row in registers: the first slot's byte in the state
constexpr __host__ __device__ int first_word(int row) {
  int words = 0;
  for (int r = 0; r < row; ++r) words += kStartWords + row_words(kSlots[r]);
  return words;
}
constexpr int kRegisterWords = first_word(kRowsPerGroup + kRowSplits);  // of a thread

// Chunks: whole bundles. Of four words: [32][4], of two: [32][2], else [kChunkWords][32].
constexpr int kChunkSlots = ONCHIP_CHUNK_SLOTS;
constexpr int kChunkWords = kChunkSlots / kBundleSlots * kBundleWords;
constexpr int kChunkBytes = 128 * kChunkWords;
constexpr int kLaneBytes = kChunkWords % 2 ? 4 : 4 * kChunkWords;  // from one lane's words to the next's
static_assert(kChunkSlots % kBundleSlots == 0 && (kChunkWords <= 4), "a chunk is a few whole bundles");

struct Weights {
  u32 registers[kRegisterWords > 0 ? kRegisterWords : 1];
  u32 chunk;          // where this lane's words of the warp's next chunk in shared memory are
  u32 ring;           // where this warp's next streamed chunk is
  u32 ring_begin;     // where the warp's ring begins
  const char* list;   // the warp's streamed chunks, in order of use in a step; lane l: its 16 bytes of the first
  int streamed;       // of them
  int next;           // the next to be asked for
};

// ---- chunks ---------------------------------------------------------------------------------------------------------

// This lane's words of a chunk.
__device__ __forceinline__ void load_chunk(u32 address, u32* words) {
  if constexpr (kChunkWords == 4) {
    const Word v = load_shared(address);
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
  } else if constexpr (kChunkWords == 2) {
    capture(kLoads, 8, address, true);
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address) : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kChunkWords; ++i) {
      words[i] = load_shared_int(address + 128 * i);
    }
  }
}

__device__ __forceinline__ u32 ring_place(const Weights& w, u32 place, int distance) {
  place += kChunkBytes * distance;
  return place >= w.ring_begin + kChunkBytes * kRingChunks ? place - kChunkBytes * kRingChunks : place;
}

// Asks for the warp's next streamed chunk, which lanes copy 16 bytes at a time.
__device__ __forceinline__ void fetch_chunk(Weights& w, u32 to, int lane) {
  if (kChunkBytes == 512 || lane < kChunkBytes / 16) {
    copy_16(to + 16 * lane, w.list + static_cast<long long>(w.next) * kChunkBytes);
  }
  end_copies();
  w.next = w.next + 1 == w.streamed ? 0 : w.next + 1;
}

// ---- products -------------------------------------------------------------------------------------------------------

constexpr int kUnitWords = (kPlaneUnitBytes + 3) / 4;  // of one plane
constexpr bool kHalf2Sums = (kPrecision == kFp16 || kPrecision == kFp8) && kPromoteEvery > 1;

// One unit's state of the samples of a plane, in one load.
__device__ __forceinline__ void load_unit(u32 address, u32 (&h)[kUnitWords]) {
  capture(kLoads, kPlaneUnitBytes, address, true);
  if constexpr (kPlaneUnitBytes == 2) {
    u16 half;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address));
    h[0] = half;
  } else if constexpr (kPlaneUnitBytes == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(h[0]) : "r"(address));
  } else if constexpr (kPlaneUnitBytes == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(h[0]), "=r"(h[1]) : "r"(address));
  } else {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(h[0]), "=r"(h[1]), "=r"(h[2]), "=r"(h[3])
                 : "r"(address));
  }
}

// Half `upper` of a register in both halves of another; moved, not permuted, because the multiplication can read one
// half of a register as both.
__device__ __forceinline__ u32 both_halves(u32 word, bool upper) {
  u32 both;
  if (upper) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high}; }" : "=r"(both) : "r"(word));
  } else {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low}; }" : "=r"(both) : "r"(word));
  }
  return both;
}

// e4m3 values 0 and 2 (upper: 1 and 3) of a word as two fp16, 2^-8 of what they are.
__device__ __forceinline__ u32 widen_fp8(u32 values, bool upper) {
  const u32 high = upper ? values : values << 8;
  return (high & 0x80008000u) | (high >> 1 & 0x3f803f80u);
}

// Value `i` of a bundle, as the register that holds it, and the half of that.
__device__ __forceinline__ u32 bundle_value(const u32 (&bundle)[kBundleWords], int i, bool& upper) {
  if constexpr (kPrecision == kFp8) {
    upper = i / 2;
    return widen_fp8(bundle[kStorage == kPackedDelta ? 1 : 0], i % 2);
  } else if constexpr (kStorage == kPackedDelta) {
    upper = i % 2;
    return bundle[1 + i / 2];
  } else if constexpr (kPrecision == kFp32) {
    upper = false;
    return bundle[kStorage == kDense ? 0 : 1 + i];
  } else {
    upper = kStorage == kDense ? i % 2 : true;
    return bundle[0];
  }
}

// Byte i of a word, with its sign.
__device__ __forceinline__ int signed_byte(u32 word, int i) {
  u32 byte;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(byte) : "r"(word), "r"(0x8880 + 0x1111 * i));
  return static_cast<int>(byte);
}

// Where the i-th slot of a bundle reads, the s-th of a run: bytes in the state. `before`: where the slot before reads,
// of the run's first where the one before the run does; dense: where the run's first reads, of all.
__device__ __forceinline__ u32 bundle_offset(const u32 (&bundle)[kBundleWords], int i, int s, u32 before) {
  if constexpr (kStorage == kDense) {
    return before + s * kLanesPerRow * kPlaneUnitBytes;
  } else if constexpr (kStorage == kPackedDelta) {
    return before + signed_byte(bundle[0], i) * kPlaneUnitBytes;
  } else {
    const u32 pair = bundle[kPrecision == kFp8 ? 1 + i / 2 : 0];
    return ((kPrecision == kFp32 || kPrecision == kFp8) && i % 2 ? pair >> 16 : pair & 0xffffu) << kIndexShift;
  }
}

// kRunSlots slots of a row, whose words `word(0)`, `word(1)`, ... are, times one plane of the state: added to sum[value],
// sum[value + kRows], ..., one for each sample of the plane; kRows are reduced together. `offset`: see bundle_offset();
// returns that for the slots that follow.
template <int kRunSlots, int kRows, typename WordAt, int kSums>
__device__ __forceinline__ u32 gather_run(WordAt word, u32 plane, u32 offset, int value, float (&sum)[kSums]) {
  u32 bundle[kBundleWords] = {};
  u32 partial[kUnitWords];
#pragma unroll
  for (int s = 0; s < kRunSlots; ++s) {
    if (s % kBundleSlots == 0) {
#pragma unroll
      for (int k = 0; k < kBundleWords; ++k) {
        const int i = s / kBundleSlots * kBundleWords + k;
        if (i < row_words(kRunSlots)) {
          bundle[k] = word(i);
        }
      }
    }
    u32 h[kUnitWords];
    const u32 place = bundle_offset(bundle, s % kBundleSlots, s, offset);
    offset = kStorage == kPackedDelta ? place : offset;
    load_unit(plane + place, h);
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
      if (s % kPromoteEvery == kPromoteEvery - 1 || s == kRunSlots - 1) {
#pragma unroll
        for (int b = 0; b < kPlaneSamples; ++b) {
          sum[value + b * kRows] += element(partial, b);
        }
      }
    } else {
      const float single = element(&factor, kPrecision == kFp32 ? 0 : upper);
#pragma unroll
      for (int b = 0; b < kPlaneSamples; ++b) {
        sum[value + b * kRows] = fmaf(single, element(h, b), sum[value + b * kRows]);
      }
    }
  }
  return offset + (kStorage == kDense ? kRunSlots * kLanesPerRow * kPlaneUnitBytes : 0);
}

// kChunks neighbouring chunks of a row, times the planes of a pass; takes and returns the offset as gather_run() does.
// The sums are of a tile's rows, or of splits, of as many as are reduced together; this row is the `place`-th of them.
template <int kChunks, int kPass, int kSums>
__device__ __forceinline__ u32 gather_chunks(u32 address, u32 shared, u32 offset, int place, float (&sum)[kSums]) {
  constexpr int kRows = kSums / kPassSamples;
  u32 words[kChunks * kChunkWords];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    load_chunk(address + kChunkBytes * i, words + kChunkWords * i);
  }
  u32 next = offset;
#pragma unroll
  for (int plane = 0; plane < kPassPlanes; ++plane) {
    next = gather_run<kChunks * kChunkSlots, kRows>([&](int i) { return words[i]; },
                                                    shared + (kPass * kPassPlanes + plane) * kPlaneBytes, offset,
                                                    plane * kPlaneSamples * kRows + place, sum);
  }
  return next;
}

// Of the overflow of a row, `left` chunks in shared memory, kChunks at a time and the rest in halves of that.
template <int kChunks, int kPass, int kSums>
__device__ __forceinline__ void gather_shared(Weights& w, int left, u32 shared, u32& offset, int place,
                                              float (&sum)[kSums]) {
#pragma unroll 1
  for (; left >= kChunks; left -= kChunks) {
    offset = gather_chunks<kChunks, kPass>(w.chunk, shared, offset, place, sum);
    w.chunk += kChunks * kChunkBytes;
  }
  if constexpr (kChunks > 1) {
    gather_shared<kChunks / 2, kPass>(w, left, shared, offset, place, sum);
  }
}

// The overflow of a row; `chunks`: how many in shared memory, and << 16 how many streamed.
template <int kPass, int kSums>
__device__ __forceinline__ void gather_overflow(Weights& w, int chunks, u32 shared, u32 offset, int place, int lane,
                                                float (&sum)[kSums]) {
  gather_shared<kChunksInFlight, kPass>(w, chunks & 0xffff, shared, offset, place, sum);
  if constexpr (kRingChunks > 0) {
#pragma unroll 1
    for (int left = chunks >> 16; left > 0; --left) {
      wait_for_copies<kRingChunks - 2>();
      __syncwarp();
      // The chunk used before this one has been read by all lanes: its place takes the next one that is not under way.
      fetch_chunk(w, ring_place(w, w.ring, kRingChunks - 1), lane);
      offset = gather_chunks<1, kPass>(w.ring + kLaneBytes * lane, shared, offset, place, sum);
      w.ring = ring_place(w, w.ring, 1);
    }
  }
}

// What a warp must know of its overflow, in shared memory: int [kRowsPerGroup][kWarps] chunks of each row, as
// gather_overflow() takes them, then [kWarps] the byte in shared memory where the warp's chunks begin; then
// [kRowSplits][kWarps] chunks of the splits, which a step takes before those of the rows.
constexpr int kOverflowInts = kHasOverflow ? (kRowsPerGroup + 1 + kRowSplits) * kWarps : 0;

// Where the first slot of a row reads, in bytes from the beginning of a plane.
template <int kRow>
__device__ __forceinline__ u32 first_offset(const Weights& w, int lane_of_row) {
  return kStorage == kPackedDelta ? kept(w.registers[first_word(kRow)]) : lane_of_row * kPlaneUnitBytes;
}

// The slots in registers of one row, the `place`-th of kRows that are reduced together, for the planes of one pass;
// returns the offset as gather_run() does. Templates, not a loop: where that is long the compiler does not unroll it, and
// an array of sums that is indexed at run time lies in memory.
template <int kRow, int kPass, int kRows, int kPlane = 0, int kSums>
__device__ __forceinline__ u32 gather_registers(const Weights& w, u32 shared, int lane_of_row, int place,
                                                float (&sum)[kSums]) {
  // Opaque at every use: unpacked anew in every step and for every plane, or the compiler keeps what it unpacked, in as
  // many registers again.
  const u32 next = gather_run<kSlots[kRow], kRows>(
      [&](int i) { return kept(w.registers[first_word(kRow) + kStartWords + i]); },
      shared + (kPass * kPassPlanes + kPlane) * kPlaneBytes, first_offset<kRow>(w, lane_of_row),
      kPlane * kPlaneSamples * kRows + place, sum);
  if constexpr (kPlane + 1 < kPassPlanes) {
    return gather_registers<kRow, kPass, kRows, kPlane + 1>(w, shared, lane_of_row, place, sum);
  } else {
    return next;
  }
}

// One row of tile kTile, in one pass.
template <int kTile, int kPass, int kRowOfTile>
__device__ __forceinline__ void gather_row(Weights& w, u32 shared, u32 overflow, int lane_of_row, int thread,
                                           float (&sum)[kValues]) {
  constexpr int row = kTile * kTileHeight + kRowOfTile;
  int chunks = 0;
  if constexpr (kRowsOverflow) {
    chunks = load_shared_int(overflow + 4 * row * kWarps);
  }
  const u32 offset = gather_registers<row, kPass, kTileRows>(w, shared, lane_of_row, kRowOfTile, sum);
  if constexpr (kRowsOverflow) {
    gather_overflow<kPass>(w, chunks, shared, offset, kRowOfTile, thread % 32, sum);
  }
}

template <int kTile, int kPass, int kRowOfTile = 0>
__device__ __forceinline__ void gather_tile(Weights& w, u32 shared, u32 overflow, int lane_of_row, int thread,
                                            float (&sum)[kValues]) {
  if constexpr (kRowOfTile < kTileHeight && kTile * kTileHeight + kRowOfTile < kRowsPerGroup) {
#if ONCHIP_PRODUCER_WARPS != 0  // every pass sets out from the first tile's
    gather_row<kTile, kPass, kRowOfTile>(w, shared, overflow, lane_of_row, thread, sum);
    gather_tile<kTile, kPass, kRowOfTile + 1>(w, shared, overflow, lane_of_row, thread, sum);
#else
    const u32 begin = w.chunk;
    gather_row<kTile, kPass, kRowOfTile>(w, shared, overflow, lane_of_row, thread, sum);
    gather_tile<kTile, kPass, kRowOfTile + 1>(w, shared, overflow, lane_of_row, thread, sum);
    if constexpr (kRowOfTile == 0 && kPass < kPasses - 1) {
      w.chunk = begin;  // the next pass takes the same chunks again
    }
#endif
  }
}
