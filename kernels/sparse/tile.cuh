// SPDX-License-Identifier: Apache-2.0
// One tile of a pass, from the staged state to the outbox.
#pragma once

#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/cell.cuh"
#include "kernels/sparse/gather.cuh"
#include "kernels/sparse/reduce.cuh"
#include "kernels/sparse/row_splits.cuh"

// Gather, reduce, finish. With the first tile of pass kFirst come the splits of passes [kFirst, kEnd);
// wait() is a barrier of all who share them.
template <int kTile, int kPass, int kFirst, int kEnd, typename Wait>
__device__ __forceinline__ void compute_tile(Weights& weights, const Arguments& a, const Step& step, const Wait& wait) {
  float sum[kValues] = {};
#if ONCHIP_ROW_SPLITS != 0
  int splits[kTileHeight];
  find_splits<kTile>(step, splits);
  SplitSums split_sums;
  if constexpr (kTile == 0 && kPass == kFirst) {
    multiply_splits<kFirst, kEnd>(weights, step, split_sums);
  }
#endif
  gather_tile<kTile, kPass>(weights, step.shared, step.kept_shared + kOverflowAt + 4 * (step.thread / 32), step.lane,
                            step.thread, sum);
  mark_clock(a, step.number - a.first_step, step.thread, Mark::gathered);
  Output outputs[kOutputs];
  fetch_outputs<kTile, kPass>(step, outputs);
  const Gates gates = find_gates<kTile>(step);
#if ONCHIP_ROW_SPLITS != 0
  if constexpr (kTile == 0 && kPass == kFirst) {
    store_splits<kFirst, kEnd>(step, split_sums);
    wait();
  }
  add_splits<kPass>(step, splits, sum);
#endif
  reduce<kValues, 1>(sum, step.lane);
  mark_clock(a, step.number - a.first_step, step.thread, Mark::reduced);
  finish<kTile, kPass>(a, step, gates, sum, outputs);
}
