// SPDX-License-Identifier: Apache-2.0
#include "model/answer/target.hpp"

#include "model/answer/least.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/plan/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace onchip {

void take_hidden(Recurrent& network, const Target& target) {
  int& hidden = network.hidden;
  if (target.hidden > 0 && hidden > 0 && target.hidden != hidden) {
    throw InputError("target: hidden=" + std::to_string(target.hidden) + " contradicts a network of " +
                     std::to_string(hidden) + " hidden units");
  }
  hidden = std::max(hidden, target.hidden);
  if (hidden == 0) {
    throw InputError("how large is the network? expected a target such as hidden=8192, or a hidden size");
  }
  if (target.ms) {
    throw InputError("target: ms is of feed-forward networks; expected hidden=N or step_us<=T");
  }
}
namespace {

constexpr double kCannotBe = std::numeric_limits<double>::infinity();

// The chip with its numbers as they are varied.
class Search {
 public:
  explicit Search(const Sought& sought) : chip_(sought.chip), misses_(sought.misses) {
    for (const std::string& key : sought.vary) {
      const Choices found = choices(chip_.chip, key);
      if (std::ranges::find(varied, found.key, &Choices::key) != varied.end()) {
        throw InputError("vary: " + in_quotes(key) + " is there twice");
      }
      varied.push_back(found);
    }
    prices_.assign(varied.size(), std::nullopt);
    for (const UnitPrice& price : sought.prices) {
      const auto priced = std::ranges::find(varied, price.key, &Choices::key);
      if (priced == varied.end()) {
        throw InputError("price: " + in_quotes(price.key->key) + " is not varied");
      }
      prices_[static_cast<std::size_t>(priced - varied.begin())] = price.per_unit;
    }
  }

  std::vector<Choices> varied;

  using Point = std::vector<std::optional<int>>;  // a choice of each number, nothing: as the chip has it

  double misses(const Point& point) const {
    ChipFile changed;
    try {
      changed = at(point);
    } catch (const InputError&) {
      return kCannotBe;
    }
    return misses_(changed);
  }

  VariedOf<ChipFile> answer(const Point& point) const {
    VariedOf<ChipFile> answer{{}, {}, at(point), cost(point)};
    for (std::size_t i = 0; i < varied.size(); ++i) {
      answer.values.push_back(answer.answer.chip.*varied[i].key->member);
      if (point[i]) {
        answer.option += (answer.option.empty() ? "--set '" : " --set '") + varied[i].assignment(*point[i]) + "'";
      }
    }
    return answer;
  }

  // Nothing where nothing has a price; what has none costs nothing.
  std::optional<double> cost(const Point& point) const {
    if (!has_prices()) {
      return std::nullopt;
    }
    double sum = 0;
    for (std::size_t i = 0; i < varied.size(); ++i) {
      if (point[i] && prices_[i]) {
        const double from = chip_.chip.*varied[i].key->member, to = varied[i].value(*point[i]);
        sum += *prices_[i] * (varied[i].best > 0 ? to - from : from - to);
      }
    }
    return sum;
  }
  bool has_prices() const {
    return std::ranges::any_of(prices_, [](const auto& price) { return price.has_value(); });
  }

 private:
  ChipFile at(const Point& point) const {
    ChipFile changed = chip_;
    for (std::size_t i = 0; i < varied.size(); ++i) {
      if (point[i]) {
        set_chip_key(changed, varied[i].assignment(*point[i]));
      }
    }
    return changed;
  }

  ChipFile chip_;
  std::function<double(const ChipFile&)> misses_;
  std::vector<std::optional<double>> prices_;  // as varied, of a base unit
};

LeastOf<ChipFile> least_alone(const Search& search, std::size_t number) {
  const auto point = [&](int choice) {
    Search::Point alone(search.varied.size());
    alone[number] = choice;
    return alone;
  };
  const Choices& varied = search.varied[number];
  const Reach found = find_reach(varied.worst, varied.best, [&](int choice) { return search.misses(point(choice)); });
  LeastOf<ChipFile> least{found.least.has_value(), search.answer(point(found.least.value_or(found.nearest))), {}};
  for (const auto& [first, last] : found.fails_again) {
    least.fails_again.emplace_back(varied.value(first), varied.value(last));
  }
  return least;
}

// What more of the first of two numbers saves of the second: corners of a staircase, the first rising, the second
// falling. A chip with more of both than one that reaches the target is taken to reach it, as it does but for ripples.
class TradeOff {
 public:
  explicit TradeOff(const Search& search) : search_(search), a_(search.varied[0]), b_(search.varied[1]) {}

