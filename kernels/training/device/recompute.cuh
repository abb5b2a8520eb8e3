// SPDX-License-Identifier: Apache-2.0
// What forward did not leave: the gates of a chunk of steps, and an LSTM's c, from its c before them. A thread goes over
// the steps of one unit of one sample.
//
//   gates   LSTM W_ih x + W h of all four; GRU of r and z, of n W_ih x, and in the place of q W h: they become what
//           forward would have left
#pragma once

#include "kernels/training/device/forward.cuh"

extern "C" __global__ void recompute(const Arguments a) {
  constexpr int kStepsAhead = 4;  // steps whose gates are on their way
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int rank = index / kHidden;
  if (rank >= a.batch) {
    return;
  }
  const Item item{index % kHidden, 0, true, nullptr, 0};
  const Constants constants = begin_cell(a, item);
  const onchip::Ranked of = kHasLengths ? a.ranks[rank] : onchip::Ranked{rank, static_cast<int>(a.steps)};
  const auto row = [&](int step) {
    const int position = a.descends ? of.length - 1 - step : step;
    return kHasLengths ? offsets(a)[position] + rank : position * a.batch + rank;
  };
  // Of a GRU, the first q is its bias where there is no h0.
  const bool has_q = kHasLengths || a.continues || a.initial != nullptr;
  float carry = 0;
  if constexpr (kCell == kLstm) {
    carry = a.initial_carry ? a.initial_carry[item.index(of.sample)] : load_or_zero(a.initial_cell, item.index(of.sample));
    if constexpr (!kHasLengths) {
      store_element(a.last_cells, item.index(row(0)), to_bits(carry));
    }
  }
  u16 ahead[kStepsAhead][4];
  const auto ask = [&](int step, u16 (&to)[4]) {
    if (step < of.length) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        to[g] = load_ahead(a.gates, item.gate_index(row(step), g));
      }
    }
  };
#pragma unroll
  for (int i = 0; i < kStepsAhead; ++i) {
    ask(i, ahead[i]);
  }
#pragma unroll 1
  for (int first = 0; first < of.length; first += kStepsAhead) {
#pragma unroll
    for (int i = 0; i < kStepsAhead; ++i) {
      const int step = first + i;
      if (step >= of.length) {
        break;
      }
      float sums[kThreadRows]{}, input[kCellGates], kept[4];
#pragma unroll
      for (int g = 0; g < kCellGates; ++g) {
        input[g] = to_float(ahead[i][g]) + constants.bias[g];
      }
      if constexpr (kCell == kGru) {
        sums[2] = step > 0 || has_q ? to_float(ahead[i][3]) : 0.0f;
      }
      carry = next_carry(sums, input, constants, carry, kept);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        store_element(a.gates, item.gate_index(row(step), g), to_bits(kept[g]));
      }
      if constexpr (kCell == kLstm) {
        store_element(a.cells, item.index(row(step)), to_bits(carry));
      }
      ask(step + kStepsAhead, ahead[i]);
    }
  }
}
