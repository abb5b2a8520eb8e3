// SPDX-License-Identifier: Apache-2.0
// The exchange of the sparse persistent kernel, step by step and with nothing else: its own code (exchange.cuh), specialised
// by the same constants, in a loop like its own. One block per SM, cooperative launch.
//
//   stage   as in the kernel; a fence every quarter of kAhead; block barrier
//   read    a thread that emits a word reads the next SM's word of the same place from the staged state
//   emit    block barrier; then as in the kernel
//   change  what was read, element by element, to the outbox, for the next step
//
// Between the two barriers, where the kernel has its products, there is one load whose result nobody waits for before the
// second barrier; the change is made while the others' words are on their way, as the kernel fetches its input then.
//
// Every element of word w of step t + 2 is 13 x + 57 mod 2^15, x that of word w + kOutboxWords of step t; word w of step 1 is
// made like this of word w of step 0. A closed form, against which the host checks every block's last state by a checksum.
//
// Clocks are read inside the kernel, so no launch is timed.

#include "kernels/sparse/shape.cuh"  // first: what the others are made for

#include "kernels/microbench/clocks.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/persistent/protocol.cuh"
#include "kernels/sparse/exchange.cuh"

static_assert(kPlanes == 1, "the words of an SM lie side by side");
static_assert(kOutboxWords <= kThreads, "a thread changes one word at most");
static_assert(kStateWords > kOutboxWords, "there is a next SM");

// As in the kernel: where a thread has many words, their addresses are computed in every step.
constexpr bool kManyAddresses = kStateWords > kThreads * kLoadsInFlight;

struct Arguments {
  char* states;      // [steps + 1] states, kStateStride apart: the initial state, then at least kAhead empty ones
  u32* checksums;    // [kBlocks]
  long long* times;  // [4]: block 0's cycles at start and end, nanoseconds at start and end
  u32* status;       // set to 1 if a wait was given up
  int warmup, steps;
};

// Two elements of 15 bits each.
__device__ __forceinline__ u32 changed(u32 pair) {
  const u32 low = (13 * (pair & 0x7fffu) + 57) & 0x7fffu, high = (13 * (pair >> 16) + 57) & 0x7fffu;
  return low | high << 16;
}
__device__ __forceinline__ Word changed(const Word& v) {
  return {changed(v.x), changed(v.y), changed(v.z), changed(v.w)};
}

extern "C" __global__ void __launch_bounds__(kThreads, 1) microbench_exchange(const Arguments a) {
  const u32 shared = kept(static_cast<u32>(__cvta_generic_to_shared(shared_memory)));
  const int thread = static_cast<int>(kept(threadIdx.x));
  const bool emits = thread < kOutboxWords;
  const int own = static_cast<int>(blockIdx.x) * kOutboxWords + thread;
  const u32 outbox = shared + kOutboxAt + 16 * thread;
  const u32 next = shared + staged_at(own + kOutboxWords < kStateWords ? own + kOutboxWords : own + kOutboxWords - kStateWords);
  prepare_capture(nullptr);
  if (thread == 0) {
    a.checksums[blockIdx.x] = 0;
  }
  if (emits) {
    const u32* const word = reinterpret_cast<const u32*>(a.states + in_l2(16 * own));
    store_shared(outbox, changed(Word{word[0], word[1], word[2], word[3]}));
  }
  int polls = kPolls;
  const char* state = a.states;                                            // of step t
  char* outbox_word = a.states + kStateStride + outbox_offset(thread);  // of step t + 1

#pragma unroll 1
  for (int t = 0;; ++t) {
    const int place = kManyAddresses ? static_cast<int>(kept(thread)) : thread;
    stage(state, shared, place, polls);
    state += kStateStride;
    if ((t & (kAhead / 4 - 1)) == 0) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      renew_polls(a.status, polls);
    }
    __syncthreads();
    if ((t == a.warmup || t == a.steps) && blockIdx.x == 0 && thread == 0) {
      a.times[t == a.steps] = read_cycles();
      a.times[2 + (t == a.steps)] = read_nanoseconds();
    }
    if (t == a.steps) {
      break;
    }
    Word read{};
    if (emits) {
      read = load_shared(next);
    }
    __syncthreads();
    if (emits) {
      emit(outbox_word, thread, shared, t, a.steps);
      store_shared(outbox, changed(read));
    }
    outbox_word += kStateStride;
    wait_before_polling();
  }

  u32 checksum = 0;
  for (int i = thread; i < kStateWords; i += kThreads) {
    const Word v = load_shared(shared + staged_at(i));
    checksum += v.x * (8u * i + 1) + v.y * (8u * i + 3) + v.z * (8u * i + 5) + v.w * (8u * i + 7);
  }
  atomicAdd(&a.checksums[blockIdx.x], checksum);
  if (polls <= 0) {
    *a.status = 1;
  }
}
