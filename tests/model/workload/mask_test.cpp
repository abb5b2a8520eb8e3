// SPDX-License-Identifier: Apache-2.0
#include "model/workload/mask.hpp"

#include "model/base/numeric.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/model/workload/mask_hash.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

using namespace onchip;
using Catch::Matchers::WithinRel;

namespace {

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

std::string mask_error(int rows, int columns, double density, MaskKind kind = MaskKind::uniform) {
  return error_of([&] { generate_mask(rows, columns, density, 1, Precision::fp16, kind); });
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
  // 10 M values below 0.0055: some 50 of them are under 2^-25, where half rounds to zero. In fp32 the same values are
  // drawn, in each row up to the first that is drawn once more.
  const SparseMatrix mask = generate_mask(100, 100000, 1, 23, Precision::fp16);
  const SparseMatrix drawn = generate_mask(100, 100000, 1, 23, Precision::fp32);
  REQUIRE(drawn.row_begin == mask.row_begin);
  int replaced = 0, wrong = 0;
  for (int row = 0; row < mask.rows; ++row) {
    for (std::int64_t i = mask.row_begin[row]; i < mask.row_begin[row + 1]; ++i) {
      const float rounded = round_to(Precision::fp16, drawn.value[i]);
      if (rounded == 0) {
        ++replaced;
        break;
      }
      wrong += mask.value[i] != rounded;
    }
  }
  CHECK(wrong == 0);
  CHECK(replaced > 20);
  CHECK(std::count(mask.value.begin(), mask.value.end(), 0.0F) == 0);
}

TEST_CASE("impossible masks are refused", "[mask][fast]") {
  const std::string kMost = std::to_string(kMaxDimension);
  const std::string kTooMany = std::to_string(kMaxDimension + 1);
  CHECK(mask_error(0, 5, 0.5) == "a matrix cannot have 0 rows; expected 1 to " + kMost);
  CHECK(mask_error(5, kMaxDimension + 1, 0.5) ==
        "a matrix cannot have " + kTooMany + " columns; expected 1 to " + kMost);
  CHECK(mask_error(5, -1, 0.5) == "a matrix cannot have -1 columns; expected 1 to " + kMost);
  CHECK(mask_error(5, 5, 1.5) == "density 1.5 is outside 0 to 1");
  CHECK(mask_error(5, 5, -0.1) == "density -0.1 is outside 0 to 1");
  CHECK(mask_error(5, 5, std::nan("")) == "density nan is outside 0 to 1");
  CHECK(mask_error(5, 5, 0.6, MaskKind::two_four) == "a 2:4 mask has at most half of all weights, found density 0.6");
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
