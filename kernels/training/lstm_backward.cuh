// SPDX-License-Identifier: Apache-2.0
// The derivative of the LSTM's cell. Step s of the recurrence is step t = steps - 1 - s of the sequence:
//
//   dh = dy + W^T dgates[t + 1],  dc = dc f[t + 1] + dh o (1 - tanh(c)^2)
//   di = dc g i (1 - i),  df = dc c[t - 1] f (1 - f),  dg = dc i (1 - g^2),  do = dh tanh(c) o (1 - o)
//
// dgates go where the gates were. One more step leaves the gradients of h0 and c0.

struct Constants {
  float bias[4];  // sums of dgates, of all items of a thread
};
struct Fetched {
  u16 gates[4], cell, last_cell, gradient;
};

__device__ __forceinline__ Constants begin_cell(const Arguments&, const Item&) { return {}; }

__device__ __forceinline__ void begin_turn(const Arguments& a, const Item& item, int turn) {
  const bool exists = item.is_there(turn);
  const float carry = exists ? load_or_zero(a.final_cell_gradient, item.state_index(0, turn)) : 0.0f;
  store_shared_float(item.carry_of(turn), carry);
  if (item.sample < kGroupBatch) {
    publish(item, 0, turn, 0, 0);
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{};
  const long long t = a.steps - 1 - step;
  if (t >= 0 && item.is_there(turn)) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.gates[g] = load_ahead(a.gates, item.gate_index(t, turn, g));
    }
    fetched.cell = load_ahead(a.cells, item.state_index(t + 1, turn));
    fetched.last_cell = load_ahead(a.cells, item.state_index(t, turn));
    fetched.gradient = load_ahead(a.states_gradient, item.state_index(t, turn));
    if (const int lane = item.unit % kUnits; lane < 6 && t >= kFetchedAhead) {  // one for each array of the SM's units
      const long long ahead = t - kFetchedAhead;
      prefetch(lane < 4 ? a.gates : lane == 4 ? a.cells : a.states_gradient,
               lane < 4 ? item.gate_index(ahead, turn, lane) : item.state_index(ahead, turn));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[1], long long step, int turn) {
  const bool exists = item.is_there(turn);
  const long long t = a.steps - 1 - step;
  float dh = sums[0];
  const float carry = load_shared_float(item.carry_of(turn));
  if (t < 0) {
    if (exists) {
      store_element(a.initial_gradient, item.state_index(0, turn), to_bits(dh));
      store_element(a.initial_cell_gradient, item.state_index(0, turn), to_bits(carry));
    }
    return;
  }
  dh += to_float(fetched.gradient);
  if (step == 0 && exists) {
    dh += load_or_zero(a.final_gradient, item.state_index(0, turn));
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
  if (exists) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      constants.bias[k] += gradients[k];
      store_element(a.gates, item.gate_index(t, turn, k), bits[k]);
    }
  }
}
