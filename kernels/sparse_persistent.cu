// SPDX-License-Identifier: Apache-2.0
// Sparse persistent RNN: h[t+1] = act(W h[t] + x[t]) for all time steps in one cooperative launch, one block per SM.
//
//   registers   this thread's share of W, packed once on the host, loaded once, never read again
//   smem        the whole state h[t], batch contiguous: state[unit][sample]; where a unit's samples exceed 16 bytes,
//               in planes of 16 bytes, state[plane][unit][sample], so that the widest loads reach every bank
//   L2          the sequence of states, through which the SMs exchange h[t+1]
//
//   one step of one SM                                            lane group = ONCHIP_LANES_PER_ROW lanes = one row
//   +--------------------------------------------------------+
//   | stage    poll states[t] until every element is there, copy to smem; block barrier
//   | gather   each lane: for its slots, sum += value * state[index]     one wide load serves the whole batch
//   | reduce   over the lanes of a group; lane b ends with sample b      halving exchange, then butterfly
//   | emit     act(sum + x) -> outbox in smem; block barrier; outbox -> this SM's segment of states[t+1]
//   +--------------------------------------------------------+
//
// The state is in owner's order: SM s computes its units [s * ONCHIP_UNITS_PER_SM, ...), whole 16-byte words, and
// writes them with one coalesced store. Input and output of the launch are in that order too; to_state_order and
// from_state_order translate. What was seen on an H200 (H=2304, B=4, 30 %): output stored by every warp in the
// caller's order, 2 bytes here and there, costs 0.31 us a step; input read in that order 0.13 us; polling before the
// SM's own warps have finished 0.1 to 0.3 us.
//
// Exchange (Lamport): states[step] is written once, and the data is its own flag. What is still empty is all ones, a NaN
// that the conversion instructions never produce (they give the canonical NaN 0x7fff or 0x7fffffff), so NaN and
// infinity travel like any other value. 16-byte words are moved by scalar 128-bit accesses, one memory operation each,
// so looking at 4 of the bytes is enough; looking at all elements took as long as the copying itself. Every SM empties its own segment kAhead steps before it writes it; two fences
// by every thread lie in between, so whoever has seen the state one step earlier sees the segment empty.
//
// Sums: fp32, but with fp16 values ONCHIP_PROMOTE_EVERY consecutive products of a lane are first summed in fp16.
//
// No header is included, so that NVRTC compiles this anywhere. The ONCHIP_* constants come from the plan.

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

// ---- compile-time configuration -------------------------------------------------------------------------------------

enum Precision { kFp16, kBf16, kFp32 };
enum Cell { kRelu, kTanh };
enum Storage { kPackedPair, kDense };

constexpr int kHidden = ONCHIP_HIDDEN;
constexpr int kBlocks = ONCHIP_BLOCKS;
constexpr int kUnitsPerSm = ONCHIP_UNITS_PER_SM;       // of the state, in owner's order; the last may be unused
constexpr int kBatch = ONCHIP_BATCH;
constexpr int kBatchPadded = ONCHIP_BATCH_PADDED;      // power of two
constexpr int kThreads = ONCHIP_THREADS;
constexpr int kLanesPerRow = ONCHIP_LANES_PER_ROW;     // power of two
constexpr int kRowsPerGroup = ONCHIP_ROWS_PER_GROUP;
constexpr int kSlots[] = {ONCHIP_SLOTS};               // per lane, of the group's r-th row
constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT; // 16-byte words a thread polls at once
constexpr int kPromoteEvery = ONCHIP_PROMOTE_EVERY;
constexpr bool kUnpacked = ONCHIP_UNPACKED;            // keep value and index in registers of their own
constexpr int kAhead = ONCHIP_AHEAD;                   // steps from emptying a segment to writing it
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;          // units after the state that stay zero: what padding slots read
constexpr int kIndexShift = ONCHIP_INDEX_SHIFT;        // byte offset of a unit = stored index << shift
constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);
constexpr Storage kStorage = static_cast<Storage>(ONCHIP_STORAGE);

