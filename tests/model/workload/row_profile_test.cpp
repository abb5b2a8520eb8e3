// SPDX-License-Identifier: Apache-2.0
#include "model/workload/row_profile.hpp"

#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

using namespace onchip;

namespace {

// All lengths of a profile, longest first.
std::vector<int> sorted_lengths(const RowProfile& profile) {
  std::vector<int> lengths;
  for (int rank = 0; rank < profile.units(); ++rank) {
    for (int place = 0; place < profile.gates(); ++place) {
      lengths.push_back(profile.length(rank, place));
    }
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  return lengths;
}

double mean_length(const RowProfile& profile, int place) {
  double sum = 0;
  for (int rank = 0; rank < profile.units(); ++rank) {
    sum += profile.length(rank, place);
  }
  return sum / profile.units();
}

}  // namespace

TEST_CASE("units stand by falling length of their longest row, and a unit's rows by falling length", "[fast]") {
  const int gates = GENERATE(1, 3, 4);
  const int units = GENERATE(1, 2, 13, 61);
  const int different = GENERATE(1, 4, 62);  // lengths: few make many equals
  std::mt19937 random(units * gates * different);
  std::vector<int> lengths(static_cast<std::size_t>(units) * gates);
  std::generate(lengths.begin(), lengths.end(),
                [&] { return static_cast<int>(random() % std::min(units + 1, different)); });
  const RowProfile profile = RowProfile::from_matrix(rows_of_lengths(units, lengths));
  CHECK(profile.units() == units);
  CHECK(profile.gates() == gates);
  CHECK(profile.nnz() == std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));

  // Which of two comes first is said twice: by length, then by number. A selection sort by that alone is the oracle.
  const auto length = [&](int unit, int gate) { return lengths[static_cast<std::size_t>(gate) * units + unit]; };
  const auto longest = [&](int unit) {
    int most = 0;
    for (int gate = 0; gate < gates; ++gate) {
      most = std::max(most, length(unit, gate));
    }
    return most;
  };
  std::vector<bool> seen(units, false);
  for (int rank = 0; rank < units; ++rank) {
    int first = -1;
    for (int unit = 0; unit < units; ++unit) {
      if (!seen[unit] && (first < 0 || longest(unit) > longest(first))) {
        first = unit;
      }
    }
    seen[first] = true;
    REQUIRE(profile.unit(rank) == first);
    std::vector<bool> taken(gates, false);
    for (int place = 0; place < gates; ++place) {
      int best = -1;
      for (int gate = 0; gate < gates; ++gate) {
        if (!taken[gate] && (best < 0 || length(first, gate) > length(first, best))) {
          best = gate;
        }
      }
      taken[best] = true;
      REQUIRE(profile.gate(rank, place) == best);
      REQUIRE(profile.length(rank, place) == length(first, best));
    }
  }
  for (int place = 0; place < gates; ++place) {
    for (int rank = 0; rank < units; ++rank) {
      int most = 0;
      for (int later = rank; later < units; ++later) {
        most = std::max(most, profile.length(later, place));
      }
      REQUIRE(profile.longest_from(rank, place) == most);
    }
  }
}

TEST_CASE("expected row lengths follow the binomial distribution", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru, Cell::lstm);
  const double density = GENERATE(0.02, 0.1, 0.5);
  const Recurrent network{cell, Precision::fp16, 2304, 4, 1, density};
  CAPTURE(describe(network));
  const RowProfile expected = RowProfile::uniform(network);
  const RowProfile drawn = RowProfile::from_matrix(generate_mask(network.rows(), 2304, density, 3, Precision::fp16));
  CHECK(expected.units() == drawn.units());
  CHECK(expected.gates() == drawn.gates());
  CHECK(std::abs(static_cast<double>(expected.nnz() - drawn.nnz())) < 0.01 * static_cast<double>(drawn.nnz()));

  const double deviation = std::sqrt(2304 * density * (1 - density));
  const std::vector<int> a = sorted_lengths(expected), b = sorted_lengths(drawn);
  for (std::size_t i = 0; i < a.size(); i += 7) {
    const bool extreme = i < 50 || i + 50 > a.size();
    CAPTURE(i);
    REQUIRE(std::abs(a[i] - b[i]) < (extreme ? deviation : 0.2 * deviation + 2));
  }
  // A unit's gates have nothing to do with one another: its rows in order are as long as drawn ones are.
  for (int place = 0; place < expected.gates(); ++place) {
    CAPTURE(place);
    CHECK(std::abs(mean_length(expected, place) - mean_length(drawn, place)) < 0.1 * deviation);
    for (const int rank : {100, 1152, 2200}) {
      CHECK(std::abs(expected.longest_from(rank, place) - drawn.longest_from(rank, place)) < 1.5 * deviation);
    }
  }
}

