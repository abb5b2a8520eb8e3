// SPDX-License-Identifier: Apache-2.0
// Sparse persistent RNN: h[t+1] = cell(W h[t], x[t]) for all time steps in one cooperative launch, one block per SM.
//
//   registers   this thread's share of W, packed once on the host, loaded once, never read again
//   smem        the whole state h[t], batch contiguous: state[unit][sample]; where a unit's samples exceed the widest
//               load, in planes of one load, state[plane][unit][sample], so that the loads reach every bank;
//               weights that the registers cannot hold, in 16-byte quads, each thread its own
//   L2          the sequence of states, through which the SMs exchange h[t+1]; weights that not even shared memory
//               holds, copied through a small ring ahead of their use, in every step
//
//   one step of one SM                                            lane group = ONCHIP_LANES_PER_ROW lanes = one row
//   +--------------------------------------------------------+
//   | stage    poll states[t] until every element is there, copy to smem; block barrier
//   | gather   each lane: for its slots, sum += value * state[index]     one wide load serves a whole plane
//   | reduce   over the lanes of a group, all rows of a tile at once     halving exchange, then butterfly
//   | finish   the cell, in the lanes that hold the sums -> outbox in smem
//   | emit     block barrier; outbox -> this SM's segment of states[t+1]
//   +--------------------------------------------------------+
//
// A tile is the rows that are reduced together: the gates of one unit (GRU: and an empty row), or some rows of a relu
// or tanh network. Of a tile's values, value v = sample * kTileRows + row ends in lane v of the group, so that the
// gates of a unit meet in four neighbouring lanes, each applies its own gate's function, and two shuffles do the rest.
//
// The state is in owner's order: SM s computes its units [s * ONCHIP_UNITS_PER_SM, ...), whole 16-byte words, and
// writes them with one coalesced store; the input is in that order too. The kernels at the end translate. What a step
// needs of the input is copied to shared memory a step ahead; what is carried from step to step in fp32 (LSTM: c, GRU:
// h) stays there.
//
// Exchange (Lamport): states[step] is written once, and the data is its own flag. What is still empty is all ones, a NaN
// that the conversion instructions never produce (they give the canonical NaN 0x7fff or 0x7fffffff), so NaN and
// infinity travel like any other value. 16-byte words are moved by scalar 128-bit accesses, one memory operation each,
// so looking at 4 of the bytes is enough. Every SM empties its own segment kAhead steps before it writes it; two fences
// by every thread lie in between, so whoever has seen the state one step earlier sees the segment empty. For comparison,
// ONCHIP_EXCHANGE selects a barrier over all blocks instead, after which the states are read without a look.
//
// Sums: fp32, but with fp16 values ONCHIP_PROMOTE_EVERY consecutive products of a lane are first summed in fp16. fp8
// (e4m3) values are widened to fp16 bit by bit, which leaves them 2^8 too small; the row's scale makes up for it.
//
// The ONCHIP_* constants come from the plan.

#include "state.cuh"

// ---- compile-time configuration -------------------------------------------------------------------------------------

enum Storage { kPackedPair, kDense };
enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier };
enum Tier { kRegisters, kShared, kStreamed };

constexpr int kThreads = ONCHIP_THREADS;
constexpr int kLanesPerRow = ONCHIP_LANES_PER_ROW;     // power of two
constexpr int kRowsPerGroup = ONCHIP_ROWS_PER_GROUP;   // gated cells: gates * units per group, a unit's gates together
constexpr int kTileRows = ONCHIP_TILE_ROWS;            // reduced together, a power of two
constexpr int kSlots[] = {ONCHIP_SLOTS};               // per lane, of the group's r-th row
constexpr int kLeastSlots[] = {ONCHIP_LEAST_SLOTS};    // that no warp skips
constexpr int kSkippedSlots = ONCHIP_SKIPPED_SLOTS;    // further ones are done or skipped in chunks, see gather_chunks
constexpr bool kSkips = ONCHIP_SKIPS;
constexpr bool kExchangeOnly = ONCHIP_EXCHANGE_ONLY;   // no gathers: what the exchange of the state alone takes
constexpr int kPassPlanes = ONCHIP_PASS_PLANES;        // planes reduced together
constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT; // 16-byte words a thread polls at once
constexpr int kPromoteEvery = ONCHIP_PROMOTE_EVERY;
constexpr int kAhead = ONCHIP_AHEAD;                   // steps from emptying a segment to writing it
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;          // units after the state that stay zero: what padding slots read
constexpr int kIndexShift = ONCHIP_INDEX_SHIFT;        // byte offset of a unit = stored index << shift

constexpr int kRingQuads = ONCHIP_RING_QUADS;          // 16-byte words of the ring per thread, for streamed weights

constexpr Storage kStorage = static_cast<Storage>(ONCHIP_STORAGE);
constexpr Exchange kExchange = static_cast<Exchange>(ONCHIP_EXCHANGE);

constexpr bool kCarries = kGates > 1;  // a vector in fp32 from step to step
constexpr int kGroups = kThreads / kLanesPerRow;
constexpr int kTileHeight = kGates > 1 ? kGates : kTileRows;  // without the GRU's empty row
constexpr int kTiles = (kRowsPerGroup + kTileHeight - 1) / kTileHeight;
constexpr int kPassSamples = kPassPlanes * kPlaneSamples;
constexpr int kPasses = kPlanes / kPassPlanes;
constexpr int kWarps = kThreads / 32;

constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;  // in shared memory
constexpr int kStateBytes = kPlanes * kPlaneBytes;

constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kValues = kTileRows * kPassSamples;  // sums of a tile, of one pass
constexpr int kOutputs = kValues > kLanesPerRow ? kValues / kLanesPerRow : 1;  // of them per lane, after the reduction
// Where a thread has many words of the state or many tiles, the compiler would keep all their addresses from step to step, in
// more registers than there are. They are then computed in every step; 0.05 us of the critical path on an H200.
constexpr bool kManyAddresses = kStateWords > kThreads * kLoadsInFlight || kPlanes > 2 || kTiles > 2;
constexpr int kPolls = 1 << 20;  // a thread's polls in vain before it gives up: most of a second, a million steps' worth

// The lanes of a group are spread over the phases in which shared memory serves a warp's load (model/plan.hpp): which bit
// of the thread's number is bit k of the lane's.
constexpr int kPhases = kPlaneUnitBytes > 4 ? kPlaneUnitBytes / 4 : 1;
constexpr int kSpread = kPhases < kLanesPerRow ? kPhases : kLanesPerRow;
constexpr int kNeighbours = kLanesPerRow / kSpread;
constexpr __host__ __device__ int thread_mask(int lane_mask) {
  return lane_mask < kNeighbours ? lane_mask : lane_mask / kNeighbours * (32 / kSpread);
}

static_assert(32 % kLanesPerRow == 0 && kThreads % 32 == 0, "a lane group is a power-of-two part of a warp");
static_assert(sizeof(kSlots) / sizeof(int) == kRowsPerGroup, "every row of a group has its number of slots");
static_assert((kTileRows & (kTileRows - 1)) == 0, "a tile has a power of two of rows");
static_assert(kPlanes % kPassPlanes == 0, "a pass takes whole planes");
static_assert(kGates == 1 || (kTileRows == 4 && kLanesPerRow >= 4), "the gates of a unit meet in four lanes");
static_assert((kPrecision != kBf16 && kPrecision != kFp32) || kPromoteEvery == 1, "only fp16 products are summed below fp32");
static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 8, "a power of two, so that fences come at even distances");
static_assert(((kStateUnits + kZeroUnits - 1) * kPlaneUnitBytes >> kIndexShift) < 65536 || kStorage == kDense,
              "a stored index has 16 bits");

// Weights come in bundles, whose words follow one another: packed 16-bit values one slot in one word, value << 16 |
// index; packed fp32 two slots in three words, two indices and then the values; packed fp8 four slots in three words,
// the values and then the indices; dense as many values as fill a word.
constexpr int kValueBytes = kPrecision == kFp8 ? 1 : kElementBytes;
constexpr int kBundleSlots = kStorage == kDense ? 4 / kValueBytes : kPrecision == kFp32 ? 2 : kPrecision == kFp8 ? 4 : 1;
constexpr int kBundleWords = kStorage == kDense || kBundleSlots == 1 ? 1 : 3;
constexpr __host__ __device__ int row_words(int slots) {
  return kStorage == kDense ? (slots * kValueBytes + 3) / 4
         : kPrecision == kFp32 ? slots + (slots + 1) / 2
         : kPrecision == kFp8 ? (slots + 3) / 4 + (slots + 1) / 2
                              : slots;
}
constexpr __host__ __device__ int slots_of(int row) { return row < kRowsPerGroup ? kSlots[row] : 0; }
constexpr __host__ __device__ int first_word(int row) {
  int words = 0;
  for (int r = 0; r < row; ++r) words += row_words(slots_of(r));
  return words;
}
constexpr int kWords = first_word(kRowsPerGroup);  // of a thread, in order of use

// Where each word is. Quads are 4 words of one tile; what is left of a tile stands in registers.
constexpr int kQuadTiers[] = {ONCHIP_QUAD_TIERS, kRegisters};  // of every quad, tile after tile; the last is a stop
struct WordPlaces {
  int tier[kWords];
  int at[kWords];           // register; or 4 * quad of its tier + word in it
  int streamed[kTiles];     // streamed quads of a tile
  int registers, shared_quads, streamed_quads;
};
constexpr __host__ __device__ WordPlaces place_words() {
  WordPlaces places{};
  int quad = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    const int first = first_word(tile * kTileHeight);
    const int words = first_word(tile * kTileHeight + kTileHeight) - first;
    for (int i = 0; i < words; ++i) {
      const int tier = i / 4 < words / 4 ? kQuadTiers[quad + i / 4] : kRegisters;
      places.tier[first + i] = tier;
      if (tier == kRegisters) {
        places.at[first + i] = places.registers++;
      } else {
        int& quads = tier == kShared ? places.shared_quads : places.streamed_quads;
        places.at[first + i] = 4 * quads + i % 4;
        if (i % 4 == 3) {
          ++quads;
          places.streamed[tile] += tier == kStreamed;
        }
      }
    }
    quad += words / 4;
  }
  return places;
}
__device__ constexpr WordPlaces kPlaces = place_words();
constexpr WordPlaces kHostPlaces = place_words();
constexpr int kRegisterWords = kHostPlaces.registers;
constexpr int kSharedQuads = kHostPlaces.shared_quads;
constexpr int kStreamedQuads = kHostPlaces.streamed_quads;

