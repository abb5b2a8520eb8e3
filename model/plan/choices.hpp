// SPDX-License-Identifier: Apache-2.0
// What plans of several families choose from: how weights are stored and ordered, how the state is exchanged, and where
// weights lie.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace onchip {

inline constexpr int kMostSamples = 64;  // of a plan: lengths that a launch takes as arguments

enum class Storage : std::uint8_t {
  packed_pair,   // value and 16-bit index: 24 (fp8), 32 (fp16, bf16) or 48 bits (fp32) per non-zero
  dense,         // values alone, zeros included, position implied
  packed_delta,  // value and 8-bit distance from the lane's non-zero before, 16 (fp8) or 24 bits (fp16, bf16), and the
                 // lane's first place, 32 bits per row; model/sparse/layout/delta_order.hpp
  structured_2_4,  // of every four neighbouring columns of a row two values and their places, 2 bits each;
                   // model/dense/fragments.hpp
  bitmap,  // as dense, but of tiles in shared memory the words of two weights that are not zero, and a bit for each
           // word; model/dense/bitmap.hpp
};

enum class RowOrder : std::uint8_t {
  natural,      // a row's non-zeros in ascending columns, lane after lane
  bank_aware,   // reordered so that lanes that load together hit different shared-memory banks
  bank_merged,  // the same, and loads whose lanes cannot do so are as few as can be (model/banks/conflict_merging.hpp)
};

enum class ExchangeProtocol : std::uint8_t {
  lamport,              // the state is its own flag: readers poll it
  atomic_barrier,       // a counter over all SMs after every step, then plain reads
  cooperative_barrier,  // the same by the algorithm of a cooperative launch's grid-wide barrier
  cluster,              // every SM stores its part into the shared memory of all SMs of its cluster
  bulk_copy,  // each SM stores its part to L2 and raises a flag; an SM that has seen all flags fetches the state with
              // the copy engine, pass by pass; needs producer warps and compute capability 9
};

enum class Tier : std::uint8_t { registers, shared_memory, streamed };

inline constexpr std::array<std::string_view, 5> kStorageNames{"packed_pair", "dense", "packed_delta", "structured_2_4",
                                                               "bitmap"};
inline constexpr std::array<std::string_view, 3> kRowOrderNames{"natural", "bank_aware", "bank_merged"};
inline constexpr std::array<std::string_view, 5> kExchangeNames{"lamport", "atomic_barrier", "cooperative_barrier",
                                                                "cluster", "bulk_copy"};
inline constexpr std::array<std::string_view, 3> kTierNames{"registers", "shared_memory", "streamed"};

constexpr std::string_view name(Storage storage) {
  return kStorageNames[static_cast<std::size_t>(storage)];
}
constexpr std::string_view name(RowOrder order) {
  return kRowOrderNames[static_cast<std::size_t>(order)];
}
constexpr std::string_view name(ExchangeProtocol exchange) {
  return kExchangeNames[static_cast<std::size_t>(exchange)];
}
constexpr std::string_view name(Tier tier) {
  return kTierNames[static_cast<std::size_t>(tier)];
}

// Bit i of Field::known, for value i of an enumeration.
template <typename... Values>
constexpr std::uint32_t known(Values... values) {
  return ((1u << static_cast<unsigned>(values)) | ...);
}

// Of every family whose SMs exchange a state through L2.
inline constexpr int kLineWords = 8;              // of 16 bytes, in a line of L2
inline constexpr int kMostSms = 4096;             // of a plan
inline constexpr int kMostPollDelay = 1 << 20;    // cycles
inline constexpr int kEmptiedAhead = 128;         // steps from emptying a segment of the exchange to writing it
inline constexpr int kFirstThatCopiesInBulk = 9;  // compute capability

}  // namespace onchip