constexpr int kElementBytes = kPrecision == kFp32 ? 4 : 2;
constexpr int kUnitBytes = kBatchPadded * kElementBytes;
constexpr int kGroups = kThreads / kLanesPerRow;
constexpr int kStateUnits = kBlocks * kUnitsPerSm;
constexpr int kPlaneUnitBytes = kUnitBytes < 16 ? kUnitBytes : 16;
constexpr int kPlanes = kUnitBytes / kPlaneUnitBytes;
constexpr int kPlaneSamples = kBatchPadded / kPlanes;
constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;  // in shared memory
constexpr int kStateBytes = kPlanes * kPlaneBytes;
constexpr int kPlaneWords = kStateUnits * kPlaneUnitBytes / 16;  // 16-byte words
constexpr int kStateWords = kPlanes * kPlaneWords;
constexpr int kStateElements = kStateUnits * kBatchPadded;
constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kOutputs = kBatchPadded > kLanesPerRow ? kBatchPadded / kLanesPerRow : 1;  // per lane, after the reduction
constexpr int kPolls = 1 << 20;  // a thread's polls in vain before it gives up: most of a second, a million steps' worth

static_assert((kBatchPadded & (kBatchPadded - 1)) == 0 && kBatch <= kBatchPadded, "the batch is padded to a power of two");
static_assert(32 % kLanesPerRow == 0 && kThreads % 32 == 0, "a lane group is a power-of-two part of a warp");
static_assert(sizeof(kSlots) / sizeof(int) == kRowsPerGroup, "every row of a group has its number of slots");
static_assert(kPrecision == kFp16 || kPromoteEvery == 1, "only fp16 products are summed below fp32");
static_assert((kAhead & (kAhead - 1)) == 0 && kAhead >= 8, "a power of two, so that fences come at even distances");
static_assert(kLoadsInFlight % kPlanes == 0, "a thread polls the same words of every plane");
static_assert(kUnitsPerSm * kPlaneUnitBytes % 16 == 0, "an SM owns whole 16-byte words of the state");
static_assert(((kStateUnits + kZeroUnits - 1) * kPlaneUnitBytes >> kIndexShift) < 65536 || kStorage == kDense,
              "a stored index has 16 bits");

// 32-bit registers that hold the weights of one row: packed pairs (value << 16 | index); or, for fp32, the values and
// then the indices, two to a register; or, dense, the values alone.
constexpr __host__ __device__ int value_words(int slots) { return kStorage == kDense && kPrecision != kFp32 ? (slots + 1) / 2 : slots; }
constexpr __host__ __device__ int index_words(int slots) { return kStorage == kPackedPair && kPrecision == kFp32 ? (slots + 1) / 2 : 0; }
constexpr __host__ __device__ int first_word(int row) {
  int words = 0;
  for (int r = 0; r < row; ++r) words += value_words(kSlots[r]) + index_words(kSlots[r]);
  return words;
}
template <int kRow>
constexpr int kFirstWord = first_word(kRow);
constexpr int kWeightWords = kFirstWord<kRowsPerGroup>;

struct Arguments {
  const u32* weights;  // [kBlocks, kWeightWords, kThreads]
  const int* rows;     // [kBlocks, kRowsPerGroup, kGroups]: row of W, -1 for none
  const void* input;   // [steps, kPlanes, kStateUnits, kPlaneSamples], owner's order
  void* states;        // [steps + 1, kPlanes, kStateUnits, kPlaneSamples]: the initial state, then kAhead empty ones
  u32* status;         // set to 1 if a wait was given up
  int steps;
};

// ---- device helpers -------------------------------------------------------------------------------------------------

struct __align__(16) Word {
  u32 x, y, z, w;
};

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

