// SPDX-License-Identifier: Apache-2.0
#include "model/common_rows.hpp"

#include "model/bank_rule.hpp"
#include "model/common_columns.hpp"
#include "model/parallel.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace onchip {
namespace {

using SetCounts = std::array<int, kMaxBankSets>;

// The columns of one unit that are not taken yet, by the gates that have them and the banks they are in.
class UnitColumns {
 public:
  UnitColumns(const Layout& layout, const SparseMatrix& matrix, const BankRule& rule,
              const std::array<std::int32_t, kMostGates>& rows, int gates)
      : layout_(layout), rule_(rule) {
    std::vector<Column> all;
    for (int gate = 0; gate < gates; ++gate) {
      for (std::int64_t e = matrix.row_begin[rows[gate]]; e < matrix.row_begin[rows[gate] + 1]; ++e) {
        all.push_back({matrix.column[e], 1 << gate, {}});
        all.back().elements[gate] = e;
      }
    }
    std::ranges::stable_sort(all, {}, &Column::column);
    for (const Column& column : all) {
      if (!columns_.empty() && columns_.back().column == column.column) {
        columns_.back().gates |= column.gates;
        const int gate = std::countr_zero(static_cast<unsigned>(column.gates));
        columns_.back().elements[gate] = column.elements[gate];
      } else {
        columns_.push_back(column);
      }
    }
    for (std::size_t i = columns_.size(); i-- > 0;) {  // the first of a list is its last
      const Column& column = columns_[i];
      ++sets_[column.gates];
      list(column.gates, set_of(column)).push_back(static_cast<int>(i));
    }
  }

  const ColumnSets& sets() const { return sets_; }

  // Takes a column of these gates from a set of banks.
  Element take(int from, int taken, const GatePair& pair, int set) {
    const int i = list(from, set).back();
    list(from, set).pop_back();
    Column& column = columns_[i];
    column.gates &= ~taken;
    if (column.gates != 0) {
      list(column.gates, set).push_back(i);
    }
    const auto element = [&](int gate) { return taken >> gate & 1 ? column.elements[gate] : -1; };
    return {element(pair.first), element(pair.second)};
  }

  bool has(int from, int set) const { return !lists_[static_cast<std::size_t>(from) * kMaxBankSets + set].empty(); }

  // Adds how many columns of a gate are in each set of banks.
  void count(int gate, SetCounts& counts) const {
    for (const Column& column : columns_) {
      counts[set_of(column)] += column.gates >> gate & 1;
    }
  }

  // The non-zeros that are left to a gate, by column.
  std::vector<std::int64_t> left(int gate) const {
    std::vector<std::int64_t> elements;
    for (const Column& column : columns_) {
      if (column.gates >> gate & 1) {
        elements.push_back(column.elements[gate]);
      }
    }
    return elements;
  }

 private:
  struct Column {
    std::int32_t column;
    int gates;  // that still have it
    std::array<std::int64_t, kMostGates> elements;
  };

  int set_of(const Column& column) const { return rule_.set_of(layout_.order[column.column]); }
  std::vector<int>& list(int gates, int set) { return lists_[static_cast<std::size_t>(gates) * kMaxBankSets + set]; }

  const Layout& layout_;
  const BankRule& rule_;
  std::vector<Column> columns_;
  ColumnSets sets_{};
  std::array<std::vector<int>, kGateSets * kMaxBankSets> lists_;  // of columns, by gates and banks
};

// The set of banks to take a column of these gates from: one that the pair's phases have room for, and of these one
// that the pair has few of, or the rows that are relieved have many of.
int best_set(const UnitColumns& columns, int from, const SetCounts& used, int phases, const SetCounts& relieved,
             int sets) {
  int best = -1;
  constexpr int kUsed = 4;
  const auto worth = [&](int set) {
    return std::pair(std::min(0, phases - 1 - used[set]), relieved[set] - kUsed * used[set]);
  };
  for (int set = 0; set < sets; ++set) {
    if (columns.has(from, set) && (best < 0 || worth(set) > worth(best))) {
      best = set;
    }
  }
  return best;
}

// The units of groups that share phases, those that have the same place in theirs: a pair's columns are chosen with
// what the same pair of the other units has.
class UnitsTogether {
 public:
  UnitsTogether(const Layout& layout, const SparseMatrix& matrix, const BankRule& rule, int sm, int unit)
      : layout_(layout),
        matrix_(matrix),
        rule_(rule),
        sm_(sm),
        unit_(unit),
        gates_(info(layout.network.cell).gates),
        phases_(layout.plan.common_slots * spread_over_phases(layout.network, layout.plan)),
        pairs_(gate_pairs(gates_)),
        used_(pairs_.size(), SetCounts{}) {}

