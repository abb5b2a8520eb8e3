// SPDX-License-Identifier: Apache-2.0
// The rows of all units of a block joined over all of its lanes (model/joined_block.hpp), one row behind another.
//
// A unit then has as many lanes as its rows need, so that no row is too long for its lanes and all lanes have about the
// same to do. A lane's share of a row, its part, is summed where it is (joined.cuh); the parts of a row stand side by side
// in shared memory, and the lanes that finish a unit's values (cell.cuh) add up those of its rows:
//
//   every warp   gather all passes, parts -> shared memory | block barrier | of each value it finishes, add up the parts |
//                finish
//
// Where samples take turns (pipeline.cuh) a pass at a time, and the barrier is an mbarrier: at it wait the warps that
// finish rows of which others have parts. Each warp has as much as it can of its own units' rows, so those are few if its
// lanes have slots to spare.
//
// No lane holds more than two sums of a sample until it finishes values, which leaves more registers to weights than
// reducing all of a unit's rows together. On an H100 (us per step, blocks.csv of experiments/data, without and joined): lstm
// 4096 B=2 10 % 2.57, 2.07; gru 8192 B=1 3 % 2.28, 1.80; with rows of a power law lstm 4096 B=4 10 % 3.86, 3.37 (3.58, of
// which no file is kept, when the lane that finishes a row added up all of its parts). Small networks lose: lstm 1024 B=4
// 10 % 1.03, 1.12.
//
//   parts       float [kPasses][2 * kThreads][kPassSamples]
//   row table   int [kUnitsPerSm][kGates]: of each row, by its place in the unit, its first part | how many << 16
//   lane table  u32 [kThreads]: strips before the second row | number of the first row's part << 8 | of the second's << 19 |
//               whether its warp waits << 30 | whether any of the block does << 31; kNoPart: none

constexpr int kPartBits = 11, kNoPart = (1 << kPartBits) - 1;
constexpr int kRowTableAt = kPartsAt + kPartsBytes;
static_assert(kTiles == 1 && kPieces == 0 && !kHasTail, "one unit for each group, all in registers, and no row is cut");
static_assert(kOutputsOfOneRow, "a lane finishes values of one row");
static_assert(2 * kThreads <= kNoPart, "every part has a number");

// Behind the lanes' table in the block's data.
__device__ __forceinline__ void load_row_table(const Arguments& a, u32 shared, int thread) {
  const int* const table = a.tails + kBlocks * kThreads + blockIdx.x * (kUnitsPerSm * kGates);
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
    store_shared_int(shared + kRowTableAt + 4 * i, table[i]);
  }
}

// Of the row whose values this lane finishes: first part | how many << 16.
__device__ __forceinline__ int find_parts(const Step& step) {
  const int row = step.lane & (kTileRows - 1);
  const bool exists = step.group < kUnitsPerSm && row < kGates;
  const int parts = load_shared_int(step.kept_shared + kRowTableAt + 4 * (exists ? step.group * kGates + row : 0));
  return exists ? parts : 0;
}

__device__ __forceinline__ void store_part(u32 parts, int number, const float (&of)[kPassSamples]) {
  const bool exists = number != kNoPart;
  const u32 to = parts + number * kPartBytes;
  if constexpr (kPassSamples >= 4) {
#pragma unroll
    for (int b = 0; b < kPassSamples; b += 4) {
      store_shared_if(exists, to + 4 * b,
                      Word{__float_as_uint(of[b]), __float_as_uint(of[b + 1]), __float_as_uint(of[b + 2]),
                           __float_as_uint(of[b + 3])});
    }
  } else {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      store_shared_if(exists, to + 4 * b, of[b]);
    }
  }
}

// Zero if it does not exist.
__device__ __forceinline__ void load_part(bool exists, u32 from, float (&of)[kPassSamples]) {
  if constexpr (kPassSamples >= 4) {
#pragma unroll
    for (int b = 0; b < kPassSamples; b += 4) {
      const Word word = load_shared_if(exists, from + 4 * b);
      of[b] = __uint_as_float(word.x);
      of[b + 1] = __uint_as_float(word.y);
      of[b + 2] = __uint_as_float(word.z);
      of[b + 3] = __uint_as_float(word.w);
    }
  } else {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      of[b] = load_shared_float_if(exists, from + 4 * b);
    }
  }
}

template <int kPass>
__device__ __forceinline__ u32 parts_of_pass(const Step& step) {
  return step.kept_shared + kPartsAt + kPass * (2 * kThreads * kPartBytes);
}

