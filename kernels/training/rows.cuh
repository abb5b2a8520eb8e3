// SPDX-License-Identifier: Apache-2.0
// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate.

__device__ __forceinline__ void copy_rows(const RowCopy& copy, int first, int threads) {
#pragma unroll 1
  for (long long row = first / 32; row < copy.rows; row += threads / 32) {
#pragma unroll 4
    for (int i = first % 32; i < copy.written_columns; i += 32) {
      u32 bits = i < copy.columns ? load_element(copy.from, row * copy.from_stride + i) : 0;
      const long long to = row * copy.to_stride + i;
      if (copy.adds) {
        bits = to_bits(to_float(bits) + to_float(load_element(copy.to, to)));
      }
      store_element(copy.to, to, bits);
    }
  }
}
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
#pragma unroll
  for (int i = 0; i < kMostCopies; ++i) {
    copy_rows(a.copies[i], first, threads);
  }
}
