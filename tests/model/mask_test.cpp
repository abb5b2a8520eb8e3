// SPDX-License-Identifier: Apache-2.0
#include "model/workload/mask.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

// FNV-1a over everything a mask holds, in little-endian bytes.
std::uint64_t hash(const SparseMatrix& matrix) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      hash = (hash ^ (value >> (8 * i) & 255)) * 0x100000001b3;
    }
  };
  for (const std::int64_t begin : matrix.row_begin) {
    add(static_cast<std::uint64_t>(begin), 8);
  }
  for (const std::int32_t column : matrix.column) {
    add(static_cast<std::uint64_t>(column), 4);
  }
  for (const float value : matrix.value) {
    add(std::bit_cast<std::uint32_t>(value), 4);
  }
  return hash;
}

// The columns of each row ascend within the matrix, and the arrays fit together.
bool well_formed(const SparseMatrix& matrix) {
  if (matrix.row_begin.size() != static_cast<std::size_t>(matrix.rows) + 1 || matrix.row_begin.front() != 0 ||
      matrix.row_begin.back() != matrix.nnz() || matrix.value.size() != matrix.column.size()) {
    return false;
  }
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      const bool ascends = i == matrix.row_begin[row] || matrix.column[i - 1] < matrix.column[i];
      if (!ascends || matrix.column[i] < 0 || matrix.column[i] >= matrix.columns) {
        return false;
      }
    }
  }
  return true;
}

std::int64_t row_length(const SparseMatrix& matrix, int row) {
  return matrix.row_begin[row + 1] - matrix.row_begin[row];
}

// Rounding by looking up the nearest of all finite numbers of a format, ties to the even code: slow and obviously
// right.
class Table {
 public:
  Table(int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (int exponent = 0; exponent < (1 << exponent_bits) - 1; ++exponent) {
      for (int fraction = 0; fraction < 1 << fraction_bits; ++fraction) {
        const int significand = exponent ? fraction + (1 << fraction_bits) : fraction;
        magnitude_.push_back(std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits));
      }
    }
    beyond_ = std::ldexp(1, bias + 1);  // takes part in ties and rounding as the next number would
  }

  const std::vector<double>& magnitudes() const { return magnitude_; }

  float round(float value) const {
    const double magnitude = std::abs(static_cast<double>(value));
    const auto above = std::lower_bound(magnitude_.begin(), magnitude_.end(), magnitude);
    double result = 0;
    if (above == magnitude_.end()) {
      const double last = magnitude_.back();
      result = magnitude - last < beyond_ - magnitude ? last : std::numeric_limits<double>::infinity();
    } else if (*above == magnitude) {
      result = magnitude;
    } else {
      const double below = *(above - 1);
      const bool code_above_is_even = (above - magnitude_.begin()) % 2 == 0;
      const bool up =
          *above - magnitude < magnitude - below || (*above - magnitude == magnitude - below && code_above_is_even);
      result = up ? *above : below;
    }
    return static_cast<float>(std::copysign(result, value));
  }

 private:
  std::vector<double> magnitude_;
  double beyond_;
};

// Rounding is monotonic, so agreement at every number, every midpoint and their fp32 neighbours is agreement
// everywhere.
int count_disagreements(const Table& table, Precision precision) {
  int disagreements = 0;
  const auto check = [&](float value) {
    for (const float sign : {1.0F, -1.0F}) {
      const auto expected = std::bit_cast<std::uint32_t>(table.round(sign * value));
      disagreements += std::bit_cast<std::uint32_t>(round_to(precision, sign * value)) != expected;
    }
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<double>& numbers = table.magnitudes();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double next = i + 1 < numbers.size() ? numbers[i + 1] : 2 * numbers[i] - numbers[i - 1];
    for (const double centre : {numbers[i], (numbers[i] + next) / 2}) {
      const auto value = static_cast<float>(centre);
      check(value);
      check(std::nextafter(value, 0.0F));
      check(std::nextafter(value, kInfinity));
    }
  }
  return disagreements;
}

