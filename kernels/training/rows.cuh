// SPDX-License-Identifier: Apache-2.0
// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate. A warp copies a row,
// neighbouring lanes neighbouring elements, several of which are asked for before the first is stored.

__device__ __forceinline__ void copy_row(const RowCopy& copy, long long row, int lane) {
  constexpr int kElements = 8;
  const long long from = row * copy.from_stride, to = row * copy.to_stride;
#pragma unroll 1
  for (int first = lane; first < copy.written_columns; first += 32 * kElements) {
    u32 bits[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int column = first + 32 * k;
      bits[k] = column < copy.columns ? load_element(copy.from, from + column) : 0;
    }
    if (copy.adds) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int column = first + 32 * k;
        const u32 there = column < copy.columns ? load_element(copy.to, to + column) : 0;
        bits[k] = to_bits(to_float(bits[k]) + to_float(there));
      }
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      if (const int column = first + 32 * k; column < copy.written_columns) {
        store_element(copy.to, to + column, bits[k]);
      }
    }
  }
}

// Rows of all copies side by side.
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
  const long long rows = a.copies[0].rows + a.copies[1].rows + a.copies[2].rows;
#pragma unroll 1
  for (long long i = first / 32; i < rows; i += threads / 32) {
    long long row = i;
#pragma unroll
    for (int which = 0; which < kMostCopies; ++which) {
      if (row >= 0 && row < a.copies[which].rows) {
        copy_row(a.copies[which], row, first % 32);
      }
      row -= a.copies[which].rows;
    }
  }
}