__device__ __forceinline__ void store_shared(u32 address, const Word& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ Word load_shared(u32 address) {
  Word v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

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

// One unit's state of all samples, as few and as wide loads as there are.
constexpr int kUnitWords = (kUnitBytes + 3) / 4;
__device__ __forceinline__ void load_unit(u32 address, u32 (&h)[kUnitWords]) {
  if constexpr (kUnitBytes == 2) {
    u16 half;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address));
    h[0] = half;
  } else if constexpr (kUnitBytes == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(h[0]) : "r"(address));
  } else if constexpr (kUnitBytes == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(h[0]), "=r"(h[1]) : "r"(address));
  } else {
#pragma unroll
    for (int i = 0; i < kUnitWords; i += 4) {
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(h[i]), "=r"(h[i + 1]), "=r"(h[i + 2]), "=r"(h[i + 3])
                   : "r"(address + i / 4 * kPlaneBytes));
    }
  }
}

__device__ __forceinline__ float fp16_to_float(u16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
  return f;
}

// Element i of a packed vector as fp32.
__device__ __forceinline__ float element(const u32* packed, int i) {
  if constexpr (kPrecision == kFp32) {
    return __uint_as_float(packed[i]);
  } else if constexpr (kPrecision == kBf16) {
    return __uint_as_float(i % 2 ? packed[i / 2] & 0xffff0000u : packed[i / 2] << 16);
  } else {
    return fp16_to_float(static_cast<u16>(i % 2 ? packed[i / 2] >> 16 : packed[i / 2]));
  }
}

// An element's bits; to be converted where it is used, not where it is loaded, so that nothing waits for the load.
__device__ __forceinline__ u32 load_element(const void* base, long long index) {
  if constexpr (kPrecision == kFp32) {
    return static_cast<const u32*>(base)[index];
  } else {
    return static_cast<const u16*>(base)[index];
  }
}

// The bits of a value in the state's precision; a NaN becomes the canonical one, which is never "empty".
__device__ __forceinline__ u32 to_bits(float f) {
  if constexpr (kPrecision == kFp32) {
    return f != f ? 0x7fffffffu : __float_as_uint(f);
  } else {
    u16 bits;
    if constexpr (kPrecision == kBf16) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    } else {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    }
    return bits;
  }
}

__device__ __forceinline__ u32 canonical(u32 bits) { return to_bits(element(&bits, 0)); }

__device__ __forceinline__ void store_element(void* base, long long index, u32 bits) {
  if constexpr (kPrecision == kFp32) {
    static_cast<u32*>(base)[index] = bits;
  } else {
    static_cast<u16*>(base)[index] = static_cast<u16>(bits);
  }
}

__device__ __forceinline__ float activate(float f) {
  if constexpr (kCell == kTanh) {
    return tanhf(f);
  } else {
    return f < 0.0f ? 0.0f : f;  // keeps NaN, as frameworks do
  }
}

// ---- gather: the lane's share of one row ----------------------------------------------------------------------------

// Byte offset, in a plane of the state, of what slot s multiplies.
__device__ __forceinline__ u32 slot_offset(const u32* row, int slots, int s, u32 lane_offset) {
  if constexpr (kStorage == kDense) {
    return lane_offset + s * kLanesPerRow * kPlaneUnitBytes;
  } else if constexpr (kPrecision == kFp32) {
    const u32 pair = row[value_words(slots) + s / 2];
    return (s % 2 ? pair >> 16 : pair & 0xffffu) << kIndexShift;
  } else {
    return (row[s] & 0xffffu) << kIndexShift;
  }
}

// The weight of slot s as fp32.
__device__ __forceinline__ float slot_value(const u32* row, int s) {
  if constexpr (kPrecision == kFp32 || kStorage == kDense) {
    return element(row, s);
  } else {
    return element(row, 2 * s + 1);
  }
}