std::string error_of(int rows, int columns, double density, MaskKind kind = MaskKind::uniform) {
  try {
    generate_mask(rows, columns, density, 1, Precision::fp16, kind);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a seed gives the same mask on every machine", "[mask][fast]") {
  CHECK(hash(generate_mask(61, 127, 0.3, 1, Precision::fp16)) == 0x15530206ac95e81d);
  CHECK(hash(generate_mask(61, 127, 0.3, 1, Precision::bf16, MaskKind::power_law)) == 0x57958790f2f53c2c);
  CHECK(hash(generate_mask(500, 499, 0.05, 2, Precision::fp32, MaskKind::power_law)) == 0xea174b9f2ce29ffe);
  CHECK(hash(generate_mask(61, 127, 0.3, 1, Precision::fp16, MaskKind::two_four)) == 0xdbdb4af74f40c64e);
  CHECK(hash(generate_mask(40, 130, 0.1, 3, Precision::bf16, MaskKind::two_four)) == 0xb8a8d7fbe188b78c);
}

TEST_CASE("another seed gives another mask, another precision the same columns", "[mask][fast]") {
  const SparseMatrix mask = generate_mask(64, 64, 0.5, 1, Precision::fp16);
  CHECK(generate_mask(64, 64, 0.5, 1, Precision::fp16) == mask);
  CHECK(generate_mask(64, 64, 0.5, 2, Precision::fp16).column != mask.column);
  CHECK(generate_mask(64, 64, 0.5, 1, Precision::fp32).column == mask.column);
}

TEST_CASE("rows of a uniform mask do not depend on how many there are", "[mask][fast]") {
  const SparseMatrix all = generate_mask(50, 77, 0.4, 9, Precision::fp16);
  const SparseMatrix some = generate_mask(20, 77, 0.4, 9, Precision::fp16);
  CHECK(std::equal(some.column.begin(), some.column.end(), all.column.begin()));
  CHECK(std::equal(some.value.begin(), some.value.end(), all.value.begin()));
}

TEST_CASE("a mask has the density asked for", "[mask][fast]") {
  for (const MaskKind kind : {MaskKind::uniform, MaskKind::power_law}) {
    for (const double density : {0.01, 0.1, 0.3, 0.5, 0.9, 0.999}) {
      const SparseMatrix mask = generate_mask(1009, 997, density, 3, Precision::fp16, kind);
      CAPTURE(density, kind == MaskKind::uniform);
      CHECK(well_formed(mask));
      // Five standard deviations of a uniform mask; unequal rows only lower the variance.
      const double deviation = std::sqrt(density * (1 - density) / (1009.0 * 997));
      CHECK(std::abs(mask.density() - density) < 5 * deviation);
    }
  }
}

TEST_CASE("a 2:4 mask has at most two elements of every four columns, and half of all if asked for", "[mask][fast]") {
  for (const int columns : {1, 2, 3, 4, 127, 128, 997}) {
    for (const double density : {0.01, 0.2, 0.25, 0.3, 0.49, 0.5}) {
      const SparseMatrix mask = generate_mask(500, columns, density, 3, Precision::fp16, MaskKind::two_four);
      CAPTURE(columns, density);
      CHECK(well_formed(mask));
      CHECK_FALSE(find_crowded_group(mask));
      const double elements = 500.0 * columns;  // five standard deviations, which others of the group only lower
      CHECK(std::abs(mask.density() - density) <= 5 * std::sqrt(density * (1 - density) / elements));
      for (int row = 0; density == 0.5 && row < 500; ++row) {
        std::vector<int> count(columns / 4 + 1);
        for (std::int64_t i = mask.row_begin[row]; i < mask.row_begin[row + 1]; ++i) {
          ++count[mask.column[i] / 4];
        }
        CHECK(std::all_of(count.begin(), count.end() - 1, [](int n) { return n == 2; }));
      }
    }
  }
}

TEST_CASE("2:4 masks of as many elements are equally likely", "[mask][fast]") {
  for (const double density : {0.05, 0.25, 0.4, 0.5}) {
    CAPTURE(density);
    const std::array<double, 3> shares = two_four_shares(density);
    CHECK(std::abs(shares[0] + shares[1] + shares[2] - 1) < 1e-14);
    CHECK(std::abs(shares[1] + 2 * shares[2] - 4 * density) < 1e-14);
    // Of 4 and 6 ways to have one and two: all that the number of elements leaves open.
    CHECK(std::abs(shares[0] * shares[2] / 6 - shares[1] * shares[1] / 16) < 1e-14);

    constexpr int kRows = 2000, kColumns = 400;
    const SparseMatrix mask = generate_mask(kRows, kColumns, density, 5, Precision::fp16, MaskKind::two_four);
    std::array<double, 16> found{};
    for (int row = 0; row < kRows; ++row) {
      std::array<unsigned, kColumns / 4> groups{};
      for (std::int64_t i = mask.row_begin[row]; i < mask.row_begin[row + 1]; ++i) {
        groups[mask.column[i] / 4] |= 1u << mask.column[i] % 4;
      }
      for (const unsigned group : groups) {
        ++found[group];
      }
    }
    for (unsigned group = 0; group < 16; ++group) {
      const int bits = std::popcount(group);
      constexpr double kWays[] = {1, 4, 6};
      const double share = bits > 2 ? 0 : shares[bits] / kWays[bits], all = kRows * kColumns / 4;
      CAPTURE(group);
      CHECK(std::abs(found[group] - share * all) <= 5 * std::sqrt(share * (1 - share) * all));
    }
  }
}

TEST_CASE("a mask that is not 2:4 is told by its first group of more than two", "[mask][fast]") {
  SparseMatrix mask{3, 11, {0, 4, 8, 12}, {1, 2, 4, 9, 0, 3, 8, 10, 2, 8, 9, 10}, std::vector<float>(12, 1)};
  const std::optional<CrowdedGroup> found = find_crowded_group(mask);
  REQUIRE(found);
  CHECK(describe(*found) == "row 2 has 3 non-zeros in columns 8 to 10");
  CHECK(found->nnz == 3);
  mask.value[9] = 0;  // not one that counts
  CHECK_FALSE(find_crowded_group(mask));
  mask.column[2] = 3;  // four neighbours, but of two groups
  CHECK(describe(find_crowded_group(mask).value()) == "row 0 has 3 non-zeros in columns 0 to 3");
  CHECK_FALSE(find_crowded_group(generate_mask(30, 4, 0, 1, Precision::fp16)));
  CHECK(find_crowded_group(generate_mask(30, 40, 0.5, 1, Precision::fp16)));
}

TEST_CASE("density 1 gives every element and density 0 none", "[mask][fast]") {
  for (const MaskKind kind : {MaskKind::uniform, MaskKind::power_law}) {
    const SparseMatrix full = generate_mask(13, 31, 1, 5, Precision::fp32, kind);
    CHECK(well_formed(full));
    CHECK(full.nnz() == 13 * 31);
    const SparseMatrix empty = generate_mask(13, 31, 0, 5, Precision::fp32, kind);
    CHECK(well_formed(empty));
    CHECK(empty.nnz() == 0);
  }
  CHECK(generate_mask(1, 1, 1, 5, Precision::fp32).nnz() == 1);
}

TEST_CASE("elements of a uniform mask are independent of their row and column", "[mask][fast]") {
  // Row and column counts are binomial: their variance, summed over 1000 of each, is known within 10 %.
  constexpr int kSize = 1000;
  const SparseMatrix mask = generate_mask(kSize, kSize, 0.3, 11, Precision::fp16);
  std::vector<int> in_column(kSize);
  for (const int column : mask.column) {
    ++in_column[column];
  }
  double row_variance = 0;
  double column_variance = 0;
  for (int i = 0; i < kSize; ++i) {
    row_variance += std::pow(static_cast<double>(row_length(mask, i)) - 300, 2) / kSize;
    column_variance += std::pow(in_column[i] - 300.0, 2) / kSize;
  }
  CHECK_THAT(row_variance, WithinRel(210.0, 0.2));
  CHECK_THAT(column_variance, WithinRel(210.0, 0.2));
}

TEST_CASE("row lengths of a power-law mask fall as the square root of their rank", "[mask][fast]") {
  constexpr int kRows = 1024;
  const SparseMatrix mask = generate_mask(kRows, 4096, 0.1, 7, Precision::fp16, MaskKind::power_law);
  std::vector<double> length;
  for (int row = 0; row < kRows; ++row) {
    length.push_back(static_cast<double>(row_length(mask, row)));
  }
  CHECK_FALSE(std::is_sorted(length.begin(), length.end(), std::greater<>()));  // rows are in random order
  std::sort(length.begin(), length.end(), std::greater<>());
  CHECK(length[0] == 4096);  // capped
  CHECK_THAT(length[99] / length[399], WithinRel(2.0, 0.1));
  CHECK_THAT(length[249] / length[999], WithinRel(2.0, 0.1));
}

TEST_CASE("values have variance 1 / row length and are never zero", "[mask][fast]") {
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    const SparseMatrix mask = generate_mask(300, 2000, 0.25, 17, precision, MaskKind::power_law);
    double sum = 0;
    double squares = 0;
    bool in_range = true;
    for (int row = 0; row < mask.rows; ++row) {
      const auto length = static_cast<double>(row_length(mask, row));
      for (std::int64_t i = mask.row_begin[row]; i < mask.row_begin[row + 1]; ++i) {
        const float value = mask.value[i];
        in_range &= value != 0 && std::abs(value) <= round_to(precision, static_cast<float>(std::sqrt(3 / length)));
        in_range &= round_to(precision, value) == value;
        sum += value * std::sqrt(length);
        squares += value * value * length;
      }
    }
    CHECK(in_range);
    CHECK(std::abs(sum / static_cast<double>(mask.nnz())) < 0.02);
    CHECK_THAT(squares / static_cast<double>(mask.nnz()), WithinRel(1.0, 0.02));
  }
}

