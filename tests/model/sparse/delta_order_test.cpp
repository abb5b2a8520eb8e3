// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/delta_order.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

using namespace onchip;

namespace {

// Ascending places, with distances up to `widest`.
std::vector<Placed> random_row(std::mt19937_64& random, int length, int widest) {
  std::vector<Placed> row;
  std::int32_t place = static_cast<std::int32_t>(random() % 100);
  for (int i = 0; i < length; ++i) {
    row.push_back({place, i});
    place += 1 + static_cast<std::int32_t>(random() % widest);
  }
  return row;
}

BankRule rule_of(int batch) {
  const Recurrent network{Cell::relu, Precision::fp16, 1000, batch, 1, 0.1};
  SparsePlan plan;
  plan.sms = 1;
  plan.threads = 32;
  return BankRule(SparseGeometry(network, plan).plane_unit_bytes);
}

constexpr std::int32_t kIdle = 1 << 20;

// Wavefronts of all phases of all slots, and how many phases there are.
std::pair<int, int> wavefronts_of(const std::vector<Placed>& taken, const BankRule& rule) {
  int wavefronts = 0, phases = 0;
  for (std::size_t first = 0; first < taken.size(); first += rule.phase_lanes, ++phases) {
    std::map<int, std::set<int>> words;
    std::size_t most = 0;
    for (int i = 0; i < rule.phase_lanes; ++i) {
      const int word = taken[first + i].place * rule.stride / std::max(4, rule.stride);
      auto& of_set = words[word % rule.bank_sets];
      of_set.insert(word);
      most = std::max(most, of_set.size());
    }
    wavefronts += static_cast<int>(most);
  }
  return {wavefronts, phases};
}

}  // namespace

TEST_CASE("rows are cut into stretches that hold all of them and take no more than their share of slots", "[fast]") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto row = random_row(random, static_cast<int>(random() % 90), 1 + static_cast<int>(random() % 700));
    const int lanes = 1 << random() % 6;
    const auto stretches = cut_row(row, lanes);
    REQUIRE(stretches.size() == static_cast<std::size_t>(lanes));
    std::size_t seen = 0;
    for (const auto& stretch : stretches) {
      REQUIRE((stretch.empty() || stretch.data() == row.data() + seen));
      REQUIRE(delta_slots(stretch) <= (delta_slots(row) + lanes - 1) / lanes);
      seen += stretch.size();
    }
    REQUIRE(seen == row.size());
  }
}

