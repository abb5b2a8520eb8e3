// SPDX-License-Identifier: Apache-2.0
#include "model/row_profile.hpp"

#include "model/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

// Inverse of the standard normal distribution, Acklam's rational approximation (relative error below 1.2e-9).
double normal_quantile(double p) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double low = 0.02425;
  if (p < low || p > 1 - low) {
    const double q = std::sqrt(-2 * std::log(p < low ? p : 1 - p));
    const double x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
                     ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    return p < low ? x : -x;
  }
  const double q = p - 0.5, r = q * q;
  return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
         (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

// 32 bits of a linear congruential generator: the same on every machine, and all that is asked of it is that a unit's
// gates have nothing to do with one another.
std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 32;
}

void shuffle(std::vector<int>& values) {
  std::uint64_t state = 1;
  for (std::uint64_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[(next_random(state) * left) >> 32]);
  }
}

std::vector<ColumnSets> sets_of_matrix(const SparseMatrix& matrix) {
  const int units = matrix.columns, gates = matrix.rows / matrix.columns;
  std::vector<ColumnSets> sets(gates > 1 ? units : 0);
  std::vector<std::uint8_t> gates_of(units, 0);
  for (int unit = 0; unit < std::ssize(sets); ++unit) {
    const auto for_each_column = [&](auto&& visit) {
      for (int gate = 0; gate < gates; ++gate) {
        const std::size_t row = static_cast<std::size_t>(gate) * units + unit;
        for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
          visit(gate, matrix.column[e]);
        }
      }
    };
    for_each_column([&](int gate, int column) { gates_of[column] |= static_cast<std::uint8_t>(1 << gate); });
    for_each_column([&](int, int column) {
      ++sets[unit][gates_of[column]];
      gates_of[column] = 0;
    });
    sets[unit][0] = 0;  // columns seen again
  }
  return sets;
}

// Rows of which nothing is known but their lengths: each set as often as expected of columns at random, and more or
// less by chance.
std::vector<ColumnSets> expected_sets(int units, int gates, const std::vector<int>& lengths) {
  std::vector<ColumnSets> sets(gates > 1 ? units : 0);
  std::uint64_t state = 1;
  for (int unit = 0; unit < std::ssize(sets); ++unit) {
    std::array<int, kMostGates> left{};
    for (int gate = 0; gate < gates; ++gate) {
      left[gate] = lengths[static_cast<std::size_t>(gate) * units + unit];
    }
    const std::array<int, kMostGates> all = left;
    for (int set = (1 << gates) - 1; set > 0; --set) {  // single gates, of which there are most, have what is left
      double expected = units;
      int most = units;
      for (int gate = 0; gate < gates; ++gate) {
        const double share = static_cast<double>(all[gate]) / units;
        const bool has = set >> gate & 1;
        expected *= has ? share : 1 - share;
        most = has ? std::min(most, left[gate]) : most;
      }
      const double at_random =
          (static_cast<double>(next_random(state) / 2) + 0.5) / static_cast<double>(std::uint64_t{1} << 31);
      const double drawn = expected + std::sqrt(expected) * normal_quantile(at_random);
      const bool is_single = std::has_single_bit(static_cast<unsigned>(set));
      const int count = is_single ? most : std::clamp(static_cast<int>(std::lround(drawn)), 0, most);
      sets[unit][set] = count;
      for (int gate = 0; gate < gates; ++gate) {
        left[gate] -= (set >> gate & 1) * count;
      }
    }
  }
  return sets;
}

}  // namespace

struct RowProfile::Shared {
  std::mutex mutex;
  std::vector<ColumnSets> sets;  // of each unit, not rank; empty: not known yet
  std::map<PairRoom, RowProfile> without_common;
};

RowProfile::RowProfile(int units, int gates, const std::vector<int>& lengths)
    : units_(units),
      gates_(gates),
      nnz_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
      shared_(std::make_shared<Shared>()) {
  const auto length_of = [&](int unit, int gate) { return lengths[static_cast<std::size_t>(gate) * units + unit]; };
  std::vector<int> longest(units);
  for (int unit = 0; unit < units; ++unit) {
    for (int gate = 0; gate < gates; ++gate) {
      longest[unit] = std::max(longest[unit], length_of(unit, gate));
    }
  }
  unit_.resize(units);
  std::iota(unit_.begin(), unit_.end(), 0);
  std::stable_sort(unit_.begin(), unit_.end(), [&](auto a, auto b) { return longest[a] > longest[b]; });
  for (const std::int32_t unit : unit_) {
    std::array<std::uint8_t, kMostGates> order{0, 1, 2, 3};
    std::stable_sort(order.begin(), order.begin() + gates,
                     [&](auto a, auto b) { return length_of(unit, a) > length_of(unit, b); });
    for (int place = 0; place < gates; ++place) {
      gate_.push_back(order[place]);
      length_.push_back(length_of(unit, order[place]));
    }
  }
  longest_ = length_;
  for (std::size_t i = longest_.size() - gates; i-- > 0;) {
    longest_[i] = std::max(longest_[i], longest_[i + gates]);
  }
}

