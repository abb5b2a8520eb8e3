// SPDX-License-Identifier: Apache-2.0
// What all persistent kernels know of their network and plan: constants, elements, 16-byte words. Included as text when
// the sources are embedded, because NVRTC finds no files. The ONCHIP_* constants come from the plan.
//
//   state   in owner's order: SM s owns units [s * kUnitsPerSm, ...); how it lies in memory is its family's: planes.cuh,
//           spans.cuh
//   input   [kBatch][kStateUnits][kGates] of one step, in the same order

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

enum Precision { kFp16, kBf16, kFp32, kFp8 };
enum Cell { kRelu, kTanh, kLstm, kGru };
enum Storage { kPackedPair, kDense, kPackedDelta, kStructured24, kBitmap };
enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier, kCluster, kBulkCopy };

[[maybe_unused]] constexpr int kHidden = ONCHIP_HIDDEN;
constexpr int kBlocks = ONCHIP_BLOCKS;
constexpr int kUnitsPerSm = ONCHIP_UNITS_PER_SM;          // the last may be unused
constexpr int kBatch = ONCHIP_BATCH;
constexpr int kBatchPadded = ONCHIP_BATCH_PADDED;         // power of two
constexpr Precision kPrecision = static_cast<Precision>(ONCHIP_PRECISION);
constexpr Cell kCell = static_cast<Cell>(ONCHIP_CELL);

constexpr int kElementBytes = kPrecision == kFp32 ? 4 : 2;  // fp8: of the weights only
constexpr int kGates = kCell == kLstm ? 4 : kCell == kGru ? 3 : 1;
constexpr int kStateUnits = kBlocks * kUnitsPerSm;
constexpr int kLineWords = ONCHIP_LINE_WORDS;             // 16-byte words of the state in a line of L2

static_assert((kBatchPadded & (kBatchPadded - 1)) == 0 && kBatch <= kBatchPadded, "the batch is padded to a power of two");
static_assert(kUnitsPerSm * kGates * kElementBytes % 4 == 0, "an SM's input of one sample is copied in 4-byte words");

static_assert(kLineWords == 1 || kLineWords == 2 || kLineWords == 4 || kLineWords == 8, "a line has 8 words");

// Where byte `offset` of a state is in L2. A line has room for 8 words. Where an SM writes less than half a line, the rest
// is left empty, so that several SMs do not write the same line while others poll it: 128 SMs of an H200 that write 16
// bytes each take 0.97 us per step with 8 words in a line, 0.75 us with one (relu, 1024 units). Where an SM writes more,
// more lines to poll only take longer.
__device__ __forceinline__ constexpr int in_l2(u32 offset) {
  return kLineWords == 8 ? offset : offset / (16 * kLineWords) * 128 + offset % (16 * kLineWords);
}

extern __shared__ __align__(128) char shared_memory[];

#include "capture.cuh"

struct __align__(16) Word {
  u32 x, y, z, w;
};

__device__ __forceinline__ void store_shared(u32 address, const Word& v) {
  capture(kStores, 16, address, true);
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ Word load_shared(u32 address) {
  Word v;
  capture(kLoads, 16, address, true);
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
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
