// SPDX-License-Identifier: Apache-2.0
#include "model/workload/mask.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <sstream>

namespace onchip {
namespace {

// A probability as the number of 32-bit draws, of 2^32, that select an element: kCertain selects every element.
using Chance = std::uint64_t;
constexpr Chance kCertain = Chance{1} << 32;
constexpr std::uint64_t kRowOrderStream = std::numeric_limits<std::uint64_t>::max();

// One chance per rank 1, 2, ..., proportional to rank^-1/2, capped at kCertain, with the mean `mean` (but for
// rounding). The arithmetic is exact or correctly rounded, one operation at a time, so that every machine gets the same
// chances.
std::vector<Chance> power_law(int rows, Chance mean) {
  std::vector<double> weight(rows);
  std::vector<double> weight_from(rows + 1);  // sum of the weights of this row and all later ones
  for (int row = rows - 1; row >= 0; --row) {
    weight[row] = 1 / std::sqrt(row + 1.0);
    weight_from[row] = weight_from[row + 1] + weight[row];
  }
  std::vector<Chance> chance(rows, kCertain);
  Chance left = mean * static_cast<Chance>(rows);  // < 2^51: exact as a double
  int row = 0;
  // Every row that the scale would push over the cap is certain; the others share what is left.
  while (row < rows && static_cast<double>(left) / weight_from[row] * weight[row] >= static_cast<double>(kCertain)) {
    left -= kCertain;
    ++row;
  }
  if (row < rows) {
    const double scale = static_cast<double>(left) / weight_from[row];
    for (; row < rows; ++row) {
      chance[row] = std::min(kCertain, static_cast<Chance>(std::llround(scale * weight[row])));
    }
  }
  return chance;
}

// Writes the columns of one row to `column`, which has room for `columns` of them, and returns their number.
int draw_columns(int columns, Chance chance, Random& random, std::int32_t* column) {
  if (chance == kCertain) {
    std::iota(column, column + columns, 0);
    return columns;
  }
  if (chance == 0) {
    return 0;
  }
  // No branch on the outcome: at densities between 5 and 95 % it would be mispredicted too often.
  int count = 0;
  int c = 0;
  for (; c + 1 < columns; c += 2) {
    const std::uint64_t draws = random();
    column[count] = c;
    count += (draws >> 32) < chance;
    column[count] = c + 1;
    count += (draws & 0xffffffff) < chance;
  }
  if (c < columns) {
    column[count] = c;
    count += (random() >> 32) < chance;
  }
  return count;
}

// How many of its four columns a group of a 2:4 mask has.
struct GroupChances {
  Chance none = 0, at_most_one = 0;
};
GroupChances group_chances(double density) {
  const std::array<double, 3> shares = two_four_shares(density);
  const auto chance = [](double share) { return static_cast<Chance>(std::llround(share * 0x1p32)); };
  return {chance(shares[0]), chance(shares[0] + shares[1])};
}

// As draw_columns.
int draw_two_four(int columns, const GroupChances& chances, Random& random, std::int32_t* column) {
  constexpr std::array<std::array<std::int32_t, 2>, 6> kPairs{{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}};
  int count = 0;
  for (int first = 0; first < columns; first += 4) {
    const std::uint64_t draws = random(), upper = draws >> 32, lower = draws & 0xffffffff;
    const int taken = (upper >= chances.none) + (upper >= chances.at_most_one);
    const std::array<std::int32_t, 2> places =
        taken == 1 ? std::array{static_cast<std::int32_t>(lower >> 30), 0} : kPairs[lower * kPairs.size() >> 32];
    for (int i = 0; i < taken; ++i) {
      column[count] = first + places[i];
      count += first + places[i] < columns;
    }
  }
  return count;
}

// Uniform on (-bound, bound), but never zero in `precision`.
float draw_value(double bound, Precision precision, Random& random) {
  for (;;) {
    // An odd multiple of 2^-24, so that the sign is fair and zero does not occur.
    const int odd = 2 * static_cast<int>(random() >> 40) + 1 - (1 << 24);
    const float value = round_to(precision, static_cast<float>(odd * 0x1p-24 * bound));
    if (value != 0) {
      return value;
    }
  }
}

void check_size(std::string_view what, int size) {
  if (size < 1 || size > kMaxDimension) {
    throw InputError("a matrix cannot have " + std::to_string(size) + " " + std::string(what) + "; expected 1 to " +
                     std::to_string(kMaxDimension));
  }
}

}  // namespace

void check_two_four_density(double density) {
  if (density > 0.5) {
    std::ostringstream message;
    message << "a 2:4 mask has at most half of all weights, found density " << density;
    throw InputError(message.str());
  }
}

// With the mean 4 * density of k, (3 - 6 density) r^2 + (1 - 4 density) r - density = 0. Every operation is correctly
// rounded, and fused only where that is written, so that every machine gets the same.
std::array<double, 3> two_four_shares(double density) {
  if (density == 0.5) {
    return {0, 0, 1};
  }
  const double a = std::fma(-6, density, 3), b = std::fma(-4, density, 1);
  const double a_c = a * density;
  const double root = std::sqrt(std::fma(b, b, 4 * a_c));
  // Of the two forms of a root the one that does not cancel.
  const double r = b > 0 ? 2 * density / (b + root) : (root - b) / (2 * a);
  const double square = r * r;
  const double all = std::fma(6, square, 1 + 4 * r);
  return {1 / all, 4 * r / all, 6 * square / all};
}

namespace {

// `draw(count, random, values)`: appends the values of a row.
template <typename Draw>
SparseMatrix generate(int rows, int columns, double density, std::uint64_t seed, MaskKind kind, const Draw& draw) {
  check_size("rows", rows);
  check_size("columns", columns);
  if (!(density >= 0 && density <= 1)) {
    std::ostringstream message;
    message << "density " << density << " is outside 0 to 1";
    throw InputError(message.str());
  }
  const auto mean = static_cast<Chance>(std::llround(density * static_cast<double>(kCertain)));
  std::vector<Chance> chance(rows, mean);
  if (kind == MaskKind::power_law) {
    chance = power_law(rows, mean);
    Random random(seed, kRowOrderStream);
    shuffle(chance, random);
  }

  GroupChances groups;
  if (kind == MaskKind::two_four) {
    check_two_four_density(density);
    groups = group_chances(density);
  }

  SparseMatrix matrix{rows, columns, {}, {}, {}};
  matrix.row_begin.reserve(rows + 1);
  matrix.row_begin.push_back(0);
  // Six standard deviations over the mean: a second allocation of this size is never seen.
  const double elements = static_cast<double>(rows) * columns;
  const double deviation = std::sqrt(elements * density * (1 - density));
  const auto likely = static_cast<std::size_t>(std::min(elements, elements * density + 6 * deviation));
  matrix.column.reserve(likely);
  matrix.value.reserve(likely);

  std::vector<std::int32_t> row_columns(columns + 1);  // what is drawn in vain is written, too
  for (int row = 0; row < rows; ++row) {
    Random random(seed, static_cast<std::uint64_t>(row));
    const int count = kind == MaskKind::two_four ? draw_two_four(columns, groups, random, row_columns.data())
                                                 : draw_columns(columns, chance[row], random, row_columns.data());
    matrix.column.insert(matrix.column.end(), row_columns.begin(), row_columns.begin() + count);
    matrix.row_begin.push_back(matrix.nnz());
    draw(count, random, matrix.value);
  }
  return matrix;
}

}  // namespace

SparseMatrix generate_mask(int rows, int columns, double density, std::uint64_t seed, Precision precision,
                           MaskKind kind) {
  SparseMatrix matrix =
      generate(rows, columns, density, seed, kind, [&](int count, Random& random, std::vector<float>& values) {
        const double bound = std::sqrt(3.0 / count);  // the variance of a uniform number on (-b, b) is b^2 / 3
        for (int i = 0; i < count; ++i) {
          values.push_back(draw_value(bound, precision, random));
        }
      });
  if (precision == Precision::fp8) {  // the others are rounded as they are drawn
    round_weights(matrix, precision);
  }
  return matrix;
}

SparseMatrix generate_pattern(int rows, int columns, double density, std::uint64_t seed, MaskKind kind) {
  return generate(rows, columns, density, seed, kind, [](int count, Random&, std::vector<float>& values) {
    values.insert(values.end(), static_cast<std::size_t>(count), 1.0F);
  });
}

std::optional<CrowdedGroup> find_crowded_group(const SparseMatrix& matrix) {
  for (int row = 0; row < matrix.rows; ++row) {
    int group = -1, count = 0;
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      const int in_group = matrix.column[i] / 4;
      count = (in_group == group ? count : 0) + (matrix.value[i] != 0);
      group = in_group;
      const bool is_last = i + 1 == matrix.row_begin[row + 1] || matrix.column[i + 1] / 4 != group;
      if (is_last && count > 2) {
        return CrowdedGroup{row, 4 * group, std::min(4 * group + 3, matrix.columns - 1), count};
      }
    }
  }
  return std::nullopt;
}

