// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/blocks.hpp"

#include "model/base/random.hpp"
#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

constexpr int kHashes = 8;
constexpr int kLeastAgreed = 2;           // hashes
constexpr std::size_t kMostLooked = 256;  // rows of one hash that are looked at; blocks of one input, in the order
using Signature = std::array<std::uint32_t, kHashes>;

Signature min_hashes(std::span<const std::int32_t> columns) {
  Signature least;
  least.fill(std::numeric_limits<std::uint32_t>::max());
  for (const std::int32_t column : columns) {
    for (int h = 0; h < kHashes; ++h) {
      least[h] = std::min(least[h], static_cast<std::uint32_t>(splitmix64(h, static_cast<std::uint64_t>(column))));
    }
  }
  return least;
}

class Finder {
 public:
  Finder(const SparseMatrix& weights, double least_fill)
      : weights_(weights), least_fill_(least_fill), uses_(weights.columns) {}

  Blocks find() {
    const RowGroups groups = equal_rows(weights_);
    std::vector<std::vector<std::int32_t>> left;
    for (int group = 0; group < groups.count(); ++group) {
      std::span<const std::int32_t> rows = groups.of(group);
      if (columns_of(weights_, rows.front()).empty()) {
        continue;
      }
      for (; rows.size() >= kBlockRows; rows = rows.subspan(kBlockRows)) {
        add(rows.first(kBlockRows));
      }
      if (!rows.empty()) {
        left.emplace_back(rows.begin(), rows.end());
      }
    }
    join_similar(std::move(left));
    return std::move(blocks_);
  }

 private:
  // A block of these rows, if it would be filled.
  bool add(std::span<const std::int32_t> rows) {
    std::vector<std::int32_t> columns;
    for (const std::int32_t row : rows) {
      for (const std::int32_t column : columns_of(weights_, row)) {
        if (uses_[column]++ == 0) {
          columns.push_back(column);
        }
      }
    }
    std::ranges::sort(
        columns, [&](std::int32_t a, std::int32_t b) { return uses_[a] != uses_[b] ? uses_[a] > uses_[b] : a < b; });
    std::size_t kept = 0;
    while (kept < columns.size()) {
      const std::size_t end = std::min(kept + kBlockColumns, columns.size());
      int weights = 0;
      for (std::size_t i = kept; i < end; ++i) {
        weights += uses_[columns[i]];
      }
      if (weights < least_fill_ * kBlockRows * kBlockColumns) {
        break;
      }
      kept = end;
    }
    for (const std::int32_t column : columns) {
      uses_[column] = 0;
    }
    if (kept == 0) {
      return false;
    }
    columns.resize(kept);
    std::ranges::sort(columns);
    columns.resize((kept + kBlockColumns - 1) / kBlockColumns * kBlockColumns, kNoNeuron);
    blocks_.column.insert(blocks_.column.end(), columns.begin(), columns.end());
    blocks_.column_begin.push_back(std::ssize(blocks_.column));
    blocks_.row.insert(blocks_.row.end(), rows.begin(), rows.end());
    blocks_.row.resize(static_cast<std::size_t>(blocks_.count()) * kBlockRows, kNoNeuron);
    return true;
  }

