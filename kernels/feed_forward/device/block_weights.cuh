// SPDX-License-Identifier: Apache-2.0
// What a lane of the kernel of blocks holds of a record, straight from L2 to its registers.

struct Weights {  // what a lane holds of a record
  uint4 tiles[kTiles];
  float2 bias;
  u32 destination, inputs[kTiles];
  u32 remainder;
};

__device__ inline uint4 load_once(const uint4* pointer) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(pointer));
  return value;
}

__device__ inline void fetch(Weights& weights, const Block& block, int lane) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    weights.tiles[t] = load_once(&block.tiles[t][lane]);
    weights.inputs[t] = __ldg(&block.inputs[t][lane % 16]);
  }
  weights.bias = __ldg(&block.biases[lane / 4]);
  weights.destination = __ldg(&block.destinations[lane % 16]);
#if ONCHIP_REMAINDER
  weights.remainder = __ldg(&block.remainder);
#endif
}