TEST_CASE("expected row lengths of 2:4 masks are those of drawn ones", "[fast]") {
  const double density = GENERATE(0.1, 0.25, 0.4, 0.5);
  const Recurrent network{Cell::gru, Precision::fp16, 1152, 4, 1, density};
  CAPTURE(describe(network));
  const RowProfile expected = RowProfile::uniform(network, MaskKind::two_four);
  const RowProfile drawn = RowProfile::from_matrix(
      generate_mask(network.rows(), network.hidden, density, 3, Precision::fp16, MaskKind::two_four));
  const std::vector<int> a = sorted_lengths(expected), b = sorted_lengths(drawn);
  const auto deviation = [](const std::vector<int>& lengths) {
    double sum = 0, squares = 0;
    for (const int length : lengths) {
      sum += length;
      squares += static_cast<double>(length) * length;
    }
    const auto count = static_cast<double>(lengths.size());
    return std::sqrt(squares / count - sum / count * sum / count);
  };
  CHECK(std::abs(static_cast<double>(expected.nnz() - drawn.nnz())) <= 0.005 * static_cast<double>(drawn.nnz()));
  CHECK(std::abs(deviation(a) - deviation(b)) <= 0.05 * deviation(b));
  if (density == 0.5) {
    CHECK(a == std::vector<int>(network.rows(), 576));
  }
}

TEST_CASE("a profile knows whether its mask is 2:4, and if not where", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 64, 4, 1, 0.4};
  const auto drawn = [&](MaskKind kind) {
    return RowProfile::from_matrix(generate_mask(64, 64, 0.4, 1, Precision::fp16, kind));
  };
  CHECK(drawn(MaskKind::two_four).is_two_four());
  CHECK(drawn(MaskKind::two_four).kind() == MaskKind::two_four);
  CHECK_NOTHROW(check_two_four(drawn(MaskKind::two_four)));
  CHECK_FALSE(drawn(MaskKind::uniform).is_two_four());
  CHECK(drawn(MaskKind::uniform).kind() == MaskKind::uniform);
  CHECK_THROWS_WITH(check_two_four(drawn(MaskKind::uniform)), Catch::Matchers::Contains("row 0 has 3 non-zeros in"));
  CHECK(RowProfile::uniform(network, MaskKind::two_four).is_two_four());
  CHECK_FALSE(RowProfile::uniform(network).is_two_four());
  CHECK_THROWS_WITH(check_two_four(RowProfile::uniform(network)), Catch::Matchers::Contains("a mask of another kind"));
  Recurrent dense = network;
  dense.density = 0.51;
  CHECK_THROWS_WITH(RowProfile::uniform(dense, MaskKind::two_four), Catch::Matchers::Contains("at most half"));
}

TEST_CASE("expected row lengths lie between no element and a whole row, and are the same every time", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  for (const int hidden : {1, 2, 37, 1000}) {
    for (const double density : {0.0001, 0.5, 0.999, 1.0}) {
      const Recurrent network{cell, Precision::fp16, hidden, 4, 1, density};
      CAPTURE(describe(network));
      const std::vector<int> lengths = sorted_lengths(RowProfile::uniform(network));
      REQUIRE(lengths.size() == static_cast<std::size_t>(network.rows()));
      CHECK(lengths.front() <= hidden);
      CHECK(lengths.back() >= 0);
      CHECK((density < 1 || lengths.back() == hidden));
      CHECK(sorted_lengths(RowProfile::uniform(network)) == lengths);
    }
  }
}
