// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/wavefronts.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/sparse/instructions.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

// Expected largest of k standard normal variables, for the bank sets of the three access widths.
double normal_maximum(int k) {
  return k >= 32 ? 2.07 : k >= 16 ? 1.77 : 1.42;
}

// Expected largest bucket when k balls fall on k buckets: conflicts of columns at random.
double random_maximum(int k) {
  return k >= 32 ? 3.54 : k >= 16 ? 3.07 : k >= 8 ? 2.59 : k >= 4 ? 2.13 : k >= 2 ? 1.5 : 1;
}

// How a chip serves loads of the state: phases of a warp's load, and sets of banks, as sim/machine/banks.hpp says.
struct ServedLoad {
  double phases = 1;
  int sets = 32;
};
ServedLoad served_load(const Chip& chip, const SparseGeometry& geometry) {
  const double row_bytes = chip.smem_banks * chip.smem_bank_bytes;
  const double width = std::max<double>(kBankBytes, geometry.plane_unit_bytes);
  return {std::max(1.0, kWarpLanes * width / row_bytes),
          std::max(1, static_cast<int>(row_bytes / std::max(width, chip.smem_bank_bytes.value)))};
}

// Wavefronts over those of 32 banks of 4 bytes, for which a bank-aware layout is made. With fewer banks several of its
// sets meet in one, and lanes that it keeps apart do, too, as at random; so they do where a bank has several words.
// With more banks the lanes of phases that become one meet as often as before.
double on_other_banks(const Chip& chip, const SparseGeometry& geometry, int layout_sets) {
  const ServedLoad served = served_load(chip, geometry);
  if (chip.smem_bank_bytes > std::max(kBankBytes, geometry.plane_unit_bytes)) {
    return random_maximum(served.sets) * served.phases / (static_cast<double>(kWarpLanes) / layout_sets);
  }
  const double meeting = static_cast<double>(layout_sets) / served.sets;
  return meeting > 1 ? meeting * std::min(meeting, random_maximum(served.sets)) : 1;
}

// Wavefronts per phase where a lane chooses among the non-zeros that are near (model/sparse/layout/delta_order.hpp).
// The sets of so few slots are uneven, and so are those of the few within reach; slots to spare make up for it, and so
// do words that several of the rows need. Against layouts of uniform masks, hidden sizes of 2048 to 16384 in 12 to 830
// slots at densities of 2.5 to 30 %: within 0.03 on average, 0.25 at most.
double delta_conflicts(const CostValues& cost, const BankRule& rule, double density, double slots, double rows,
                       double filled) {
  const double scale = cost[Cost::delta_conflicts] * rule.bank_sets;
  const double of_reach = cost[Cost::delta_reach] * std::exp(-kMostDelta * density / 2);
  const double shared = std::exp(-cost[Cost::delta_shared] * (rows - 1) * density);
  return 1 +
         scale * std::pow(filled, cost[Cost::delta_filled_power]) * shared * std::hypot(1 / std::sqrt(slots), of_reach);
}

// How much fuller the fullest sets of banks are than the mean one. An SM's units take whole words of the state, and
// what is left of the last is nobody's: always in the same sets where SMs' words lie whole turns of the banks apart.
double uneven_sets(const SparseGeometry& geometry) {
  constexpr int kTurn = kBanks * kBankBytes;
  const int units = geometry.units_per_sm, bytes = units * geometry.plane_unit_bytes;
  const bool meet = kTurn % bytes == 0 || bytes % kTurn == 0;
  return meet ? static_cast<double>(units) * geometry.sms / geometry.network.hidden : 1;
}

// Of the rows that share phases, how many elements the fullest set of banks has.
double fullest_set(double mean, double density, int sets) {
  return mean + normal_maximum(sets) * std::sqrt(mean * (1 - density));
}

int bank_sets(const SparseGeometry& geometry) {  // and lanes per phase
  return 128 / std::max(4, geometry.plane_unit_bytes);
}

double rows_of_phases(const SparseGeometry& geometry) {
  return static_cast<double>(kWarpLanes) / geometry.lanes_per_row / (geometry.load_phases / geometry.spread);
}

}  // namespace

double least_wavefronts(const SparseGeometry& geometry, double least_slots) {
  const int sets = bank_sets(geometry);
  const double density = geometry.network.density;
  const double mean = uneven_sets(geometry) * density * geometry.network.hidden * rows_of_phases(geometry) / sets;
  const double phases = std::min(least_slots, 1.0 * geometry.rows_per_group / geometry.spread);
  return geometry.warps() * phases * kWarpLanes / sets * geometry.planes * fullest_set(mean, density, sets);
}

ExpectedWavefronts expected_wavefronts(const Chip& chip, const SparseGeometry& geometry) {
  const CostValues& cost = chip.cost;
  const int sets = bank_sets(geometry);
  const double phases_per_slot = static_cast<double>(kWarpLanes) / sets;
  const double copies = geometry.planes;
  const double warps = static_cast<double>(geometry.groups()) * geometry.lanes_per_row / kWarpLanes;
  ExpectedWavefronts result;
  // The rows of a group alike, of their mean number of slots.
  const double slots = geometry.mean_slots() / geometry.all_rows();
  result.ideal = warps * state_loads(geometry) * phases_per_slot * copies;
  result.expected = result.ideal;
  if (geometry.storage == Storage::dense) {  // neighbouring words
    result.expected *= served_load(chip, geometry).phases / phases_per_slot;
    return result;
  }
  // The rows that share phases, and the phases in which their elements must go.
  const double density = geometry.network.density, mean_length = density * geometry.network.hidden;
  const double rows = rows_of_phases(geometry);
  const double phases = std::max(1.0, slots * geometry.spread);
  // Rows that are split fill their slots, and the others nearly do.
  const double filled =
      geometry.row_splits > 0 ? cost[Cost::split_rows_filled] : std::min(1.0, mean_length * rows / (phases * sets));
  double factor = 1;
  if (geometry.storage == Storage::packed_delta && geometry.order != RowOrder::natural) {
    factor = delta_conflicts(cost, BankRule(geometry.plane_unit_bytes), density, std::max(1.0, slots), rows, filled);
  } else if (geometry.order != RowOrder::natural) {
    // The fullest bank set of these rows needs at least as many wavefronts as it has elements.
    const double mean = uneven_sets(geometry) * (geometry.row_splits > 0 ? filled * phases : mean_length * rows / sets);
    factor = std::max(1.0, fullest_set(mean, density, sets) / phases);
  } else {
    const ServedLoad served = served_load(chip, geometry);
    factor = (1 + filled * (random_maximum(served.sets) - 1)) * served.phases / phases_per_slot;
  }
  result.expected *= factor * (geometry.order == RowOrder::natural ? 1 : on_other_banks(chip, geometry, sets));
  return result;
}

}  // namespace onchip
