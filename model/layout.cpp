// SPDX-License-Identifier: Apache-2.0
#include "model/layout.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"
#include "model/phase_colouring.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <queue>
#include <tuple>

namespace onchip {
namespace {

constexpr int kWarp = 32;
constexpr int kBanks = 32;
constexpr int kBankBytes = 4;
constexpr int kMaxBankSets = 32;

// How the hardware serves one gather of a warp: phase_lanes lanes at a time, each hitting one of bank_sets sets of
// banks.
struct BankRule {
  int stride;       // bytes between neighbouring units
  int phase_lanes;  // 32 for accesses of up to 4 bytes, 16 for 8, 8 for 16
  int bank_sets;

  BankRule(const Network& network, const Plan& plan)
      : stride(plane_unit_bytes(network, plan)),
        phase_lanes(kWarp * kBankBytes / std::max(kBankBytes, stride)),
        bank_sets(kBanks * kBankBytes / std::max(kBankBytes, stride)) {}

  int set_of(int unit) const { return unit * stride / std::max(kBankBytes, stride) % bank_sets; }
};

// ---- dealing rows ---------------------------------------------------------------------------------------------------

// [sms, rows_per_group, groups]: the rows of the units, longest first, each unit to the SM that has least to do so far.
// A unit of rank class r (of as many units as all groups of all SMs) gets a place of class r or before, whose slots are
// enough.
std::vector<std::int32_t> deal_rows(const Network& network, const Plan& plan, const SparseMatrix& matrix) {
  const int units = matrix.columns;
  const int gates = matrix.rows / units;
  std::vector<std::int32_t> order(units);
  std::iota(order.begin(), order.end(), 0);
  if (plan.storage != Storage::dense) {
    order = units_by_length(matrix);
  }
  const int groups = plan.groups();
  std::vector<std::int32_t> rows(static_cast<std::size_t>(plan.sms) * plan.rows_per_group * groups, -1);
  struct Load {
    std::int64_t nnz;
    int sm;
    bool operator>(const Load& other) const { return std::tie(nnz, sm) > std::tie(other.nnz, other.sm); }
  };
  std::priority_queue<Load, std::vector<Load>, std::greater<>> open;  // SMs with room in the classes so far
  std::vector<Load> full;
  for (int sm = 0; sm < plan.sms; ++sm) {
    full.push_back({0, sm});
  }
  std::vector<int> count(plan.sms, 0);
  const std::size_t per_class = static_cast<std::size_t>(groups) * plan.sms;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const int room = std::min(static_cast<int>(rank / per_class + 1) * groups, units_per_sm(network, plan));
    if (rank % per_class == 0) {
      for (const Load& load : full) {
        open.push(load);
      }
      full.clear();
    }
    Load load = open.top();
    open.pop();
    const int place = count[load.sm]++;
    // Every other full class from the last group to the first, so that no warp has all the longest.
    const int in_class = place % groups;
    const bool reversed = place / groups % 2 && (place / groups + 1) * groups <= units_per_sm(network, plan);
    const int group = reversed ? groups - 1 - in_class : in_class;
    for (int gate = 0; gate < gates; ++gate) {
      const std::int32_t row = gate * units + order[rank];
      const std::size_t r = static_cast<std::size_t>(place / groups) * gates + gate;
      rows[(load.sm * plan.rows_per_group + r) * groups + group] = row;
      load.nnz += matrix.row_begin[row + 1] - matrix.row_begin[row];
    }
    (place + 1 < room ? open.push(load) : full.push_back(load));
  }
  return rows;
}

// ---- filling the slots of the rows that one warp works on at the same time ------------------------------------------

// [hidden]: the place of each unit in the state, in the order in which the SMs' groups own them.
std::vector<std::int32_t> order_units(const Network& network, const Plan& plan, const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> order(network.hidden);
  const int gates = info(network.cell).gates;
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0; r < plan.rows_per_group; r += gates) {  // a unit's place is that of its first gate's row
      for (int group = 0; group < plan.groups(); ++group) {
        const std::int32_t unit =
            rows[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.groups() + group];
        if (unit >= 0) {
          order[unit] = sm * units_per_sm(network, plan) + r / gates * plan.groups() + group;
        }
      }
    }
  }
  return order;
}

class Packer {
 public:
  Packer(Layout& layout, const SparseMatrix& matrix)
      : layout_(layout), matrix_(matrix), plan_(layout.plan), rule_(layout.network, layout.plan) {}

