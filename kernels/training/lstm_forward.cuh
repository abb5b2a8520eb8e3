// SPDX-License-Identifier: Apache-2.0
// The LSTM's cell, which leaves the gates in the place of their input, and c.
//
//   i, f, o = s(x + W h), g = tanh(x + W h);  c' = f c + i g;  h' = o tanh(c')

struct Constants {
  float bias[4];
};
struct Fetched {
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
  const bool exists = item.is_there(turn);
  const long long index = item.state_index(0, turn);
  const float c = exists ? load_or_zero(a.initial_cell, index) : 0.0f;
  const u32 h = exists ? to_bits(load_or_zero(a.initial, index)) : 0;
  store_shared_float(item.carry_of(turn), c);
  publish_pair(item, 0, turn, h);
  if (exists) {
    store_element(a.states, index, h);
    store_element(a.cells, index, to_bits(c));
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{};
  if (step < a.steps && item.is_there(turn)) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.input[g] = load_ahead(a.gates, item.gate_index(step, turn, g));
    }
    if (item.unit % kUnits < 4 && step + kFetchedAhead < a.steps) {  // one lane for each gate of the SM's units
      prefetch(a.gates, item.gate_index(step + kFetchedAhead, turn, item.unit % kUnits));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[4], long long step, int turn) {
  float gates[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    gates[g] = squash(sums[g] + (to_float(fetched.input[g]) + constants.bias[g]), g == 2);
  }
  const float c = fmaf(gates[1], load_shared_float(item.carry_of(turn)), gates[0] * gates[2]);
  const u32 h = item.exists ? to_bits(gates[3] * squash(c, true)) : 0;
  publish_pair(item, step + 1, turn, h);
  store_shared_float(item.carry_of(turn), c);
  if (item.is_there(turn)) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      store_element(a.gates, item.gate_index(step, turn, g), to_bits(gates[g]));
    }
    store_element(a.states, item.state_index(step + 1, turn), h);
    store_element(a.cells, item.state_index(step + 1, turn), to_bits(c));
  }
}

__device__ __forceinline__ void end_cell(const Arguments&, const Item&, const Constants&) {}
