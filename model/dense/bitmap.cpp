// SPDX-License-Identifier: Apache-2.0
#include "model/dense/bitmap.hpp"

#include "model/base/error.hpp"
#include "model/dense/fragments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace onchip {
namespace {

static_assert(WordMask::kSpan == kSpanUnits);

// Of a warp's tiles, which are in shared memory.
std::vector<char> tiles_in_shared(const DenseGeometry& geometry) {
  const int tiles = geometry.warp_tiles;
  std::vector<char> in_shared(tiles);
  for (int tile = 0; tile < tiles; ++tile) {
    in_shared[tile] = is_in_shared(tile, geometry.shared_tiles, tiles);
  }
  return in_shared;
}

// The sum of floor((a * i + b) / m) over i from 0 to n - 1.
std::int64_t floor_sum(std::int64_t n, std::int64_t m, std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    const std::int64_t end = a % m * n + b % m;
    a %= m;
    n = end / m;
    b = end % m;
    std::swap(m, a);
  }
  return sum;
}

}  // namespace

std::vector<int> stream_lengths(const DenseGeometry& geometry, const WordMask& mask) {
  const int units = geometry.units_per_sm, gates = geometry.gates;
  const int row_tiles = geometry.row_tiles, spans_of_warp = geometry.warp_spans;
  const std::vector<char> in_shared = tiles_in_shared(geometry);
  // Of a span of a warp and a tile of rows, [spans_of_warp, row_tiles]: the words of both halves that are in shared
  // memory. Lane c of a row has those of columns 8 c ... 8 c + 7, two of each half.
  std::vector<unsigned> words(static_cast<std::size_t>(spans_of_warp) * row_tiles);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t tile = i / row_tiles * 2 * row_tiles + i % row_tiles;
    words[i] = (in_shared[tile] ? 0x3333U : 0) | (in_shared[tile + row_tiles] ? 0xccccU : 0);
  }
  std::vector<int> lengths(static_cast<std::size_t>(geometry.sms) * geometry.threads);
  for (int row = 0; row < geometry.network.rows(); ++row) {
    const int gate = row / geometry.network.hidden, unit = row % geometry.network.hidden;
    const int row_of_sm = unit % units * gates + gate;
    int* lanes = lengths.data() + static_cast<std::size_t>(unit / units) * geometry.threads + row_of_sm % 16 / 2 * 4;
    const std::uint16_t* const spans = mask.of_span.data() + static_cast<std::size_t>(row) * mask.spans;
    for (int first = 0; first < mask.spans; first += spans_of_warp, lanes += kWarp) {
      const int count = std::min(spans_of_warp, mask.spans - first);
      unsigned even = 0, odd = 0;  // lanes 0 and 2, and 1 and 3, in 16 bits each
      for (int i = 0; i < count; ++i) {
        const unsigned there = spans[first + i] & words[static_cast<std::size_t>(i) * row_tiles + row_of_sm / 16];
        const unsigned pairs = there - (there >> 1 & 0x5555U);               // bits, two by two
        const unsigned counts = (pairs & 0x3333U) + (pairs >> 2 & 0x3333U);  // four by four
        even += (counts & 0x000fU) | (counts & 0x0f00U) << 8;
        odd += (counts >> 4 & 0x000fU) | (counts >> 4 & 0x0f00U) << 8;
      }
      lanes[0] += static_cast<int>(even & 0xffffU);
      lanes[1] += static_cast<int>(odd & 0xffffU);
      lanes[2] += static_cast<int>(even >> 16);
      lanes[3] += static_cast<int>(odd >> 16);
    }
  }
  return lengths;
}

int assign_streams(std::span<const int> lengths, std::span<std::uint32_t> begins) {
  std::array<int, kWarp> words{}, banks, lanes;
  std::iota(banks.begin(), banks.end(), 0);
  for (std::size_t first = 0; first < lengths.size(); first += kWarp) {
    std::iota(lanes.begin(), lanes.end(), 0);
    std::sort(lanes.begin(), lanes.end(), [&](int a, int b) {
      return lengths[first + a] != lengths[first + b] ? lengths[first + a] > lengths[first + b] : a < b;
    });
    std::sort(banks.begin(), banks.end(),
              [&](int a, int b) { return words[a] != words[b] ? words[a] < words[b] : a < b; });
    for (int i = 0; i < kWarp; ++i) {
      begins[first + lanes[i]] = static_cast<std::uint32_t>(kBankRowBytes * words[banks[i]] + 4 * banks[i]);
      words[banks[i]] += lengths[first + lanes[i]];
    }
  }
  return *std::max_element(words.begin(), words.end());
}

int needed_bank_words(const DenseGeometry& geometry, const WordMask& mask) {
  const std::vector<int> lengths = stream_lengths(geometry, mask);
  std::vector<std::uint32_t> begins(geometry.threads);
  int most = 0;
  for (int sm = 0; sm < geometry.sms; ++sm) {
    most = std::max(most, assign_streams(std::span(lengths).subspan(static_cast<std::size_t>(sm) * geometry.threads,
                                                                    static_cast<std::size_t>(geometry.threads)),
                                         begins));
  }
  return most;
}

void check_bank_words(const DenseGeometry& geometry, const WordMask& mask) {
  const int needed = needed_bank_words(geometry, mask);
  if (needed > geometry.bank_words) {
    throw InputError("the mask needs bank_words=" + std::to_string(needed) +
                     " for the words of its tiles in shared memory that are not empty, the plan has room for " +
                     std::to_string(geometry.bank_words));
  }
}

int expected_bank_words(const DenseGeometry& geometry, double share) {
  // The words of an SM beyond what is expected, and those of the fullest bank beyond the mean one's, which depends on
  // how uneven single streams are: of 1500 draws of nine shapes at most 3.8 of their deviations, 1.0 on average; and on
  // how much longer some are than the mean one, because other lanes have rows beyond the last.
  constexpr double kDeviations = 7, kOfStream = 4;
  const int tiles = geometry.warp_tiles, rows = geometry.units_per_sm * geometry.gates;
  const int tiles_of_rows = geometry.row_tiles, halves = 2 * geometry.warp_spans;
  // Of the first so many halves of a warp's spans, the words there may be in shared memory: those of whole tiles,
  // without the rows that the last of each half lacks.
  const auto words_of = [&](std::int64_t some) {
    const std::int64_t shared = geometry.shared_tiles, step = tiles_of_rows * shared;
    const std::int64_t last = floor_sum(some, tiles, step, step) - floor_sum(some, tiles, step, step - shared);
    const int of_tiles = shared_tiles_before(static_cast<int>(some) * tiles_of_rows, geometry.shared_tiles, tiles);
    return 8.0 * (16.0 * of_tiles - static_cast<double>((16 * tiles_of_rows - rows) * last));
  };
  // That there may be: of a warp that has all of its spans, and of an SM, whose last warp has fewer.
  const double of_warp = words_of(halves);
  const double words =
      geometry.spans / geometry.warp_spans * of_warp + words_of(2 * (geometry.spans % geometry.warp_spans));
  const double deviation = std::sqrt(share * (1 - share));
  const double longest = kLaneWords * geometry.shared_tiles;
  const double fullest = (share * words + kDeviations * deviation * std::sqrt(words)) / kWarp +
                         kOfStream * deviation * std::sqrt(longest) + share * (longest - of_warp / kWarp) + 1;
  return static_cast<int>(std::ceil(std::min(fullest, longest * geometry.warps())));
}

}  // namespace onchip
