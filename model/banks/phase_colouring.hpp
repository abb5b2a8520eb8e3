// SPDX-License-Identifier: Apache-2.0
// Which non-zero is loaded in which phase by which lane. A phase is free of conflicts if no two of its lanes hit the
// same bank set: an edge colouring of the bipartite graph whose nodes are bank sets and lanes and whose edges are the
// non-zeros, with phases as colours. As many colours as the largest degree are enough (König, 1916); where a set has
// more non-zeros than there are phases, the rest of them double up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace onchip {

class PhaseColouring {
 public:
  PhaseColouring(int sets, int lanes, int phases)
      : phases_(phases),
        words_((phases + 63) / 64),
        at_set_(static_cast<std::size_t>(sets) * phases, kNone),
        at_lane_(static_cast<std::size_t>(lanes) * phases, kNone),
        free_at_set_(static_cast<std::size_t>(sets) * words_, 0),
        free_at_lane_(static_cast<std::size_t>(lanes) * words_, 0) {
    for (std::size_t node = 0; node < static_cast<std::size_t>(sets) + lanes; ++node) {
      for (int phase = 0; phase < phases; ++phase) {
        std::uint64_t* const free = node < static_cast<std::size_t>(sets) ? &free_at_set_[node * words_]
                                                                          : &free_at_lane_[(node - sets) * words_];
        free[phase / 64] |= std::uint64_t{1} << phase % 64;
      }
    }
  }

  // False if every phase already has an edge at this set. The lane must have fewer edges than there are phases.
  bool add(int set, int lane) {
    const std::uint64_t* const sets = &free_at_set_[static_cast<std::size_t>(set) * words_];
    const std::uint64_t* const lanes = &free_at_lane_[static_cast<std::size_t>(lane) * words_];
    int common = kNone, at_set = kNone, at_lane = kNone;
    for (int w = 0; w < words_ && common == kNone; ++w) {
      common = first(sets[w] & lanes[w], w, common);
      at_set = first(sets[w], w, at_set);
      at_lane = first(lanes[w], w, at_lane);
    }
    if (common == kNone) {
      if (at_set == kNone) {
        return false;
      }
      swap_from_lane(lane, at_set, at_lane);
      common = at_set;
    }
    link(set, lane, common);
    return true;
  }

  // The set that the lane hits in the phase, or kNone.
  int set_at(int lane, int phase) const { return at_lane_[static_cast<std::size_t>(lane) * phases_ + phase]; }

  static constexpr int kNone = -1;

 private:
  static int first(std::uint64_t bits, int word, int found) {
    return found != kNone || bits == 0 ? found : 64 * word + std::countr_zero(bits);
  }
  void clear(std::vector<std::uint64_t>& free, int node, int phase) const {
    free[static_cast<std::size_t>(node) * words_ + phase / 64] &= ~(std::uint64_t{1} << phase % 64);
  }
  void set_free(std::vector<std::uint64_t>& free, int node, int phase) const {
    free[static_cast<std::size_t>(node) * words_ + phase / 64] |= std::uint64_t{1} << phase % 64;
  }
  int& lane_at_set(int set, int phase) { return at_set_[static_cast<std::size_t>(set) * phases_ + phase]; }
  int& set_at_lane(int lane, int phase) { return at_lane_[static_cast<std::size_t>(lane) * phases_ + phase]; }

  void link(int set, int lane, int phase) {
    lane_at_set(set, phase) = lane;
    set_at_lane(lane, phase) = set;
    clear(free_at_set_, set, phase);
    clear(free_at_lane_, lane, phase);
  }
  void unlink(int set, int lane, int phase) {
    lane_at_set(set, phase) = kNone;
    set_at_lane(lane, phase) = kNone;
    set_free(free_at_set_, set, phase);
    set_free(free_at_lane_, lane, phase);
  }

  // The path from `lane` whose edges alternate between phases `a` and `b`, with the two exchanged: frees `a` at the
  // lane. The path cannot end at the set where `a` is free, because it would come to a set by an edge of phase `a`.
  void swap_from_lane(int lane, int a, int b) {
    path_.clear();
    for (int at = lane, phase = a; at != kNone;) {
      const int set = set_at_lane(at, phase);
      if (set == kNone) {
        break;
      }
      path_.push_back({set, at, phase});
      const int other = phase == a ? b : a;
      at = lane_at_set(set, other);
      if (at != kNone) {
        path_.push_back({set, at, other});
      }
    }
    for (const Edge& edge : path_) {
      unlink(edge.set, edge.lane, edge.phase);
    }
    for (const Edge& edge : path_) {
      link(edge.set, edge.lane, edge.phase == a ? b : a);
    }
  }

  struct Edge {
    int set, lane, phase;
  };
  int phases_, words_;
  std::vector<int> at_set_;   // [sets, phases]: the lane
  std::vector<int> at_lane_;  // [lanes, phases]: the set
  std::vector<std::uint64_t> free_at_set_, free_at_lane_;
  std::vector<Edge> path_;
};

}  // namespace onchip