  // The group's unit, if it has one.
  void add(int group) {
    if (layout_.row(sm_, unit_ * gates_, group) < 0) {
      return;
    }
    std::array<std::int32_t, kMostGates> rows{};
    std::array<int, kMostGates> places{};
    for (int place = 0; place < gates_; ++place) {
      const std::int32_t row = layout_.row(sm_, unit_ * gates_ + place, group);
      rows[row / layout_.network.hidden] = row;
      places[row / layout_.network.hidden] = place;
    }
    Unit& unit = units_.emplace_back(Unit{group, rows, places, UnitColumns(layout_, matrix_, rule_, rows, gates_), {}});
    unit.takings = share_columns(unit.columns.sets(), gates_, pair_room(layout_.network, layout_.plan));
    for (int gate = 0; gate < gates_; ++gate) {
      unit.columns.count(gate, left_[gate]);
    }
  }

  // Common columns, of which there is little choice, before those of one gate.
  void share(CommonRows& result) {
    for (const bool takes_one : {false, true}) {
      for (Unit& unit : units_) {
        for (const Taking& taking : unit.takings) {
          if (std::has_single_bit(static_cast<unsigned>(taking.taken)) == takes_one) {
            take(unit, taking, result);
          }
        }
      }
    }
    for (const Unit& unit : units_) {
      for (int gate = 0; gate < gates_; ++gate) {
        result.own[unit.rows[gate]] = unit.columns.left(gate);
      }
    }
  }

 private:
  struct Unit {
    int group;
    std::array<std::int32_t, kMostGates> rows;  // of W, by gate
    std::array<int, kMostGates> places;         // in the unit, by gate
    UnitColumns columns;
    std::vector<Taking> takings;
  };

  // A pair of gates stands where the pair of their places does, the lower place first.
  void take(Unit& unit, const Taking& taking, CommonRows& result) {
    GatePair gates = pairs_[taking.pair];
    if (unit.places[gates.first] > unit.places[gates.second]) {
      std::swap(gates.first, gates.second);
    }
    const int pair = pair_of(gates_, {unit.places[gates.first], unit.places[gates.second]});
    std::vector<Element>& elements =
        result.of_pairs[result.pair(sm_, unit_ * number_of_pairs(gates_) + pair, unit.group)];
    SetCounts& used = used_[pair];
    for (int i = 0; i < taking.count; ++i) {
      const int set = best_set(unit.columns, taking.from, used, phases_, relieved(taking.taken), rule_.bank_sets);
      elements.push_back(unit.columns.take(taking.from, taking.taken, gates, set));
      ++used[set];
      for (int gate = 0; gate < gates_; ++gate) {
        left_[gate][set] -= taking.taken >> gate & 1;
      }
    }
  }

  // Columns that are left to the gates of a set together.
  SetCounts relieved(int gates) const {
    SetCounts sum{};
    for (int gate = 0; gate < gates_; ++gate) {
      for (int set = 0; gates >> gate & 1 && set < rule_.bank_sets; ++set) {
        sum[set] += left_[gate][set];
      }
    }
    return sum;
  }

  const Layout& layout_;
  const SparseMatrix& matrix_;
  const BankRule& rule_;
  int sm_, unit_, gates_, phases_;
  std::vector<GatePair> pairs_;
  std::vector<SetCounts> used_;               // by the pair of places, whose slots are loaded together
  std::array<SetCounts, kMostGates> left_{};  // columns that are left to the gates of all units, by banks
  std::vector<Unit> units_;
};

}  // namespace

CommonRows share_rows(const Layout& layout, const SparseMatrix& matrix, int threads) {
  const Plan& plan = layout.plan;
  const int units = plan.rows_per_group / info(layout.network.cell).gates;
  const BankRule rule(layout.network, plan);
  CommonRows result;
  result.plan = &layout.plan;
  result.own.resize(static_cast<std::size_t>(matrix.rows));
  result.of_pairs.resize(static_cast<std::size_t>(plan.sms) * plan.common_rows * plan.groups());
  const int groups_per_warp = kWarpLanes / plan.lanes_per_row;
  const int together = groups_per_warp / (load_phases(layout.network, plan) / spread_over_phases(layout.network, plan));
  parallel_for(plan.sms * plan.warps(), threads, [&](int i) {
    const int first = i % plan.warps() * groups_per_warp;
    for (int group = first; group < first + groups_per_warp; group += together) {
      for (int unit = 0; unit < units; ++unit) {
        UnitsTogether all(layout, matrix, rule, i / plan.warps(), unit);
        for (int one = group; one < group + together; ++one) {
          all.add(one);
        }
        all.share(result);
      }
    }
  });
  return result;
}

}  // namespace onchip
