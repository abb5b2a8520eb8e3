// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction of a * b + c: a border pixel would depend on it.
#include "model/feed_forward/data/digits.hpp"

#include "model/base/parallel.hpp"
#include "model/base/random.hpp"
#include "model/feed_forward/data/sides.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr double kField = 28;  // points lie on 28 x 28
constexpr int kGrid = 48;      // on which the stroke's width is found

struct Point {
  double x, y;
};
using Polyline = std::vector<Point>;

const std::array<std::vector<Polyline>, 10> kDigits{{
    {{{14, 5}, {8, 7}, {7, 14}, {9, 21}, {14, 23}, {20, 20}, {21, 13}, {18, 6}, {14, 5}}},
    {{{15, 5}, {14, 14}, {13, 23}}},
    {{{8, 9}, {11, 5}, {17, 5}, {19, 10}, {14, 16}, {8, 21}, {9, 23}, {15, 21}, {21, 22}}},
    {{{8, 6}, {14, 5}, {19, 8}, {15, 13}, {12, 14}, {18, 16}, {19, 20}, {13, 23}, {8, 22}}},
    {{{9, 5}, {7, 13}, {9, 16}, {18, 14}}, {{19, 5}, {17, 14}, {16, 23}}},
    {{{20, 5}, {11, 6}, {9, 13}, {15, 12}, {20, 16}, {17, 22}, {10, 23}, {7, 21}}},
    {{{17, 5}, {10, 10}, {8, 18}, {11, 23}, {17, 22}, {19, 17}, {14, 14}, {9, 17}}},
    {{{7, 7}, {14, 6}, {20, 6}, {17, 14}, {14, 23}}},
    {{{14, 14}, {9, 10}, {12, 5}, {18, 6}, {17, 11}, {12, 15}, {8, 20}, {13, 23}, {18, 20}, {16, 15}, {14, 14}}},
    {{{18, 9}, {13, 5}, {8, 9}, {11, 14}, {17, 12}, {19, 8}, {18, 15}, {16, 23}}},
}};

// Quantiles of (set pixels / their mean) of upscaled MNIST images.
constexpr std::array<Point, 37> kQuantiles{
    {{0, .0959},    {.001, .2086},  {.0025, .2518}, {.005, .2830},  {.01, .3142},    {.02, .3573},
     {.035, .4053}, {.05, .4437},   {.075, .4916},  {.1, .5348},    {.15, .6043},    {.2, .6595},
     {.25, .7099},  {.3, .7578},    {.35, .8058},   {.4, .8537},    {.45, .9017},    {.5, .9521},
     {.55, 1.0},    {.6, 1.0528},   {.65, 1.1104},  {.7, 1.1703},   {.75, 1.2375},   {.8, 1.3166},
     {.85, 1.4101}, {.9, 1.53},     {.925, 1.6116}, {.95, 1.7195},  {.965, 1.8106},  {.98, 1.9401},
     {.99, 2.1032}, {.995, 2.2519}, {.9975, 2.391}, {.999, 2.5972}, {.9995, 2.7123}, {1, 3.2}}};

double quantile(double p) {
  const auto after = std::find_if(kQuantiles.begin() + 1, kQuantiles.end() - 1, [&](Point q) { return p <= q.x; });
  const Point a = after[-1], b = *after;
  return a.y + (b.y - a.y) * (p - a.x) / (b.x - a.x);
}

// The wanted share of set pixels.
double share_of(double p, const Side& side) {
  const double area = static_cast<double>(side.set_pixels) / 60000 / (static_cast<double>(side.width) * side.width);
  const double t = std::max(0.0, (p - 0.85) / 0.15);
  return area * quantile(p) * (1 + side.heavy_tail * t) / (1 + 0.124 * side.heavy_tail);
}

struct Segment {
  Point from, to;
};

double squared_distance(Point p, const Segment& segment) {
  const double dx = segment.to.x - segment.from.x, dy = segment.to.y - segment.from.y;
  const double squared_length = dx * dx + dy * dy;
  double t = 0;
  if (squared_length > 0) {
    t = std::clamp(((p.x - segment.from.x) * dx + (p.y - segment.from.y) * dy) / squared_length, 0.0, 1.0);
  }
  const double x = p.x - (segment.from.x + t * dx), y = p.y - (segment.from.y + t * dy);
  return x * x + y * y;
}

