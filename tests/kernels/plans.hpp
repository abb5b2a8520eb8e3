// SPDX-License-Identifier: Apache-2.0
// Networks and plans for which the sparse persistent kernel must compile, and run right: everything that a plan can
// say, on sizes that divide nothing.
#pragma once

#include "model/layout.hpp"
#include "model/mask.hpp"
#include "model/plan.hpp"

#include <algorithm>
#include <string>

namespace onchip {

struct Shape {
  Cell cell = Cell::tanh;
  Precision precision = Precision::fp16;
  int hidden = 127, batch = 3;
  int sms = 5, lanes = 16, units_per_group = 2;
  double density = 0.25;
  MaskKind mask = MaskKind::uniform;
  bool skip = false;
};

// Where the quads go, of all that there are.
enum class Tiers { registers, shared, streamed, mixed };
inline constexpr Tiers kAllTiers[] = {Tiers::registers, Tiers::shared, Tiers::streamed, Tiers::mixed};

struct PlannedCase {
  Network network;
  SparseMatrix matrix;
  Plan plan;

  Layout layout() const { return make_layout(network, plan, matrix); }
  std::string text() const { return describe(network) + ": " + to_string(plan); }
};

inline void set_tiers(PlannedCase& c, Tiers tiers) {
  const int quads = total_quads(c.network, c.plan);
  c.plan.shared_quads = tiers == Tiers::shared ? quads : tiers == Tiers::mixed ? quads / 3 : 0;
  c.plan.streamed_quads = tiers == Tiers::streamed ? quads : tiers == Tiers::mixed ? (quads + 2) / 3 : 0;
  c.plan.ring_quads =
      c.plan.streamed_quads > 0 ? std::min(4, planes(c.network, c.plan) * c.plan.streamed_quads + 1) : 0;
}

inline PlannedCase planned_case(const Shape& shape) {
  PlannedCase c;
  c.network = {shape.cell, shape.precision, shape.hidden, shape.batch, 16, shape.density};
  c.matrix = generate_mask(c.network.rows(), shape.hidden, shape.density, 5, shape.precision, shape.mask);
  c.plan = shape_plan(c.network, RowProfile::from_matrix(c.matrix), Storage::packed_pair, shape.sms, shape.lanes,
                      shape.units_per_group * info(shape.cell).gates, shape.skip);
  c.plan.promote_every = state_type(shape.precision) == Precision::fp16 ? 8 : 1;
  return c;
}

}  // namespace onchip
