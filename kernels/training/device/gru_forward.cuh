// SPDX-License-Identifier: Apache-2.0
// The GRU's cell, which leaves the gates in the place of their input, and q behind them.
//
//   r, z = s(x + W h), q = W h, n = tanh(x + r q);  h' = (1 - z) n + z h
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/publish.cuh"

struct Constants {
  float bias[4];  // of r, z, n and q
};
struct Fetched {
  Place place;
  u16 input[3];
};

__device__ __forceinline__ Constants begin_cell(const Arguments& a, const Item& item) {
  Constants constants{};
  if (item.exists) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const int row = g * kHidden + item.unit;
      constants.bias[g] = load_or_zero(a.input_bias, row);
      constants.bias[g == 2 ? 3 : g] += load_or_zero(a.recurrent_bias, row);
    }
  }
  return constants;
}

__device__ __forceinline__ void begin_turn(const Arguments& a, const Item& item, int turn) {
  const Place place = item.place(a, 0, turn);
  const float h = place.rest > 0 ? load_or_zero(a.initial, item.index(item.caller_sample(a, turn))) : 0.0f;
  store_shared_float(item.carry_of(turn), h);
  publish_pair(item, 0, turn, to_bits(h));
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{item.place(a, step, turn), {}};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, turn);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      fetched.input[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    if (item.unit % kSectorUnits < 3 && rest > kFetchedAhead) {  // one lane for each gate
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(a.gates, item.gate_index(ahead.row, item.unit % kSectorUnits));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[3], long long step, int turn) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, turn);
  const float r = squash(sums[0] + (to_float(fetched.input[0]) + constants.bias[0]), false);
  const float z = squash(sums[1] + (to_float(fetched.input[1]) + constants.bias[1]), false);
  const float q = sums[2] + constants.bias[3];
  const float n = squash(fmaf(r, q, to_float(fetched.input[2]) + constants.bias[2]), true);
  const float h = fmaf(z, load_shared_float(item.carry_of(turn)) - n, n);
  const u32 bits = rest > 0 ? to_bits(h) : 0;
  publish_pair(item, step + 1, turn, bits);
  store_shared_float(item.carry_of(turn), h);
  if (rest > 0) {
    const float kept[4] = {r, z, n, q};
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      store_element(a.gates, item.gate_index(row, g), to_bits(kept[g]));
    }
    store_element(a.output, item.output_index(output_row), bits);
  }
  if (rest == 1) {
    store_if_wanted(a.final_state, item.index(item.caller_sample(a, turn)), bits);
  }
}

__device__ __forceinline__ void end_cell(const Arguments&, const Item&, const Constants&) {}