// The weight of slot s in both halves of a register; moved, not permuted, because the multiplication can read one half
// of a register as both.
__device__ __forceinline__ u32 slot_value_half2(const u32* row, int s) {
  u32 both;
  if (kStorage == kDense && s % 2 == 0) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low}; }" : "=r"(both) : "r"(row[s / 2]));
  } else {
    const u32 word = kStorage == kDense ? row[s / 2] : row[s];
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high}; }" : "=r"(both) : "r"(word));
  }
  return both;
}

// With several planes the compiler otherwise loads so far ahead that it spills. A convergent warp's barrier costs no
// instruction and keeps it from that.
__device__ __forceinline__ void limit_loads_ahead() {
  if constexpr (kPlanes > 1) {
    __syncwarp();
  }
}

template <int kRow>
__device__ __forceinline__ void gather(const u32* row, u32 state, u32 lane_offset, float (&sum)[kBatchPadded]) {
  constexpr int slots = kSlots[kRow];
  if constexpr (kPrecision == kFp16 && kPromoteEvery > 1) {
    u32 partial[kUnitWords];
#pragma unroll
    for (int s = 0; s < slots; ++s) {
      u32 h[kUnitWords];
      limit_loads_ahead();
      load_unit(state + slot_offset(row, slots, s, lane_offset), h);
      const u32 value = slot_value_half2(row, s);
#pragma unroll
      for (int i = 0; i < kUnitWords; ++i) {
        if (s % kPromoteEvery == 0) {
          asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(partial[i]) : "r"(value), "r"(h[i]));
        } else {
          asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(partial[i]) : "r"(value), "r"(h[i]));
        }
      }
      if (s % kPromoteEvery == kPromoteEvery - 1 || s == slots - 1) {
#pragma unroll
        for (int b = 0; b < kBatchPadded; ++b) {
          sum[b] += element(partial, b);
        }
      }
    }
  } else {
#pragma unroll
    for (int s = 0; s < slots; ++s) {
      u32 h[kUnitWords];
      limit_loads_ahead();
      load_unit(state + slot_offset(row, slots, s, lane_offset), h);
      const float value = slot_value(row, s);
#pragma unroll
      for (int b = 0; b < kBatchPadded; ++b) {
        sum[b] = fmaf(value, element(h, b), sum[b]);
      }
    }
  }
}

// ---- reduce over the lanes of a group -------------------------------------------------------------------------------
// While a lane holds more than one sample, it gives half of them to its partner and takes the other half: with lane
// bit k, sample bit k. After that, plain butterfly. Lane l of the group ends with samples l % kBatchPadded, + lanes, ...
template <int kCount, int kMask>
__device__ __forceinline__ void reduce(float (&sum)[kBatchPadded], int lane) {
  if constexpr (kMask < kLanesPerRow) {
    if constexpr (kCount > 1) {
      const bool upper = lane & kMask;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        const float keep = upper ? sum[2 * i + 1] : sum[2 * i];
        const float give = upper ? sum[2 * i] : sum[2 * i + 1];
        sum[i] = keep + __shfl_xor_sync(0xffffffffu, give, kMask);
      }
      reduce<kCount / 2, kMask * 2>(sum, lane);
    } else {
      sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], kMask);
      reduce<1, kMask * 2>(sum, lane);
    }
  }
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

// The state [kPlanes][kStateUnits + kZeroUnits][kPlaneSamples], then the outbox [kPlanes][kUnitsPerSm][kPlaneSamples]
extern __shared__ __align__(128) char shared_memory[];

// Element index of (unit, sample) in a state vector whose planes hold `plane_units` units.
__device__ __forceinline__ int state_index(int unit, int sample, int plane_units) {
  return (sample / kPlaneSamples * plane_units + unit) * kPlaneSamples + sample % kPlaneSamples;
}

// Which sample of a row lane `lane` of the group ends up with, its i-th.
__device__ __forceinline__ int sample_of(int lane, int i) { return (lane & (kBatchPadded - 1)) + i * kLanesPerRow; }

