// SPDX-License-Identifier: Apache-2.0
#include "model/common_columns.hpp"

#include <algorithm>
#include <bit>

namespace onchip {
namespace {

int bits(const GatePair& pair) {
  return 1 << pair.first | 1 << pair.second;
}

class Sharing {
 public:
  Sharing(const ColumnSets& columns, int gates, PairRoom room)
      : columns_(columns),
        gates_(gates),
        pairs_(gate_pairs(gates)),
        room_(pairs_.size(), room.common),
        kept_(room.columns - room.common) {}

  std::vector<Taking> shared() {
    for (int pair = 0; pair < std::ssize(pairs_); ++pair) {
      const int of_pair = bits(pairs_[pair]);
      take(pair, of_pair, of_pair, columns_[of_pair]);
    }
    for (const int of_set : {4, 3}) {
      for (int set = 0; set < 1 << gates_; ++set) {
        if (std::popcount(static_cast<unsigned>(set)) == of_set) {
          share_set(set);
        }
      }
    }
    for (int& room : room_) {
      room += kept_;
    }
    fill();
    return std::move(takings_);
  }

 private:
  void take(int pair, int taken, int from, int count) {
    count = std::min({count, room_[pair], columns_[from]});
    if (count <= 0) {
      return;
    }
    room_[pair] -= count;
    columns_[from] -= count;
    if (const int left = from & ~taken; left != 0) {
      columns_[left] += count;
    }
    if (!takings_.empty() && takings_.back().pair == pair && takings_.back().taken == taken &&
        takings_.back().from == from) {
      takings_.back().count += count;
    } else {
      takings_.push_back({pair, taken, from, count});
    }
  }

  // One column after another to the pair of these gates that has most room; of four gates, what is left of a column to
  // the other pair.
  void share_set(int set) {
    while (columns_[set] > 0) {
      int most = -1;
      for (int pair = 0; pair < std::ssize(pairs_); ++pair) {
        if ((bits(pairs_[pair]) & ~set) == 0 && room_[pair] > 0 && (most < 0 || room_[pair] > room_[most])) {
          most = pair;
        }
      }
      if (most < 0) {
        return;
      }
      const int taken = bits(pairs_[most]), left = set & ~taken;
      take(most, taken, set, 1);
      for (int pair = 0; pair < std::ssize(pairs_); ++pair) {
        if (bits(pairs_[pair]) == left) {
          take(pair, left, left, 1);
        }
      }
    }
  }

  // What is left of the room, to columns of one gate: that of the gate that has most left, of those whose pairs have
  // any.
  void fill() {
    std::array<int, kMostGates> left = columns_left(columns_, gates_, {});
    while (true) {
      int of_pair = -1, gate = -1;
      for (int pair = 0; pair < std::ssize(pairs_); ++pair) {
        for (const int one : {pairs_[pair].first, pairs_[pair].second}) {
          const bool is_better =
              gate < 0 || left[one] > left[gate] || (left[one] == left[gate] && room_[pair] > room_[of_pair]);
          if (room_[pair] > 0 && left[one] > 0 && is_better) {
            of_pair = pair;
            gate = one;
          }
        }
      }
      if (gate < 0) {
        return;
      }
      for (int from = 1; from < 1 << gates_; ++from) {  // the gate's own first
        if ((from & 1 << gate) != 0 && columns_[from] > 0) {
          take(of_pair, 1 << gate, from, 1);
          break;
        }
      }
      --left[gate];
    }
  }

  ColumnSets columns_;
  int gates_;
  std::vector<GatePair> pairs_;
  std::vector<int> room_;  // of each pair
  int kept_;               // of it, for columns of one gate
  std::vector<Taking> takings_;
};

}  // namespace

std::vector<GatePair> gate_pairs(int gates) {
  std::vector<GatePair> pairs;
  for (int first = 0; first < gates; ++first) {
    for (int second = first + 1; second < gates; ++second) {
      pairs.push_back({first, second});
    }
  }
  return pairs;
}

std::vector<Taking> share_columns(const ColumnSets& columns, int gates, PairRoom room) {
  return Sharing(columns, gates, room).shared();
}

std::array<int, kMostGates> columns_left(const ColumnSets& columns, int gates, const std::vector<Taking>& takings) {
  std::array<int, kMostGates> left{};
  const auto add = [&](int set, int count) {
    for (int gate = 0; gate < gates; ++gate) {
      left[gate] += (set >> gate & 1) * count;
    }
  };
  for (int set = 1; set < 1 << gates; ++set) {
    add(set, columns[set]);
  }
  for (const Taking& taking : takings) {
    add(taking.taken, -taking.count);
  }
  return left;
}

}  // namespace onchip