// Calls take(c, r, squared distance) for the pixels of a width x width image that are within `reach` of a segment, and
// for some around them.
template <typename Take>
void for_each_near(const Segment& segment, double reach, int width, Take&& take) {
  const auto span = [&](double a, double b) {
    const double low = (std::min(a, b) - reach) * width / kField, high = (std::max(a, b) + reach) * width / kField;
    return std::pair{std::clamp(static_cast<int>(std::floor(low)) - 1, 0, width),
                     std::clamp(static_cast<int>(std::ceil(high)) + 2, 0, width)};
  };
  const auto [c_begin, c_end] = span(segment.from.x, segment.to.x);
  const auto [r_begin, r_end] = span(segment.from.y, segment.to.y);
  for (int c = c_begin; c < c_end; ++c) {
    for (int r = r_begin; r < r_end; ++r) {
      take(c, r, squared_distance({c * kField / width, r * kField / width}, segment));
    }
  }
}

// Of all pixels of the grid. Those within a reach are looked at, a larger one where they are too few.
float squared_distance_of_rank(const std::vector<Segment>& segments, int rank) {
  for (double reach = 1.5;; reach *= 2) {
    std::array<std::array<double, kGrid>, kGrid> least;
    for (auto& column : least) {
      column.fill(INFINITY);
    }
    for (const Segment& segment : segments) {
      for_each_near(segment, reach, kGrid,
                    [&](int c, int r, double distance) { least[c][r] = std::min(least[c][r], distance); });
    }
    std::vector<float> near;
    for (const auto& column : least) {
      std::ranges::copy_if(column, std::back_inserter(near), [&](double distance) { return distance < reach * reach; });
    }
    if (std::ssize(near) > rank) {
      std::ranges::nth_element(near, near.begin() + rank);
      return near[rank];
    }
  }
}

Polyline cut_corners(const Polyline& line) {
  Polyline cut{line.front()};
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    const Point a = line[i], b = line[i + 1];
    cut.push_back({0.75 * a.x + 0.25 * b.x, 0.75 * a.y + 0.25 * b.y});
    cut.push_back({0.25 * a.x + 0.75 * b.x, 0.25 * a.y + 0.75 * b.y});
  }
  cut.push_back(line.back());
  return cut;
}

struct Strokes {
  std::vector<Segment> segments;
  float squared_width;
};

Strokes draw(std::uint64_t seed, std::uint64_t image, const Side& side) {
  std::uint64_t drawn = 0;
  const std::uint64_t state = seed * 0xD1342543DE82EF95 + image * 0x2545F4914F6CDD1D + 1;
  const auto next = [&] { return splitmix64(state, drawn++); };
  const auto unit = [&] { return static_cast<double>(next() >> 11) * 0x1p-53; };
  const auto within = [&](double a, double b) { return a + (b - a) * unit(); };
  next();
  next();
  const std::size_t digit = next() % kDigits.size();
  const double share = share_of(unit(), side);
  const double scale_x = within(0.8, 1.15), scale_y = within(0.88, 1.12), shear = within(-0.35, 0.35);
  const double shift_x = within(-1, 1), shift_y = within(-1, 1);
  Strokes strokes{};
  for (Polyline line : kDigits[digit]) {
    for (Point& point : line) {
      const double x = point.x - 14 + within(-1.3, 1.3), y = point.y - 14 + within(-1.3, 1.3);
      point = {14 + scale_x * x - shear * y + shift_x, 14 + scale_y * y + shift_y};
    }
    line = cut_corners(cut_corners(line));
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
      strokes.segments.push_back({line[i], line[i + 1]});
    }
  }
  const int rank = std::clamp(static_cast<int>(share * kGrid * kGrid), 0, kGrid * kGrid - 1);
  strokes.squared_width = squared_distance_of_rank(strokes.segments, rank);
  return strokes;
}

}  // namespace

Bitmaps synthetic_digits(int neurons, int first, int count, std::uint64_t seed) {
  const int width = image_width(neurons);
  const Side& side = nearest_side(width);
  Bitmaps bitmaps{count, neurons, {}};
  const auto words = static_cast<std::size_t>(bitmaps.words_per_image());
  bitmaps.words.resize(words * static_cast<std::size_t>(count));
  parallel_for(count, all_cores(), [&](int image) {
    const Strokes strokes = draw(seed, static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(image), side);
    const double reach = std::sqrt(static_cast<double>(strokes.squared_width));
    std::uint32_t* const bits = bitmaps.words.data() + words * static_cast<std::size_t>(image);
    for (const Segment& segment : strokes.segments) {
      for_each_near(segment, reach, width, [&](int c, int r, double distance) {
        const int neuron = c * width + r;
        bits[neuron / 32] |= static_cast<std::uint32_t>(distance < strokes.squared_width) << neuron % 32;
      });
    }
  });
  return bitmaps;
}

}  // namespace onchip
