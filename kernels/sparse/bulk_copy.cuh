// SPDX-License-Identifier: Apache-2.0
// The exchange of a pass by flags and bulk copies, instead of words that threads poll (pipeline.cuh), for large states.
//
//   the warp that publishes   stores the SM's words to L2 | a fence | the SM's flag: the number of its states
//   the warp that fetches     polls all flags, in 16-byte words | asks the copy engine for the pass | the next pass ...
//   the pass's mbarrier       counts the bytes, as they come
//
// Words in registers go through the load unit twice, out of L2 and into shared memory, and wait there among the loads of
// the warps that compute; the copy engine only writes to shared memory. But a flag must wait for the words before it, and
// a copy for the flags: on an H200 a small state is there after 2.3 us instead of 0.8. So this is for passes that compute
// for longer than that. Few copies of all SMs' words are faster than one for each four SMs as soon as their flags are up.
//
//   flags   u32 [kPasses][kFlagsStride] in L2, zero before the launch; an SM only ever raises its own
//
// Nothing has to be emptied, and no value is special.
#pragma once

#include "kernels/sparse/pass_barriers.cuh"

static_assert(kExchange == kBulkCopy && kLineWords == 8, "a pass lies in L2 as it does in shared memory");

constexpr int kFlagsStride = (kBlocks + 31) / 32 * 32;
constexpr int kPlaneCopies = 8;  // of a plane, so that one does not wait for another
constexpr int kCopyWords = (kPlaneWords + kPlaneCopies - 1) / kPlaneCopies;

// All lanes of the warp have stored the SM's words of the pass.
__device__ __forceinline__ void raise_flag(const Arguments& a, int pass, int states, int lane) {
  __syncwarp();
  if (lane == 0) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(a.barrier + kFlagsStride * pass + blockIdx.x), "r"(states)
                 : "memory");
  }
}

// Whether all of the SMs have that many states of the pass in L2.
__device__ __forceinline__ bool all_raised(const u32* flags, int states, int lane) {
  bool raised = true;
#pragma unroll
  for (int first = 0; first < kBlocks; first += 128) {
    const int sm = first + 4 * lane;
    Word v{~0u, ~0u, ~0u, ~0u};
    if (sm < kBlocks) {
      asm volatile("ld.acquire.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "l"(flags + sm)
                   : "memory");
    }
    const auto is_raised = [&](u32 flag, int i) { return sm + i >= kBlocks || static_cast<int>(flag) >= states; };
    raised = raised && is_raised(v.x, 0) && is_raised(v.y, 1) && is_raised(v.z, 2) && is_raised(v.w, 3);
  }
  return __all_sync(0xffffffffu, raised);
}

// Who has given up takes what is there of others, but still awaits this SM's own flag (see await_own_words()).
__device__ __forceinline__ void await_flags(const Arguments& a, int pass, int states, int lane, int& polls) {
  const u32* const flags = a.barrier + kFlagsStride * pass;
#pragma unroll 1
  while (polls > 0 && !all_raised(flags, states, lane)) {
    --polls;
  }
  if (polls <= 0) {
    int own;
#pragma unroll 1
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(own) : "l"(flags + blockIdx.x) : "memory");
    } while (own < states);
    __syncwarp();
  }
}

// Asks for a pass of a state; the lanes for a part of each plane each.
__device__ __forceinline__ void copy_pass(const char* state, u32 shared, int pass, int lane) {
  const u32 barrier = fetched(shared, pass);
  asm volatile("fence.proxy.async;" ::: "memory");  // what was read and written before, and what the copy engine does
  if (lane == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(16 * kPassWords) : "memory");
  }
  __syncwarp();
  const int first = kCopyWords * ((lane + static_cast<int>(blockIdx.x)) % kPlaneCopies);  // not all SMs at the same place
  if (lane < kPlaneCopies && first < kPlaneWords) {
    const int bytes = 16 * min(kCopyWords, kPlaneWords - first);
#pragma unroll
    for (int i = 0; i < kPassPlanes; ++i) {
      const int plane = kPassPlanes * pass + i;
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared + kPlaneBytes * plane + 16 * first),
                   "l"(state + 16ll * (kPlaneWords * plane + first)), "r"(bytes), "r"(barrier)
                   : "memory");
    }
  }
  __syncwarp();
}

__device__ __forceinline__ void fetch_states(const Arguments& a, u32 shared, int lane) {
  fetch_all(
      a, [&](int pass, int t, int& polls) { await_flags(a, pass, t, lane, polls); },
      [&](const char* state, int pass, int&) { copy_pass(state, shared, pass, lane); }, [](int) { return true; });
}