  // Of sets of fewer rows with equal columns.
  void join_similar(std::vector<std::vector<std::int32_t>> sets) {
    std::ranges::stable_sort(sets, std::greater<>(), [](const auto& rows) { return rows.size(); });
    std::vector<Signature> signatures;
    for (const auto& rows : sets) {
      signatures.push_back(min_hashes(columns_of(weights_, rows.front())));
    }
    // By hash: the sets in the order of their value of it.
    std::array<std::vector<std::pair<std::uint32_t, std::int32_t>>, kHashes> sorted;
    for (int h = 0; h < kHashes; ++h) {
      for (std::size_t set = 0; set < sets.size(); ++set) {
        sorted[h].emplace_back(signatures[set][h], static_cast<std::int32_t>(set));
      }
      std::ranges::sort(sorted[h]);
    }
    std::vector<bool> is_taken(sets.size());
    std::vector<int> agreed(sets.size());
    std::vector<bool> is_seeds(weights_.columns);  // columns
    struct Candidate {
      double shared;
      std::int32_t set;
    };
    for (std::size_t seed = 0; seed < sets.size(); ++seed) {
      if (is_taken[seed]) {
        continue;
      }
      std::vector<std::int32_t> near;
      for (int h = 0; h < kHashes; ++h) {
        auto at = std::ranges::lower_bound(sorted[h], std::pair{signatures[seed][h], std::int32_t{0}});
        for (std::size_t looked = 0; looked < kMostLooked && at != sorted[h].end() && at->first == signatures[seed][h];
             ++at, ++looked) {
          if (!is_taken[at->second] && at->second != static_cast<std::int32_t>(seed) && agreed[at->second]++ == 0) {
            near.push_back(at->second);
          }
        }
      }
      const std::span<const std::int32_t> seed_columns = columns_of(weights_, sets[seed].front());
      for (const std::int32_t column : seed_columns) {
        is_seeds[column] = true;
      }
      std::vector<Candidate> candidates;
      for (const std::int32_t set : near) {
        if (std::exchange(agreed[set], 0) >= kLeastAgreed) {
          const std::span<const std::int32_t> columns = columns_of(weights_, sets[set].front());
          const auto shared = std::ranges::count_if(columns, [&](std::int32_t column) { return is_seeds[column]; });
          const double share =
              static_cast<double>(shared) / static_cast<double>(std::max(columns.size(), seed_columns.size()));
          if (share >= least_fill_) {
            candidates.push_back({share, set});
          }
        }
      }
      for (const std::int32_t column : seed_columns) {
        is_seeds[column] = false;
      }
      std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
        return a.shared != b.shared ? a.shared > b.shared : a.set < b.set;
      });
      std::vector<std::int32_t> rows = sets[seed], joined;
      for (const Candidate& candidate : candidates) {
        if (rows.size() + sets[candidate.set].size() <= kBlockRows) {
          rows.insert(rows.end(), sets[candidate.set].begin(), sets[candidate.set].end());
          joined.push_back(candidate.set);
        }
      }
      if (static_cast<double>(rows.size()) >= least_fill_ * kBlockRows && add(rows)) {
        is_taken[seed] = true;
        for (const std::int32_t set : joined) {
          is_taken[set] = true;
        }
      }
    }
  }

  const SparseMatrix& weights_;
  double least_fill_;
  std::vector<int> uses_;  // of a column, in the block that is tried
  Blocks blocks_;
};

// Each block is followed by the one, of those not yet placed, that shares most inputs with it; the first of equals.
Blocks in_chains(const Blocks& blocks, int inputs) {
  const SparseMatrix reads = readers_of(blocks, inputs);
  std::vector<bool> is_placed(blocks.count());
  std::vector<int> shared(blocks.count());
  Blocks chained;
  chained.row.reserve(blocks.row.size());
  chained.column.reserve(blocks.column.size());
  for (int first = 0; first < blocks.count(); ++first) {
    for (int b = first; b >= 0 && !is_placed[b];) {
      is_placed[b] = true;
      const auto rows = blocks.rows(b);
      const auto columns = blocks.columns(b);
      chained.row.insert(chained.row.end(), rows.begin(), rows.end());
      chained.column.insert(chained.column.end(), columns.begin(), columns.end());
      chained.column_begin.push_back(std::ssize(chained.column));
      std::vector<int> near;
      for (const std::int32_t column : columns) {
        if (column == kNoNeuron || columns_of(reads, column).size() > kMostLooked) {
          continue;
        }
        for (const std::int32_t other : columns_of(reads, column)) {
          if (!is_placed[other] && shared[other]++ == 0) {
            near.push_back(other);
          }
        }
      }
      b = -1;
      for (const int other : near) {
        if (b < 0 || shared[other] > shared[b] || (shared[other] == shared[b] && other < b)) {
          b = other;
        }
      }
      for (const int other : near) {
        shared[other] = 0;
      }
    }
  }
  return chained;
}

}  // namespace