TEST_CASE("even a value that rounds to zero in half is replaced", "[mask][fast]") {
  // 10 M values below 0.0055: some 50 of them are under 2^-25, where half rounds to zero.
  const SparseMatrix mask = generate_mask(100, 100000, 1, 23, Precision::fp16);
  CHECK(std::count(mask.value.begin(), mask.value.end(), 0.0F) == 0);
}

TEST_CASE("impossible masks are refused", "[mask][fast]") {
  const std::string kMost = std::to_string(kMaxDimension);
  const std::string kTooMany = std::to_string(kMaxDimension + 1);
  CHECK(error_of(0, 5, 0.5) == "a matrix cannot have 0 rows; expected 1 to " + kMost);
  CHECK(error_of(5, kMaxDimension + 1, 0.5) == "a matrix cannot have " + kTooMany + " columns; expected 1 to " + kMost);
  CHECK(error_of(5, -1, 0.5) == "a matrix cannot have -1 columns; expected 1 to " + kMost);
  CHECK(error_of(5, 5, 1.5) == "density 1.5 is outside 0 to 1");
  CHECK(error_of(5, 5, -0.1) == "density -0.1 is outside 0 to 1");
  CHECK(error_of(5, 5, std::nan("")) == "density nan is outside 0 to 1");
  CHECK(error_of(5, 5, 0.6, MaskKind::two_four) == "a 2:4 mask has at most half of all weights, found density 0.6");
}

