// SPDX-License-Identifier: Apache-2.0
// A sparse recurrent matrix: generated with a seed, or read from a user's file.
#pragma once

#include "model/workload/recurrent.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr int kMaxDimension = 4 * kMaxHidden;  // rows or columns: the gates of the largest LSTM

// Compressed sparse rows; columns ascend within a row and are distinct.
struct SparseMatrix {
  int rows = 0;
  int columns = 0;
  std::vector<std::int64_t> row_begin;  // [rows + 1]
  std::vector<std::int32_t> column;     // [nnz]
  std::vector<float> value;             // [nnz]

  std::int64_t nnz() const { return static_cast<std::int64_t>(column.size()); }
  double density() const { return rows && columns ? static_cast<double>(nnz()) / rows / columns : 0; }
  friend bool operator==(const SparseMatrix&, const SparseMatrix&) = default;
};

enum class MaskKind : std::uint8_t {
  uniform,    // every element present with the same probability
  power_law,  // row lengths fall as rank^-1/2, rows in random order: as uneven as magnitude pruning leaves them
  two_four,   // 2:4: of every four neighbouring columns of a row, the first of them a multiple of four, at most two
};

// By which masks are asked for and written down.
inline constexpr std::array<std::string_view, 3> kMaskNames{"uniform", "power-law", "2:4"};
constexpr std::string_view name(MaskKind mask) {
  return kMaskNames[static_cast<int>(mask)];
}

// [rows, columns] with the given density, the same bytes for the same seed on every machine. Values are uniform with
// variance 1 / (row length), rounded to `precision`, so that a recurrence neither dies nor explodes; none is zero, but
// of fp8 a few in 100000 underflow. Throws InputError if a size is not in 1..kMaxDimension or the density not in 0..1.
//
// two_four: every mask of so many elements that is 2:4 is as likely as any other, so that a group of four has k = 0, 1
// or 2 with a probability proportional to C(4, k) r^k, where r follows from the density; at most 0.5, which is exactly
// two, or InputError. A last group that is not whole is a whole one without what lies beyond the matrix.
SparseMatrix generate_mask(int rows, int columns, double density, std::uint64_t seed, Precision precision,
                           MaskKind kind = MaskKind::uniform);
// The same elements, each of the value 1, in half the time.
SparseMatrix generate_pattern(int rows, int columns, double density, std::uint64_t seed,
                              MaskKind kind = MaskKind::uniform);

// Throws InputError if no 2:4 mask is so dense: above 0.5.
void check_two_four_density(double density);
// Of a generated 2:4 mask: the shares of groups with 0, 1 and 2 non-zeros.
std::array<double, 3> two_four_shares(double density);

// The first group of four neighbouring columns, from a multiple of four on, of which a row has more than two non-zeros;
// nothing: the matrix is 2:4. Elements with the value zero do not count.
struct CrowdedGroup {
  int row = 0, first_column = 0, last_column = 0;
  int nnz = 0;
};
std::optional<CrowdedGroup> find_crowded_group(const SparseMatrix& matrix);
// "row 17 has 3 non-zeros in columns 8 to 11"
std::string describe(const CrowdedGroup& group);

// Which words hold a weight: two neighbouring columns of a row, the first of them even, not both of the value zero.
struct WordMask {
  static constexpr int kSpan = 32;     // columns
  int spans = 0;                       // of a row, the last of which may reach beyond the matrix
  std::vector<std::uint16_t> of_span;  // [rows, spans]: bit i is columns 2 i and 2 i + 1 of the span
};
WordMask word_mask(const SparseMatrix& matrix);

// Rounds every value as the kernels store it: to the type of `precision`, or for fp8 to s * e4m3 with the e4m3_scale s
// of its row. A value that underflows becomes a zero of its sign and stays an element. One too large becomes an
// infinity, and infinities and NaN stay as they are and take no part in the scale, so that the caller can refuse them:
// e4m3 has no infinity. Rounding again changes nothing, also where the scale of the rounded row is another.
void round_weights(SparseMatrix& matrix, Precision precision);

// Elements that are stored but zero, as weights may be that were rounded, are left out.
void drop_zeros(SparseMatrix& matrix);

// Row-major, [rows, columns].
std::vector<float> to_dense(const SparseMatrix& matrix);

SparseMatrix transposed(const SparseMatrix& matrix);

}  // namespace onchip
