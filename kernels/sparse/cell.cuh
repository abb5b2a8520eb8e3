// SPDX-License-Identifier: Apache-2.0
// From the lanes' sums of a tile to the next state of its units.
//
// A tile is the rows that are reduced together: the gates of one unit (GRU: and an empty row), or some rows of a relu or
// tanh network. Of a tile's values, value v = sample * kTileRows + row ends in lane v of the group, so that the gates of
// a unit meet in four neighbouring lanes, each applies its own gate's function, and shuffles bring them together.
//
// The rows of a unit stand in the order of their lengths, longest first (model/sparse/layout/layout.hpp), which is another for
// every unit: `gates` has, for gate g, the row's place in bits [2 g, 2 g + 2), and for place p its gate in bits
// [8 + 2 p, 10 + 2 p).
#pragma once

#include "kernels/persistent/activation.cuh"
#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/reduce.cuh"
#include "kernels/sparse/regions.cuh"

// One value of a tile that this lane finishes: where it belongs, and what the cell needs beside the sum. Fetched before
// the reduction, so that nothing waits for shared memory after it.
struct Output {
  int unit, sample;
  bool writes;  // of the lanes that hold the value, the first; false if there is no such row
  float x, scale, carry, bias;
  int length;
};

// Where the gates of this lane's unit are.
struct Gates {
  int own;      // the gate of this lane's value
  int lane[4];  // of the warp that holds each gate's value
};

template <int kTile>
__device__ __forceinline__ Gates find_gates(const Step& step) {
  Gates gates{};
  if constexpr (kGates > 1) {
    const int unit = kTile * kGroups + step.group;
    const u32 packed = load_shared_int(step.kept_shared + kGatesAt + 4 * (unit < kUnitsPerSm ? unit : 0));
    gates.own = packed >> (8 + step.lane % 4 * 2) & 3;
    const int first = step.thread % 32 & ~(thread_mask(1) | thread_mask(2));
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const int place = packed >> (2 * g) & 3;
      gates.lane[g] = first + (place & 1) * thread_mask(1) + (place >> 1) * thread_mask(2);
    }
  }
  return gates;
}

template <int kTile, int kPass>
__device__ __forceinline__ void fetch_outputs(const Step& step, Output (&outputs)[kOutputs]) {
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    Output& out = outputs[i];
    const int value = (step.lane & (kValues - 1)) + i * kLanesPerRow;
    const int row = value % kTileRows;
    out.sample = kPass * kPassSamples + value / kTileRows;
    out.unit = kGates == 1 ? (kTile * kTileRows + row) * kGroups + step.group : kTile * kGroups + step.group;
    const bool owned = out.unit < kUnitsPerSm && (kGates > 1 ? row < kGates : kTile * kTileRows + row < kRowsPerGroup);
    out.writes = owned && step.lane < kValues;
    // Lanes that own nothing read what is there: within bounds, and of no consequence; of a unit's empty row (GRU) that
    // unit's, which no other warp writes. LSTMs have no empty row, and with the bound the compiler gives pipelined passes
    // other registers, which make steps up to 19 % longer.
#if ONCHIP_CELL == 2
    const int unit = owned ? out.unit : 0;
    const int place = owned && kGates > 1 ? row : 0;
#else
    const int unit = kGates > 1 ? min(out.unit, kUnitsPerSm - 1) : owned ? out.unit : 0;
    const int place = kGates > 1 && row < kGates ? row : 0;
#endif
    const int sample = out.sample < kBatch ? out.sample : 0;
    const u32 bits = load_shared_element(step.input + ((sample * kUnitsPerSm + unit) * kGates + place) * kElementBytes);
    out.x = out.sample < kBatch ? element(&bits, 0) : 0.0f;
    const bool same_row = kOutputsOfOneRow && i > 0;  // as the first
    if constexpr (kPrecision == kFp8) {
      out.scale = same_row ? outputs[0].scale
                           : load_shared_float(step.kept_shared + kScaleAt + 4 * (unit * kGates + place));
    }
    if constexpr (kCarries) {
      out.carry = load_shared_float(step.kept_shared + kCarryAt + 4 * (unit * kBatchPadded + out.sample));
      out.length = load_shared_int(step.kept_shared + kLengthsAt + 4 * out.sample);
    }
    if constexpr (kCell == kGru) {
      out.bias = same_row ? outputs[0].bias : load_shared_float(step.kept_shared + kBiasAt + 4 * unit);
    }
  }
}

// The cell of one tile: from this lane's sums to the outbox. All lanes of a warp take part.
template <int kTile, int kPass>
__device__ __forceinline__ void finish(const Arguments& a, const Step& step, const Gates& gates,
                                       const float (&sum)[kValues], const Output (&outputs)[kOutputs]) {
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
    const Output& out = outputs[i];
    const float product = kPrecision == kFp8 ? sum[i] * out.scale : sum[i];
    float h;
    bool writes = out.writes;
    if constexpr (kCell == kRelu) {
      h = product + out.x;
      h = h < 0.0f ? 0.0f : h;  // keeps NaN, as frameworks do
    } else if constexpr (kCell == kTanh) {
      h = squash(product + out.x, true);
    } else {
      float next;
      const auto of_gate = [&](float y, int gate) { return __shfl_sync(0xffffffffu, y, gates.lane[gate]); };
      if constexpr (kCell == kLstm) {  // gates i, f, g, o; every lane of the unit computes all
        const float y = squash(product + out.x, gates.own == 2);
        const float added = of_gate(y, 0) * of_gate(y, 2);
        next = fmaf(of_gate(y, 1), out.carry, added);
        h = of_gate(y, 3) * squash(next, true);
        writes = writes && gates.own == 0;
      } else {  // gates r, z, n; the reset gate multiplies the product with its bias
        const float y = squash(product + out.x, false);
        const float reset = of_gate(y, 0);
        const float update = of_gate(y, 1);
        const float candidate = squash(fmaf(reset, product + out.bias, out.x), true);
        next = fmaf(update, out.carry - candidate, candidate);
        h = next;
        writes = writes && gates.own == 2;
      }
      __syncwarp();  // all lanes of the unit have read the carry
      store_shared_if(writes, step.kept_shared + kCarryAt + 4 * (out.unit * kBatchPadded + out.sample), next);
      if (writes && step.number + 1 == out.length) {
        a.final_carry[(static_cast<long long>(blockIdx.x) * kUnitsPerSm + out.unit) * kBatchPadded + out.sample] = next;
      }
    }
    store_element_if(writes, step.kept_shared + kOutboxAt + state_index(out.unit, out.sample, kUnitsPerSm) * kElementBytes,
                     to_bits(h));
  }
}
