// SPDX-License-Identifier: Apache-2.0
#include "model/workload/row_profile.hpp"

#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
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

}  // namespace

RowProfile::RowProfile(int units, int gates, const std::vector<int>& lengths)
    : units_(units), gates_(gates), nnz_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) {
  const auto length_of = [&](int unit, int gate) { return lengths[static_cast<std::size_t>(gate) * units + unit]; };
  std::vector<int> longest(units);
  for (int unit = 0; unit < units; ++unit) {
    for (int gate = 0; gate < gates; ++gate) {
      longest[unit] = std::max(longest[unit], length_of(unit, gate));
    }
  }
  // By falling length: how many are longer, then each to its place.
  const int most = units > 0 ? *std::ranges::max_element(longest) : 0;
  std::vector<int> place_of(static_cast<std::size_t>(most) + 2, 0);  // [most - length + 1]
  for (const int length : longest) {
    ++place_of[static_cast<std::size_t>(most - length) + 1];
  }
  std::partial_sum(place_of.begin(), place_of.end(), place_of.begin());
  unit_.resize(units);
  for (int unit = 0; unit < units; ++unit) {
    unit_[place_of[static_cast<std::size_t>(most - longest[unit])]++] = unit;
  }
  gate_.reserve(lengths.size());
  length_.reserve(lengths.size());
  for (const std::int32_t unit : unit_) {
    std::array<std::uint8_t, 4> order{0, 1, 2, 3};  // gates
    for (int gate = 1; gate < gates; ++gate) {      // insertion, as gates are few
      for (int place = gate; place > 0 && length_of(unit, order[place]) > length_of(unit, order[place - 1]); --place) {
        std::swap(order[place], order[place - 1]);
      }
    }
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
  return profile;
}

RowProfile RowProfile::uniform(const Recurrent& network, MaskKind kind) {
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
  const auto length_at = [&](std::size_t i) {
    // Blom's plotting position: the expected i-th largest of so many draws.
    const double below = 1 - (static_cast<double>(i) + 1 - 0.375) / (static_cast<double>(lengths.size()) + 0.25);
    const double length = std::round(mean + deviation * normal_quantile(below));
    return static_cast<int>(std::clamp(length, 0.0, static_cast<double>(network.hidden)));
  };
  // They fall, and most are alike: only where they change is looked for.
  for (std::size_t first = 0; first < lengths.size();) {
    const int length = length_at(first);
    std::size_t same = first, other = lengths.size();
    for (std::size_t stride = 1; same + stride < lengths.size(); stride *= 2) {
      if (length_at(same + stride) != length) {
        other = same + stride;
        break;
      }
      same += stride;
    }
    while (other - same > 1) {
      const std::size_t middle = same + (other - same) / 2;
      (length_at(middle) == length ? same : other) = middle;
    }
    std::fill(lengths.begin() + static_cast<std::ptrdiff_t>(first),
              lengths.begin() + static_cast<std::ptrdiff_t>(other), length);
    first = other;
  }
  shuffle(lengths);
  RowProfile profile(network.hidden, info(network.cell).gates, lengths);
  profile.is_two_four_ = is_two_four;
  const double empty = 1 - network.density;
  profile.word_share_ = 1 - empty * empty;
  return profile;
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