  void pack() {
    const int groups_per_warp = kWarp / plan_.lanes_per_row;
    for (int sm = 0; sm < plan_.sms; ++sm) {
      for (int r = 0, first_slot = 0; r < plan_.rows_per_group; first_slot += plan_.slots[r++]) {
        for (int warp = 0; warp < plan_.warps(); ++warp) {
          const std::size_t at = static_cast<std::size_t>(sm) * plan_.rows_per_group + r;
          const auto* rows = &layout_.rows[at * plan_.groups() + warp * groups_per_warp];
          const int slots = slots_done(rows, groups_per_warp, r);
          layout_.done.push_back(slots);
          if (plan_.storage == Storage::dense) {
            pack_dense(sm, warp, r, first_slot, rows, groups_per_warp);
          } else if (plan_.order == RowOrder::natural) {
            pack_natural(sm, warp, slots, first_slot, rows, groups_per_warp);
          } else {
            pack_bank_aware(sm, warp, slots, first_slot, rows, groups_per_warp);
          }
        }
      }
    }
  }

 private:
  // Slots that a warp needs for these rows: the least, and as many chunks as the longest takes.
  int slots_done(const std::int32_t* rows, int groups, int r) const {
    const int slots = plan_.slots[r];
    if (plan_.storage == Storage::dense) {
      return slots;
    }
    std::int64_t needed = plan_.least_slots[r];
    for (int group = 0; group < groups; ++group) {
      if (rows[group] < 0) {
        continue;
      }
      const std::int64_t length = matrix_.row_begin[rows[group] + 1] - matrix_.row_begin[rows[group]];
      if (length > static_cast<std::int64_t>(slots) * plan_.lanes_per_row) {
        throw InputError("row " + std::to_string(rows[group]) + " has " + std::to_string(length) +
                         " non-zeros, but the plan's slots hold " + std::to_string(slots * plan_.lanes_per_row));
      }
      needed = std::max(needed, (length + plan_.lanes_per_row - 1) / plan_.lanes_per_row);
    }
    const int least = plan_.least_slots[r];
    int done = least;
    while (done < needed) {
      done = next_chunk(done);
    }
    return std::min(slots, done);
  }

  void put(int sm, int slot, int thread, std::int64_t element) {
    const std::size_t entry = layout_.entry(sm, slot, thread);
    layout_.place[entry] = layout_.order[matrix_.column[element]];
    layout_.value[entry] = matrix_.value[element];
  }

  void put_padding(int sm, int slot, int thread, int set) {
    // The zero units cover every bank set; take the one in `set`.
    const int zeros = state_units(layout_.network, plan_);
    const int units_per_set = std::max(1, kBankBytes / rule_.stride);
    int unit = zeros;
    for (int i = 0; i < rule_.bank_sets * units_per_set; ++i) {
      if (rule_.set_of(zeros + i) == set) {
        unit = zeros + i;
        break;
      }
    }
    layout_.place[layout_.entry(sm, slot, thread)] = unit;
  }

  // Slot and lane follow from the place in the state: no index is stored.
  void pack_dense(int sm, int warp, int r, int first_slot, const std::int32_t* rows, int groups) {
    const int lanes = plan_.lanes_per_row;
    const int zeros = state_units(layout_.network, plan_);
    for (int group = 0; group < groups; ++group) {
      const auto thread = [&](int lane) { return thread_of(layout_.network, plan_, warp * groups + group, lane); };
      for (int slot = 0; slot < plan_.slots[r]; ++slot) {
        for (int lane = 0; lane < lanes; ++lane) {
          layout_.place[layout_.entry(sm, first_slot + slot, thread(lane))] = std::min(slot * lanes + lane, zeros);
        }
      }
      if (rows[group] < 0) {
        continue;
      }
      for (std::int64_t e = matrix_.row_begin[rows[group]]; e < matrix_.row_begin[rows[group] + 1]; ++e) {
        const int place = layout_.order[matrix_.column[e]];
        put(sm, first_slot + place / lanes, thread(place % lanes), e);
      }
    }
  }

  void pack_natural(int sm, int warp, int slots, int first_slot, const std::int32_t* rows, int groups) {
    for (int group = 0; group < groups; ++group) {
      std::int64_t e = rows[group] < 0 ? 0 : matrix_.row_begin[rows[group]];
      const std::int64_t end = rows[group] < 0 ? 0 : matrix_.row_begin[rows[group] + 1];
      for (int slot = 0; slot < slots; ++slot) {
        for (int lane = 0; lane < plan_.lanes_per_row; ++lane) {
          const int thread = thread_of(layout_.network, plan_, warp * groups + group, lane);
          if (e < end) {
            put(sm, first_slot + slot, thread, e++);
          } else {
            put_padding(sm, first_slot + slot, thread, thread % rule_.bank_sets);
          }
        }
      }
    }
  }