std::string describe(const CrowdedGroup& group) {
  return "row " + std::to_string(group.row) + " has " + std::to_string(group.nnz) + " non-zeros in columns " +
         std::to_string(group.first_column) + " to " + std::to_string(group.last_column);
}

WordMask word_mask(const SparseMatrix& matrix) {
  WordMask mask;
  mask.spans = (matrix.columns + WordMask::kSpan - 1) / WordMask::kSpan;
  mask.of_span.resize(static_cast<std::size_t>(matrix.rows) * mask.spans);
  for (int row = 0; row < matrix.rows; ++row) {
    std::uint16_t* const spans = mask.of_span.data() + static_cast<std::size_t>(row) * mask.spans;
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
      if (matrix.value[e] != 0) {
        const int column = matrix.column[e];
        spans[column / WordMask::kSpan] |= static_cast<std::uint16_t>(1u << column % WordMask::kSpan / 2);
      }
    }
  }
  return mask;
}

void round_weights(SparseMatrix& matrix, Precision precision) {
  if (precision != Precision::fp8) {
    for (float& value : matrix.value) {
      value = round_to(precision, value);
    }
    return;
  }
  for (int row = 0; row < matrix.rows; ++row) {
    const std::span<float> values(matrix.value.data() + matrix.row_begin[row],
                                  matrix.value.data() + matrix.row_begin[row + 1]);
    float largest = 0;
    for (const float value : values) {
      if (std::isfinite(value)) {
        largest = std::max(largest, std::abs(value));
      }
    }
    const float scale = e4m3_scale(largest);
    for (float& value : values) {
      if (std::isfinite(value)) {
        value = scale * from_e4m3(to_e4m3(value / scale));  // a power of two: only to_e4m3 rounds
      }
    }
  }
}