// The streamed quads in the order in which a step asks for them: those of a tile once for every plane.
constexpr int kFetches = kPlanes * kStreamedQuads;
struct Fetches {
  int quad[kFetches + 1];
  int first[kTiles];  // fetch of the tile's first streamed quad
};
constexpr __host__ __device__ Fetches order_fetches() {
  Fetches fetches{};
  int next = 0, quad = 0;
  for (int tile = 0; tile < kTiles; ++tile) {
    fetches.first[tile] = next;
    for (int plane = 0; plane < kPlanes; ++plane) {
      for (int i = 0; i < kHostPlaces.streamed[tile]; ++i) {
        fetches.quad[next++] = quad + i;
      }
    }
    quad += kHostPlaces.streamed[tile];
  }
  return fetches;
}
__device__ constexpr Fetches kFetchOrder = order_fetches();
static_assert(kStreamedQuads == 0 || (kRingQuads >= 2 && kRingQuads <= kFetches + 1), "the ring holds at most a step's quads");

// Shared memory: state [kPlanes][kStateUnits + kZeroUnits][kPlaneSamples], outbox [kPlanes][kUnitsPerSm][kPlaneSamples],
// then these, each in whole 16-byte words (sizes: shared_bytes() in model/plan.cpp).
constexpr __host__ __device__ int whole_words(int bytes) { return (bytes + 15) / 16 * 16; }
constexpr int kInputPieces = kUnitsPerSm * kGates * kElementBytes / 4;  // of one sample
constexpr int kInputBytes = whole_words(kBatch * kInputPieces * 4);
constexpr int kOutboxAt = kStateBytes;
constexpr int kInputAt = kOutboxAt + 16 * kOutboxWords;  // [2][kBatch][kUnitsPerSm][kGates], this step's and the next's
constexpr int kCarryAt = kInputAt + 2 * kInputBytes;     // float [kUnitsPerSm][kBatchPadded]
constexpr int kLengthsAt = kCarryAt + (kCarries ? whole_words(4 * kUnitsPerSm * kBatchPadded) : 0);  // int [kBatchPadded]
constexpr int kBiasAt = kLengthsAt + (kCarries ? whole_words(4 * kBatchPadded) : 0);        // GRU: float [kUnitsPerSm]
constexpr int kScaleAt = kBiasAt + (kCell == kGru ? whole_words(4 * kUnitsPerSm) : 0);  // fp8: float [kUnitsPerSm][kGates]
constexpr int kDoneAt = kScaleAt + (kPrecision == kFp8 ? whole_words(4 * kUnitsPerSm * kGates) : 0);  // int [kRowsPerGroup][kWarps]
constexpr int kWeightsAt = kDoneAt + (kSkips ? whole_words(4 * kRowsPerGroup * kWarps) : 0);          // [kSharedQuads][kThreads]
constexpr int kRingAt = kWeightsAt + 16 * kSharedQuads * kThreads;                                      // [kRingQuads][kThreads]
constexpr int kSharedBytes = kRingAt + (kStreamedQuads > 0 ? 16 * kRingQuads * kThreads : 0);
static_assert(kSharedBytes == ONCHIP_SHARED_BYTES, "the plan and the kernel count the same shared memory");

struct Arguments {
  const u32* weights;           // per block: [kRegisterWords][kThreads], [kSharedQuads + kStreamedQuads][kThreads][4]
  const int* done;              // [kBlocks][kRowsPerGroup][kWarps]: slots that a warp does not skip
  const float* scales;          // fp8: [kStateUnits][kGates]
  const float* recurrent_bias;  // GRU: [kStateUnits], of the n gate
  const void* input;            // [steps, kBatch, kStateUnits, kGates], with its bias
  void* states;                 // [steps + 1, kPlanes, kStateUnits, kPlaneSamples]: the initial state, then kAhead empty ones
  float* carry;                 // [kStateUnits, kBatchPadded]: before the first step and, after the launch, after the last
  float* final_carry;           // the same, of each sample's last step
  const int* lengths;           // [kBatchPadded]: steps of each sample; its last may lie in another launch
  int first_step;               // of this launch, as lengths count
  int steps;
  u32* barrier;                 // zero before the launch; Lamport: unused
  u32* status;                  // set to 1 if a wait was given up
};

// ---- device helpers -------------------------------------------------------------------------------------------------

__device__ __forceinline__ Word load_relaxed(const char* address) {
  Word v;
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "ld.relaxed.gpu.global.b128 word, [%4];\n\t"
      "mov.b128 {low, high}, word;\n\t"
      "mov.b64 {%0, %1}, low;\n\t"
      "mov.b64 {%2, %3}, high;\n\t"
      "}"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(address)
      : "memory");
  return v;
}

// A 16-byte word of the exchange is written and read as one scalar, so its first 32 bits speak for all of it.
__device__ __forceinline__ bool is_empty(const Word& v) { return v.x == ~0u; }

__device__ __forceinline__ void store_relaxed(char* address, const Word& v) {
  asm volatile(
      "{\n\t"
      ".reg .b128 word;\n\t"
      ".reg .b64 low, high;\n\t"
      "mov.b64 low, {%1, %2};\n\t"
      "mov.b64 high, {%3, %4};\n\t"
      "mov.b128 word, {low, high};\n\t"
      "st.relaxed.gpu.global.b128 [%0], word;\n\t"
      "}" ::"l"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

constexpr int kUnitWords = (kPlaneUnitBytes + 3) / 4;  // of one plane
constexpr bool kHalf2Sums = (kPrecision == kFp16 || kPrecision == kFp8) && kPromoteEvery > 1;

// One unit's state of the samples of a plane, in one load.
__device__ __forceinline__ void load_unit(u32 address, u32 (&h)[kUnitWords]) {
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

__device__ __forceinline__ float load_shared_float(u32 address) {
  float f;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f) : "r"(address) : "memory");
  return f;
}

__device__ __forceinline__ void store_shared_float(u32 address, float f) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(f) : "memory");
}