  // The groups of a warp that share phases are coloured together: all of them, unless a group has fewer lanes than
  // there are phases.
  void pack_bank_aware(int sm, int warp, int slots, int first_slot, const std::int32_t* rows, int groups) {
    const int spread = spread_over_phases(layout_.network, plan_);
    const int apart = load_phases(layout_.network, plan_) / spread;  // sets of groups that never share a phase
    const int together = groups / apart;
    const int neighbours = plan_.lanes_per_row / spread;  // lanes of a group in one phase
    const int phases = slots * spread;
    for (int part = 0; part < apart; ++part) {
      PhaseColouring colouring(rule_.bank_sets, together * neighbours, phases);
      // The elements of each (lane, set), to be handed out once the phases are known.
      std::vector<std::vector<std::int64_t>> elements(static_cast<std::size_t>(together) * neighbours *
                                                      rule_.bank_sets);
      const auto of = [&](int lane, int set) -> auto& {
        return elements[lane * rule_.bank_sets + set];
      };
      struct Left {
        std::int64_t element;
        int group, set;
      };
      std::vector<Left> left;
      for (int g = 0; g < together; ++g) {
        const std::int32_t row = rows[part * together + g];
        for (std::int64_t e = row < 0 ? 0 : matrix_.row_begin[row]; row >= 0 && e < matrix_.row_begin[row + 1]; ++e) {
          const int set = rule_.set_of(layout_.order[matrix_.column[e]]);
          const int lane = g * neighbours + static_cast<int>((e - matrix_.row_begin[row]) % neighbours);
          if (colouring.add(set, lane)) {
            of(lane, set).push_back(e);
          } else {
            left.push_back({e, g, set});
          }
        }
      }
      std::vector<std::array<int, kMaxBankSets>> used(phases, std::array<int, kMaxBankSets>{});
      const auto place = [&](int lane, int phase, std::int64_t element, int set) {
        put(sm, first_slot + phase / spread, thread_at(warp, part * together, lane, phase % spread, neighbours),
            element);
        ++used[phase][set];
      };
      std::vector<std::pair<int, int>> idle;  // lane, phase
      for (int lane = 0; lane < together * neighbours; ++lane) {
        for (int phase = 0; phase < phases; ++phase) {
          if (const int set = colouring.set_at(lane, phase); set != PhaseColouring::kNone) {
            place(lane, phase, of(lane, set).back(), set);
            of(lane, set).pop_back();
          } else {
            idle.emplace_back(lane, phase);
          }
        }
      }
      // What no phase can serve without a conflict: where one more costs least.
      for (const Left& item : left) {
        auto best = idle.end();
        int least = kWarp;
        for (auto at = idle.begin(); at != idle.end(); ++at) {
          if (at->first / neighbours != item.group) {
            continue;
          }
          const auto& counts = used[at->second];
          const int most = *std::max_element(counts.begin(), counts.begin() + rule_.bank_sets);
          const int more = std::max(most, counts[item.set] + 1) - most;
          if (2 * more + (most == 1) < least) {
            least = 2 * more + (most == 1);
            best = at;
          }
        }
        assert(best != idle.end());
        place(best->first, best->second, item.element, item.set);
        idle.erase(best);
      }
      for (const auto& [lane, phase] : idle) {
        auto& counts = used[phase];
        const auto unused = std::find(counts.begin(), counts.begin() + rule_.bank_sets, 0);
        const int set = unused == counts.begin() + rule_.bank_sets ? 0 : static_cast<int>(unused - counts.begin());
        ++counts[set];
        put_padding(sm, first_slot + phase / spread, thread_at(warp, part * together, lane, phase % spread, neighbours),
                    set);
      }
    }
  }

  // The thread of lane `lane` of a phase, the `turn`-th in which its group takes part; `group`: the first of the phase.
  int thread_at(int warp, int group, int lane, int turn, int neighbours) const {
    const int groups_per_warp = kWarp / plan_.lanes_per_row;
    return thread_of(layout_.network, plan_, warp * groups_per_warp + group + lane / neighbours,
                     turn * neighbours + lane % neighbours);
  }

  Layout& layout_;
  const SparseMatrix& matrix_;
  const Plan& plan_;
  BankRule rule_;
};

}  // namespace

