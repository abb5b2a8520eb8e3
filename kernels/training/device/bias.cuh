// SPDX-License-Identifier: Apache-2.0
// Gradients of the four values of a unit that forward has kept, and of biases: a thread has the sums of its items over
// all steps, and those of chunks and launches before.
#pragma once

#include "kernels/training/device/item.cuh"

struct Constants {
  float bias[4];
};

__device__ __forceinline__ float* bias_sum(const Arguments& a, const Item& item, int k) {
  const long long sum = sum_group() * kSumSamples + item.sample;
  return a.bias_sums + (sum * 4 + k) * kHidden + item.unit;
}

__device__ __forceinline__ Constants begin_cell(const Arguments& a, const Item& item) {
  Constants constants{};
  if (item.exists && (a.initial_carry != nullptr || first_sample(a) > 0)) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      constants.bias[k] = *bias_sum(a, item, k);
    }
  }
  return constants;
}

// They go where the values were.
__device__ __forceinline__ void keep_gradients(const Arguments& a, const Item& item, Constants& constants,
                                               const Place& place, const float (&gradients)[4],
                                               const u32 (&bits)[4]) {
  if (place.rest > 0) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      constants.bias[k] += gradients[k];
      store_element(a.gates, item.gate_index(place.row, k), bits[k]);
    }
  }
}

__device__ __forceinline__ void end_cell(const Arguments& a, const Item& item, const Constants& constants) {
  if (item.exists) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      *bias_sum(a, item, k) = constants.bias[k];
    }
  }
}

// Of a unit's gradient, over all samples; a thread for each. Of a GRU, the input's bias has gradients 0, 1 and 2, the
// recurrent bias 0, 1 and 3; of an LSTM, both have all.
extern "C" __global__ void sum_bias(const Arguments a) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= 4 * kHidden) {
    return;
  }
  float sum = 0;
  for (int i = 0; i < kSumGroups * kSumSamples; ++i) {
    sum += a.bias_sums[i * (4ll * kHidden) + row];
  }
  const int gradient = row / kHidden;
  if (a.input_bias_gradient != nullptr && gradient < kCellGates) {
    store_element(a.input_bias_gradient, row, to_bits(sum));
  }
  if (a.recurrent_bias_gradient != nullptr && (kCell == kLstm || gradient != 2)) {
    const int of = kCell == kGru && gradient == 3 ? row - kHidden : row;
    store_element(a.recurrent_bias_gradient, of, to_bits(sum));
  }
}