void drop_zeros(SparseMatrix& matrix) {
  std::int64_t kept = 0, begin = 0;
  for (int row = 0; row < matrix.rows; ++row) {
    const std::int64_t end = matrix.row_begin[row + 1];
    for (std::int64_t i = begin; i < end; ++i) {
      if (matrix.value[i] != 0) {
        matrix.column[kept] = matrix.column[i];
        matrix.value[kept++] = matrix.value[i];
      }
    }
    begin = end;
    matrix.row_begin[row + 1] = kept;
  }
  matrix.column.resize(static_cast<std::size_t>(kept));
  matrix.value.resize(static_cast<std::size_t>(kept));
}

std::vector<float> to_dense(const SparseMatrix& matrix) {
  std::vector<float> dense(static_cast<std::size_t>(matrix.rows) * matrix.columns, 0.0f);
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      dense[static_cast<std::size_t>(row) * matrix.columns + matrix.column[i]] = matrix.value[i];
    }
  }
  return dense;
}

SparseMatrix transposed(const SparseMatrix& matrix) {
  SparseMatrix result{matrix.columns, matrix.rows, {}, {}, {}};
  result.row_begin.assign(static_cast<std::size_t>(matrix.columns) + 1, 0);
  for (const std::int32_t column : matrix.column) {
    ++result.row_begin[column + 1];
  }
  std::partial_sum(result.row_begin.begin(), result.row_begin.end(), result.row_begin.begin());
  result.column.resize(matrix.column.size());
  result.value.resize(matrix.value.size());
  std::vector<std::int64_t> next(result.row_begin.begin(), result.row_begin.end() - 1);
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      const std::int64_t place = next[matrix.column[i]]++;
      result.column[place] = row;
      result.value[place] = matrix.value[i];
    }
  }
  return result;
}

}  // namespace onchip