Layout make_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix) {
  if (matrix.rows != network.rows() || matrix.columns != network.hidden) {
    throw InputError("the recurrent matrix is " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
                     ", but " + describe(network) + " needs " + std::to_string(network.rows()) + " x " +
                     std::to_string(network.hidden));
  }
  const std::int64_t room =
      static_cast<std::int64_t>(plan.sms) * (plan.rows_per_group / info(network.cell).gates) * plan.groups();
  if (room < network.hidden) {
    throw InputError("the plan has room for " + std::to_string(room) + " units, the network has " +
                     std::to_string(network.hidden));
  }
  if (plan.storage == Storage::dense && plan.slots[0] * plan.lanes_per_row < state_units(network, plan)) {
    throw InputError("the plan's slots reach " + std::to_string(plan.slots[0] * plan.lanes_per_row) +
                     " places, a dense row of it has " + std::to_string(state_units(network, plan)));
  }
  Layout layout{network, plan, deal_rows(network, plan, matrix), {}, {}, {}, {}};
  layout.order = order_units(network, plan, layout.rows);
  const std::size_t entries = static_cast<std::size_t>(plan.sms) * plan.slots_total() * plan.threads;
  layout.place.assign(entries, state_units(network, plan));
  layout.value.assign(entries, 0.0f);
  Packer(layout, matrix).pack();
  return layout;
}

SparseMatrix unpack(const Layout& layout) {
  const Plan& plan = layout.plan;
  std::vector<std::int32_t> unit_at(state_units(layout.network, plan), -1);
  for (int unit = 0; unit < layout.network.hidden; ++unit) {
    unit_at[layout.order[unit]] = unit;
  }
  std::vector<std::vector<std::pair<std::int32_t, float>>> rows(layout.network.rows());
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
      for (int group = 0; group < plan.groups(); ++group) {
        const std::int32_t row =
            layout.rows[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.groups() + group];
        for (int slot = first_slot; slot < first_slot + plan.slots[r]; ++slot) {
          for (int lane = 0; lane < plan.lanes_per_row; ++lane) {
            const std::size_t entry = layout.entry(sm, slot, thread_of(layout.network, plan, group, lane));
            // A non-zero may have been rounded to zero; what is stored densely cannot tell.
            const bool stored = layout.place[entry] < state_units(layout.network, plan) &&
                                (plan.storage != Storage::dense || layout.value[entry] != 0.0f);
            if (row >= 0 && stored) {
              rows[row].emplace_back(unit_at[layout.place[entry]], layout.value[entry]);
            }
          }
        }
      }
    }
  }
  SparseMatrix matrix;
  matrix.rows = layout.network.rows();
  matrix.columns = layout.network.hidden;
  matrix.row_begin.push_back(0);
  for (auto& row : rows) {
    std::sort(row.begin(), row.end());
    for (const auto& [column, value] : row) {
      matrix.column.push_back(column);
      matrix.value.push_back(value);
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

namespace {

// Where the kernel finds each word of a thread, in order of use: [block words], see encode().
std::vector<std::size_t> word_places(const Network& network, const Plan& plan) {
  const std::vector<Tier> tiers = quad_tiers(network, plan);
  const std::size_t threads = plan.threads;
  std::size_t next_register = 0;
  std::array<std::size_t, 3> next_quad{};  // by Tier: behind the registers, then behind the shared quads
  next_quad[static_cast<int>(Tier::streamed)] = plan.shared_quads;
  const std::size_t first_quad = register_words(network, plan) * threads;
  std::vector<std::size_t> places;
  for (int tile = 0, quad = 0; tile < tiles(network, plan); ++tile) {
    const int words = tile_words(network, plan, tile);
    for (int i = 0; i < words; ++i) {
      const Tier tier = i / 4 < words / 4 ? tiers[quad + i / 4] : Tier::registers;
      if (tier == Tier::registers) {
        places.push_back(next_register++ * threads);
      } else {
        std::size_t& next = next_quad[static_cast<int>(tier)];
        places.push_back(first_quad + next * threads * 4 + i % 4);
        next += i % 4 == 3;
      }
    }
    quad += words / 4;
  }
  return places;
}

}  // namespace

std::vector<std::uint32_t> encode(const Layout& layout) {
  const Network& network = layout.network;
  const Plan& plan = layout.plan;
  const std::vector<std::size_t> places = word_places(network, plan);
  const std::size_t register_end = static_cast<std::size_t>(register_words(network, plan)) * plan.threads;
  const std::size_t block_words = places.size() * plan.threads;
  const Bundle unit = bundle(network, plan);
  const bool packed = plan.storage == Storage::packed_pair;
  const int stride = plane_unit_bytes(network, plan);
  const int shift = index_shift(network, plan);
  const std::vector<float> scales = row_scales(layout);
  const int value_bits = info(network.precision).weight_bits;
  std::vector<std::uint32_t> encoded(plan.sms * block_words);
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int thread = 0; thread < plan.threads; ++thread) {
      const auto word = [&](int i) -> std::uint32_t& {
        const std::size_t place = places[i];
        return encoded[sm * block_words + place + (place < register_end ? thread : 4 * thread)];
      };
      int first_word = 0;
      for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
        const std::size_t group = group_lane_of(network, plan, thread).group;
        const std::int32_t row =
            layout.rows[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.groups() + group];
        for (int s = 0; s < plan.slots[r]; ++s) {
          const std::size_t entry = layout.entry(sm, first_slot + s, thread);
          const float value = layout.value[entry];
          const auto index = static_cast<std::uint32_t>(layout.place[entry]) * stride >> shift;
          const int first = first_word + s / unit.slots * unit.words;
          const int i = s % unit.slots;
          if (network.precision == Precision::fp8) {
            // Values 0, 2 and 1, 3 of a bundle stand in the low and the high bytes of the two halves.
            const std::uint32_t code = to_e4m3(row < 0 ? 0.0f : value / scales[row]);
            word(first) |= code << (i % 2 * 8 + i / 2 * 16);
            if (packed) {
              word(first + 1 + i / 2) |= index << (i % 2 * 16);
            }
          } else if (value_bits == 32) {
            word(first + (packed ? 1 + i : 0)) = to_bits(network.precision, value);
            if (packed) {
              word(first) |= index << (i * 16);
            }
          } else if (packed) {
            word(first) = to_bits(network.precision, value) << 16 | index;
          } else {
            word(first) |= to_bits(network.precision, value) << (i * 16);
          }
        }
        first_word += row_words(network, plan, plan.slots[r]);
      }
    }
  }
  return encoded;
}