// Stores under a predicate: where the compiler makes a branch of it, what leads up to the store waits behind the branch.
__device__ __forceinline__ void store_shared_if(bool condition, u32 address, const Word& v) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %5, 0; @p st.shared.v4.u32 [%0], {%1, %2, %3, %4}; }" ::"r"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(static_cast<u32>(condition))
      : "memory");
}
__device__ __forceinline__ void store_shared_if(bool condition, u32 address, float f) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.f32 [%0], %1; }" ::"r"(address), "f"(f),
               "r"(static_cast<u32>(condition))
               : "memory");
}
__device__ __forceinline__ void store_element_if(bool condition, u32 address, u32 bits) {
  if constexpr (kElementBytes == 4) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u32 [%0], %1; }" ::"r"(address), "r"(bits),
                 "r"(static_cast<u32>(condition))
                 : "memory");
  } else {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p st.shared.u16 [%0], %1; }" ::"r"(address),
                 "h"(static_cast<u16>(bits)), "r"(static_cast<u32>(condition))
                 : "memory");
  }
}

// The same value, of which the compiler knows nothing: it keeps the register instead of computing it again, from special
// registers that take 20 cycles and more to read.
__device__ __forceinline__ u32 kept(u32 value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Asynchronous copies to shared memory, 4 or 16 bytes; groups of them end in order.
__device__ __forceinline__ void copy_4(u32 to, const char* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_16(u32 to, const char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- weights: the words of a thread, wherever they are ---------------------------------------------------------------

struct Weights {
  u32 registers[kRegisterWords > 0 ? kRegisterWords : 1];
  u32 quad[4];         // the words of a quad in shared memory or in the ring, while they are used
  u32 shared;          // this thread's first quad in shared memory
  u32 ring_begin, ring;  // this thread's first place in the ring, and the one that is used next
  const char* streamed;
};

// Asks for the step's `fetch`-th streamed quad.
__device__ __forceinline__ void fetch_quad(const Weights& w, int fetch, u32 to) {
  copy_16(to, w.streamed + 16ll * kThreads * kFetchOrder.quad[fetch]);
  end_copies();
}

__device__ __forceinline__ u32 next_in_ring(const Weights& w, u32 place, int distance) {
  place += 16 * kThreads * distance;
  return place >= w.ring_begin + 16 * kThreads * kRingQuads ? place - 16 * kThreads * kRingQuads : place;
}

// Word i; the words of a tile and plane are asked for in their order, but for those that are skipped. `fresh`: the first of
// its row, whose quad the row before may have skipped.
__device__ __forceinline__ u32 word(Weights& w, int i, int tile, int plane, bool fresh) {
  const int at = kPlaces.at[i];
  if (kPlaces.tier[i] == kRegisters) {
    // Opaque at every use: unpacked anew in every step and for every plane, or the compiler keeps what it unpacked, in as
    // many registers again.
    return kept(w.registers[at]);
  }
  if (at % 4 == 0 || (fresh && kPlaces.tier[i] == kShared)) {
    u32 from = w.shared + 16 * kThreads * (at / 4);
    if (kPlaces.tier[i] == kStreamed) {
      const int fetch = kFetchOrder.first[tile] + plane * kPlaces.streamed[tile] + at / 4 - kFetchOrder.first[tile] / kPlanes;
      wait_for_copies<kStreamedQuads == 0 ? 0 : kRingQuads - 2>();
      from = w.ring;
      // The quad used before this one has been read: its place takes the next one that is not under way.
      fetch_quad(w, (fetch + kRingQuads - 1) % (kFetches > 0 ? kFetches : 1), next_in_ring(w, w.ring, kRingQuads - 1));
      w.ring = next_in_ring(w, w.ring, 1);
    }
    const Word v = load_shared(from);
    w.quad[0] = v.x;
    w.quad[1] = v.y;
    w.quad[2] = v.z;
    w.quad[3] = v.w;
  }
  return w.quad[at % 4];
}

// ---- gather: the lane's share of one row ----------------------------------------------------------------------------

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
    return widen_fp8(bundle[0], i % 2);
  } else if constexpr (kPrecision == kFp32) {
    upper = false;
    return bundle[kStorage == kDense ? 0 : 1 + i];
  } else {
    upper = kStorage == kDense ? i % 2 : true;
    return bundle[0];
  }
}

// Byte offset, in a plane of the state, of what the bundle's i-th slot, the row's s-th, multiplies.
__device__ __forceinline__ u32 bundle_offset(const u32 (&bundle)[kBundleWords], int i, int s, u32 lane_offset) {
  if constexpr (kStorage == kDense) {
    return lane_offset + s * kLanesPerRow * kPlaneUnitBytes;
  } else {
    const u32 pair = bundle[kPrecision == kFp8 ? 1 + i / 2 : 0];
    return ((kPrecision == kFp32 || kPrecision == kFp8) && i % 2 ? pair >> 16 : pair & 0xffffu) << kIndexShift;
  }
}

// Slots [kBegin, kEnd) of a row, added to sum[sample of the pass * kTileRows + row of the tile].
template <int kRow, int kPlane, int kBegin, int kEnd>
__device__ __forceinline__ void gather_slots(Weights& weights, u32 state, u32 lane_offset, float (&sum)[kValues]) {
  constexpr int first = first_word(kRow);
  constexpr int last = first + row_words(slots_of(kRow));
  constexpr int tile = kRow / kTileHeight;
  constexpr int in_tile = kRow % kTileHeight;
  constexpr int first_sample = kPlane % kPassPlanes * kPlaneSamples;
  u32 bundle[kBundleWords] = {};
  u32 partial[kUnitWords];
#pragma unroll
  for (int s = kBegin; s < kEnd; ++s) {
    if (s % kBundleSlots == 0) {
#pragma unroll
      for (int k = 0; k < kBundleWords; ++k) {
        const int i = first + s / kBundleSlots * kBundleWords + k;
        if (i < last) {
          bundle[k] = word(weights, i, tile, kPlane, i == first);
        }
      }
    }
    u32 h[kUnitWords];
    load_unit(state + bundle_offset(bundle, s % kBundleSlots, s, lane_offset), h);
    bool upper;
    const u32 value = bundle_value(bundle, s % kBundleSlots, upper);
    if constexpr (kHalf2Sums) {
      const u32 both = both_halves(value, upper);
      const int product = (s - kBegin) % kPromoteEvery;
#pragma unroll
      for (int i = 0; i < kUnitWords; ++i) {
        if (product == 0) {
          asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(partial[i]) : "r"(both), "r"(h[i]));
        } else {
          asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(partial[i]) : "r"(both), "r"(h[i]));
        }
      }
      if (product == kPromoteEvery - 1 || s == kEnd - 1) {
#pragma unroll
        for (int b = 0; b < kPlaneSamples; ++b) {
          sum[(first_sample + b) * kTileRows + in_tile] += element(partial, b);
        }
      }
    } else {
      const float factor = element(&value, kPrecision == kFp32 ? 0 : upper);
#pragma unroll
      for (int b = 0; b < kPlaneSamples; ++b) {
        float& total = sum[(first_sample + b) * kTileRows + in_tile];
        total = fmaf(factor, element(h, b), total);
      }
    }
  }
}

