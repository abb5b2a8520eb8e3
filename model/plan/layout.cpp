// SPDX-License-Identifier: Apache-2.0
#include "model/plan/layout.hpp"

#include "model/banks/bank_rule.hpp"
#include "model/dense/layout.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/sparse/pack_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace onchip {
namespace {

// Calls `visit` with every row of W and each of its slots: place and value.
template <typename Visit>
void for_each_entry(const Layout& layout, Visit&& visit) {
  const Plan& plan = layout.plan;
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0; r < plan.all_rows(); ++r) {
      for (int thread = 0; thread < plan.threads; ++thread) {
        const int group = group_lane_of(layout.network, plan, thread).group;
        const std::int32_t row = layout.row(sm, r, group);
        const std::size_t warp_row = layout.warp_row(sm, r, thread / kWarpLanes);
        for (int slot = 0; row >= 0 && slot < layout.slots(warp_row); ++slot) {
          const std::size_t entry = layout.entry(warp_row, slot, thread % kWarpLanes);
          visit(row, layout.place[entry], layout.value[entry]);
        }
      }
    }
  }
}

}  // namespace

Layout make_layout(const Network& network, const Plan& plan, const SparseMatrix& matrix, int threads) {
  if (matrix.rows != network.rows() || matrix.columns != network.hidden) {
    throw InputError("the recurrent matrix is " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
                     ", but " + describe(network) + " needs " + std::to_string(network.rows()) + " x " +
                     std::to_string(network.hidden));
  }
  if (is_library(plan.family)) {
    throw InputError("a plan of " + std::string(name(plan.family)) + " has no layout: the library has its own");
  }
  if (plan.family == Family::dense_persistent) {
    return dense_layout(network, plan, matrix);
  }
  return sparse_layout(network, plan, matrix, threads);
}

SparseMatrix unpack(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.family == Family::dense_persistent) {
    return unpack_dense(layout);
  }
  std::vector<std::int32_t> unit_at(state_units(layout.network, plan), -1);
  for (int unit = 0; unit < layout.network.hidden; ++unit) {
    unit_at[layout.order[unit]] = unit;
  }
  std::vector<std::vector<std::pair<std::int32_t, float>>> rows(layout.network.rows());
  for_each_entry(layout, [&](std::int32_t row, std::int32_t place, float value) {
    // A non-zero may have been rounded to zero; storage that multiplies units by zero cannot tell.
    const bool stored =
        place < state_units(layout.network, plan) && (plan.storage == Storage::packed_pair || value != 0.0f);
    if (stored) {
      rows[row].emplace_back(unit_at[place], value);
    }
  });
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

std::vector<float> row_scales(const Layout& layout) {
  std::vector<float> scales;
  if (layout.network.precision != Precision::fp8) {
    return scales;
  }
  std::vector<float> largest(layout.network.rows(), 0.0f);
  for_each_entry(layout, [&](std::int32_t row, std::int32_t, float value) {
    largest[row] = std::max(largest[row], std::abs(value));
  });
  std::transform(largest.begin(), largest.end(), std::back_inserter(scales), e4m3_scale);
  return scales;
}

Wavefronts gather_wavefronts(const Layout& layout) {
  const Plan& plan = layout.plan;
  if (plan.family == Family::dense_persistent) {
    return dense_wavefronts(layout);
  }
  const BankRule rule(layout.network, plan);
  const int access = std::max(kBankBytes, rule.stride);
  const int copies = planes(layout.network, plan);  // every plane repeats the pattern
  Wavefronts result;
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::int64_t in_sm = 0;
    const std::int64_t first_slot = layout.first[layout.warp_row(sm, 0, 0)];
    const std::int64_t last_slot = layout.first[layout.warp_row(sm + 1, 0, 0)];
    for (std::size_t first = first_slot * kWarpLanes; first < static_cast<std::size_t>(last_slot) * kWarpLanes;
         first += rule.phase_lanes) {
      std::array<std::array<std::int32_t, kWarpLanes>, kMaxBankSets> words;
      std::array<int, kMaxBankSets> count{};
      int most = 0;
      for (int lane = 0; lane < rule.phase_lanes; ++lane) {
        const std::int32_t word = layout.place[first + lane] * rule.stride / access;
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
    result.total += in_sm;
    result.busiest_sm = std::max(result.busiest_sm, in_sm);
  }
  return result;
}

}  // namespace onchip
