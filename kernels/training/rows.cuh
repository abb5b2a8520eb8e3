// SPDX-License-Identifier: Apache-2.0
// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate. A warp copies a row,
// a thread 8 elements of it at a time, all of which are asked for before the first is stored.

__device__ __forceinline__ void copy_rows(const RowCopy& copy, int first, int threads) {
  constexpr int kElements = 8;
#pragma unroll 1
  for (long long row = first / 32; row < copy.rows; row += threads / 32) {
#pragma unroll 1
    for (int column = first % 32 * kElements; column < copy.written_columns; column += 32 * kElements) {
      const long long from = row * copy.from_stride + column, to = row * copy.to_stride + column;
      u32 bits[kElements];
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        bits[k] = column + k < copy.columns ? load_element(copy.from, from + k) : 0;
      }
      if (copy.adds) {
#pragma unroll
        for (int k = 0; k < kElements; ++k) {
          const u32 there = column + k < copy.columns ? load_element(copy.to, to + k) : 0;
          bits[k] = to_bits(to_float(bits[k]) + to_float(there));
        }
      }
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        if (column + k < copy.written_columns) {
          store_element(copy.to, to + k, bits[k]);
        }
      }
    }
  }
}
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
#pragma unroll
  for (int i = 0; i < kMostCopies; ++i) {
    copy_rows(a.copies[i], first, threads);
  }
}
