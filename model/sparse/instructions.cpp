// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/instructions.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

double loads_in_registers(const SparseGeometry& geometry) {
  return static_cast<double>(geometry.slots_total()) / rows_per_load(geometry);
}

// What the loops over a row's overflow unroll: chunks at once, half as many, ..., one, and one that is streamed.
double unrolled_slots_of_row(const SparseGeometry& geometry) {
  const double chunks = 2 * geometry.chunks_in_flight - 1 + (geometry.ring_chunks > 0 ? 1 : 0);
  return chunks * geometry.chunk_slots;
}

Instructions per_product(const SparseGeometry& geometry) {
  const double samples = geometry.plane_samples;
  Instructions count;
  if (geometry.network.precision == Precision::fp32) {
    count.fp32 += samples;
  } else if (sums_in_half(geometry)) {
    count.half2 += std::max(1.0, samples / 2);
  } else {
    // The value to fp32: a conversion for fp16, a shift or a mask for bf16.
    (geometry.network.precision == Precision::bf16 ? count.integer : count.conversion) += 1;
    count.fp32 += samples;
  }
  return count;
}

}  // namespace

bool sums_in_half(const SparseGeometry& geometry) {
  return state_type(geometry.network.precision) == Precision::fp16 && geometry.promote_every > 1;
}

Instructions per_slot(const SparseGeometry& geometry) {
  Instructions count;
  if (geometry.storage == Storage::packed_pair) {
    count.integer += geometry.index_shift > 0 ? 2 : 1;  // mask the index, scale it
  } else if (geometry.storage == Storage::packed_delta) {
    count.integer += 2;  // take the byte with its sign, scale and add it
  }
  if (geometry.network.precision == Precision::fp8) {
    count.integer += 1.5;  // two shifts and a mask for two values
  }
  return count + per_product(geometry);
}

Instructions per_load(const SparseGeometry& geometry) {
  Instructions count{.load = 1};
  if (geometry.network.precision != Precision::fp32 && !sums_in_half(geometry)) {
    (geometry.network.precision == Precision::bf16 ? count.integer : count.conversion) += geometry.plane_samples;
  }
  return count;
}

int rows_per_load(const SparseGeometry& geometry) {
  const bool shares = geometry.storage == Storage::dense && !geometry.has_overflow();
  return shares ? std::min(geometry.tile_height, geometry.rows_per_group) : 1;
}

double state_loads(const SparseGeometry& geometry) {
  return loads_in_registers(geometry) + geometry.mean_slots() - geometry.slots_total();
}

Instructions promotion(const SparseGeometry& geometry) {
  const double samples = sums_in_half(geometry) ? geometry.plane_samples : 0;
  return {0, 0, samples, samples, 0};
}

Reduction reduction(const SparseGeometry& geometry, int rows) {
  Reduction result;
  double held = rows * geometry.pass_planes * geometry.plane_samples;
  for (int mask = 1; mask < geometry.lanes_per_row; mask *= 2) {
    const bool halving = held > 1;
    held = std::max(1.0, held / 2);
    result.count.load += held;
    result.count.fp32 += held;
    result.count.integer += halving ? 2.0 * held : 0;  // what to keep, what to give
    ++result.stages;
  }
  return result;
}

double passes_over_tiles(const SparseGeometry& geometry) {
  return static_cast<double>(geometry.tiles) * geometry.planes / geometry.pass_planes;
}

double lane_outputs(const SparseGeometry& geometry) {
  return std::max(1.0, static_cast<double>(geometry.tile_rows) * geometry.pass_planes * geometry.plane_samples /
                           geometry.lanes_per_row);
}

double step_instructions(const SparseGeometry& geometry, const CostValues& cost) {
  const double slot = per_slot(geometry).all(), load = per_load(geometry).all();
  double promotions = 0;  // of a plane
  for (int r = 0; r < geometry.all_rows(); ++r) {
    promotions += std::ceil(static_cast<double>(geometry.slots_of(r)) / geometry.promote_every);
  }
  const double in_registers =
      geometry.slots_total() * slot + loads_in_registers(geometry) * load + promotions * promotion(geometry).all();
  const double passes = passes_over_tiles(geometry);
  const double outputs = lane_outputs(geometry) * cost[Cost::output_instructions];
  const double finish = reduction(geometry, geometry.tile_rows).count.all() + geometry.gates * outputs;
  const double rows = static_cast<double>(geometry.rows_with_overflow()) * geometry.planes / geometry.pass_planes;
  const double overflow = rows * cost[Cost::overflow_instructions] * (geometry.ring_chunks > 0 ? 2 : 1);
  double splits = 0;  // beside their slots: reduced, stored, and added to the outputs
  if (geometry.row_splits > 0) {
    splits = static_cast<double>(geometry.planes / geometry.pass_planes) *
                 reduction(geometry, geometry.row_splits).count.all() +
             passes * outputs;
  }
  const bool fetches = geometry.producer_warps == 0;  // else other warps do
  const double words = fetches ? std::ceil(static_cast<double>(geometry.exchange_bytes) / 16 / geometry.threads) : 0;
  const double unrolled = geometry.rows_with_overflow() * unrolled_slots_of_row(geometry);
  return geometry.planes * (in_registers + unrolled * (slot + load)) + passes * finish + overflow + splits +
         cost[Cost::word_instructions] * words + cost[Cost::rest_instructions];
}

double overflow_loop_instructions(const SparseGeometry& geometry) {
  const double of_slot = per_slot(geometry).all() + per_load(geometry).all();
  return geometry.has_overflow() ? unrolled_slots_of_row(geometry) * geometry.pass_planes * of_slot : 0;
}

}  // namespace onchip
