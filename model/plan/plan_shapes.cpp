// SPDX-License-Identifier: Apache-2.0
// Plans of a shape, whose slots hold the rows of their network.
#include "model/plan/plan.hpp"
#include "model/workload/row_profile.hpp"

#include <algorithm>
#include <bit>

namespace onchip {

Plan shape_plan(const Network& network, const RowProfile& rows, Storage storage, int sms, int lanes_per_row,
                int rows_per_group) {
  Plan plan;
  const int gates = info(network.cell).gates;
  plan.storage = storage;
  plan.sms = sms;
  plan.lanes_per_row = lanes_per_row;
  plan.rows_per_group = rows_per_group;
  plan.tile_rows = gates > 1 ? 4 : 1;
  plan.batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  const int units_per_group = rows_per_group / gates;
  const int units = (rows.units() + sms - 1) / sms;
  const int groups = (units + units_per_group - 1) / units_per_group;
  plan.threads = (groups * lanes_per_row + 31) / 32 * 32;
  give_slots(network, rows, plan);
  return plan;
}

void give_slots(const Network& network, const RowProfile& rows, Plan& plan) {
  const int gates = rows.gates(), units_per_rank = plan.groups() * plan.sms;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const std::int64_t first = std::int64_t{r / gates} * units_per_rank;
    int longest = 0;
    if (first < rows.units()) {
      longest = plan.storage == Storage::dense ? state_units(network, plan)
                                               : rows.longest_from(static_cast<int>(first), r % gates);
    }
    plan.slots[r] = std::max(1, row_slots(network, plan, longest));
  }
}

Plan shape_dense_plan(const Network& network, int sms, int threads, int teams, Storage storage) {
  Plan plan;
  plan.family = Family::dense_persistent;
  plan.storage = storage;
  plan.order = RowOrder::natural;
  plan.sms = sms;
  plan.threads = threads;
  plan.rows_per_group = 0;
  plan.batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  plan.teams = teams;
  plan.loads_in_flight = 2 * sample_tiles(network, plan);
  return plan;
}

Plan library_plan(Family family) {
  Plan plan;
  plan.family = family;
  plan.rows_per_group = 0;
  return plan;
}

}  // namespace onchip