RowProfile RowProfile::from_matrix(const SparseMatrix& matrix) {
  std::vector<int> lengths(matrix.rows);
  for (int row = 0; row < matrix.rows; ++row) {
    lengths[row] = static_cast<int>(matrix.row_begin[row + 1] - matrix.row_begin[row]);
  }
  RowProfile profile(matrix.columns, matrix.rows / matrix.columns, lengths);
  profile.crowded_group_ = find_crowded_group(matrix);
  profile.is_two_four_ = !profile.crowded_group_;
  auto words = std::make_shared<WordMask>(word_mask(matrix));
  const std::int64_t stored =
      std::transform_reduce(words->of_span.begin(), words->of_span.end(), std::int64_t{0}, std::plus<>(),
                            [](std::uint16_t span) { return std::popcount(span); });
  const double all = static_cast<double>(matrix.rows) * ((matrix.columns + 1) / 2);
  profile.word_share_ = static_cast<double>(stored) / std::max(1.0, all);
  profile.words_ = std::move(words);
  profile.shared_->sets = sets_of_matrix(matrix);
  return profile;
}

RowProfile RowProfile::uniform(const Network& network, MaskKind kind) {
  const bool is_two_four = kind == MaskKind::two_four;
  const double mean = network.hidden * network.density;
  double variance = mean * (1 - network.density);
  if (is_two_four) {
    check_two_four_density(network.density);
    const std::array<double, 3> shares = two_four_shares(network.density);
    const double of_group = 4 * network.density;
    variance = network.hidden / 4.0 * (shares[1] + 4 * shares[2] - of_group * of_group);
  }
  const double deviation = std::sqrt(std::max(0.0, variance));
  std::vector<int> lengths(network.rows());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    // Blom's plotting position: the expected i-th largest of so many draws.
    const double below = 1 - (static_cast<double>(i) + 1 - 0.375) / (static_cast<double>(lengths.size()) + 0.25);
    const double length = std::round(mean + deviation * normal_quantile(below));
    lengths[i] = static_cast<int>(std::clamp(length, 0.0, static_cast<double>(network.hidden)));
  }
  shuffle(lengths);
  RowProfile profile(network.hidden, info(network.cell).gates, lengths);
  profile.is_two_four_ = is_two_four;
  const double empty = 1 - network.density;
  profile.word_share_ = 1 - empty * empty;
  return profile;
}

const RowProfile& RowProfile::without_common(PairRoom room) const {
  const std::scoped_lock lock(shared_->mutex);
  if (const auto known = shared_->without_common.find(room); known != shared_->without_common.end()) {
    return known->second;
  }
  std::vector<int> lengths(static_cast<std::size_t>(units_) * gates_);
  const auto length_at = [&](int unit, int gate) -> int& {
    return lengths[static_cast<std::size_t>(gate) * units_ + unit];
  };
  if (shared_->sets.empty()) {
    for (int rank = 0; rank < units_; ++rank) {
      for (int place = 0; place < gates_; ++place) {
        length_at(unit(rank), gate(rank, place)) = length(rank, place);
      }
    }
    shared_->sets = expected_sets(units_, gates_, lengths);
  }
  for (int unit = 0; unit < units_; ++unit) {
    const ColumnSets& sets = shared_->sets[unit];
    const auto left = columns_left(sets, gates_, share_columns(sets, gates_, room));
    for (int gate = 0; gate < gates_; ++gate) {
      length_at(unit, gate) = left[gate];
    }
  }
  RowProfile rest(units_, gates_, lengths);
  rest.is_two_four_ = is_two_four_;
  rest.crowded_group_ = crowded_group_;
  rest.word_share_ = word_share_;
  rest.words_ = words_;
  return shared_->without_common.emplace(room, std::move(rest)).first->second;
}

void check_two_four(const RowProfile& rows) {
  if (!rows.is_two_four()) {
    const std::string found = rows.crowded_group() ? "found that " + describe(*rows.crowded_group())
                                                   : std::string("found a mask of another kind");
    throw InputError("structured_2_4 stores 2:4 masks, at most two non-zeros of every four neighbouring columns: " +
                     found);
  }
}

}  // namespace onchip