TEST_CASE("every lane takes each of its non-zeros once, by distances of 8 bits", "[fast]") {
  std::mt19937_64 random(2);
  for (const bool bank_aware : {false, true}) {
    for (int round = 0; round < 200; ++round) {
      const BankRule rule = rule_of(1 << random() % 5);
      const int widest = 1 + static_cast<int>(random() % 400), longest = 1 + static_cast<int>(random() % 60);
      std::array<std::vector<Placed>, kWarpLanes> rows;
      std::array<std::span<const Placed>, kWarpLanes> lanes;
      int slots = 0;
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        rows[lane] = random_row(random, random() % 5 == 0 ? 0 : static_cast<int>(random() % longest), widest);
        lanes[lane] = rows[lane];
        slots = std::max(slots, delta_slots(rows[lane]));
      }
      slots += static_cast<int>(random() % 4);
      const auto taken = order_deltas(lanes, slots, rule, bank_aware, kIdle);
      REQUIRE(taken.size() == static_cast<std::size_t>(slots) * kWarpLanes);
      int wrong = 0;
      for (int lane = 0; lane < kWarpLanes; ++lane) {
        std::set<std::int64_t> seen;
        for (int slot = 0; slot < slots; ++slot) {
          const Placed& now = taken[slot * kWarpLanes + lane];
          if (slot > 0) {
            wrong += std::abs(now.place - taken[(slot - 1) * kWarpLanes + lane].place) > kMostDelta;
          }
          if (now.element >= 0) {
            wrong += !seen.insert(now.element).second;
            wrong += rows[lane].at(static_cast<std::size_t>(now.element)).place != now.place;
          }
          // An idle lane stays behind the state, any other before it.
          wrong +=
              rows[lane].empty() ? now.place < kIdle || now.place >= kIdle + 64 : now.place < 0 || now.place >= kIdle;
        }
        wrong += seen.size() != rows[lane].size();
      }
      CAPTURE(bank_aware, round, rule.bank_sets, widest, slots);
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("evened out, stretches are the same ones in lanes of the same group, and phases need sets more evenly",
          "[fast]") {
  std::mt19937_64 random(3);
  const BankRule rule = rule_of(GENERATE(4, 8));
  std::array<std::vector<Placed>, kWarpLanes> rows;
  std::array<std::span<const Placed>, kWarpLanes> lanes;
  std::array<int, kWarpLanes> group;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    rows[lane] = random_row(random, 16, 19);
    lanes[lane] = rows[lane];
    group[lane] = lane % 2;
  }
  const auto unevenness = [&] {
    std::map<std::pair<int, int>, int> needs;  // of a phase and set
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (const Placed& placed : lanes[lane]) {
        ++needs[{lane / rule.phase_lanes, rule.set_of(placed.place)}];
      }
    }
    int squares = 0;
    for (const auto& [at, need] : needs) {
      squares += need * need;
    }
    return squares;
  };
  const int before = unevenness();
  even_out_phases(lanes, group, rule);
  CHECK(unevenness() < before);
  std::set<std::pair<int, const Placed*>> expected, found;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    expected.insert({group[lane], rows[lane].data()});
    found.insert({group[lane], lanes[lane].data()});
  }
  CHECK(found == expected);
}

TEST_CASE("lanes that need the same words read them at once, where one set has more non-zeros than there are slots",
          "[fast]") {
  const BankRule rule = rule_of(4);
  // A phase of 16 lanes, 20 slots: each lane needs set 0 twice, 32 times in all, but only 16 different words in it.
  std::array<std::vector<Placed>, kWarpLanes> rows;
  std::array<std::span<const Placed>, kWarpLanes> lanes;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const int in_phase = lane % rule.phase_lanes, pair = in_phase / 2;
    for (int i = 0; i < 20; ++i) {
      const bool is_scarce = i == 5 || i == 12;
      const int set = is_scarce ? 0 : 1 + (in_phase * 7 + i) % 15;
      rows[lane].push_back({1000 * pair + 16 * i + set, i});
    }
    lanes[lane] = rows[lane];
  }
  const auto [wavefronts, phases] = wavefronts_of(order_deltas(lanes, 20, rule, true, kIdle), rule);
  CHECK(phases == 40);
  CHECK(wavefronts <= 1.15 * phases);  // at least 64 without a shared word
}

TEST_CASE("rows at random, as dense as those of large networks, have few conflicts", "[fast]") {
  struct Case {
    int batch, slots, widest;
    double most;  // wavefronts per phase
  };
  const auto [batch, slots, widest, most] =
      GENERATE(Case{4, 72, 19, 1.13}, Case{4, 200, 9, 1.01}, Case{8, 72, 19, 1.03}, Case{1, 72, 19, 1.1});
  std::mt19937_64 random(5);
  const BankRule rule = rule_of(batch);
  std::array<std::vector<Placed>, kWarpLanes> rows;
  std::array<std::span<const Placed>, kWarpLanes> lanes;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    // Four rows whose lanes go through the same stretches of the state.
    const std::int32_t begin = lane / 4 * slots * (widest + 1) / 2;
    rows[lane] = random_row(random, slots - 2, widest);
    for (Placed& placed : rows[lane]) {
      placed.place += begin;
    }
    lanes[lane] = rows[lane];
  }
  const auto [wavefronts, phases] = wavefronts_of(order_deltas(lanes, slots, rule, true, kIdle), rule);
  CAPTURE(batch, slots, widest, wavefronts, phases);
  CHECK(wavefronts < most * phases);
}
