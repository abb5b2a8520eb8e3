// SPDX-License-Identifier: Apache-2.0
// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate.

struct RowCopy {
  const void* from;  // [rows][from_stride]
  void* to;          // [rows][to_stride]
  long long rows;
  int from_stride, to_stride;
  int columns, written_columns;  // that are copied; that are written: zeros behind
  int adds;                      // to what is there
};

extern "C" __global__ void copy_rows(const RowCopy copy) {
  const int warps = static_cast<int>(gridDim.x * blockDim.x / 32), lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (long long row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < copy.rows; row += warps) {
#pragma unroll 4
    for (int i = lane; i < copy.written_columns; i += 32) {
      u32 bits = i < copy.columns ? load_element(copy.from, row * copy.from_stride + i) : 0;
      const long long to = row * copy.to_stride + i;
      if (copy.adds) {
        bits = to_bits(to_float(bits) + to_float(load_element(copy.to, to)));
      }
      store_element(copy.to, to, bits);
    }
  }
}