std::vector<float> row_scales(const Layout& layout) {
  std::vector<float> scales;
  if (layout.network.precision != Precision::fp8) {
    return scales;
  }
  const Plan& plan = layout.plan;
  std::vector<float> largest(layout.network.rows(), 0.0f);
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
      for (int thread = 0; thread < plan.threads; ++thread) {
        const std::size_t group = group_lane_of(layout.network, plan, thread).group;
        const std::int32_t row =
            layout.rows[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.groups() + group];
        for (int slot = first_slot; row >= 0 && slot < first_slot + plan.slots[r]; ++slot) {
          largest[row] = std::max(largest[row], std::abs(layout.value[layout.entry(sm, slot, thread)]));
        }
      }
    }
  }
  std::transform(largest.begin(), largest.end(), std::back_inserter(scales), e4m3_scale);
  return scales;
}

Wavefronts gather_wavefronts(const Layout& layout) {
  const Plan& plan = layout.plan;
  const BankRule rule(layout.network, plan);
  const int access = std::max(kBankBytes, rule.stride);
  const int copies = planes(layout.network, plan);  // every plane repeats the pattern
  Wavefronts result;
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::int64_t in_sm = 0;
    for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
      for (int first = 0; first < plan.threads; first += rule.phase_lanes) {
        const std::size_t row = static_cast<std::size_t>(sm) * plan.rows_per_group + r;
        const int done = layout.done[row * plan.warps() + first / kWarp];
        for (int slot = first_slot; slot < first_slot + done; ++slot) {
          std::array<std::array<std::int32_t, kWarp>, kMaxBankSets> words;
          std::array<int, kMaxBankSets> count{};
          int most = 0;
          for (int lane = 0; lane < rule.phase_lanes; ++lane) {
            const std::int32_t word = layout.place[layout.entry(sm, slot, first + lane)] * rule.stride / access;
            const int set = word % rule.bank_sets;
            const auto end = words[set].begin() + count[set];
            if (std::find(words[set].begin(), end, word) == end) {
              words[set][count[set]++] = word;
              most = std::max(most, count[set]);
            }
          }
          in_sm += static_cast<std::int64_t>(most) * copies;
          result.ideal += copies;
        }
      }
    }
    result.total += in_sm;
    result.busiest_sm = std::max(result.busiest_sm, in_sm);
  }
  return result;
}

}  // namespace onchip