  std::vector<Search::Point> corners() {
    const auto first = find_reach(
                           a_.worst, a_.best,
                           [&](int a) {
                             return search_.misses({a, b_.best});
                           },
                           8, 0)
                           .least;
    if (!first) {
      return {};  // not even with the most of both
    }
    std::vector<Cell> cells = sampled(*first);
    constexpr std::size_t kEnough = 16;
    while (!cells.empty() && corners_.size() < kEnough) {
      split(cells);
    }
    while (search_.has_prices() && !cells.empty()) {  // on where something cheaper may be
      const double cheapest = cost(*std::ranges::min_element(corners_, {}, [&](auto& one) { return cost(one); }));
      std::erase_if(cells, [&](const Cell& cell) { return cost({cell.low.a + 1, cell.high.b + 1}) >= cheapest; });
      split(cells);
    }
    std::ranges::sort(corners_, {}, [](const Corner& one) { return std::pair(one.a, one.b); });
    std::vector<Search::Point> points;
    for (const Corner& corner : corners_) {
      if (points.empty() || corner.b < *points.back()[1]) {
        points.push_back({corner.a, corner.b});
      }
    }
    return points;
  }

 private:
  struct Corner {
    int a = 0, b = 0;
  };
  struct Cell {  // all corners that are not known yet lie between such two
    Corner low, high;
    bool is_empty() const { return high.a - low.a < 2 || low.b - high.b < 2; }
  };

  double cost(const Corner& corner) const { return *search_.cost({corner.a, corner.b}); }

  // The least of one number with some of the other, the best if none does.
  int least_a(int worst, int best, int b) const {
    return find_reach(
               worst, best,
               [&](int a) {
                 return search_.misses({a, b});
               },
               2, 0)
        .least.value_or(best);
  }
  int least_b(int a, int worst, int best) const {
    return find_reach(
               worst, best,
               [&](int b) {
                 return search_.misses({a, b});
               },
               2, 0)
        .least.value_or(best);
  }

  // Corners at values of the first number all over its range, and the cells between them.
  std::vector<Cell> sampled(int first) {
    constexpr int kSamples = 8;
    std::vector<Corner> samples;
    for (int i = 0; i <= kSamples; ++i) {
      const double part = static_cast<double>(i) / kSamples;
      const auto a = static_cast<int>(std::lround(first * std::pow(static_cast<double>(a_.best) / first, part)));
      if (samples.empty() || a > samples.back().a) {
        samples.push_back({a, b_.best});
      }
    }
    parallel_for(static_cast<int>(samples.size()), all_cores(), [&](int i) {
      Corner& sample = samples[static_cast<std::size_t>(i)];
      sample.b = least_b(sample.a, b_.worst, b_.best);
    });
    corners_ = {samples.front()};
    std::vector<Cell> cells;
    Corner low = samples.front();
    for (const Corner& sample : samples) {
      if (sample.b < low.b) {
        corners_.push_back({least_a(low.a, sample.a, sample.b), sample.b});
        cells.push_back({low, corners_.back()});
        low.b = sample.b;
      }
      low.a = sample.a;
    }
    return cells;
  }

  // Each cell in two, at a corner in its middle where there is one.
  void split(std::vector<Cell>& cells) {
    std::erase_if(cells, [](const Cell& cell) { return cell.is_empty(); });
    std::vector<std::vector<Cell>> parts(cells.size());
    parallel_for(static_cast<int>(cells.size()), all_cores(), [&](int i) {
      const auto& [low, high] = cells[static_cast<std::size_t>(i)];
      std::vector<Cell>& part = parts[static_cast<std::size_t>(i)];
      const int a = low.a + (high.a - low.a) / 2;
      const int b = least_b(a, high.b, low.b);
      if (b == low.b) {
        part = {{{a, b}, high}};  // no corner up to here
      } else {
        const Corner corner{least_a(low.a, a, b), b};
        part = {{low, corner}, {{a, b}, high}};
      }
    });
    cells.clear();
    for (const std::vector<Cell>& part : parts) {
      if (part.size() == 2) {
        corners_.push_back(part[0].high);
      }
      cells.insert(cells.end(), part.begin(), part.end());
    }
  }

  const Search& search_;
  const Choices &a_, &b_;
  std::vector<Corner> corners_;
};

}  // namespace

ReachedOf<ChipFile> find_least(const Sought& sought) {
  const Search search(sought);
  ReachedOf<ChipFile> found{sought.chip, sought.misses(sought.chip) <= 0};
  for (std::size_t i = 0; i < search.varied.size(); ++i) {
    const ChipKey& key = *search.varied[i].key;
    found.vary.push_back({&key, sought.chip.chip.*key.member, sought.chip.provenance.find(key.key)->second.unit});
    found.alone.push_back(least_alone(search, i));
  }
  if (search.varied.size() == 2) {
    for (const Search::Point& corner : TradeOff(search).corners()) {
      found.trade_off.push_back(search.answer(corner));
    }
  }
  const auto offer = [&](const VariedOf<ChipFile>& one) {
    if (one.cost && (!found.cheapest || *one.cost < *found.cheapest->cost)) {
      found.cheapest = one;
    }
  };
  for (const LeastOf<ChipFile>& least : found.alone) {
    if (least.reaches) {
      offer(least.at);
    }
  }
  std::ranges::for_each(found.trade_off, offer);
  return found;
}

}  // namespace onchip
