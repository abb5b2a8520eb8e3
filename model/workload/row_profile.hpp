// SPDX-License-Identifier: Apache-2.0
// What a planner must know of a mask: how long its rows are, whether it is 2:4, and which pairs of columns are empty.
#pragma once

#include "model/workload/mask.hpp"
#include "model/workload/recurrent.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace onchip {

// The rows of each hidden unit by falling length, the gate that comes first before its equals; the units by falling
// length of their longest row, likewise. A unit's rank is its number in this order, a row's place its number in its
// unit.
class RowProfile {
 public:
  static RowProfile from_matrix(const SparseMatrix& matrix);
  // A typical random mask whose rows are alike, uniform or two_four: lengths at equal steps of probability (normal
  // approximation of their distribution), assigned to units and gates by a fixed shuffle. Throws InputError if a 2:4
  // mask cannot be that dense.
  static RowProfile uniform(const Recurrent& network, MaskKind kind = MaskKind::uniform);

  int units() const { return units_; }
  int gates() const { return gates_; }
  std::int64_t nnz() const { return nnz_; }
  std::int32_t unit(int rank) const { return unit_[rank]; }
  int gate(int rank, int place) const { return gate_[static_cast<std::size_t>(rank) * gates_ + place]; }
  int length(int rank, int place) const { return length_[static_cast<std::size_t>(rank) * gates_ + place]; }
  // The longest row of this place of all units from this rank on.
  int longest_from(int rank, int place) const { return longest_[static_cast<std::size_t>(rank) * gates_ + place]; }
  // What is expected of rows like these: two_four if they are, else uniform.
  MaskKind kind() const { return is_two_four_ ? MaskKind::two_four : MaskKind::uniform; }
  // Whether at most two of every four neighbouring columns are non-zeros; if not, where, of a matrix.
  bool is_two_four() const { return is_two_four_; }
  const std::optional<CrowdedGroup>& crowded_group() const { return crowded_group_; }
  // The share of words (WordMask) that hold a weight; and which do, of a matrix, else null.
  double word_share() const { return word_share_; }
  const WordMask* words() const { return words_.get(); }

 private:
  RowProfile(int units, int gates, const std::vector<int>& lengths);  // [gates, units]

  int units_ = 0;
  int gates_ = 1;
  std::int64_t nnz_ = 0;
  bool is_two_four_ = false;
  std::optional<CrowdedGroup> crowded_group_;
  double word_share_ = 1;
  std::shared_ptr<const WordMask> words_;
  std::vector<std::int32_t> unit_;     // [units]
  std::vector<std::uint8_t> gate_;     // [units, gates]
  std::vector<int> length_, longest_;  // [units, gates]
};

// Throws InputError if the mask is not 2:4, with a group that breaks it if one is known.
void check_two_four(const RowProfile& rows);

}  // namespace onchip
