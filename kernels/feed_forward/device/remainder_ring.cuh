// SPDX-License-Identifier: Apache-2.0
// A warp's records of weights outside of tiles, one after another through all blocks of all layers of the launch: they
// come through a ring in shared memory, kRing of them at a time, and are read one ahead where registers are not full of
// outputs.
#pragma once

#include "kernels/feed_forward/device/blocks_shape.cuh"
#include "kernels/feed_forward/device/fragments.cuh"

constexpr bool kReadsAhead = !kInPlace;

struct RemainderRing {
  Remainder weights;  // what this lane holds of the next record
  u32 place;          // of its input
  Record* ring;
  const uint4* next;  // that is copied next, as a lane copies it
  u32 slot;           // of the record that is read next

  __device__ void copy() {
    copy_record(ring + slot, next);
    next += sizeof(Record) / sizeof(uint4);
    slot = (slot + 1) % onchip::kRemainderRing;
  }

  // With the first record of the launch.
  __device__ void begin(Record* of_warp, const Arguments& a) {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    const u32 first = __ldg(a.remainder_begin + a.first_layer * kWarps + threadIdx.x / 32);
    ring = of_warp;
    next = reinterpret_cast<const uint4*>(static_cast<const Record*>(a.remainder) + first) + threadIdx.x % 32;
    slot = 0;
#pragma unroll 1
    for (int i = 0; i < onchip::kRemainderRing; ++i) {
      copy();
    }
    if (kReadsAhead) {
      read();
    }
  }

  __device__ void read() {
    asm volatile("cp.async.wait_group %0;" ::"n"(onchip::kRemainderRing - 1) : "memory");
    __syncwarp();
    const u32 lane = threadIdx.x % 32;
    const Record& record = ring[slot];
    weights = {record.weights[lane % 4], record.rows[lane % 4]};
    place = record.inputs[lane / 16][lane % 16];
    __syncwarp();
    copy();
  }
};