// Slots beyond the least, chunk by chunk, as far as this warp has any. Chunks grow with what is already done, so that
// there are few: behind a branch the first loads of a chunk wait for nothing but themselves, about 100 cycles.
template <int kRow, int kPlane, int kBegin>
__device__ __forceinline__ void gather_chunks(Weights& weights, u32 state, u32 lane_offset, int done,
                                              float (&sum)[kValues]) {
  constexpr int slots = slots_of(kRow);
  if constexpr (kBegin < slots) {
    if (kBegin < done) {
      constexpr int chunk = kBegin / 2 > kSkippedSlots ? kBegin / 2 / kSkippedSlots * kSkippedSlots : kSkippedSlots;
      constexpr int end = kBegin + chunk < slots ? kBegin + chunk : slots;
      gather_slots<kRow, kPlane, kBegin, end>(weights, state, lane_offset, sum);
      gather_chunks<kRow, kPlane, end>(weights, state, lane_offset, done, sum);
    }
  }
}

template <int kRow, int kPlane>
__device__ __forceinline__ void gather(Weights& weights, const u32 shared, u32 lane_offset, float (&sum)[kValues]) {
  constexpr int slots = slots_of(kRow);
  constexpr int least = kSkips && kRow < kRowsPerGroup && kHostPlaces.streamed[kRow / kTileHeight] == 0
                            ? kLeastSlots[kRow]
                            : slots;  // what is streamed comes whether it is skipped or not
  const u32 state = shared + kPlane * kPlaneBytes;
  gather_slots<kRow, kPlane, 0, least>(weights, state, lane_offset, sum);
  if constexpr (least < slots) {
    const int warp = threadIdx.x / 32;
    const int done = reinterpret_cast<const int*>(shared_memory + kDoneAt)[kRow * kWarps + warp];
    gather_chunks<kRow, kPlane, least>(weights, state, lane_offset, done, sum);
  }
}

template <int kTile, int kPass, int kPart = 0>
__device__ __forceinline__ void gather_pass(Weights& weights, u32 shared, u32 lane_offset, float (&sum)[kValues]) {
  if constexpr (kPart < kPassPlanes * kTileHeight) {
    constexpr int row = kTile * kTileHeight + kPart % kTileHeight;
    if constexpr (row < kRowsPerGroup) {
      gather<row, kPass * kPassPlanes + kPart / kTileHeight>(weights, shared, lane_offset, sum);
    }
    gather_pass<kTile, kPass, kPart + 1>(weights, shared, lane_offset, sum);
  }
}

// ---- reduce over the lanes of a group -------------------------------------------------------------------------------
// While a lane holds more than one value, it gives half of them to its partner and takes the other half: with lane bit
// k, bit k of the value's number. After that, plain butterfly. Lane l of the group ends with values l % kValues, +
// kLanesPerRow, ...
template <int kCount, int kMask>
__device__ __forceinline__ void reduce(float (&sum)[kValues], int lane) {
  if constexpr (kMask < kLanesPerRow) {
    if constexpr (kCount > 1) {
      const bool upper = lane & kMask;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float keep = upper ? sum[2 * i + 1] : sum[2 * i];
        const float give = upper ? sum[2 * i] : sum[2 * i + 1];
        sum[i] = keep + __shfl_xor_sync(0xffffffffu, give, thread_mask(kMask));
      }
      reduce<kCount / 2, kMask * 2>(sum, lane);
    } else {
      sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], thread_mask(kMask));
      reduce<1, kMask * 2>(sum, lane);
    }
  }
}

