// SPDX-License-Identifier: Apache-2.0
// Instructions of the kernels of blocks: matrices from and to shared memory, products, conversions.
#pragma once

#include "kernels/runtime/integers.cuh"

__device__ inline u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// A warp copies a record to shared memory, a lane 16 bytes from `of_lane` on, and ends a group of copies.
template <typename Record>
__device__ inline void copy_record(Record* slot, const uint4* of_lane) {
  const u32 lane = threadIdx.x % 32;
  if (lane < sizeof(Record) / sizeof(uint4)) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(slot) + lane * 16), "l"(of_lane)
                 : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Features of 16 neurons of 8 images, as mma's B: of both words, or of two groups of images.
__device__ inline void load_inputs(u32& a, u32& b, u32& c, u32& d, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address)
               : "memory");
}
__device__ inline void load_inputs(u32& a, u32& b, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b)
               : "r"(address)
               : "memory");
}

__device__ inline void store_outputs(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}
__device__ inline void store_outputs(u32 address, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(a), "r"(b) : "memory");
}

__device__ inline void multiply(float (&sum)[4], const uint4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Weights of a record as mma's A, so many times 16 bytes of each lane: a tile in fp16, or two in e4m3; none where all
// weights are one number.
template <int kVectors>
struct LaneVectors {
  uint4 tiles[kVectors][32];
};
template <>
struct LaneVectors<0> {};

// What a warp reads of an output block, or of a part of it; the last has what is not of tiles.
template <typename Place, int kTiles, int kVectors = kTiles>
struct __align__(32) OutputBlock : LaneVectors<kVectors> {
  float2 biases[8];          // of rows r and r + 8
  Place destinations[16];    // place of a row's neuron
  Place inputs[kTiles][16];  // places of a tile's inputs
#if ONCHIP_REMAINDER
  u32 remainder;  // records
#endif
};

// Eight numbers of e4m3, in fp16.
__device__ inline uint4 expand(u32 low, u32 high) {
  uint4 halves;
  asm("{\n.reg .b16 a, b, c, d;\nmov.b32 {a, b}, %4;\nmov.b32 {c, d}, %5;\ncvt.rn.f16x2.e4m3x2 %0, a;\n"
      "cvt.rn.f16x2.e4m3x2 %1, b;\ncvt.rn.f16x2.e4m3x2 %2, c;\ncvt.rn.f16x2.e4m3x2 %3, d;\n}"
      : "=r"(halves.x), "=r"(halves.y), "=r"(halves.z), "=r"(halves.w)
      : "r"(low), "r"(high));
  return halves;
}

// 32 weights outside of the tiles of their output block (remainder_records.hpp).
template <typename Place>
struct __align__(32) RemainderRecord {
  uint4 weights[4];  // of the lanes with lane % 4
  u32 rows[4];
  Place inputs[2][16];  // places
};

// What a lane holds of it, and makes two tiles of mma's A of: of each column only the weight's row is not zero.
struct Remainder {
  uint4 weights;  // of columns 2m, 2m + 1, 2m + 8, 2m + 9 of both tiles, fp16
  u32 rows;       // of these columns; those of the first tile in the upper halves of bytes
};
// Two halves, but zero where the last bit of their byte of `zero` is set.
template <u32 kBytes>
__device__ inline u32 where_not(u32 halves, u32 zero) {
  u32 mask;
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(mask) : "r"(zero), "n"(kBytes));
  return halves & ~mask;
}
__device__ inline void expand(const Remainder& of, uint4 (&tiles)[2]) {
  constexpr u32 kLower = 0x9988, kUpper = 0xbbaa;  // the last bits of two bytes, each for both bytes of a half
  const u32 differs = of.rows ^ threadIdx.x % 32 / 4 * 0x11111111u;
  const u32 neither = (differs & 0x77777777u) + 0x77777777u;  // the last bit of each four: neither row r nor r + 8
  const u32 row = neither | differs, row8 = neither | ~differs;
  tiles[0] = {where_not<kLower>(of.weights.x, row), where_not<kLower>(of.weights.x, row8),
              where_not<kUpper>(of.weights.y, row), where_not<kUpper>(of.weights.y, row8)};
  tiles[1] = {where_not<kLower>(of.weights.z, row * 16), where_not<kLower>(of.weights.z, row8 * 16),
              where_not<kUpper>(of.weights.w, row * 16), where_not<kUpper>(of.weights.w, row8 * 16)};
}

// ReLU, as fp16: cut off, or to the nearest.
__device__ inline u32 positive_cut(float x, float y) {
  u32 packed;
  asm("cvt.rz.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}
__device__ inline u32 positive_nearest(float x, float y) {
  u32 packed;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(y), "f"(x));
  return packed;
}

__device__ inline float2 as_floats(u32 halves) {
  float2 floats;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(floats.x), "=f"(floats.y)
      : "r"(halves));
  return floats;
}

__device__ inline u32 lesser_halves(u32 x, u32 y) {
  u32 lesser;
  asm("min.f16x2 %0, %1, %2;" : "=r"(lesser) : "r"(x), "r"(y));
  return lesser;
}

__device__ inline float lesser(float x, float y) {  // NaN if x is
  float lesser;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(lesser) : "f"(x), "f"(y));
  return lesser;
}

// ReLU and clip of two features, as one fp16 word or as two. Values are cut off, so that residuals are not negative
// either.
template <typename Arguments, int kCount>
__device__ inline void split(float x, float y, const Arguments& a, u32 (&words)[kCount]) {
  x = lesser(x, a.clip);
  y = lesser(y, a.clip);
  if constexpr (kCount == 1) {
    words[0] =
        positive_cut(__int_as_float(__float_as_int(x) + a.round_up), __int_as_float(__float_as_int(y) + a.round_up));
  } else {
    words[0] = positive_cut(x, y);
    const float2 value = as_floats(words[0]);
    words[kCount - 1] = positive_nearest(x - value.x, y - value.y);
  }
}

constexpr u32 kLargest = 0x7bff7bff;  // two features, larger than any

// A row of no neuron, whose bias says so and whose features are zero, or-ed with this counts for no smallest feature.
template <bool kMayBeNone>
__device__ inline u32 no_row(float bias) {
  return kMayBeNone && bias < -1e37f ? kLargest : 0;
}
