// SPDX-License-Identifier: Apache-2.0
// From the warps' sums to the next state of the SM's units.
//
// Rows g and g + 8 of a tile of W are rows 2 i and 2 i + 1 of the SM, i = 8 * tile + g, so that a lane's four sums of a
// tile are two neighbouring rows of two samples. Row r is gate r % kGates of the SM's unit r / kGates: a thread that
// finishes a unit finds its gates side by side.
//
//   partial   float [kWarps][8 * kSampleTiles][kPartialRows] in shared memory; kPartialRows leaves a gap that makes both the
//             lanes' 8-byte stores and the threads' loads free of bank conflicts

constexpr int kPartialRows = 16 * kRowTiles + 4;
constexpr int kPartialBytes = 4 * 8 * kSampleTiles * kPartialRows;  // of one warp
constexpr int kBusyWarps = (kSpans + kWarpSpans - 1) / kWarpSpans;  // that have spans

// A thread finishes, for one sample, two units of a cell without gates, or one unit of a gated cell: then the two units
// of a pair are in lanes l and l + 16 of a warp.
constexpr int kPairs = kUnitsPerSm / 2;
constexpr int kThreadUnits = kGates == 1 ? 2 : 1;
constexpr int kThreadRows = kThreadUnits * kGates;
constexpr int kItems = kGates == 1 ? kPairs * kBatch : (kPairs * kBatch + 15) / 16 * 32;
static_assert(kUnitsPerSm % 2 == 0, "a word of the state is two units of one SM");

__device__ __forceinline__ void store_partials(u32 partials, const Sums& sums, int lane) {
  const u32 to = partials + 4 * (lane % 4 * 2 * kPartialRows + lane / 4 * 2);
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int j = 0; j < kSampleTiles; ++j) {
      float sum[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sum[k] = sums.of[0][row][j][k];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) {
          sum[k] += sums.of[chain][row][j][k];
        }
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 4 * ((8 * j + k) * kPartialRows + 16 * row)),
                     "f"(sum[k]), "f"(sum[2 + k])
                     : "memory");
      }
    }
  }
}

// kThreadRows neighbouring rows of one sample in one warp's sums.
__device__ __forceinline__ void load_partial(u32 address, float (&rows)[kThreadRows]) {
  if constexpr (kThreadRows == 2) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(rows[0]), "=f"(rows[1]) : "r"(address) : "memory");
  } else if constexpr (kThreadRows == 4) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(rows[0]), "=f"(rows[1]), "=f"(rows[2]), "=f"(rows[3])
                 : "r"(address)
                 : "memory");
  } else {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      rows[r] = load_shared_float(address + 4 * r);
    }
  }
}

// The sums over warps [kFirst, kFirst + kCount), always in the same order, halves first: as few additions after one
// another as can be.
template <int kFirst, int kCount>
__device__ __forceinline__ void sum_partials(u32 address, float (&rows)[kThreadRows]) {
  if constexpr (kCount == 1) {
    load_partial(address + kFirst * kPartialBytes, rows);
  } else {
    float others[kThreadRows];
    sum_partials<kFirst, kCount / 2>(address, rows);
    sum_partials<kFirst + kCount / 2, kCount - kCount / 2>(address, others);
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      rows[r] += others[r];
    }
  }
}

// What a thread finishes.
struct Item {
  int unit, sample;  // of the SM
  bool exists;
};

__device__ __forceinline__ Item item_of(int i) {
  const int pair_sample = kGates == 1 ? i : i / 32 * 16 + i % 16;
  const bool exists = kGates == 1 || pair_sample < kPairs * kBatch;
  const int place = exists ? pair_sample : 0;  // who finishes nothing reads what is there
  return {place / kBatch * 2 + (kGates == 1 ? 0 : i % 32 / 16), place % kBatch, exists};
}

// A unit's place beyond the last unit must stay zero: its weights are zero, but zero times infinity is not.
__device__ __forceinline__ bool is_unit(int unit) {
  return kStateUnits == kHidden || static_cast<int>(blockIdx.x) * kUnitsPerSm + unit < kHidden;
}

// The gates of one unit; `carry` becomes the next one. Returns the next state.
__device__ __forceinline__ float apply_cell(const float (&sum)[kGates], const float (&x)[kGates], float bias, float& carry) {
  if constexpr (kCell == kRelu) {
    const float h = sum[0] + x[0];
    return h < 0.0f ? 0.0f : h;  // keeps NaN, as frameworks do
  } else if constexpr (kCell == kTanh) {
    return squash(sum[0] + x[0], true);
  } else if constexpr (kCell == kLstm) {  // gates i, f, g, o
    const float added = squash(sum[0] + x[0], false) * squash(sum[2] + x[2], true);
    carry = fmaf(squash(sum[1] + x[1], false), carry, added);
    return squash(sum[3] + x[3], false) * squash(carry, true);
  } else {  // gates r, z, n; the reset gate multiplies the product with its bias
    const float reset = squash(sum[0] + x[0], false);
    const float update = squash(sum[1] + x[1], false);
    const float candidate = squash(fmaf(reset, sum[2] + bias, x[2]), true);
    carry = fmaf(update, carry - candidate, candidate);
    return carry;
  }
}

// The input of a unit's gates of one sample.
__device__ __forceinline__ void load_input(u32 address, float (&x)[kGates]) {
#pragma unroll
  for (int g = 0; g < kGates; ++g) {
    const u32 bits = load_shared_element(address + kElementBytes * g);
    x[g] = element(&bits, 0);
  }
}
