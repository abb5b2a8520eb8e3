// SPDX-License-Identifier: Apache-2.0
// How a network is mapped on a chip: the value that the model prices, the simulator replays and the kernels launch.
//
// One block per SM, one *lane group* (lanes_per_row lanes of a warp) per row of W, or several rows one after another.
// Rows are dealt to groups by falling length, so that the r-th row of every group is about equally long; each lane
// holds slots[r] (value, index) pairs of it.
#pragma once

#include "model/mask.hpp"
#include "model/network.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class Family : std::uint8_t { sparse_persistent };

enum class Storage : std::uint8_t {
  packed_pair,  // value and 16-bit index: one register per non-zero (fp16, bf16), one and a half (fp32)
  dense,        // values alone, zeros included, position implied: half a register per element (fp16, bf16), one (fp32)
};

enum class RowOrder : std::uint8_t {
  natural,     // a row's non-zeros in ascending columns, lane after lane
  bank_aware,  // reordered so that lanes that load together hit different shared-memory banks
};

inline constexpr std::array<std::string_view, 1> kFamilyNames{"sparse_persistent"};
inline constexpr std::array<std::string_view, 2> kStorageNames{"packed_pair", "dense"};
inline constexpr std::array<std::string_view, 2> kRowOrderNames{"natural", "bank_aware"};
constexpr std::string_view name(Family family) {
  return kFamilyNames[static_cast<int>(family)];
}
constexpr std::string_view name(Storage storage) {
  return kStorageNames[static_cast<int>(storage)];
}
constexpr std::string_view name(RowOrder order) {
  return kRowOrderNames[static_cast<int>(order)];
}

inline constexpr int kMaxRowsPerGroup = 8;
inline constexpr int kEmptiedAhead = 128;  // steps from emptying a segment of the exchange to writing it

struct Plan {
  Family family = Family::sparse_persistent;
  Storage storage = Storage::packed_pair;
  RowOrder order = RowOrder::bank_aware;
  int sms = 0;             // blocks, one per SM
  int threads = 0;         // per block, a multiple of 32
  int lanes_per_row = 32;  // 1, 2, 4, ... 32
  int rows_per_group = 1;
  std::array<int, kMaxRowsPerGroup> slots{};  // per lane, for the r-th row of a group
  int batch_padded = 1;                       // power of two
  bool unpacked = false;    // value and index kept in registers of their own: fewer instructions, twice the registers
  int loads_in_flight = 2;  // 16-byte words that a thread polls at once
  int promote_every = 1;    // products summed in the value type before they join the fp32 sum; 1: all sums in fp32

  int groups() const { return threads / lanes_per_row; }
  int warps() const { return threads / 32; }
  int slots_total() const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// ---- sizes that follow from a plan ----------------------------------------------------------------------------------

int unit_bytes(const Network& network, const Plan& plan);  // one hidden unit's state of the padded batch
// The state lies in planes of at most 16 bytes per unit, so that the widest loads reach every bank:
//   state[plane][unit][samples of the plane]
int planes(const Network& network, const Plan& plan);
int plane_unit_bytes(const Network& network, const Plan& plan);
// The state is ordered by the SM that computes it: SM s owns units [s * units_per_sm, (s + 1) * units_per_sm) of it,
// a whole number of 16-byte words, of which the last may be unused.
int units_per_sm(const Network& network, const Plan& plan);
int state_units(const Network& network, const Plan& plan);
int zero_units(const Network& network, const Plan& plan);    // units behind the state that stay zero, for padding slots
int index_shift(const Network& network, const Plan& plan);   // byte offset of a unit = stored 16-bit index << shift
int weight_words(const Network& network, const Plan& plan);  // 32-bit words of weights per thread
std::int64_t state_bytes(const Network& network, const Plan& plan);     // shared memory: state, zero units, outbox
std::int64_t exchange_bytes(const Network& network, const Plan& plan);  // the state vector, as exchanged

// ---- making plans ---------------------------------------------------------------------------------------------------

// What a planner must know of a mask: its row lengths, longest first.
class RowProfile {
 public:
  static RowProfile from_lengths(std::vector<int> lengths);
  static RowProfile from_matrix(const SparseMatrix& matrix);
  // Expected lengths of a uniform random mask (normal approximation of the binomial order statistics).
  static RowProfile uniform(int rows, int columns, double density);

  int rows() const { return rows_; }
  std::int64_t nnz() const { return nnz_; }
  // Length of the row of the given rank, 0 = longest.
  int length_at(int rank) const;

 private:
  int rows_ = 0;
  int columns_ = 0;
  std::int64_t nnz_ = 0;
  double mean_ = 0, deviation_ = 0;
  std::vector<int> lengths_;  // empty: the uniform model
};

// Wishes of the user; what is not set is chosen by the planner.
struct PlanWishes {
  std::optional<Storage> storage;
  std::optional<RowOrder> order;
  std::optional<int> sms, lanes_per_row, rows_per_group, loads_in_flight, promote_every;
  std::optional<bool> unpacked;
};

// The plan with the given geometry: threads and slots follow from the rows. Nothing is checked against the chip.
Plan shape_plan(const Network& network, const RowProfile& rows, Storage storage, int sms, int lanes_per_row,
                int rows_per_group);

// "sparse_persistent packed_pair bank_aware sms=132 threads=576 ..." and back; used in data files and on the command
// line. parse_plan throws InputError.
std::string to_string(const Plan& plan);
Plan parse_plan(std::string_view text);

}  // namespace onchip