// ---- finish: the cell -----------------------------------------------------------------------------------------------

struct Step {
  u32 shared;       // address of shared memory, as the compiler knows it: a constant that loads take for free
  u32 kept_shared;  // the same in a register
  u32 input;   // of this step's input in it
  int number;  // in the sequence, as lengths count
  int lane, group;
};

// tanh and sigmoid, good to 1e-6: far below the rounding of a 16-bit state. fp32 states get the library's.
__device__ __forceinline__ float quick_sigmoid(float s) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-1.44269504f * s));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
  return r;
}
__device__ __forceinline__ float squash(float s, bool to_tanh) {
  if constexpr (kPrecision == kFp32) {
    const float t = tanhf(to_tanh ? s : 0.5f * s);
    return to_tanh ? t : fmaf(0.5f, t, 0.5f);
  } else {
    const float y = quick_sigmoid(to_tanh ? 2.0f * s : s);
    return to_tanh ? fmaf(2.0f, y, -1.0f) : y;
  }
}

// One value of a tile that this lane finishes: where it belongs, and what the cell needs beside the sum. Fetched before
// the reduction, so that nothing waits for shared memory after it.
struct Output {
  int unit, sample, gate;
  bool writes;  // of the lanes that hold the value, the first; false if there is no such row
  float x, scale, carry, bias;
  int length;
};

template <int kTile, int kPass>
__device__ __forceinline__ void fetch_outputs(const Step& step, Output (&outputs)[kOutputs]) {
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    Output& out = outputs[i];
    const int value = (step.lane & (kValues - 1)) + i * kLanesPerRow;
    const int row = value % kTileRows;
    out.sample = kPass * kPassSamples + value / kTileRows;
    out.gate = kGates == 1 ? 0 : row;
    out.unit = kGates == 1 ? (kTile * kTileRows + row) * kGroups + step.group : kTile * kGroups + step.group;
    const bool owned = out.unit < kUnitsPerSm && (kGates > 1 || kTile * kTileRows + row < kRowsPerGroup) && out.gate < kGates;
    out.writes = owned && step.lane < kValues;
    // Lanes that own nothing read what is there: within bounds, and of no consequence.
    const int unit = owned ? out.unit : 0;
    const int gate = owned ? out.gate : 0;
    const int sample = out.sample < kBatch ? out.sample : 0;
    const u32 input_at = step.input + ((sample * kUnitsPerSm + unit) * kGates + gate) * kElementBytes;
    u32 bits;
    if constexpr (kElementBytes == 4) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(input_at));
    } else {
      u16 half;
      asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(input_at));
      bits = half;
    }
    out.x = out.sample < kBatch ? element(&bits, 0) : 0.0f;
    if constexpr (kPrecision == kFp8) {
      out.scale = load_shared_float(step.kept_shared + kScaleAt + 4 * (unit * kGates + gate));
    }
    if constexpr (kCarries) {
      out.carry = load_shared_float(step.kept_shared + kCarryAt + 4 * (unit * kBatchPadded + out.sample));
      asm volatile("ld.shared.s32 %0, [%1];" : "=r"(out.length) : "r"(step.kept_shared + kLengthsAt + 4 * out.sample));
    }
    if constexpr (kCell == kGru) {
      out.bias = load_shared_float(step.kept_shared + kBiasAt + 4 * unit);
    }
  }
}

// The cell of one tile: from this lane's sums to the outbox. All lanes of a warp take part.
template <int kTile, int kPass>
__device__ __forceinline__ void finish(const Arguments& a, const Step& step, const float (&sum)[kValues],
                                       const Output (&outputs)[kOutputs]) {
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    const Output& out = outputs[i];
    const float product = kPrecision == kFp8 ? sum[i] * out.scale : sum[i];
    float h;
    bool writes = out.writes;
    if constexpr (kCell == kRelu) {
      h = product + out.x;
      h = h < 0.0f ? 0.0f : h;  // keeps NaN, as frameworks do
    } else if constexpr (kCell == kTanh) {
      h = squash(product + out.x, true);
    } else {
      float next;
      if constexpr (kCell == kLstm) {
        // Lanes i, f, g, o.
        const float y = squash(product + out.x, out.gate == 2);
        const float across = __shfl_xor_sync(0xffffffffu, y, thread_mask(2));           // i: g, f: o
        const float added = __shfl_xor_sync(0xffffffffu, y * across, thread_mask(1));  // f: i * g
        next = fmaf(y, out.carry, added);
        h = across * squash(next, true);
        writes = writes && out.gate == 1;
      } else {
        // Lanes r, z, n and one idle; the reset gate multiplies the product with its bias.
        const float y = squash(product + out.x, false);
        const float reset = __shfl_xor_sync(0xffffffffu, y, thread_mask(2));
        const float update = __shfl_xor_sync(0xffffffffu, y, thread_mask(1) | thread_mask(2));
        const float candidate = squash(fmaf(reset, product + out.bias, out.x), true);
        next = fmaf(update, out.carry - candidate, candidate);
        h = next;
        writes = writes && out.gate == 2;
      }
      store_shared_if(writes, step.kept_shared + kCarryAt + 4 * (out.unit * kBatchPadded + out.sample), next);
      if (writes && step.number + 1 == out.length) {
        a.final_carry[(static_cast<long long>(blockIdx.x) * kUnitsPerSm + out.unit) * kBatchPadded + out.sample] = next;
      }
    }
    store_element_if(writes, step.kept_shared + kOutboxAt + state_index(out.unit, out.sample, kUnitsPerSm) * kElementBytes,
                     to_bits(h));
  }
}

