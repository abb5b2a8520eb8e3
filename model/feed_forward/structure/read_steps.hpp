// SPDX-License-Identifier: Apache-2.0
// When rows that read shared memory in one access read each of their inputs. The rows of an access are free of bank
// conflicts if their places differ modulo `classes`, or are the same. In a step each row reads one of its inputs, or
// none. The fewest steps are at least the longest row, and the most distinct places of one class.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace onchip {

enum class ReadOrder : std::uint8_t {
  ascending,   // as each row has them: sums are those of a plain loop, bit by bit
  bank_aware,  // any order
};
inline constexpr std::array<std::string_view, 2> kReadOrderNames{"ascending", "bank_aware"};

inline constexpr std::int32_t kNoRead = -1;

// [steps, rows]: which of its inputs a row reads, or kNoRead. places: of each row's inputs. `classes` is a power of two
// of at most 32, and there are at most so many rows. Greedy: the row with the most inputs left goes first.
std::vector<std::int32_t> read_steps(std::span<const std::span<const std::int32_t>> places, int classes);

// Second places, of the next class: rows whose places are of one class then seldom wait for each other. Of the blocks
// of `classes` places before `first` so many have them, evenly spread.
struct PlaceCopies {
  std::int32_t blocks = 0, first = 0;  // `first`: of the zeros, behind which the second places are

  // Of the blocks before this one.
  std::int32_t before(std::int32_t block, int classes) const {
    return static_cast<std::int32_t>(std::int64_t{block} * blocks / (first / classes));
  }
  bool has(std::int32_t place, int classes) const {
    return blocks > 0 && before(place / classes + 1, classes) > before(place / classes, classes);
  }
  std::int32_t second(std::int32_t place, int classes) const {
    return first + (1 + before(place / classes, classes)) * classes + (place + 1) % classes;
  }
};

struct OrderedReads {
  std::vector<std::int32_t> input;  // [steps, rows]: as read_steps()
  std::vector<std::int32_t> place;  // [steps, rows]: the input's, or its second one, or kNoRead
};

// The same in the order in which each row has its inputs. In a step, the most rows that can read, by augmenting paths;
// the row with the most inputs left goes first.
OrderedReads ordered_reads(std::span<const std::span<const std::int32_t>> places, int classes,
                           const PlaceCopies& copies = {});

// The same in any order. With each input an edge from its row to the class of its place, the steps are the colours of
// the edges of a bipartite multigraph (banks/phase_colouring.hpp): as many are enough as the longest row or the busiest
// class has inputs, whichever is more. Rows that read the same places may take fewer if they do so together
// (read_steps).
OrderedReads bank_aware_reads(std::span<const std::span<const std::int32_t>> places, int classes);

}  // namespace onchip
