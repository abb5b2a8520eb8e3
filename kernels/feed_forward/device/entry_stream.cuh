// SPDX-License-Identifier: Apache-2.0
// What a warp of the unstructured kernel multiplies: entries from device memory through shared memory, and the inputs
// that they name. While half an entry is multiplied, what the next half reads is on its way.
#pragma once

#include "kernels/feed_forward/device/unstructured_shape.cuh"

// First image of a lane's read. Of the accesses of a quarter of a warp, every other one reads the upper half of its
// places first, so that both reads use all banks.
__device__ inline int image_of(int read) {
  const int lane = threadIdx.x % 32, row = lane / kRowLanes;
  const int half = kReads == 2 ? (row / kZeros + read) % 2 : 0;
  return (lane % kRowLanes + half * kRowLanes) * kWords;
}

struct Source {  // addresses of the images of a lane's reads, at the first place
  u32 of[kReads];
};

__device__ inline float weight_of(u32 bits) {  // of an entry of 32 bits
  if constexpr (kWeight == 1) {
    return __int_as_float(bits & 0xffff0000u);
  } else {
    float value;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;\n}" : "=f"(value) : "r"(bits));
    return value;
  }
}

// The steps of half an entry: what they read is on its way as soon as it is asked for.
struct Half {
  Values inputs[kSteps];
  float weight[kSteps];

  __device__ void ask(const Source& source, u32 first, u32 second) {
    const u32 words[2] = {first, second};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const u32 place = kWeight == 2 ? first : words[step] & 0xffff;
      weight[step] = kWeight == 2 ? __int_as_float(second) : weight_of(words[step]);
#pragma unroll
      for (int r = 0; r < kReads; ++r) {
        inputs[step].of[r] = read_at(address_of(source.of[r], place));
      }
    }
  }
  __device__ void add_to(Values& sums) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int r = 0; r < kReads; ++r) {
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
          sums.of[r].of[i] = __fadd_rn(sums.of[r].of[i], __fmul_rn(weight[step], inputs[step].of[r].of[i]));
        }
      }
    }
  }
};

// What a warp reads, item after item and layer after layer: copied to shared memory kAhead entries of each row ahead.
// A lane copies a row, which is the one that it reads where a row has one lane.
struct Stream {
  static constexpr u32 kBytes = sizeof(uint4) * kRows;  // of a slot
  const uint4* entries;                                 // the last that is asked for
  u32 item, halves;                                     // the next item's
  u32 slots, read, row;                                 // shared memory: the warp's slots; slot, and row of a lane
  uint4 entry;                                          // the next
  Half first;                                           // of it

  __device__ Stream(const Arguments& a, Memory& memory)
      : entries(static_cast<const uint4*>(a.entries) + static_cast<u64>(__ldg(a.warp_begin + threadIdx.x / 32)) * kRows + threadIdx.x % 32 -
                kRows),
        item(threadIdx.x / 32 * a.items),
        halves(__ldg(a.halves + item)),
        slots(shared_address(&memory.entries[threadIdx.x / 32])),
        read(0),
        row(static_cast<u32>(sizeof(uint4)) * (threadIdx.x % 32 / kRowLanes)) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      copy_to(i * kBytes);
    }
    take();
  }
  __device__ void copy_to(u32 slot) {
    entries += kRows;  // here, as what is behind a copy waits for it
    if (kRows == 32 || threadIdx.x % 32 < kRows) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slots + slot + threadIdx.x % 32 * 16), "l"(entries)
                   : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  // The next entry, with which its slot is free.
  __device__ void take() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kAhead - 1) : "memory");
    if (kRowLanes > 1) {
      __syncwarp();
    }
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(entry.x), "=r"(entry.y), "=r"(entry.z), "=r"(entry.w)
                 : "r"(slots + read + row));
    copy_to((read + kAhead * kBytes) % (kSlots * kBytes));  // the slot that was read before
    read = (read + kBytes) % (kSlots * kBytes);
  }
  __device__ void ask_first(const Source& source) {
    first.ask(source, entry.x, entry.y);
  }
  __device__ void end() {
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
};