TEST_CASE("a mask of fp8 weights has the elements of any other", "[mask][fast]") {
  const SparseMatrix mask = generate_mask(300, 2000, 0.25, 17, Precision::fp8, MaskKind::power_law);
  const SparseMatrix half = generate_mask(300, 2000, 0.25, 17, Precision::fp16, MaskKind::power_law);
  CHECK(well_formed(mask));
  CHECK(mask.column == half.column);
  CHECK(hash(generate_mask(61, 127, 0.3, 1, Precision::fp8)) == 0xae5f03d9b840bfe9);
  SparseMatrix again = mask;
  round_weights(again, Precision::fp8);
  CHECK(hash(again) == hash(mask));
  CHECK(mask.value != half.value);
  double squares = 0;
  std::int64_t zeros = 0;
  for (int row = 0; row < mask.rows; ++row) {
    for (std::int64_t i = mask.row_begin[row]; i < mask.row_begin[row + 1]; ++i) {
      squares += mask.value[i] * mask.value[i] * static_cast<double>(row_length(mask, row));
      zeros += mask.value[i] == 0;
    }
  }
  CHECK_THAT(squares / static_cast<double>(mask.nnz()), WithinRel(1.0, 0.02));
  CHECK(zeros < mask.nnz() / 5000);
  CHECK(zeros > 0);
}

