// SPDX-License-Identifier: Apache-2.0
// The state of a sparse plan as kernels move it, in 16-byte words: where each is in L2, in shared memory and in the
// outbox of the SM that computes it.
//
//   L2              [planes][state units][samples of a plane]
//   shared memory   the same, but behind every plane its zero units
//   outbox          [planes][units of the SM][samples of a plane]
#pragma once

#include "model/sparse/geometry.hpp"

#include <cstdint>

namespace onchip {

struct StateWords {
  static constexpr int kBytes = 16;

  explicit StateWords(const SparseGeometry& geometry)
      : plane(std::int64_t{geometry.state_units} * geometry.plane_unit_bytes / kBytes),
        all(geometry.planes * plane),
        outbox_plane(geometry.units_per_sm * geometry.plane_unit_bytes / kBytes),
        outbox(geometry.planes * outbox_plane),
        zero_bytes(std::int64_t{geometry.zero_units} * geometry.plane_unit_bytes),
        plane_bytes(kBytes * plane + zero_bytes),
        units_per_sm(geometry.units_per_sm),
        plane_samples(geometry.plane_samples) {}

  std::int64_t plane, all;   // words of a plane, of the state
  int outbox_plane, outbox;  // of them, those of one SM
  std::int64_t zero_bytes;   // behind a plane in shared memory
  std::int64_t plane_bytes;  // in shared memory, with them
  int units_per_sm, plane_samples;

  // The byte of shared memory where a word of the state goes.
  std::int64_t staged_at(std::int64_t word) const { return kBytes * word + word / plane * zero_bytes; }
  // The element of the outbox that holds a unit of the SM and a sample.
  std::int64_t outbox_index(int unit, int sample) const {
    return (std::int64_t{sample / plane_samples} * units_per_sm + unit) * plane_samples + sample % plane_samples;
  }
  // The byte of the state where a word of an SM's outbox belongs.
  std::int64_t outbox_offset(int sm, int word) const {
    const std::int64_t of_plane = word / outbox_plane, in_plane = word % outbox_plane;
    return kBytes * (of_plane * plane + std::int64_t{sm} * outbox_plane + in_plane);
  }
};

}  // namespace onchip
