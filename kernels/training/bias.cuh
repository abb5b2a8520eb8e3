// SPDX-License-Identifier: Apache-2.0
// Gradients of biases: a thread has the sums of its items over all steps.

__device__ __forceinline__ void end_cell(const Arguments& a, const Item& item, const Constants& constants) {
  if (item.exists) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const long long sum = (batch_group() * kWarpGroups + warp_group()) * kSumSamples + item.sample;
      a.bias_sums[(sum * 4 + k) * kHidden + item.unit] = constants.bias[k];
    }
  }
}

// What is left when all products are done: copies, and the gradients of the biases, over all samples, a thread for each. Of
// a GRU, the input's bias has gradients 0, 1 and 2 of a unit, the recurrent bias 0, 1 and 3; of an LSTM, both have all.
extern "C" __global__ void finish_step(const Arguments a) {
  const int first = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(gridDim.x * blockDim.x);
#pragma unroll 1
  for (int row = first; row < 4 * kHidden; row += threads) {
    float sum = 0;
    for (int i = 0; i < kBatchGroups * kWarpGroups * kSumSamples; ++i) {
      sum += a.bias_sums[i * (4ll * kHidden) + row];
    }
    const int gradient = row / kHidden;
    if (gradient < kCellGates) {
      store_if_wanted(a.input_bias_gradient, row, to_bits(sum));
    }
    if (kCell == kLstm || gradient != 2) {
      store_if_wanted(a.recurrent_bias_gradient, kCell == kGru && gradient == 3 ? row - kHidden : row, to_bits(sum));
    }
  }
  copy_all_rows(a, first, threads);
}