template <int kTile, int kPass>
__device__ __forceinline__ void tiles_step(Weights& weights, const Arguments& a, const Step& step) {
  if constexpr (kPass == kPasses) {
    tiles_step<kTile + 1, 0>(weights, a, step);
  } else if constexpr (kTile < kTiles) {
    float sum[kValues] = {};
    gather_pass<kTile, kPass>(weights, step.shared, step.lane * kPlaneUnitBytes, sum);
    Output outputs[kOutputs];
    fetch_outputs<kTile, kPass>(step, outputs);
    reduce<kValues, 1>(sum, step.lane);
    finish<kTile, kPass>(a, step, sum, outputs);
    tiles_step<kTile, kPass + 1>(weights, a, step);
  }
}

// ---- the exchange ---------------------------------------------------------------------------------------------------

// Where word i of a state goes in shared memory.
__device__ __forceinline__ u32 staged_at(int i) {
  int gap = 0;
  if constexpr (kPlanes == 2) {
    gap = i >= kPlaneWords ? kZeroUnits * kPlaneUnitBytes : 0;
  } else if constexpr (kPlanes > 2) {
    gap = i / kPlaneWords * (kZeroUnits * kPlaneUnitBytes);
  }
  return 16 * i + gap;
}

// Copies kCount words of a state to shared memory, kThreads apart, the last only if it `exists`; Lamport: polls them.
// `polls`: how often a thread may find a word missing; once that is used up it takes what is there.
template <int kCount>
__device__ __forceinline__ void stage_words(const char* from, u32 to, int first, bool exists, int& polls) {
  Word v[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const u32 unset = k < kCount - 1 || exists ? ~0u : 0u;
    v[k] = {unset, unset, unset, unset};
  }
  bool waiting = true;
  while (waiting) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_empty(v[k])) {
        v[k] = load_relaxed(from + 16ll * (first + k * kThreads));
      }
    }
    waiting = false;
    if constexpr (kExchange == kLamport) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        waiting |= is_empty(v[k]);
      }
      waiting = waiting && polls > 0;
      polls -= waiting;
    }
  }
#pragma unroll
  for (int k = 0; k < kCount - 1; ++k) {
    store_shared(to + staged_at(first + k * kThreads), v[k]);
  }
  store_shared_if(exists, to + staged_at(first + (kCount - 1) * kThreads), v[kCount - 1]);
}

// A state, in rounds of kLoadsInFlight words per thread and a last one of what is left. No loop: its addresses would take
// registers. Ends with the warp converged: without that, threads with nothing left to poll were seen to pass the block
// barrier for their whole warp.
template <int kDone = 0>
__device__ __forceinline__ void stage(const char* from, u32 to, int thread, int& polls) {
  constexpr int left = (kStateWords - kDone + kThreads - 1) / kThreads;  // of the busiest thread
  if constexpr (left > kLoadsInFlight) {
    stage_words<kLoadsInFlight>(from, to, thread + kDone, true, polls);
      stage<kDone + kLoadsInFlight * kThreads>(from, to, thread, polls);
  } else {
    constexpr int last = kDone + (left - 1) * kThreads;
    stage_words<left>(from, to, thread + kDone, last + kThreads <= kStateWords || thread + last < kStateWords, polls);
    __syncwarp();
  }
}

// Where word i of this SM's outbox belongs in a state.
__device__ __forceinline__ long long outbox_offset(int i) {
  const int plane = kPlanes == 1 ? 0 : i / kOutboxPlaneWords;
  return 16ll * (plane * kPlaneWords + static_cast<int>(blockIdx.x) * kOutboxPlaneWords + (i - plane * kOutboxPlaneWords));
}

// Hands out word i of the outbox of step t, and empties its place of a later step.
__device__ __forceinline__ void emit(char* to, int i, u32 shared, int t, int steps) {
  store_relaxed(to, load_shared(shared + kOutboxAt + 16 * i));
  if (kExchange == kLamport && t + 1 + kAhead <= steps) {
    store_relaxed(to + kAhead * (kStateWords * 16ll), {~0u, ~0u, ~0u, ~0u});
  }
}

// Waits, in one thread of every block, until all have come `count` times.
__device__ __forceinline__ void wait_for_blocks(u32* barrier, int count, int& polls) {
  if constexpr (kExchange == kAtomicBarrier) {
    // One counter that only grows.
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(barrier) : "memory");
    u32 seen;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(barrier) : "memory");
    } while (seen < static_cast<u32>(count) * kBlocks && --polls > 0);
  } else {
    // The cooperative launch's own barrier: the last to come flips the top bit of the counter.
    const u32 add = blockIdx.x == 0 ? 0x80000000u - (kBlocks - 1) : 1u;
    __threadfence();
    const u32 before = atomicAdd(barrier, add);
    u32 seen;
    do {
      seen = *reinterpret_cast<volatile u32*>(barrier);
    } while (((before ^ seen) & 0x80000000u) == 0 && --polls > 0);
    __threadfence();
  }
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

