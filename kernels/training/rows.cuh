// SPDX-License-Identifier: Apache-2.0
// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate. A thread copies 8
// elements of a row at a time, all of which are asked for before the first is stored.

__device__ __forceinline__ void copy_rows(const RowCopy& copy, int first, int threads) {
  constexpr int kElements = 8;
  const int pieces = (copy.written_columns + kElements - 1) / kElements;  // of a row
#pragma unroll 1
  for (long long i = first; i < copy.rows * pieces; i += threads) {
    const int row = static_cast<int>(i) / pieces, column = static_cast<int>(i) % pieces * kElements;
    const long long from = static_cast<long long>(row) * copy.from_stride + column;
    const long long to = static_cast<long long>(row) * copy.to_stride + column;
    u32 bits[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      bits[k] = column + k < copy.columns ? load_element(copy.from, from + k) : 0;
    }
    if (copy.adds) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const bool is_there = column + k < copy.columns;
        bits[k] = is_there ? to_bits(to_float(bits[k]) + to_float(load_element(copy.to, to + k))) : 0;
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
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
#pragma unroll
  for (int i = 0; i < kMostCopies; ++i) {
    copy_rows(a.copies[i], first, threads);
  }
}
