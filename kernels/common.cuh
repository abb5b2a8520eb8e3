// SPDX-License-Identifier: Apache-2.0
// Columns that two rows of a unit have in common: one load of the state, two products.
//
// Of two random rows of density d, the share d of either's columns is common, so of the four gates of an LSTM at 10 %
// 13 % of the loads can be saved. Which columns stand in a pair's slots: model/common_columns.hpp. Where a column is only
// one row's, the other's value is zero.
//
//   pairs   (0, 1), (0, 2), ..., (1, 2), ... of a tile's rows, kCommonSlots slots each, of every lane
//   words   of two slots: value of the first row << 16 | index, the same of the next slot, the second row's two values

// Rows of a tile that pair `pair` consists of.
struct RowPair {
  int first, second;
};
constexpr __host__ __device__ RowPair rows_of_pair(int pair) {
  RowPair rows{0, 1};
  for (int rest = kTileHeight - 1; pair >= rest; --rest) {
    pair -= rest;
    ++rows.first;
  }
  rows.second = rows.first + 1 + pair;
  return rows;
}

// Products of a tile's row from registers: first those of its pairs, in their order, then its own.
constexpr int kOfPairs = (kTileHeight - 1) * kCommonSlots;
constexpr __host__ __device__ int products_of(int tile, int row) { return kOfPairs + kSlots[tile * kTileHeight + row]; }

// fp16 sums of a tile's rows, across their pairs: else each pair would have to add up what it has.
struct UnitSums {
  u32 of[kTileHeight][kUnitWords];
};

// The i-th of a row's `all` products, added to `partial` or `sum`; see gather_run().
__device__ __forceinline__ void add_product(u32 word, bool upper, const u32 (&h)[kUnitWords], int i, int all, int value,
                                            u32 (&partial)[kUnitWords], float (&sum)[kValues]) {
  if constexpr (kHalf2Sums) {
    const u32 both = both_halves(word, upper);
#pragma unroll
    for (int k = 0; k < kUnitWords; ++k) {
      if (i % kPromoteEvery == 0) {
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(partial[k]) : "r"(both), "r"(h[k]));
      } else {
        asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(partial[k]) : "r"(both), "r"(h[k]));
      }
    }
    if (i % kPromoteEvery == kPromoteEvery - 1 || i == all - 1) {
#pragma unroll
      for (int b = 0; b < kPlaneSamples; ++b) {
        sum[value + b * kTileRows] += element(partial, b);
      }
    }
  } else {
    const float single = element(&word, upper);
#pragma unroll
    for (int b = 0; b < kPlaneSamples; ++b) {
      sum[value + b * kTileRows] = fmaf(single, element(h, b), sum[value + b * kTileRows]);
    }
  }
}

// Pairs from kPair on, times one plane of the state; `value` is where the sums of the tile's first row begin. Templates
// for the same reason as gather_registers().
template <int kTile, int kPair>
__device__ __forceinline__ void gather_pairs(const Weights& w, u32 plane, int value, UnitSums& partial,
                                             float (&sum)[kValues]) {
  if constexpr (kPair < kPairs) {
    constexpr RowPair rows = rows_of_pair(kPair);
#pragma unroll
    for (int s = 0; s < kCommonSlots; ++s) {
      constexpr int kOfTwo = 3;
      const int bundle = first_common_word(kTile, kPair) + s / 2 * kOfTwo;
      const int slots = kCommonSlots - s / 2 * 2 < 2 ? 1 : 2;
      const u32 word = kept(w.registers[bundle + s % 2]);
      u32 h[kUnitWords];
      load_unit(plane + ((word & 0xffffu) << kIndexShift), h);
      // Of a row's pairs those with rows before the other come first.
      add_product(word, true, h, (rows.second - 1) * kCommonSlots + s, products_of(kTile, rows.first), value + rows.first,
                  partial.of[rows.first], sum);
      add_product(kept(w.registers[bundle + slots]), s % 2, h, rows.first * kCommonSlots + s,
                  products_of(kTile, rows.second), value + rows.second, partial.of[rows.second], sum);
    }
    gather_pairs<kTile, kPair + 1>(w, plane, value, partial, sum);
  }
}

// The own slots of the tile's rows from kRow on.
template <int kTile, int kRow>
__device__ __forceinline__ void gather_own(const Weights& w, u32 plane, int value, UnitSums& partial,
                                           float (&sum)[kValues]) {
  if constexpr (kRow < kTileHeight) {
    constexpr int row = kTile * kTileHeight + kRow;
#pragma unroll
    for (int s = 0; s < kSlots[row]; ++s) {
      const u32 word = kept(w.registers[first_word(row) + s]);
      u32 h[kUnitWords];
      load_unit(plane + ((word & 0xffffu) << kIndexShift), h);
      add_product(word, true, h, kOfPairs + s, products_of(kTile, kRow), value + kRow, partial.of[kRow], sum);
    }
    gather_own<kTile, kRow + 1>(w, plane, value, partial, sum);
  }
}

// Everything in registers of a tile's rows, for the planes of one pass.
template <int kTile, int kPass>
__device__ __forceinline__ void gather_unit(const Weights& w, u32 shared, float (&sum)[kValues]) {
#pragma unroll
  for (int plane = 0; plane < kPassPlanes; ++plane) {
    const u32 at = shared + (kPass * kPassPlanes + plane) * kPlaneBytes;
    UnitSums partial;
    gather_pairs<kTile, 0>(w, at, plane * kPlaneSamples * kTileRows, partial, sum);
    gather_own<kTile, 0>(w, at, plane * kPlaneSamples * kTileRows, partial, sum);
  }
}
