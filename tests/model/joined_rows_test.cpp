// SPDX-License-Identifier: Apache-2.0
#include "model/joined_block.hpp"

#include "model/joined_rows.hpp"
#include "model/layout.hpp"
#include "model/phase_colouring.hpp"
#include "model/step_time.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

UnitLengths random_lengths(std::mt19937& random, int most) {
  UnitLengths lengths{};
  for (std::int64_t& length : lengths) {
    length = random() % 8 == 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
  }
  return lengths;
}

PlannedCase lstm_of_768(MaskKind mask) {
  return planned_case({.cell = Cell::lstm,
                       .hidden = 768,
                       .batch = 2,
                       .sms = 32,
                       .lanes = 16,
                       .units_per_group = 1,
                       .density = 0.1,
                       .mask = mask});
}

}  // namespace

TEST_CASE("joined rows are on the lanes whole, at most two in a lane, and a second begins with a strip", "[fast]") {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const UnitLengths lengths = random_lengths(random, 1 + static_cast<int>(random() % 900));
    const int lanes = 4 << random() % 4, strip = 2 << random() % 5;
    const int in_registers = random() % 2 ? kAnywhere : static_cast<int>(random() % 60);
    const int slots = joined_slots(lengths, lanes, strip, in_registers);
    CAPTURE(lengths, lanes, strip, in_registers, slots);
    const std::vector<LaneRows> joined = join_rows(lengths, lanes, slots, in_registers, strip);
    REQUIRE(std::ssize(joined) == lanes);
    REQUIRE((slots == 0 || join_rows(lengths, lanes, slots - 1, in_registers, strip).empty()));
    UnitLengths found{};
    for (const LaneRows& lane : joined) {
      if (lane.first != LaneRows::kNone) {
        found[lane.first] += lane.of_first;
      }
      REQUIRE(lane.of_first <= slots);
      if (lane.second == LaneRows::kNone) {
        continue;
      }
      found[lane.second] += lane.of_second;
      REQUIRE(lane.second > lane.first);
      REQUIRE(lane.begin % strip == 0);
      REQUIRE(lane.of_first <= lane.begin);
      REQUIRE(lane.begin <= in_registers);
      REQUIRE(lane.begin + lane.of_second <= slots);
    }
    REQUIRE(found == lengths);
    const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    REQUIRE((slots == 0) == (all == 0));
    // A row of a few strips wastes at most one strip where it ends.
    const bool are_long = std::ranges::all_of(lengths, [&](auto length) { return length == 0 || length > 2 * slots; });
    if (in_registers == kAnywhere && are_long) {
      REQUIRE(std::int64_t{slots} * lanes < all + lanes + 4 * strip);
    }
  }
}

TEST_CASE("rows of a block are on its lanes whole, and stay with their warps as far as there is room", "[fast]") {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    const int warps = 1 + static_cast<int>(random() % 12), rows_of_warp = 1 + static_cast<int>(random() % 16);
    const int strip = 2 << random() % 4, most = 1 + static_cast<int>(random() % 900);
    std::vector<std::int64_t> of_rows;
    for (int row = 0; row < warps * rows_of_warp; ++row) {
      const bool is_long = random() % 40 == 0;
      of_rows.push_back(random() % 8 == 0 ? 0 : static_cast<std::int64_t>(random() % (is_long ? 8 * most : most)));
    }
    const int slots = block_slots(of_rows, warps, strip);
    CAPTURE(of_rows, warps, strip, slots);
    const std::vector<LaneRows> lanes = join_block(of_rows, warps, slots, strip);
    REQUIRE(std::ssize(lanes) == warps * 32);
    REQUIRE((slots == 1 || join_block(of_rows, warps, slots - 1, strip).empty()));
    std::vector<std::int64_t> found(of_rows.size(), 0);
    std::vector<int> count(of_rows.size(), 0);
    std::vector<bool> waits(static_cast<std::size_t>(warps), false);
    const auto add = [&](int lane, int row, int slots_taken) {
      found[row] += slots_taken;
      ++count[row];
      waits[row / rows_of_warp] = waits[row / rows_of_warp] || row / rows_of_warp != lane / 32;
    };
    for (int lane = 0; lane < std::ssize(lanes); ++lane) {
      const LaneRows& of = lanes[lane];
      if (of.first != LaneRows::kNone) {
        REQUIRE((of.of_first > 0 && of.of_first <= slots));
        add(lane, of.first, of.of_first);
      }
      if (of.second != LaneRows::kNone) {
        REQUIRE((of.second != of.first && of.of_second > 0));
        REQUIRE((of.begin % strip == 0 && of.of_first <= of.begin && of.begin + of.of_second <= slots));
        add(lane, of.second, of.of_second);
      }
    }
    REQUIRE(found == of_rows);
    // A warp that has room for its own rows needs nobody, and numbers of parts follow one another row by row.
    const BlockParts parts = number_parts(lanes, static_cast<int>(std::ssize(of_rows)));
    REQUIRE((parts.count == count && parts.waits == waits));
    for (int warp = 0; warp < warps; ++warp) {
      const std::vector<std::int64_t> own(of_rows.begin() + warp * rows_of_warp,
                                          of_rows.begin() + (warp + 1) * rows_of_warp);
      REQUIRE((!waits[warp] || join_block(own, 1, slots, strip).empty()));
    }
    std::vector<bool> taken(static_cast<std::size_t>(std::accumulate(count.begin(), count.end(), 0)), false);
    const auto take = [&](int row, int number) {
      REQUIRE((number >= parts.begin[row] && number < parts.begin[row] + parts.count[row] && !taken[number]));
      taken[number] = true;
    };
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (lanes[lane].first != LaneRows::kNone) {
        take(lanes[lane].first, parts.of_first[lane]);
      }
      if (lanes[lane].second != LaneRows::kNone) {
        take(lanes[lane].second, parts.of_second[lane]);
      }
    }
    REQUIRE(std::ranges::all_of(taken, [](bool is) { return is; }));
  }
}