// The input of the rows that this lane finishes; asked for a step ahead.
__device__ __forceinline__ void load_input(u32 (&x)[kRowsPerGroup][kOutputs], const Arguments& a, int step, int lane,
                                           int group, bool writer) {
#pragma unroll
  for (int r = 0; r < kRowsPerGroup; ++r) {
    const int unit = r * kGroups + group;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      const int place = state_index(blockIdx.x * kUnitsPerSm + unit, sample_of(lane, i), kStateUnits);
      x[r][i] = writer && unit < kUnitsPerSm ? load_element(a.input, static_cast<long long>(step) * kStateElements + place) : 0;
    }
  }
}

// Polls the state `from` and copies it to shared memory. `polls`: how often a thread may find a word missing; once that
// is used up it takes what is there. Ends with the warp converged: without that, threads with nothing left to poll were
// seen to pass the block barrier for their whole warp.
__device__ __forceinline__ void stage(const char* from, u32 to, int& polls) {
  const int thread = threadIdx.x;
#pragma unroll 1
  for (int first = thread; first < kPlaneWords; first += kThreads * (kLoadsInFlight / kPlanes)) {
    // The k-th load of a thread is of plane k % kPlanes, so that only `first` varies at run time.
    Word v[kLoadsInFlight];
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const u32 unset = first + k / kPlanes * kThreads < kPlaneWords ? ~0u : 0u;
      v[k] = {unset, unset, unset, unset};
    }
    bool waiting = true;
    while (waiting) {
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        if (is_empty(v[k])) {
          v[k] = load_relaxed(from + 16ll * (k % kPlanes * kPlaneWords + first + k / kPlanes * kThreads));
        }
      }
      waiting = false;
#pragma unroll
      for (int k = 0; k < kLoadsInFlight; ++k) {
        waiting |= is_empty(v[k]);
      }
      waiting = waiting && polls > 0;
      polls -= waiting;
    }
#pragma unroll
    for (int k = 0; k < kLoadsInFlight; ++k) {
      const int word = first + k / kPlanes * kThreads;
      if (word < kPlaneWords) {
        store_shared(to + k % kPlanes * kPlaneBytes + 16 * word, v[k]);
      }
    }
  }
  __syncwarp();
}

