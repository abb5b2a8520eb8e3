// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/places.hpp"

#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <utility>

namespace onchip {
namespace {

constexpr std::size_t kOpenRows = 16;  // rows of places with room, that are tried for neurons left over

// Halves edges: each node has as many in one half as in the other, or one more. Trails begin at nodes of an odd number
// of edges while there are some; an edge walked from left to right is in the first half, the others in the second.
class Halving {
 public:
  Halving(std::span<const std::int32_t> left, std::span<const std::int32_t> right)
      : left_(left), right_(right), lefts_(1 + *std::ranges::max_element(left)) {
    const std::int32_t nodes = lefts_ + 1 + *std::ranges::max_element(right);
    begin_.resize(nodes + 1);
    next_.resize(nodes);
  }

  // Puts the first half of the edges in front; returns where the second begins.
  std::size_t halve(std::span<std::int32_t> edges) {
    std::ranges::fill(begin_, 0);
    ends_.clear();
    for (const std::int32_t edge : edges) {
      const auto [left, right] = ends_.emplace_back(left_[edge], lefts_ + right_[edge]);
      ++begin_[left + 1];
      ++begin_[right + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::copy(begin_.begin(), begin_.end() - 1, next_.begin());
    incident_.resize(2 * edges.size());
    for (std::size_t i = 0; i < edges.size(); ++i) {
      incident_[next_[ends_[i].first]++] = static_cast<std::int32_t>(i);
      incident_[next_[ends_[i].second]++] = static_cast<std::int32_t>(i);
    }
    std::copy(begin_.begin(), begin_.end() - 1, next_.begin());
    half_.assign(edges.size(), kUnused);
    const auto nodes = static_cast<std::int32_t>(next_.size());
    for (std::int32_t node = 0; node < nodes; ++node) {
      if ((begin_[node + 1] - begin_[node]) % 2 != 0) {
        walk(node);
      }
    }
    for (std::int32_t node = 0; node < nodes; ++node) {
      walk(node);
    }
    second_.clear();
    std::size_t first = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (half_[i] == 0) {
        edges[first++] = edges[i];
      } else {
        second_.push_back(edges[i]);
      }
    }
    std::ranges::copy(second_, edges.begin() + static_cast<std::ptrdiff_t>(first));
    return first;
  }

 private:
  static constexpr std::int8_t kUnused = -1;

  void walk(std::int32_t node) {
    for (;;) {
      while (next_[node] < begin_[node + 1] && half_[incident_[next_[node]]] != kUnused) {
        ++next_[node];
      }
      if (next_[node] == begin_[node + 1]) {
        return;
      }
      const std::int32_t i = incident_[next_[node]++];
      const bool from_left = node < lefts_;
      half_[i] = from_left ? 0 : 1;
      node = from_left ? ends_[i].second : ends_[i].first;
    }
  }

  std::span<const std::int32_t> left_, right_;
  std::int32_t lefts_;
  std::vector<std::pair<std::int32_t, std::int32_t>> ends_;  // nodes of the edges, in their order
  std::vector<std::int32_t> begin_, next_, incident_, second_;
  std::vector<std::int8_t> half_;
};

void colour(Halving& halving, std::span<std::int32_t> edges, int halvings, std::uint8_t so_far,
            std::vector<std::uint8_t>& colours) {
  if (halvings == 0 || edges.empty()) {
    for (const std::int32_t edge : edges) {
      colours[edge] = so_far;
    }
    return;
  }
  const std::size_t first = halving.halve(edges);
  const auto bits = static_cast<std::uint8_t>(so_far << 1);
  colour(halving, edges.first(first), halvings - 1, bits, colours);
  colour(halving, edges.subspan(first), halvings - 1, bits | 1, colours);
}

// Rows of 8 places: neurons read by the same blocks in whole rows; what is left over shares rows, first fit.
std::vector<std::int32_t> rows_of_places(int neurons, const Blocks& readers) {
  const SparseMatrix reads = readers_of(readers, neurons);
  const RowGroups groups = equal_rows(reads);
  std::vector<int> order(groups.count());
  std::iota(order.begin(), order.end(), 0);
  // In the order of the blocks that read them, those of none at the end.
  const auto first_reader = [&](int group) {
    const auto blocks = columns_of(reads, groups.of(group).front());
    return blocks.empty() ? readers.count() : blocks.front();
  };
  std::ranges::stable_sort(order, {}, first_reader);

  std::vector<std::int32_t> row_of(neurons);
  std::int32_t rows = 0;
  struct Open {
    std::int32_t row;
    std::size_t room;
  };
  std::deque<Open> open;
  for (const int group : order) {
    std::span<const std::int32_t> left = groups.of(group);
    for (; left.size() >= kFreePlaces; left = left.subspan(kFreePlaces)) {
      for (const std::int32_t neuron : left.first(kFreePlaces)) {
        row_of[neuron] = rows;
      }
      ++rows;
    }
    if (left.empty()) {
      continue;
    }
    auto with_room = std::ranges::find_if(open, [&](const Open& row) { return row.room >= left.size(); });
    if (with_room == open.end()) {
      if (open.size() == kOpenRows) {
        open.pop_front();
      }
      with_room = open.insert(open.end(), {rows++, kFreePlaces});
    }
    for (const std::int32_t neuron : left) {
      row_of[neuron] = with_room->row;
    }
    with_room->room -= left.size();
  }
  return row_of;
}

// Neurons of 8-row groups at the position of their colour; those of no full row of places where they differ, if they
// can.
void order_columns(std::span<std::int32_t> columns, const Places& places) {
  std::array<std::vector<std::int32_t>, kFreePlaces> by_colour;
  std::vector<std::pair<std::int32_t, std::int32_t>> sorted;  // places, their neurons
  sorted.reserve(columns.size());
  for (const std::int32_t neuron : columns) {
    if (neuron != kNoNeuron) {
      sorted.emplace_back(places.of_neuron[neuron], neuron);
    }
  }
  std::ranges::sort(sorted);
  std::ranges::fill(columns, kNoNeuron);
  std::vector<std::int32_t> later;  // that did not fit
  std::size_t used = 0;             // columns of whole rows of places
  for (std::size_t i = 0; i < sorted.size();) {
    const auto row = [&](std::size_t at) { return sorted[at].first / kFreePlaces; };
    std::size_t end = i;
    while (end < sorted.size() && row(end) == row(i)) {
      ++end;
    }
    for (std::size_t k = i; k < end; ++k) {
      const auto [place, neuron] = sorted[k];
      if (end - i == kFreePlaces) {
        columns[used++] = neuron;
      } else {
        by_colour[place % kFreePlaces].push_back(neuron);
      }
    }
    i = end;
  }
  for (std::size_t colour = 0; colour < kFreePlaces; ++colour) {
    std::size_t at = used + colour;
    for (const std::int32_t neuron : by_colour[colour]) {
      if (at < columns.size()) {
        columns[at] = neuron;
        at += kFreePlaces;
      } else {
        later.push_back(neuron);
      }
    }
  }
  auto gap = columns.begin();
  for (const std::int32_t neuron : later) {
    gap = std::find(gap, columns.end(), kNoNeuron);
    *gap = neuron;
  }
}

Conflicts conflicts_of(std::span<const std::int32_t> neurons, const Places& places) {
  Conflicts conflicts;
  for (std::size_t first = 0; first < neurons.size(); first += kFreePlaces) {
    std::array<int, kFreePlaces> count{};
    for (const std::int32_t neuron : neurons.subspan(first, kFreePlaces)) {
      if (neuron != kNoNeuron) {
        ++count[static_cast<std::uint32_t>(places.of_neuron[neuron]) % kFreePlaces];
      }
    }
    const int most = *std::ranges::max_element(count);
    conflicts.accesses += most > 0;
    conflicts.extra += std::max(most - 1, 0);
  }
  return conflicts;
}

}  // namespace

std::vector<std::uint8_t> colour_edges(std::span<const std::int32_t> left, std::span<const std::int32_t> right,
                                       int halvings) {
  std::vector<std::uint8_t> colours(left.size());
  if (!left.empty()) {
    std::vector<std::int32_t> edges(left.size());
    std::iota(edges.begin(), edges.end(), 0);
    Halving halving(left, right);
    colour(halving, edges, halvings, 0, colours);
  }
  return colours;
}

Places place_neurons(int neurons, Blocks& writers, Blocks& readers) {
  Places places{std::vector<std::int32_t>(neurons), 0};
  if (writers.count() == 0 && readers.count() == 0) {
    std::iota(places.of_neuron.begin(), places.of_neuron.end(), 0);
    places.count = (neurons + kFreePlaces - 1) / kFreePlaces * kFreePlaces;
    return places;
  }
  // Left nodes: half blocks of 8 rows, then each neuron that no block writes for itself.
  std::vector<std::int32_t> writer(neurons, kNoNeuron);
  for (std::size_t i = 0; i < writers.row.size(); ++i) {
    if (writers.row[i] != kNoNeuron) {
      writer[writers.row[i]] = static_cast<std::int32_t>(i / kFreePlaces);
    }
  }
  auto nodes = static_cast<std::int32_t>(writers.row.size() / kFreePlaces);
  for (std::int32_t& node : writer) {
    if (node == kNoNeuron) {
      node = nodes++;
    }
  }
  const std::vector<std::int32_t> row = rows_of_places(neurons, readers);
  const std::vector<std::uint8_t> colours = colour_edges(writer, row, 3);
  for (int neuron = 0; neuron < neurons; ++neuron) {
    places.of_neuron[neuron] = row[neuron] * kFreePlaces + colours[neuron];
    places.count = std::max(places.count, (row[neuron] + 1) * kFreePlaces);
  }
  std::ranges::fill(writers.row, kNoNeuron);
  for (int neuron = 0; neuron < neurons; ++neuron) {
    if (const auto at = static_cast<std::size_t>(writer[neuron]) * kFreePlaces + colours[neuron];
        at < writers.row.size()) {
      writers.row[at] = neuron;
    }
  }
  for (int b = 0; b < readers.count(); ++b) {
    order_columns(readers.columns(b), places);
  }
  return places;
}

Conflicts write_conflicts(const Blocks& writers, const Places& places) {
  return conflicts_of(writers.row, places);
}

Conflicts read_conflicts(const Blocks& readers, const Places& places) {
  return conflicts_of(readers.column, places);
}

}  // namespace onchip
