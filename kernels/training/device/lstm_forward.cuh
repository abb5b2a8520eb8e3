// SPDX-License-Identifier: Apache-2.0
// The LSTM's cell, which leaves the gates in the place of their input, and c.
//
//   i, f, o = s(x + W h), g = tanh(x + W h);  c' = f c + i g;  h' = o tanh(c')
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/item.cuh"

struct Constants {
  float bias[4];
};
struct Fetched {
  Place place;
  u16 input[4];
};

__device__ __forceinline__ Constants begin_cell(const Arguments& a, const Item& item) {
  Constants constants;
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    const int row = g * kHidden + item.unit;
    constants.bias[g] = item.exists ? load_or_zero(a.input_bias, row) + load_or_zero(a.recurrent_bias, row) : 0.0f;
  }
  return constants;
}

__device__ __forceinline__ void begin_turn(const Arguments& a, const Item& item, int turn) {
  const Place place = item.place(a, 0, turn);
  const bool exists = place.rest > 0;
  const long long index = kHasLengths && !exists ? 0 : item.index(item.caller_sample(a, turn));
  const float c = exists ? load_or_zero(a.initial_cell, index) : 0.0f;
  store_shared_float(item.carry_of(turn), c);
  publish_pair(item, 0, turn, exists ? to_bits(load_or_zero(a.initial, index)) : 0);
  if (exists && !kHasLengths) {
    store_element(a.last_cells, item.index(place.row), to_bits(c));
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{item.place(a, step, turn), {}};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, turn);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.input[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    if (item.unit % kSectorUnits < 4 && rest > kFetchedAhead) {  // one lane for each gate
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(a.gates, item.gate_index(ahead.row, item.unit % kSectorUnits));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[4], long long step, int turn) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, turn);
  float gates[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    gates[g] = squash(sums[g] + (to_float(fetched.input[g]) + constants.bias[g]), g == 2);
  }
  const float c = fmaf(gates[1], load_shared_float(item.carry_of(turn)), gates[0] * gates[2]);
  const u32 h = rest > 0 ? to_bits(gates[3] * squash(c, true)) : 0;
  publish_pair(item, step + 1, turn, h);
  store_shared_float(item.carry_of(turn), c);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      store_element(a.gates, item.gate_index(row, g), to_bits(gates[g]));
    }
    store_element(a.output, item.output_index(output_row), h);
    store_element(a.cells, item.index(row), to_bits(c));
  }
  if (rest == 1) {
    const int sample = item.caller_sample(a, turn);
    store_if_wanted(a.final_state, item.index(sample), h);
    store_if_wanted(a.final_cell, item.index(sample), to_bits(c));
  }
}

__device__ __forceinline__ void end_cell(const Arguments&, const Item&, const Constants&) {}
