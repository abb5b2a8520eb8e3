// SPDX-License-Identifier: Apache-2.0
// The derivative of the GRU's cell, from a sample's last step t to its first:
//
//   dh = dy + z[t + 1] dh[t + 1] + W^T (dr, dz, r dn)[t + 1]
//   dr = dn q r (1 - r),  dz = dh (h[t - 1] - n) z (1 - z),  dn = dh (1 - z) (1 - n^2)
//
// They go where the gates were, and r dn where q was. One more step leaves the gradient of h0.
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/bias.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/publish.cuh"

struct Fetched {
  Place place;
  u16 gates[4], last_state, gradient;
};

__device__ __forceinline__ void begin_turn(const Arguments&, const Item& item, int turn) {
  store_shared_float(item.carry_of(turn), 0.0f);
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    publish_pair(item, 0, turn, 0, plane);
  }
}

__device__ __forceinline__ Fetched fetch(const Arguments& a, const Item& item, long long step, int turn) {
  Fetched fetched{item.place(a, step, turn), {}, 0, 0};
  const auto [row, output_row, rest] = fetched.place;
  const Place found_before = item.found_later(a, step + 1, turn);
  const Place found_ahead = item.found_later(a, step + kFetchedAhead, turn);
  if (rest > 0) {
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      fetched.gates[g] = load_ahead(a.gates, item.gate_index(row, g));
    }
    if (rest > 1) {
      fetched.last_state = load_ahead(
          a.output, item.output_index(place_later(a, fetched.place, found_before, 1).output_row));
    } else if (a.initial != nullptr) {
      fetched.last_state = load_ahead(a.initial, item.index(item.caller_sample(a, turn)));
    }
    fetched.gradient = load_ahead(a.output_gradient, item.output_index(output_row));
    if (const int lane = item.unit % kSectorUnits; lane < 6 && rest > kFetchedAhead) {  // one for each array
      const Place ahead = place_later(a, fetched.place, found_ahead, kFetchedAhead);
      prefetch(lane < 4 ? a.gates : lane == 4 ? a.output : a.output_gradient,
               lane < 4 ? item.gate_index(ahead.row, lane) : item.output_index(ahead.output_row));
    }
  }
  return fetched;
}

__device__ __forceinline__ void finish(const Arguments& a, const Item& item, Constants& constants,
                                       const Fetched& fetched, const float (&sums)[1], long long step, int turn) {
  const auto [row, output_row, rest] = kHasLengths ? fetched.place : item.place(a, step, turn);
  const bool exists = rest > 0;
  float dh = sums[0] + load_shared_float(item.carry_of(turn));
  if (rest == 0) {
    store_if_wanted(a.initial_gradient, item.index(item.caller_sample(a, turn)), to_bits(dh));
  }
  if (!kHasLengths && step == a.steps) {
    return;
  }
  dh += to_float(fetched.gradient);
  if (step == 0 && exists) {
    dh += load_or_zero(a.final_gradient, item.index(item.caller_sample(a, turn)));
  }
  const float r = to_float(fetched.gates[0]), z = to_float(fetched.gates[1]);
  const float n = to_float(fetched.gates[2]), q = to_float(fetched.gates[3]);
  const float dn = dh * (1.0f - z) * fmaf(-n, n, 1.0f);
  const float dz = dh * (to_float(fetched.last_state) - n) * (z * (1.0f - z));
  const float gradients[4] = {dn * q * (r * (1.0f - r)), dz, dn, dn * r};
  u32 bits[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    bits[k] = exists ? to_bits(gradients[k]) : 0;
  }
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane) {
    publish_pair(item, step + 1, turn, bits[plane == 2 ? 3 : plane], plane);
  }
  store_shared_float(item.carry_of(turn), dh * z);
  keep_gradients(a, item, constants, {row, output_row, rest}, turn, gradients, bits);
}