TEST_CASE("a unit that is cut keeps what there is room for, and loses whole pieces of its longest rows", "[fast]") {
  std::mt19937 random(3);
  Plan plan;
  plan.lanes_per_row = 16;
  plan.strip_slots = 8;
  plan.pieces = 2;
  const Network network{Cell::lstm, Precision::fp16, 1024, 4, 16, 0.1};
  for (int i = 0; i < 500; ++i) {
    plan.slots[0] = 8 + static_cast<int>(random() % 60);
    plan.piece_slots = 1 + static_cast<int>(random() % 20);
    const UnitLengths lengths = random_lengths(random, 1024);
    const UnitCut cut = cut_unit(network, plan, 0, lengths);
    CAPTURE(plan.slots[0], plan.piece_slots, lengths, cut.kept, cut.pieces);
    REQUIRE(joined_slots(plan, 0, cut.kept) <= plan.slots[0]);
    const std::int64_t piece = std::int64_t{plan.piece_slots} * plan.lanes_per_row;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
      const std::int64_t gone = lengths[row] - cut.kept[row];
      REQUIRE(gone <= cut.pieces[row] * piece);
      REQUIRE(gone > (cut.pieces[row] - 1) * piece);
    }
    const bool has_room = joined_slots(lengths, 16, 8) <= plan.slots[0];
    REQUIRE(has_room == std::ranges::all_of(cut.pieces, [](int pieces) { return pieces == 0; }));
  }
}

TEST_CASE("a layout of joined rows is the matrix", "[fast]") {
  for (const PlannedCase& c : every_join()) {
    CAPTURE(c.text());
    const Layout layout = c.layout();
    CHECK(unpack(layout) == c.matrix);
    CHECK(make_layout(c.network, c.plan, c.matrix, 3).place == layout.place);
    const int gates = info(c.network.cell).gates;
    CHECK(std::ssize(lanes_of_rows(layout)) == c.plan.sms * (c.plan.rows_per_group / gates) * c.plan.threads);
    const int of_sm = c.plan.joins_block > 0 ? units_per_sm(c.network, c.plan) * gates : 0;
    CHECK(std::ssize(parts_of_rows(layout)) == c.plan.sms * of_sm);
  }
}

TEST_CASE("joined rows need fewer slots than the longest of each place, and fewer wavefronts", "[fast]") {
  for (const MaskKind mask : {MaskKind::uniform, MaskKind::power_law}) {
    PlannedCase apart = lstm_of_768(mask);
    const PlannedCase together = joined(apart);
    CHECK(together.plan.slots_total() < apart.plan.slots_total());
    const Wavefronts before = gather_wavefronts(apart.layout()), after = gather_wavefronts(together.layout());
    CHECK(after.total < before.total);
    const double degree = static_cast<double>(after.total) / static_cast<double>(after.ideal);
    CHECK(degree < static_cast<double>(before.total) / static_cast<double>(before.ideal));
    const ExpectedWavefronts expected = expected_wavefronts(together.network, together.plan);
    CHECK_THAT(expected.expected,
               Catch::Matchers::WithinRel(static_cast<double>(after.total) / together.plan.sms, 0.1));
  }
}

TEST_CASE("rows that are joined over an SM fill nearly all slots, however uneven", "[fast]") {
  for (const MaskKind mask : {MaskKind::uniform, MaskKind::power_law}) {
    const PlannedCase c = joined_in_block(lstm_of_768(mask));
    const double filled =
        static_cast<double>(c.matrix.nnz()) / (static_cast<double>(c.plan.slots[0]) * c.plan.threads * c.plan.sms);
    CAPTURE(c.text());
    CHECK(filled > 0.85);
    CHECK(unpack(make_layout(c.network, c.plan, c.matrix)) == c.matrix);
  }
}

TEST_CASE("edges of fixed lanes stay where they are, and no phase has two of a set", "[fast]") {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const int sets = 4 + static_cast<int>(random() % 12), lanes = sets, phases = 3 + static_cast<int>(random() % 80);
    PhaseColouring colouring(sets, lanes, phases);
    std::map<std::pair<int, int>, int> fixed;  // lane and phase: set
    for (int lane = 0; lane < lanes / 3; ++lane) {
      colouring.fix(lane);
      for (int phase = 0; phase < phases; ++phase) {
        if (const int set = static_cast<int>(random() % sets); random() % 2 && colouring.is_free(set, phase)) {
          colouring.add_fixed(set, lane, phase);
          fixed[{lane, phase}] = set;
        }
      }
    }
    int added = 0;
    for (int lane = lanes / 3; lane < lanes; ++lane) {
      for (int k = 0; k < phases; ++k) {
        added += colouring.add(static_cast<int>(random() % sets), lane) ? 1 : 0;
      }
    }
    int found = 0;
    for (int phase = 0; phase < phases; ++phase) {
      std::vector<int> hits(sets, 0);
      for (int lane = 0; lane < lanes; ++lane) {
        const int set = colouring.set_at(lane, phase);
        if (lane < lanes / 3) {
          const auto at = fixed.find({lane, phase});
          REQUIRE(set == (at == fixed.end() ? PhaseColouring::kNone : at->second));
        } else {
          found += set != PhaseColouring::kNone;
        }
        if (set != PhaseColouring::kNone) {
          REQUIRE(++hits[set] == 1);
        }
      }
    }
    REQUIRE(found == added);
  }
}
