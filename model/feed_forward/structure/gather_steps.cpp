// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/gather_steps.hpp"

#include "model/feed_forward/structure/read_steps.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace onchip {
namespace {

using Rows = std::span<const std::span<const std::int32_t>>;
using Schedule = std::vector<std::int32_t>;  // [steps, rows of an access]: entries, or kBubble

// Edges between rows and parts of classes, coloured.
class Colouring {
 public:
  // As many colours as any row has edges, at least.
  Colouring(int nodes, int colours)
      : colours_(colours), at_(nodes * static_cast<std::size_t>(colours), kNone), free_(nodes) {}

  // Between nodes that have fewer edges than there are colours.
  void add(int left, int right) {
    const auto edge = static_cast<std::int32_t>(ends_.size());
    ends_.emplace_back(left, right);
    const int colour = first_free(left);
    if (const int other = first_free(right); other != colour) {
      exchange(right, colour, other);
    }
    at(left, colour) = at(right, colour) = edge;
  }
  // The node's edge of a colour, or kNone.
  std::int32_t edge(int node, int colour) const { return at_[static_cast<std::size_t>(node) * colours_ + colour]; }

  static constexpr std::int32_t kNone = -1;

 private:
  std::int32_t& at(int node, int colour) { return at_[static_cast<std::size_t>(node) * colours_ + colour]; }
  int first_free(int node) {
    int& colour = free_[node];
    while (at(node, colour) != kNone) {
      ++colour;
    }
    return colour;
  }
  void clear(int node, int colour) {
    at(node, colour) = kNone;
    free_[node] = std::min(free_[node], colour);
  }
  // Of the path that begins at a node with its edge of colour `a`; the node has none of colour `b`.
  void exchange(int node, int a, int b) {
    std::int32_t edge = at(node, a);
    clear(node, a);
    while (edge != kNone) {
      at(node, b) = edge;
      node = ends_[edge].first == node ? ends_[edge].second : ends_[edge].first;
      const std::int32_t next = std::exchange(at(node, b), edge);
      clear(node, a);
      std::swap(a, b);
      edge = next;
    }
  }

  int colours_;
  std::vector<std::pair<int, int>> ends_;
  std::vector<std::int32_t> at_;  // [nodes, colours]
  std::vector<int> free_;         // of each node: no colour below is
};

// The rows of one access.
struct Access {
  Rows rows;
  int longest = 0, busiest = 0;
  std::vector<int> of_class;  // entries
  Schedule shared;            // rows that read the same place do so together

  Access(Rows of_rows, int classes) : rows(of_rows), of_class(classes) {
    for (const std::span<const std::int32_t> row : rows) {
      longest = std::max(longest, static_cast<int>(row.size()));
      for (const std::int32_t place : row) {
        busiest = std::max(busiest, ++of_class[place % classes]);
      }
    }
    if (busiest > longest) {
      shared = read_steps(rows, classes);
    }
  }
  int rows_count() const { return static_cast<int>(rows.size()); }
  int shared_steps() const { return static_cast<int>(shared.size() / rows.size()); }
  bool shares(int steps) const { return busiest > steps && shared_steps() <= steps; }
  // Conflicts in so many steps.
  int beyond(int steps) const {
    int sum = 0;
    for (const int entries : of_class) {
      sum += shares(steps) ? 0 : std::max(0, entries - steps);
    }
    return sum;
  }

  Schedule schedule(int steps) const {
    const int count = rows_count();
    Schedule made = shared;
    if (steps == 0 || shares(steps)) {
      made.resize(static_cast<std::size_t>(steps) * count, kBubble);
      return made;
    }
    const auto classes = static_cast<int>(of_class.size());
    // A class's part is full before its next one begins.
    std::vector<int> part(classes), used(classes, steps);
    int nodes = count;
    for (const int entries : of_class) {
      nodes += (entries + steps - 1) / steps;
    }
    Colouring colouring(nodes, steps);
    std::vector<std::int32_t> entry_of;  // of an edge
    for (int r = 0, next = count; r < count; ++r) {
      for (std::int32_t i = 0; i < std::ssize(rows[r]); ++i) {
        const int of = rows[r][i] % classes;
        if (used[of]++ == steps) {
          part[of] = next++;
          used[of] = 1;
        }
        colouring.add(r, part[of]);
        entry_of.push_back(i);
      }
    }
    made.assign(static_cast<std::size_t>(steps) * count, kBubble);
    for (int step = 0; step < steps; ++step) {
      for (int r = 0; r < count; ++r) {
        const std::int32_t edge = colouring.edge(r, step);
        made[static_cast<std::size_t>(step) * count + r] = edge == Colouring::kNone ? kBubble : entry_of[edge];
      }
    }
    return made;
  }
};

int best_steps(std::span<const Access> accesses, double step_wavefronts) {
  int least = 0, most = 0;
  for (const Access& access : accesses) {
    least = std::max(least, access.longest);
    most = std::max({most, access.longest, access.busiest});
  }
  int best = most;
  double best_cost = step_wavefronts * most;
  for (int steps = most - 1; steps >= least; --steps) {
    double cost = step_wavefronts * steps;
    for (const Access& access : accesses) {
      cost += access.beyond(steps);
    }
    if (cost <= best_cost) {
      best = steps;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace

GatherSteps gather_steps(std::span<const std::span<const std::int32_t>> places, std::int32_t spare, int classes,
                         double step_wavefronts) {
  assert(spare % classes == 0);
  GatherSteps result;
  result.rows = static_cast<int>(places.size());
  const auto of_access = static_cast<std::size_t>(classes);
  std::vector<Access> accesses;
  for (std::size_t first = 0; first < places.size(); first += of_access) {
    accesses.emplace_back(places.subspan(first, std::min(of_access, places.size() - first)), classes);
  }
  result.steps = best_steps(accesses, step_wavefronts);
  result.entry.assign(static_cast<std::size_t>(result.steps) * places.size(), kBubble);
  result.place = result.entry;
  for (std::size_t a = 0; a < accesses.size(); ++a) {
    const Rows rows = accesses[a].rows;
    const Schedule schedule = accesses[a].schedule(result.steps);
    for (int step = 0; step < result.steps; ++step) {
      const std::size_t to = step * places.size() + a * of_access;
      std::vector<std::vector<std::int32_t>> read(of_access);  // places of a class
      for (std::size_t r = 0; r < rows.size(); ++r) {
        const std::int32_t entry = schedule[step * rows.size() + r];
        if (entry != kBubble) {
          const std::int32_t place = rows[r][entry];
          std::vector<std::int32_t>& of = read[place % classes];
          if (std::ranges::find(of, place) == of.end()) {
            of.push_back(place);
          }
          result.entry[to + r] = entry;
          result.place[to + r] = place;
          ++result.entries;
        }
      }
      std::size_t most = 1;
      for (const std::vector<std::int32_t>& of : read) {
        most = std::max(most, of.size());
      }
      result.conflicts += static_cast<std::int64_t>(most) - 1;
      std::int32_t free = 0;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        if (result.entry[to + r] == kBubble) {
          while (!read[free].empty()) {
            ++free;
          }
          result.place[to + r] = spare + free++;
        }
      }
    }
  }
  return result;
}

}  // namespace onchip
