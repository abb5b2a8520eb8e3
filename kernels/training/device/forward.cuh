// SPDX-License-Identifier: Apache-2.0
// The cell, which leaves the gates in the place of their input; an LSTM leaves c, too, a GRU q behind its gates: where a
// backward follows.
//
//   LSTM   i, f, o = s(x + W h), g = tanh(x + W h);  c' = f c + i g;  h' = o tanh(c')
//   GRU    r, z = s(x + W h), q = W h, n = tanh(x + r q);  h' = (1 - z) n + z h
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/item.cuh"

struct Constants {
  float bias[4];  // GRU: of r, z, n and q
};
struct Fetched {
  Place place;
  u16 input[kCellGates];
};

__device__ __forceinline__ Constants begin_cell(const Arguments& a, const Item& item) {
  Constants constants{};
  if constexpr (kCell == kLstm) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int row = g * kHidden + item.unit;
      constants.bias[g] = item.exists ? load_or_zero(a.input_bias, row) + load_or_zero(a.recurrent_bias, row) : 0.0f;
    }
  } else if (item.exists) {
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const int row = g * kHidden + item.unit;
      constants.bias[g] = load_or_zero(a.input_bias, row);
      constants.bias[g == 2 ? 3 : g] += load_or_zero(a.recurrent_bias, row);
    }
  }
  return constants;
}

// What a unit keeps of a step, and its next carry, c or h. `sums`: W h; `input`: W_ih x, with biases.
__device__ __forceinline__ float next_carry(const float (&sums)[kThreadRows], const float (&input)[kCellGates],
                                            const Constants& constants, float carry, float (&kept)[4]) {
  if constexpr (kCell == kLstm) {
#pragma unroll
    for (int g = 0; g < kCellGates; ++g) {
      kept[g] = squash(sums[g] + input[g], g == 2);
    }
    return fmaf(kept[1], carry, kept[0] * kept[2]);
  } else {
    kept[0] = squash(sums[0] + input[0], false);
    kept[1] = squash(sums[1] + input[1], false);
    kept[3] = sums[2] + constants.bias[3];
    kept[2] = squash(fmaf(kept[0], kept[3], input[2]), true);
    return fmaf(kept[1], carry - kept[2], kept[2]);
  }
}

__device__ __forceinline__ void begin_sub_batch(const Arguments& a, const Item& item, int sub_batch) {
  const Place place = item.place(a, 0, sub_batch);
  const bool exists = place.rest > 0;
  if constexpr (kCell == kLstm) {
    const long long index = kHasLengths && !exists ? 0 : item.index(item.caller_sample(a, sub_batch));
    const float c = !exists ? 0.0f : a.initial_carry ? a.initial_carry[index] : load_or_zero(a.initial_cell, index);
    store_shared_float(item.carry_of(sub_batch), c);
    publish_pair(item, 0, sub_batch, exists ? to_bits(load_or_zero(a.initial, index)) : 0);
    if (exists && !kHasLengths && a.keeps) {
      store_element(a.last_cells, item.index(place.row), to_bits(c));
    }
  } else {
    const long long index = exists ? item.index(item.caller_sample(a, sub_batch)) : 0;
    const float h = !exists ? 0.0f : a.initial_carry ? a.initial_carry[index] : load_or_zero(a.initial, index);
    store_shared_float(item.carry_of(sub_batch), h);
    publish_pair(item, 0, sub_batch, to_bits(h));
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int sub_batch) {
  Fetched fetched{item.place(a, step, sub_batch), {}};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, sub_batch);
  if (rest > 0 && is_first_layer()) {
#pragma unroll
    for (int g = 0; g < kCellGates; ++g) {
      fetched.input[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    if (item.unit % kSectorUnits < kCellGates && rest > kFetchedAhead) {  // one lane for each gate
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(a.gates, item.gate_index(ahead.row, item.unit % kSectorUnits));
    }
  }
  return fetched;
}

// Of an item with these sums: its next carry, what it keeps, and h.
__device__ __forceinline__ float next_state(const Item& item, const Constants& constants, const Fetched& fetched,
                                            const float (&sums)[kThreadRows], int sub_batch, int rest,
                                            float (&kept)[4], u32& h) {
  float input[kCellGates];
#pragma unroll
  for (int g = 0; g < kCellGates; ++g) {
    input[g] = to_float(fetched.input[g]) + constants.bias[g];
  }
  if constexpr (kCell == kGru && kThreadRows > 3) {
    input[2] += sums[3];
  }
  const float carry = next_carry(sums, input, constants, load_shared_float(item.carry_of(sub_batch)), kept);
  h = rest > 0 ? to_bits(kCell == kLstm ? kept[3] * squash(carry, true) : carry) : 0;
  return carry;
}

__device__ __forceinline__ void store_last(const Arguments& a, const Item& item, int sub_batch, u32 h, float carry) {
  const int sample = item.caller_sample(a, sub_batch);
  store_if_wanted(a.final_state, item.index(sample), h);
  if constexpr (kCell == kLstm) {
    store_if_wanted(a.final_cell, item.index(sample), to_bits(carry));
  }
  if (a.final_carry != nullptr) {
    a.final_carry[item.index(sample)] = carry;
  }
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[kThreadRows], long long step,
                                       int sub_batch) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, sub_batch);
  float kept[4];
  u32 h;
  const float carry = next_state(item, constants, fetched, sums, sub_batch, rest, kept, h);
  publish_pair(item, step + 1, sub_batch, h);
  store_shared_float(item.carry_of(sub_batch), carry);
  if (rest > 0 && is_last_layer(a)) {
    store_element(a.output, item.output_index(output_row), h);
  }
  if (rest > 0 && a.keeps) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      store_element(a.gates, item.gate_index(row, g), to_bits(kept[g]));
    }
    if constexpr (kCell == kLstm) {
      store_element(a.cells, item.index(row), to_bits(carry));
    }
  }
  if (rest == 1) {
    store_last(a, item, sub_batch, h, carry);
  }
}

// All items of a thread, of which nothing is kept: while one waits for its functions, others compute. `sums_of(i, sums)`: an
// item's sums.
template <typename SumsOf>
__device__ __forceinline__ void finish_all(const Arguments& a, const Item (&items)[kThreadItems],
                                           const Constants& constants, const Fetched (&fetched)[kThreadItems],
                                           const SumsOf& sums_of, long long step, int sub_batch) {
  Place places[kThreadItems];
  float carries[kThreadItems];
  u32 h[kThreadItems];
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    float sums[kThreadRows], kept[4];
    sums_of(i, sums);
    places[i] = items[i].place(a, step, sub_batch);
    carries[i] = next_state(items[i], constants, fetched[i], sums, sub_batch, places[i].rest, kept, h[i]);
  }
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    publish_pair(items[i], step + 1, sub_batch, h[i]);
  }
#pragma unroll
  for (int i = 0; i < kThreadItems; ++i) {
    store_shared_float(items[i].carry_of(sub_batch), carries[i]);
    if (places[i].rest > 0 && is_last_layer(a)) {
      store_element(a.output, items[i].output_index(places[i].output_row), h[i]);
    }
    if (places[i].rest == 1) {
      store_last(a, items[i], sub_batch, h[i], carries[i]);
    }
  }
}

__device__ __forceinline__ void end_cell(const Arguments&, const Item&, const Constants&) {}