// Asks for the input of step t of this launch.
__device__ __forceinline__ void fetch_input(const Arguments& a, int t, u32 shared, int thread) {
  if (t < a.steps) {
    const char* const from = static_cast<const char*>(a.input) +
                             4ll * kInputPieces * (static_cast<long long>(t) * kBatch * kBlocks + blockIdx.x);
#pragma unroll 1
    for (int i = thread; i < kBatch * kInputPieces; i += kThreads) {
      const int sample = i / kInputPieces;
      copy_4(shared + kInputAt + t % 2 * kInputBytes + 4 * i,
             from + 4ll * (sample * (kBlocks - 1) * static_cast<long long>(kInputPieces) + i));
    }
  }
  end_copies();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) sparse_persistent(const Arguments a) {
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const u32 kept_shared = kept(shared);
  const int thread = kept(threadIdx.x);

#pragma unroll 1
  for (int i = thread; i < kWeightsAt / 16; i += kThreads) {
    store_shared(shared + 16 * i, {0, 0, 0, 0});
  }
  __syncthreads();

  constexpr long long kBlockWords = (kRegisterWords + 4ll * (kSharedQuads + kStreamedQuads)) * kThreads;
  const u32* const block_weights = a.weights + blockIdx.x * kBlockWords;
  const char* const quads = reinterpret_cast<const char*>(block_weights + kRegisterWords * kThreads) + 16 * thread;
  Weights weights;
  weights.shared = shared + kWeightsAt + 16 * thread;
  weights.ring = weights.ring_begin = shared + kRingAt + 16 * thread;
  weights.streamed = quads + 16ll * kThreads * kSharedQuads;
#pragma unroll
  for (int i = 0; i < kRegisterWords; ++i) {
    weights.registers[i] = block_weights[i * kThreads + thread];
    asm volatile("" : "+r"(weights.registers[i]));  // not loadable again: the compiler must keep the register
  }
#pragma unroll 1
  for (int i = 0; i < kSharedQuads; ++i) {
    copy_16(weights.shared + 16 * kThreads * i, quads + 16ll * kThreads * i);
  }
  if constexpr (kStreamedQuads > 0) {
#pragma unroll
    for (int i = 0; i < kRingQuads - 1; ++i) {
      fetch_quad(weights, i, weights.ring_begin + 16 * kThreads * i);
    }
  }
  if constexpr (kCarries) {
    const float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
      store_shared_float(shared + kCarryAt + 4 * i, carry[i]);
    }
    if (thread < kBatchPadded) {
      reinterpret_cast<int*>(shared_memory + kLengthsAt)[thread] = a.lengths[thread];
    }
  }
  if constexpr (kCell == kGru) {
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm; i += kThreads) {
      store_shared_float(shared + kBiasAt + 4 * i, a.recurrent_bias[blockIdx.x * kUnitsPerSm + i]);
    }
  }
  if constexpr (kPrecision == kFp8) {
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
      store_shared_float(shared + kScaleAt + 4 * i, a.scales[blockIdx.x * kUnitsPerSm * kGates + i]);
    }
  }
  if constexpr (kSkips) {
#pragma unroll 1
    for (int i = thread; i < kRowsPerGroup * kWarps; i += kThreads) {
      reinterpret_cast<int*>(shared_memory + kDoneAt)[i] = a.done[blockIdx.x * (kRowsPerGroup * kWarps) + i];
    }
  }
  fetch_input(a, 0, kept_shared, thread);
  fetch_input(a, 1, kept_shared, thread);
  wait_for_copies<0>();
  int polls = kPolls;
  const char* state = static_cast<const char*>(a.states);  // of step t
  char* outbox_word = static_cast<char*>(a.states) + kStateWords * 16ll + outbox_offset(thread);  // of step t + 1

#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    const int place = kManyAddresses ? static_cast<int>(kept(thread)) : thread;
    stage(state, kept_shared, place, polls);
    state += kStateWords * 16ll;
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      if (polls <= 0) {
        *a.status = 1;
      } else {
        polls = kPolls;
      }
    }
    // The input of this step; what was asked for after it may be under way: a step's streamed quads, the next input.
    wait_for_copies<1 + (kStreamedQuads == 0 ? 0 : kFetches < kRingQuads - 2 ? kFetches : kRingQuads - 2)>();
    __syncthreads();

    const Step step{shared,
                    kept_shared,
                    kept_shared + kInputAt + t % 2 * kInputBytes,
                    a.first_step + t,
                    place % 32 / (32 / kSpread) * kNeighbours + place % kNeighbours,
                    place / 32 * (32 / kLanesPerRow) + place % (32 / kSpread) / kNeighbours};
    if constexpr (!kExchangeOnly) {
      tiles_step<0, 0>(weights, a, step);
    }
    __syncthreads();

    if (thread < kOutboxWords) {
      emit(outbox_word, thread, kept_shared, t, a.steps);
    }
    if constexpr (kOutboxWords > kThreads) {
#pragma unroll 1
      for (int i = thread + kThreads; i < kOutboxWords; i += kThreads) {
        emit(outbox_word + outbox_offset(i) - outbox_offset(thread), i, kept_shared, t, a.steps);
      }
    }
    outbox_word += kStateWords * 16ll;
    // While the others' states are on their way: this step's input is no longer needed.
    fetch_input(a, t + 2, kept_shared, thread);
    if constexpr (kExchange != kLamport) {
      __syncthreads();
      if (thread == 0) {
        wait_for_blocks(a.barrier, t + 1, polls);
      }
      __syncthreads();
    }
  }
  wait_for_copies<0>();
  if constexpr (kCarries) {
    __syncthreads();
    float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
    for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
      carry[i] = load_shared_float(shared + kCarryAt + 4 * i);
    }
  }
}