template <int kRow>
__device__ __forceinline__ void rows_step(const u32 (&weights)[kWeightWords], const u32 (&x)[kRowsPerGroup][kOutputs],
                                          u32 state, char* outbox, int lane, int group, bool writer) {
  if constexpr (kRow < kRowsPerGroup) {
    float sum[kBatchPadded] = {};
    gather<kRow>(weights + kFirstWord<kRow>, state, lane * kPlaneUnitBytes, sum);
    reduce<kBatchPadded, 1>(sum, lane);
    const int unit = kRow * kGroups + group;  // within this SM's segment
    if (writer && unit < kUnitsPerSm) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        const u32 bits = to_bits(activate(sum[i] + element(&x[kRow][i], 0)));
        store_element(outbox, state_index(unit, sample_of(lane, i), kUnitsPerSm), bits);
      }
    }
    rows_step<kRow + 1>(weights, x, state, outbox, lane, group, writer);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) sparse_persistent(const Arguments a) {
  const int thread = threadIdx.x;
  const int lane = thread % kLanesPerRow;
  const int group = thread / kLanesPerRow;
  const bool writer = lane < kBatchPadded;
  char* const outbox = shared_memory + kStateBytes;
  const u32 shared_base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const u32 outbox_base = shared_base + kStateBytes;
  const auto state_at = [&](int step) { return static_cast<char*>(a.states) + step * (kStateWords * 16ll); };

  u32 weights[kWeightWords];
#pragma unroll
  for (int i = 0; i < kWeightWords; ++i) {
    weights[i] = a.weights[(static_cast<long long>(blockIdx.x) * kWeightWords + i) * kThreads + thread];
    asm volatile("" : "+r"(weights[i]));  // not loadable again: the compiler must keep the register
  }
#pragma unroll 1
  for (int i = thread; i < kStateBytes / 16 + kOutboxWords; i += kThreads) {
    store_shared(shared_base + 16 * i, {0, 0, 0, 0});
  }
  __syncthreads();

  u32 x[kRowsPerGroup][kOutputs];
  load_input(x, a, 0, lane, group, writer);
  int polls = kPolls;

#pragma unroll 1
  for (int t = 0; t < a.steps; ++t) {
    stage(state_at(t), shared_base, polls);
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      if (polls == 0) {
        *a.status = 1;
      } else {
        polls = kPolls;
      }
    }
    __syncthreads();

    if constexpr (!kUnpacked) {
#pragma unroll
      for (int i = 0; i < kWeightWords; ++i) {
        asm volatile("" : "+r"(weights[i]));  // unpack in every step: one register a pair, not two
      }
    }
    rows_step<0>(weights, x, shared_base, outbox, lane, group, writer);
    load_input(x, a, min(t + 1, a.steps - 1), lane, group, writer);
    __syncthreads();

#pragma unroll 1
    for (int i = thread; i < kOutboxWords; i += kThreads) {
      const int plane = i / kOutboxPlaneWords;
      const long long offset =
          16ll * (plane * kPlaneWords + blockIdx.x * kOutboxPlaneWords + (i - plane * kOutboxPlaneWords));
      store_relaxed(state_at(t + 1) + offset, load_shared(outbox_base + 16 * i));
      if (t + 1 + kAhead <= a.steps) {
        store_relaxed(state_at(t + 1 + kAhead) + offset, {~0u, ~0u, ~0u, ~0u});
      }
    }
  }
}

// ---- translation to and from the caller's order: one block per time step --------------------------------------------

struct OrderArguments {
  const int* order;    // [kHidden]: place of each unit in the state
  const void* from;
  void* to;
};

// [steps, kBatch, kHidden] -> [steps, kPlanes, kStateUnits, kPlaneSamples]; places without a unit become zero.
extern "C" __global__ void __launch_bounds__(512) to_state_order(const OrderArguments a) {
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  for (int i = threadIdx.x; i < kStateWords; i += blockDim.x) {
    store_shared(base + 16 * i, {0, 0, 0, 0});
  }
  __syncthreads();
  const long long from = static_cast<long long>(blockIdx.x) * kBatch * kHidden;
  for (int sample = 0; sample < kBatch; ++sample) {
    for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
      store_element(shared_memory, state_index(a.order[unit], sample, kStateUnits),
                    canonical(load_element(a.from, from + sample * kHidden + unit)));
    }
  }
  __syncthreads();
  Word* const to = static_cast<Word*>(a.to) + static_cast<long long>(blockIdx.x) * kStateWords;
  for (int i = threadIdx.x; i < kStateWords; i += blockDim.x) {
    to[i] = load_shared(base + 16 * i);
  }
}

// The other way round.
extern "C" __global__ void __launch_bounds__(512) from_state_order(const OrderArguments a) {
  const u32 base = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
  const Word* const from = static_cast<const Word*>(a.from) + static_cast<long long>(blockIdx.x) * kStateWords;
  for (int i = threadIdx.x; i < kStateWords; i += blockDim.x) {
    store_shared(base + 16 * i, from[i]);
  }
  __syncthreads();
  const long long to = static_cast<long long>(blockIdx.x) * kBatch * kHidden;
  for (int sample = 0; sample < kBatch; ++sample) {
    for (int unit = threadIdx.x; unit < kHidden; unit += blockDim.x) {
      const u32 bits = load_element(shared_memory, state_index(a.order[unit], sample, kStateUnits));
      store_element(a.to, to + sample * kHidden + unit, bits);
    }
  }
}
