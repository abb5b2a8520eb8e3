// SPDX-License-Identifier: Apache-2.0
// What a launch of a persistent kernel is given, and how its input comes to the SMs.

constexpr bool kExchangeOnly = ONCHIP_EXCHANGE_ONLY;  // no products: what the exchange of the state alone takes
constexpr bool kCarries = kGates > 1;                 // a vector in fp32 from step to step

constexpr __host__ __device__ int whole_words(int bytes) { return (bytes + 15) / 16 * 16; }
constexpr int kInputWords = kUnitsPerSm * kGates * kElementBytes / 4;  // of one sample
constexpr int kInputBytes = whole_words(kBatch * kInputWords * 4);

struct Arguments {
  const u32* weights;           // of each block, as its family lays them out: those of registers, those of shared memory
  const char* streamed;         // sparse: chunks, of each warp in order of use
  const int* overflow;          // sparse, per block: [kOverflowInts]; [kWarps] first streamed chunk; [kWarps] chunks streamed
                                // in a step; behind that of all blocks the table of row_splits.cuh
  const u32* gates;             // sparse: [kStateUnits], see cell.cuh
  const float* scales;          // sparse, fp8: [kStateUnits][kGates], in the order of each unit's rows
  const float* recurrent_bias;  // GRU: [kStateUnits], of the n gate
  const void* input;            // [steps, kBatch, kStateUnits, kGates], with its bias, in the order of each unit's rows
  void* states;                 // [steps + 1] states: the initial one, then kAhead empty ones
  float* carry;                 // [kStateUnits, kBatchPadded]: before the first step and, after the launch, after the last
  float* final_carry;           // the same, of each sample's last step
  const int* lengths;           // [kBatchPadded]: steps of each sample; its last may lie in another launch
  int first_step;               // of this launch, as lengths count
  int steps;
  u32* barrier;                 // zero before the launch; Lamport: unused
  u32* status;                  // set to 1 if a wait was given up
  u32* record;                  // ONCHIP_CLOCKS: clocks [steps, kBlocks, kWarps, kMarks]; or what capture.cuh writes
};

// Where a warp is in a step, for its clock.
enum Mark { kBegun, kStaged, kComplete, kGathered, kReduced, kFinished, kAllFinished, kEmitted, kMarks };
__device__ __forceinline__ void mark_clock(const Arguments& a, int t, int thread, Mark mark) {
  if constexpr (ONCHIP_CLOCKS) {
    const u32 now = read_clock();
    if (thread % 32 == 0) {
      a.record[((static_cast<long long>(t) * kBlocks + blockIdx.x) * kWarps + thread / 32) * kMarks + mark] = now;
    }
  }
}

// Asks for the input of step t of this launch, for one of two places in shared memory; all of kThreads (or kCopying) do.
template <int kInputAt, int kCopying = kThreads>
__device__ __forceinline__ void fetch_input(const Arguments& a, int t, u32 shared, int thread) {
  if (t < a.steps) {
    const char* const from = static_cast<const char*>(a.input) +
                             4ll * kInputWords * (static_cast<long long>(t) * kBatch * kBlocks + blockIdx.x);
#pragma unroll 1
    for (int i = thread; i < kBatch * kInputWords; i += kCopying) {
      const int sample = i / kInputWords;
      copy_4(shared + kInputAt + t % 2 * kInputBytes + 4 * i,
             from + 4ll * (sample * (kBlocks - 1) * static_cast<long long>(kInputWords) + i));
    }
  }
  end_copies();
}

// What is carried from step to step, float [kUnitsPerSm][kBatchPadded] in shared memory: from before the launch, and
// back after it; and the samples' lengths.
__device__ __forceinline__ void take_carry(const Arguments& a, u32 to, u32 lengths, int thread) {
  const float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
    store_shared_float(to + 4 * i, carry[i]);
  }
  if (thread < kBatchPadded) {
    store_shared_int(lengths + 4 * thread, a.lengths[thread]);
  }
}
__device__ __forceinline__ void return_carry(const Arguments& a, u32 from, int thread) {
  float* const carry = a.carry + static_cast<long long>(blockIdx.x) * kUnitsPerSm * kBatchPadded;
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kBatchPadded; i += kThreads) {
    carry[i] = load_shared_float(from + 4 * i);
  }
}

// GRU: of the n gates, float [kUnitsPerSm] in shared memory.
__device__ __forceinline__ void take_bias(const Arguments& a, u32 to, int thread) {
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm; i += kThreads) {
    store_shared_float(to + 4 * i, a.recurrent_bias[blockIdx.x * kUnitsPerSm + i]);
  }
}
