// SPDX-License-Identifier: Apache-2.0
// Weights as their types hold them.
#include "model/workload/mask.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "tests/catch.hpp"
#include "tests/model/workload/mask_hash.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

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

TEST_CASE("rounding to half and bf16 finds the nearest of all their numbers, ties to even", "[mask][fast]") {
  CHECK(count_disagreements(Table(5, 10), Precision::fp16) == 0);
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
  CHECK(round_to(Precision::fp32, 0x1.fffffep-3F) == 0x1.fffffep-3F);
}