namespace {

// One matrix row per list.
SparseMatrix from_rows(const std::vector<std::vector<float>>& rows) {
  SparseMatrix matrix{static_cast<int>(rows.size()), 0, {0}, {}, {}};
  for (const std::vector<float>& row : rows) {
    for (const float value : row) {
      matrix.column.push_back(static_cast<std::int32_t>(matrix.column.size() - matrix.row_begin.back()));
      matrix.value.push_back(value);
    }
    matrix.row_begin.push_back(matrix.nnz());
    matrix.columns = std::max(matrix.columns, static_cast<int>(row.size()));
  }
  return matrix;
}

std::vector<float> rounded_row(const std::vector<float>& row) {
  SparseMatrix matrix = from_rows({row});
  round_weights(matrix, Precision::fp8);
  return matrix.value;
}

// Rows of every size of numbers that fp32 has, even or spread over many powers of two, and with zeros among them.
SparseMatrix awkward_rows() {
  std::mt19937 random(5);
  const auto uniform = [&](double from, double to) {
    return from + (to - from) * static_cast<double>(random()) * 0x1p-32;
  };
  std::vector<std::vector<float>> rows{{}, {0, 0}, {std::numeric_limits<float>::denorm_min()}};
  for (int i = 0; i < 3000; ++i) {
    const double largest = uniform(-149, 126);
    const double spread = i % 3 == 0 ? 0 : uniform(0, i % 3 == 1 ? 14 : 60);
    std::vector<float> row;
    for (int k = static_cast<int>(random() % 40); k >= 0; --k) {
      const double significand = uniform(-2, 2);
      const double exponent = largest - uniform(0, spread);
      row.push_back(random() % 16 == 0 ? 0 : static_cast<float>(std::exp2(exponent) * significand));
    }
    rows.push_back(row);
  }
  return from_rows(rows);
}

float largest_of(const SparseMatrix& matrix, int row) {
  float largest = 0;
  for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
    largest = std::max(largest, std::abs(matrix.value[i]));
  }
  return largest;
}

}  // namespace