LayerStructure find_blocks(const SparseMatrix& weights, double least_fill) {
  LayerStructure structure{in_chains(Finder(weights, least_fill).find(), weights.columns), {}, 0};
  std::vector<int> block_of(weights.rows, -1);
  std::vector<std::int32_t>& rows = structure.blocks.row;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kNoNeuron) {
      block_of[rows[i]] = static_cast<int>(i) / kBlockRows;
    }
  }
  auto room = rows.begin();
  for (std::int32_t row = 0; row < weights.rows; ++row) {
    if (block_of[row] < 0 && (room = std::find(room, rows.end(), kNoNeuron)) != rows.end()) {
      *room = row;
      block_of[row] = static_cast<int>(room - rows.begin()) / kBlockRows;
    }
  }
  SparseMatrix& rest = structure.remainder;
  rest = {weights.rows, weights.columns, {0}, {}, {}};
  rest.row_begin.reserve(weights.rows + 1);
  for (int row = 0; row < weights.rows; ++row) {
    std::vector<std::int32_t> in_block;
    if (block_of[row] >= 0) {
      std::span<const std::int32_t> columns = structure.blocks.columns(block_of[row]);
      while (columns.back() == kNoNeuron) {
        columns = columns.first(columns.size() - 1);
      }
      in_block.assign(columns.begin(), columns.end());
    }
    auto next = in_block.begin();
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      while (next != in_block.end() && *next < weights.column[i]) {
        ++next;
      }
      if (next != in_block.end() && *next == weights.column[i]) {
        ++structure.weights_in_blocks;
      } else {
        rest.column.push_back(weights.column[i]);
        rest.value.push_back(weights.value[i]);
      }
    }
    rest.row_begin.push_back(rest.nnz());
  }
  return structure;
}

SparseMatrix readers_of(const Blocks& blocks, int inputs) {
  SparseMatrix reads{inputs, blocks.count(), std::vector<std::int64_t>(inputs + 1), {}, {}};
  for (const std::int32_t column : blocks.column) {
    if (column != kNoNeuron) {
      ++reads.row_begin[column + 1];
    }
  }
  std::partial_sum(reads.row_begin.begin(), reads.row_begin.end(), reads.row_begin.begin());
  reads.column.resize(static_cast<std::size_t>(reads.row_begin.back()));
  std::vector<std::int64_t> next(reads.row_begin.begin(), reads.row_begin.end() - 1);
  for (int b = 0; b < blocks.count(); ++b) {
    for (const std::int32_t column : blocks.columns(b)) {
      if (column != kNoNeuron) {
        reads.column[next[column]++] = b;
      }
    }
  }
  return reads;
}

std::vector<float> block_values(const SparseMatrix& weights, const Blocks& blocks, int b) {
  const std::span<const std::int32_t> rows = blocks.rows(b), columns = blocks.columns(b);
  std::vector<float> values(rows.size() * columns.size());
  std::vector<std::pair<std::int32_t, std::size_t>> ascending;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c] != kNoNeuron) {
      ascending.emplace_back(columns[c], c);
    }
  }
  std::ranges::sort(ascending);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] == kNoNeuron) {
      continue;
    }
    const std::span<const std::int32_t> of_row = columns_of(weights, rows[r]);
    const float* const value = weights.value.data() + weights.row_begin[rows[r]];
    std::size_t i = 0;
    for (const auto& [column, c] : ascending) {
      while (i < of_row.size() && of_row[i] < column) {
        ++i;
      }
      if (i < of_row.size() && of_row[i] == column) {
        values[r * columns.size() + c] = value[i];
      }
    }
  }
  return values;
}

}  // namespace onchip
