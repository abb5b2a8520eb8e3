// SPDX-License-Identifier: Apache-2.0
// The derivative of the cell, from a sample's last step t to its first:
//
//   LSTM   dh = dy + W^T dgates[t + 1],  dc = dc f[t + 1] + dh o (1 - tanh(c)^2)
//          di = dc g i (1 - i),  df = dc c[t - 1] f (1 - f),  dg = dc i (1 - g^2),  do = dh tanh(c) o (1 - o)
//   GRU    dh = dy + z[t + 1] dh[t + 1] + W^T (dr, dz, r dn)[t + 1]
//          dr = dn q r (1 - r),  dz = dh (h[t - 1] - n) z (1 - z),  dn = dh (1 - z) (1 - n^2)
//
// They go where the gates were, r dn where q was. One more step leaves the gradients of h0 and c0.
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/bias.cuh"
#include "kernels/training/device/item.cuh"

struct Fetched {
  Place place;
  u16 gates[4], cell, last, gradient;  // `last`: c or h of the step before; LSTM: `cell`
};

// Of state `state`: the gradients of a unit's four gates side by side, or each of three in its plane.
__device__ __forceinline__ void publish_gradients(const Item& item, long long state, int sub_batch,
                                                  const u32 (&bits)[4]) {
  if constexpr (kCell == kGru) {
#pragma unroll
    for (int plane = 0; plane < 3; ++plane) {
      publish_pair(item, state, sub_batch, bits[plane == 2 ? 3 : plane], plane);
    }
  } else if (item.sample < kGroupBatch) {
    publish(item, state, sub_batch, bits[0] | bits[1] << 16, bits[2] | bits[3] << 16);
  }
}

__device__ __forceinline__ void begin_sub_batch(const Arguments& a, const Item& item, int sub_batch) {
  if constexpr (kCell == kGru) {
    store_shared_float(item.carry_of(sub_batch), 0.0f);
    publish_gradients(item, 0, sub_batch, {});
  } else {
    const Place place = item.place(a, 0, sub_batch);
    const long long index = place.rest > 0 ? item.index(item.caller_sample(a, sub_batch)) : 0;
    const float carry = place.rest <= 0    ? 0.0f
                        : a.initial_carry ? a.initial_carry[a.batch * 1ll * kHidden + index]
                                          : load_or_zero(a.final_cell_gradient, index);
    store_shared_float(item.carry_of(sub_batch), carry);
    if (item.sample < kGroupBatch) {
      publish(item, 0, sub_batch, 0, 0);
    }
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int sub_batch) {
  Fetched fetched{item.place(a, step, sub_batch), {}, 0, 0, 0};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_before = item.found_later(a, step + 1, sub_batch);
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, sub_batch);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.gates[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    if constexpr (kCell == kLstm) {
      fetched.cell = load_ahead(a.cells, item.index(row));
      if (!kHasLengths) {
        fetched.last = load_ahead(a.last_cells, item.index(row));
      } else if (rest > 1) {
        fetched.last = load_ahead(a.cells, item.index(found_before.row));
      } else if (a.initial_cell != nullptr) {
        fetched.last = load_ahead(a.initial_cell, item.index(item.caller_sample(a, sub_batch)));
      }
    } else if (rest > 1 || a.continues) {
      fetched.last = load_ahead(a.output, item.output_index(place_later(a, fetched.place, found_before, 1).output_row));
    } else if (a.initial != nullptr) {
      fetched.last = load_ahead(a.initial, item.index(item.caller_sample(a, sub_batch)));
    }
    fetched.gradient = load_ahead(a.output_gradient, item.output_index(output_row));
    if (const int lane = item.unit % kSectorUnits; lane < 6 && rest > kFetchedAhead) {  // one for each array
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(lane < 4 ? a.gates : lane == 4 ? (kCell == kLstm ? a.last_cells : a.output) : a.output_gradient,
               lane < 4                       ? item.gate_index(ahead.row, lane)
               : lane == 4 && kCell == kLstm ? item.index(ahead.row)
                                             : item.output_index(ahead.output_row));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[1], long long step, int sub_batch) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, sub_batch);
  const bool exists = rest > 0;
  const float carry = load_shared_float(item.carry_of(sub_batch));
  float dh = kCell == kGru ? sums[0] + carry : sums[0];
  if (rest == 0) {
    const long long index = item.index(item.caller_sample(a, sub_batch));
    store_if_wanted(a.initial_gradient, index, to_bits(dh));
    if (a.final_carry != nullptr) {
      a.final_carry[index] = dh;
    }
    if constexpr (kCell == kLstm) {
      store_if_wanted(a.initial_cell_gradient, index, to_bits(carry));
      if (a.final_carry != nullptr) {
        a.final_carry[a.batch * 1ll * kHidden + index] = carry;
      }
    }
  }
  if (!kHasLengths && step == a.steps) {
    return;
  }
  dh += to_float(fetched.gradient);
  if (step == 0 && exists) {
    const long long index = item.index(item.caller_sample(a, sub_batch));
    dh += a.initial_carry ? a.initial_carry[index] : load_or_zero(a.final_gradient, index);
  }
  float gradients[4], carried, share;  // of what is carried to the step before
  if constexpr (kCell == kLstm) {
    const float i = to_float(fetched.gates[0]), f = to_float(fetched.gates[1]);
    const float g = to_float(fetched.gates[2]), o = to_float(fetched.gates[3]);
    const float squashed = squash(to_float(fetched.cell), true);
    const float dc = fmaf(dh * o, fmaf(-squashed, squashed, 1.0f), carry);
    gradients[0] = dc * g * (i * (1.0f - i));
    gradients[1] = dc * to_float(fetched.last) * (f * (1.0f - f));
    gradients[2] = dc * i * fmaf(-g, g, 1.0f);
    gradients[3] = dh * squashed * (o * (1.0f - o));
    carried = dc, share = f;
  } else {
    const float r = to_float(fetched.gates[0]), z = to_float(fetched.gates[1]);
    const float n = to_float(fetched.gates[2]), q = to_float(fetched.gates[3]);
    const float dn = dh * (1.0f - z) * fmaf(-n, n, 1.0f);
    gradients[1] = dh * (to_float(fetched.last) - n) * (z * (1.0f - z));
    gradients[0] = dn * q * (r * (1.0f - r));
    gradients[2] = dn;
    gradients[3] = dn * r;
    carried = dh, share = z;
  }
  u32 bits[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    bits[k] = exists ? to_bits(gradients[k]) : 0;
  }
  publish_gradients(item, step + 1, sub_batch, bits);
  store_shared_float(item.carry_of(sub_batch), carried * share);
  keep_gradients(a, item, constants, {row, output_row, rest}, gradients, bits);
}