TEST_CASE("weights of fp8 become the nearest numbers of their row's scale", "[mask][fast]") {
  const SparseMatrix before = awkward_rows();
  SparseMatrix after = before;
  round_weights(after, Precision::fp8);
  CHECK(after.column == before.column);
  CHECK(after.row_begin == before.row_begin);
  int wrong = 0;
  for (int row = 0; row < before.rows; ++row) {
    const double scale = e4m3_scale(largest_of(before, row));
    for (std::int64_t i = before.row_begin[row]; i < before.row_begin[row + 1]; ++i) {
      const double value = before.value[i];
      double nearest = std::numeric_limits<double>::infinity();
      bool exists = false;
      for (int code = 0; code < 0x7f; ++code) {
        const double candidate = std::copysign(scale * from_e4m3(static_cast<std::uint8_t>(code)), value);
        nearest = std::min(nearest, std::abs(candidate - value));
        exists |= candidate == after.value[i];
      }
      wrong += !exists || std::abs(after.value[i] - value) != nearest;
      wrong += std::signbit(after.value[i]) != std::signbit(before.value[i]);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("rounding weights twice is rounding them once, also at the new scale", "[mask][fast]") {
  SparseMatrix once = awkward_rows();
  std::vector<float> scale_before(once.rows);
  for (int row = 0; row < once.rows; ++row) {
    scale_before[row] = e4m3_scale(largest_of(once, row));
  }
  round_weights(once, Precision::fp8);
  SparseMatrix twice = once;
  round_weights(twice, Precision::fp8);
  CHECK(hash(twice) == hash(once));  // of bits: -0 is not 0
  int wrong = 0, other_scales = 0;
  for (int row = 0; row < once.rows; ++row) {
    const float scale = e4m3_scale(largest_of(once, row));
    other_scales += scale != scale_before[row];
    for (std::int64_t i = once.row_begin[row]; i < once.row_begin[row + 1]; ++i) {
      const float stored = scale * from_e4m3(to_e4m3(once.value[i] / scale));
      wrong += std::bit_cast<std::uint32_t>(stored) != std::bit_cast<std::uint32_t>(once.value[i]);
      wrong += std::abs(once.value[i] / scale) > 28;
    }
  }
  CHECK(wrong == 0);
  CHECK(other_scales > 30);  // else this test had not met what it is about
}

TEST_CASE("the largest weight of a row may round down to another scale", "[mask][fast]") {
  CHECK(rounded_row({14.25F, 0x1p-9F, 0x1.8p-9F}) == std::vector<float>{14, 0x1p-9F, 0x1p-8F});
  CHECK(e4m3_scale(14.25F) == 1);
  CHECK(e4m3_scale(14) == 0.5F);
  CHECK(rounded_row({14, 0x1p-9F, 0x1.8p-9F}) == std::vector<float>{14, 0x1p-9F, 0x1.8p-9F});
}

TEST_CASE("weights of fp8 that underflow stay elements", "[mask][fast]") {
  const std::vector<float> row = rounded_row({28, 0x1p-10F, -0x1p-10F, 0x1.000002p-10F, 1e-30F});
  CHECK(row == std::vector<float>{28, 0, 0, 0x1p-9F, 0});
  CHECK(std::signbit(row.at(2)));
}

TEST_CASE("weights that fp8 cannot hold stay infinite or NaN for the caller to refuse", "[mask][fast]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> row = rounded_row({kInfinity, -kInfinity, std::nanf(""), 1, 0.3F});
  CHECK(row.at(0) == kInfinity);
  CHECK(row.at(1) == -kInfinity);
  CHECK(std::isnan(row.at(2)));
  CHECK(row.at(3) == 1);
  CHECK(row.at(4) == 0.3125F);  // the scale is that of the 1
  CHECK(rounded_row({std::numeric_limits<float>::max()}) == std::vector<float>{kInfinity});
}

TEST_CASE("weights of the other types are rounded one by one", "[mask][fast]") {
  const SparseMatrix before = awkward_rows();
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    SparseMatrix expected = before;
    for (float& value : expected.value) {
      value = round_to(precision, value);
    }
    SparseMatrix got = before;
    round_weights(got, precision);
    CHECK(hash(got) == hash(expected));
  }
}

TEST_CASE("rounding to half finds the nearest of all halves, ties to even", "[mask][fast]") {
  CHECK(count_disagreements(Table(5, 10), Precision::fp16) == 0);
}

TEST_CASE("rounding to bf16 finds the nearest of all bf16 numbers, ties to even", "[mask][fast]") {
  CHECK(count_disagreements(Table(8, 7), Precision::bf16) == 0);
}

TEST_CASE("rounding keeps infinities, signs and NaN, and fp32 as it is", "[mask][fast]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    CHECK(round_to(precision, kInfinity) == kInfinity);
    CHECK(round_to(precision, -kInfinity) == -kInfinity);
    CHECK(std::signbit(round_to(precision, -0.0F)));
    // Every NaN, also one whose payload lies in the bits that are dropped.
    CHECK(std::isnan(round_to(precision, std::bit_cast<float>(0x7f800001U))));
    CHECK(std::isnan(round_to(precision, std::bit_cast<float>(0xffffffffU))));
  }
  CHECK(round_to(Precision::fp16, 65519.0F) == 65504.0F);
  CHECK(round_to(Precision::fp16, 65520.0F) == kInfinity);
  CHECK(round_to(Precision::bf16, std::numeric_limits<float>::max()) == kInfinity);
  CHECK(round_to(Precision::fp16, 0x1p-25F) == 0);
  CHECK(round_to(Precision::fp16, 0x1.000002p-25F) == 0x1p-24F);
  CHECK(round_to(Precision::fp32, 0x1.fffffep-3F) == 0x1.fffffep-3F);
}

#ifdef __FLT16_MAX__
TEST_CASE("rounding to half agrees with the compiler on one in 997 floats", "[mask][fast]") {
  std::int64_t disagreements = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 997) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const auto expected = static_cast<float>(static_cast<_Float16>(value));
    const float got = round_to(Precision::fp16, value);
    disagreements += std::isnan(expected) ? !std::isnan(got)
                                          : std::bit_cast<std::uint32_t>(got) != std::bit_cast<std::uint32_t>(expected);
  }
  CHECK(disagreements == 0);
}
#endif
