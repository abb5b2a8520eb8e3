// SPDX-License-Identifier: Apache-2.0
// The derivative of the LSTM's cell, from a sample's last step t to its first:
//
//   dh = dy + W^T dgates[t + 1],  dc = dc f[t + 1] + dh o (1 - tanh(c)^2)
//   di = dc g i (1 - i),  df = dc c[t - 1] f (1 - f),  dg = dc i (1 - g^2),  do = dh tanh(c) o (1 - o)
//
// dgates go where the gates were. One more step leaves the gradients of h0 and c0.
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/bias.cuh"
#include "kernels/training/device/item.cuh"

struct Fetched {
  Place place;
  u16 gates[4], cell, last_cell, gradient;
};

__device__ __forceinline__ void begin_turn(const Arguments& a, const Item& item, int turn) {
  const Place place = item.place(a, 0, turn);
  const float carry = place.rest > 0 ? load_or_zero(a.final_cell_gradient, item.index(item.caller_sample(a, turn))) : 0.0f;
  store_shared_float(item.carry_of(turn), carry);
  if (item.sample < kGroupBatch) {
    publish(item, 0, turn, 0, 0);
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{item.place(a, step, turn), {}, 0, 0, 0};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_before = item.found_later(a, step + 1, turn);
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, turn);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.gates[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    fetched.cell = load_ahead(a.cells, item.index(row));
    if (!kHasLengths) {
      fetched.last_cell = load_ahead(a.last_cells, item.index(row));
    } else if (rest > 1) {
      fetched.last_cell = load_ahead(a.cells, item.index(found_before.row));
    } else if (a.initial_cell != nullptr) {
      fetched.last_cell = load_ahead(a.initial_cell, item.index(item.caller_sample(a, turn)));
    }
    fetched.gradient = load_ahead(a.output_gradient, item.output_index(output_row));
    if (const int lane = item.unit % kSectorUnits; lane < 6 && rest > kFetchedAhead) {  // one for each array
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(lane < 4 ? a.gates : lane == 4 ? a.last_cells : a.output_gradient,
               lane < 4    ? item.gate_index(ahead.row, lane)
               : lane == 4 ? item.index(ahead.row)
                           : item.output_index(ahead.output_row));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[1], long long step, int turn) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, turn);
  const bool exists = rest > 0;
  float dh = sums[0];
  const float carry = load_shared_float(item.carry_of(turn));
  if (rest == 0) {
    const int sample = item.caller_sample(a, turn);
    store_if_wanted(a.initial_gradient, item.index(sample), to_bits(dh));
    store_if_wanted(a.initial_cell_gradient, item.index(sample), to_bits(carry));
  }
  if (!kHasLengths && step == a.steps) {
    return;
  }
  dh += to_float(fetched.gradient);
  if (step == 0 && exists) {
    dh += load_or_zero(a.final_gradient, item.index(item.caller_sample(a, turn)));
  }
  const float i = to_float(fetched.gates[0]), f = to_float(fetched.gates[1]);
  const float g = to_float(fetched.gates[2]), o = to_float(fetched.gates[3]);
  const float squashed = squash(to_float(fetched.cell), true);
  const float dc = fmaf(dh * o, fmaf(-squashed, squashed, 1.0f), carry);
  const float gradients[4] = {dc * g * (i * (1.0f - i)), dc * to_float(fetched.last_cell) * (f * (1.0f - f)),
                              dc * i * fmaf(-g, g, 1.0f), dh * squashed * (o * (1.0f - o))};
  u32 bits[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    bits[k] = exists ? to_bits(gradients[k]) : 0;
  }
  if (item.sample < kGroupBatch) {
    publish(item, step + 1, turn, bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
  }
  store_shared_float(item.carry_of(turn), dc * f);
  keep_gradients(a, item, constants, {row, output_row, rest}, turn, gradients, bits);
}