// A lane's parts of one pass; returns whether its warp waits for others | whether any does << 1.
template <int kPass>
__device__ __forceinline__ u32 gather_parts(Weights& w, const Step& step) {
  const u32 table = load_shared_int(lane_table(step.kept_shared + kTailsAt + 4 * (step.thread / 32), step.thread));
  const JoinedLane lane{static_cast<int>(table & 0xff), static_cast<int>(table >> 8 & kNoPart),
                        static_cast<int>(table >> (8 + kPartBits) & kNoPart), false, 0};
  LaneSums sums{};
  gather_strips<0, kPass, 0, strips_of<0>()>(w, step.shared, 0, lane, sums);
  store_part(parts_of_pass<kPass>(step), lane.first, sums.first);
  store_part(parts_of_pass<kPass>(step), lane.second, sums.second);
  return table >> (8 + 2 * kPartBits);
}

// The sums of the values that this lane finishes. Of a group's lanes, every fourth takes parts of the same row in turn, of
// all samples, and then they share these out as reduce() does.
template <int kPass>
__device__ __forceinline__ void add_parts(const Step& step, int of_row, float (&sum)[kValues]) {
  constexpr int kSharing = kLanesPerRow / kTileRows, kAtOnce = kPassSamples > 4 ? 2 : 4;
  const int count = of_row >> 16;
  const u32 parts = parts_of_pass<kPass>(step) + (of_row & 0xffff) * kPartBytes;
  float all[kPassSamples] = {};
#pragma unroll 1
  for (int first = step.lane / kTileRows; first < count; first += kAtOnce * kSharing) {
    float part[kAtOnce][kPassSamples];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int number = first + k * kSharing;
      load_part(number < count, parts + number * kPartBytes, part[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
#pragma unroll
      for (int b = 0; b < kPassSamples; ++b) {
        all[b] += part[k][b];
      }
    }
  }
  __syncwarp();
  reduce<kPassSamples, kTileRows>(all, step.lane);
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    sum[i] = all[i];
  }
}

template <int kPass>
__device__ __forceinline__ void finish_pass(const Arguments& a, const Step& step, const Gates& gates, int of_row,
                                            const Output (&outputs)[kOutputs]) {
  float sum[kValues];
  add_parts<kPass>(step, of_row, sum);
  mark_clock(a, step.number - a.first_step, step.thread, kReduced);
  finish<0, kPass>(a, step, gates, sum, outputs);
}

#ifdef ONCHIP_EXCHANGE_WARPS
// One pass, in pipeline.cuh.
template <int kPass>
__device__ __forceinline__ void joined_block_pass(Weights& w, const Arguments& a, const Step& step) {
  const u32 waiting = gather_parts<kPass>(w, step);
  if (waiting > 1) {
    arrive(stored(step.kept_shared, kPass), step.thread % 32);
  } else {
    __syncwarp();
  }
  mark_clock(a, step.number - a.first_step, step.thread, kGathered);
  Output outputs[kOutputs];
  fetch_outputs<0, kPass>(step, outputs);
  const Gates gates = find_gates<0>(step);
  const int of_row = find_parts(step);
  if (waiting & 1) {
    await_phase(stored(step.kept_shared, kPass), (step.number - a.first_step) & 1);
  }
  finish_pass<kPass>(a, step, gates, of_row, outputs);
}
#else
template <int kPass>
__device__ __forceinline__ void gather_passes(Weights& w, const Step& step) {
  gather_parts<kPass>(w, step);
  if constexpr (kPass + 1 < kPasses) {
    gather_passes<kPass + 1>(w, step);
  }
}

template <int kPass>
__device__ __forceinline__ void finish_passes(const Arguments& a, const Step& step, const Gates& gates, int of_row) {
  if constexpr (kPass < kPasses) {
    Output outputs[kOutputs];
    fetch_outputs<0, kPass>(step, outputs);
    finish_pass<kPass>(a, step, gates, of_row, outputs);
    finish_passes<kPass + 1>(a, step, gates, of_row);
  }
}

// All passes of a step.
__device__ __forceinline__ void joined_block_step(Weights& w, const Arguments& a, const Step& step) {
  gather_passes<0>(w, step);
  mark_clock(a, step.number - a.first_step, step.thread, kGathered);
  Output outputs[kOutputs];
  fetch_outputs<0, 0>(step, outputs);
  const Gates gates = find_gates<0>(step);
  const int of_row = find_parts(step);
  __syncthreads();
  finish_pass<0>(a, step, gates, of_row, outputs);
  finish_passes<1>(a, step, gates, of_row);
}
#endif
