// SPDX-License-Identifier: Apache-2.0
#include "model/plan.hpp"

#include "model/error.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace onchip;

namespace {

// Numbers without meaning, so that every field is seen.
Plan random_plan(std::mt19937& random) {
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  Plan plan;
  plan.storage = static_cast<Storage>(number(0, 1));
  plan.order = static_cast<RowOrder>(number(0, 1));
  plan.exchange = static_cast<ExchangeProtocol>(number(0, 2));
  plan.sms = number(0, 4096);
  plan.threads = number(0, 1024);
  plan.lanes_per_row = number(1, 32);
  plan.rows_per_group = number(1, kMaxRowsPerGroup);
  for (int r = 0; r < plan.rows_per_group; ++r) {
    plan.slots[r] = number(0, 100000);
    plan.least_slots[r] = number(0, 100000);
  }
  for (int* field :
       {&plan.mean_slots, &plan.tile_rows, &plan.pass_planes, &plan.batch_padded, &plan.load_bytes,
        &plan.loads_in_flight, &plan.promote_every, &plan.shared_quads, &plan.streamed_quads, &plan.ring_quads}) {
    *field = number(0, 2147483647);
  }
  return plan;
}

// [gates * units, units], rows of the given lengths.
SparseMatrix rows_of_lengths(int units, const std::vector<int>& lengths) {
  SparseMatrix matrix{static_cast<int>(lengths.size()), units, {0}, {}, {}};
  for (const int length : lengths) {
    for (int column = 0; column < length; ++column) {
      matrix.column.push_back(column);
      matrix.value.push_back(1);
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace

// ---- text -----------------------------------------------------------------------------------------------------------

TEST_CASE("plans survive being written and read", "[fast]") {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const Plan plan = random_plan(random);
    const std::string text = to_string(plan);
    CAPTURE(text);
    CHECK(parse_plan(text) == plan);
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("two plans that differ are written differently", "[fast]") {
  std::mt19937 random(4);
  const Plan plan = random_plan(random);
  for (int Plan::*field : {&Plan::sms, &Plan::threads, &Plan::lanes_per_row, &Plan::mean_slots, &Plan::tile_rows,
                           &Plan::pass_planes, &Plan::batch_padded, &Plan::load_bytes, &Plan::loads_in_flight,
                           &Plan::promote_every, &Plan::shared_quads, &Plan::streamed_quads, &Plan::ring_quads}) {
    Plan other = plan;
    other.*field = plan.*field / 2 + 7;
    CHECK(to_string(other) != to_string(plan));
    CHECK(parse_plan(to_string(other)) == other);
  }
}

TEST_CASE("text that is no plan is refused with a reason", "[fast]") {
  CHECK_THROWS_WITH(parse_plan("sparse_persistent smz=132"), "plan: unknown key 'smz'; did you mean 'sms'?");
  CHECK_THROWS_WITH(parse_plan("sparse_persistent sms=-4"), "plan: 'sms' expects a whole number, found '-4'");
  CHECK_THROWS_WITH(parse_plan("sparse_persistent sms="), "plan: 'sms' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("threads=4x"), "plan: 'threads' expects a whole number, found '4x'");
  CHECK_THROWS_WITH(parse_plan("sms=99999999999"), "plan: 'sms' expects a whole number, found '99999999999'");
  CHECK_THROWS_WITH(parse_plan("slots=1//2"), "plan: 'slots' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("slots=1/2/"), "plan: 'slots' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("least_slots=1,2"), "plan: 'least_slots' expects a whole number, found '1,2'");
  CHECK_THROWS_WITH(parse_plan("sparse_persistant"), "plan: unknown word 'sparse_persistant'");
  CHECK_THROWS_WITH(parse_plan("slots=1/2 least_slots=1"), "plan: 2 slots, but 1 least_slots");
  CHECK_THROWS_WITH(parse_plan("slots=8"), "plan: 1 slots, but 0 least_slots");
  CHECK_THROWS_WITH(parse_plan("unpacked=1"), "plan: unknown key 'unpacked'");
  std::string many = "slots=1";
  for (int r = 1; r <= kMaxRowsPerGroup; ++r) {
    many += "/1";
  }
  CHECK_THROWS_WITH(parse_plan(many), "plan: more than 32 rows per group");
}

// ---- row profiles ---------------------------------------------------------------------------------------------------

TEST_CASE("a profile knows the longest, shortest and average row of any units in order of their longest", "[fast]") {
  const int gates = GENERATE(1, 3, 4);
  const int units = GENERATE(1, 2, 13, 61);
  std::mt19937 random(units * gates);
  std::vector<int> lengths(static_cast<std::size_t>(units) * gates);
  std::generate(lengths.begin(), lengths.end(), [&] { return static_cast<int>(random() % (units + 1)); });
  const RowProfile profile = RowProfile::from_matrix(rows_of_lengths(units, lengths));
  CHECK(profile.units() == units);
  CHECK(profile.gates() == gates);
  CHECK(profile.nnz() == std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));

  const auto length = [&](int unit, int gate) { return lengths[static_cast<std::size_t>(gate) * units + unit]; };
  const auto longest = [&](int unit) {
    int most = 0;
    for (int gate = 0; gate < gates; ++gate) {
      most = std::max(most, length(unit, gate));
    }
    return most;
  };
  std::vector<int> order(units);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return longest(a) != longest(b) ? longest(a) > longest(b) : a < b; });
  const std::vector<std::int32_t> found = units_by_length(rows_of_lengths(units, lengths));
  CHECK(std::vector<int>(found.begin(), found.end()) == order);
  for (int first = 0; first < units; ++first) {
    for (int count = 1; first + count <= units; ++count) {
      for (int gate = 0; gate < gates; ++gate) {
        int most = 0, least = units;
        double sum = 0;
        for (int rank = first; rank < first + count; ++rank) {
          most = std::max(most, length(order[rank], gate));
          least = std::min(least, length(order[rank], gate));
          sum += length(order[rank], gate);
        }
        REQUIRE(profile.longest(first, count, gate) == most);
        REQUIRE(profile.shortest(first, count, gate) == least);
        REQUIRE(std::abs(profile.average(first, count, gate) - sum / count) < 1e-9);
      }
    }
  }
}

TEST_CASE("expected row lengths follow the binomial distribution", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const int gates = info(cell).gates;
  const Network network{cell, Precision::fp16, 2304, 4, 1, 0.1};
  const RowProfile expected = RowProfile::uniform(network);
  const RowProfile drawn = RowProfile::from_matrix(generate_mask(network.rows(), 2304, 0.1, 3, Precision::fp16));
  CHECK(expected.units() == drawn.units());
  CHECK(expected.gates() == drawn.gates());
  CHECK(std::abs(static_cast<double>(expected.nnz() - drawn.nnz())) < 0.01 * static_cast<double>(drawn.nnz()));
  for (const int first : {0, 100, 1152, 2200}) {
    for (const int count : {1, 104}) {
      if (count == 1 && gates > 1) {
        continue;  // one unit's gate is one draw, whose length nobody can expect
      }
      CAPTURE(first, count, gates);
      const bool extreme = first == 0 || first == 2200;
      CHECK(std::abs(expected.longest(first, count, 0) - drawn.longest(first, count, 0)) <= (extreme ? 15 : 12));
      CHECK(std::abs(expected.shortest(first, count, 0) - drawn.shortest(first, count, 0)) <= (extreme ? 20 : 15));
      CHECK(std::abs(expected.average(first, count, 0) - drawn.average(first, count, 0)) <= 12);
    }
  }
  if (gates == 1) {
    for (const int rank : {100, 1152, 2200}) {
      CHECK(std::abs(expected.longest(rank, 1, 0) - drawn.longest(rank, 1, 0)) <= 4);
    }
  }
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

TEST_CASE("a shape has slots for every row, and least slots that no row undercuts by a chunk", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int units_per_group = GENERATE(1, 2, 5);
  const int lanes = GENERATE(4, 32);
  const bool skip = GENERATE(false, true);
  const int gates = info(cell).gates;
  const Network network{cell, Precision::fp16, 509, 3, 1, 0.2};
  const RowProfile rows =
      RowProfile::from_matrix(generate_mask(network.rows(), 509, 0.2, 3, Precision::fp16, MaskKind::power_law));
  const Plan plan = shape_plan(network, rows, Storage::packed_pair, 7, lanes, gates * units_per_group, skip);
  CAPTURE(to_string(plan));
  CHECK(plan.batch_padded == 4);
  CHECK(plan.threads % 32 == 0);
  CHECK(7 * units_per_group * plan.groups() >= 509);
  CHECK(plan.tile_rows == (gates > 1 ? 4 : 1));
  const int per_class = 7 * plan.groups();
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const int first = r / gates * per_class, count = std::min(per_class, 509 - first);
    CHECK(plan.least_slots[r] <= plan.slots[r]);
    CHECK(plan.least_slots[r] >= 1);
    if (count > 0) {
      CHECK(plan.slots[r] * lanes >= rows.longest(first, count, r % gates));
      CHECK((plan.slots[r] - 1) * lanes < std::max(1, rows.longest(first, count, r % gates)));
      const bool whole = plan.least_slots[r] % kSkippedSlots == 0;
      CHECK((plan.least_slots[r] == plan.slots[r] || (skip && whole)));
      if (skip && plan.least_slots[r] > kSkippedSlots && plan.least_slots[r] < plan.slots[r]) {
        CHECK(plan.least_slots[r] * lanes <= rows.shortest(first, count, r % gates));
      }
    }
  }
  const int least_total = std::accumulate(plan.least_slots.begin(), plan.least_slots.begin() + plan.rows_per_group, 0);
  CHECK(plan.mean_slots >= least_total);
  CHECK(plan.mean_slots <= plan.slots_total());
  CHECK((skip || plan.mean_slots == plan.slots_total()));
  CHECK(plan.skips() == (least_total < plan.slots_total()));
}

// ---- tiers ----------------------------------------------------------------------------------------------------------

TEST_CASE("quads and the words beside them are all the words of a thread", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  const Storage storage = GENERATE(Storage::packed_pair, Storage::dense);
  const int gates = info(cell).gates;
  const Network network{cell, precision, 509, 3, 1, 0.2};
  std::mt19937 random(6);
  for (int round = 0; round < 20; ++round) {
    Plan plan;
    plan.storage = storage;
    plan.sms = 7;
    plan.threads = 64;
    plan.rows_per_group = gates * static_cast<int>(1 + random() % (kMaxRowsPerGroup / gates));
    plan.tile_rows = gates > 1 ? 4 : 1 << random() % 4;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      plan.slots[r] = plan.least_slots[r] = static_cast<int>(1 + random() % 40);
    }
    CAPTURE(describe(network), to_string(plan));
    // Bits of values and indices, in whole words for every bundle.
    int words = 0;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const Bundle whole = bundle(network, plan);
      const int rest = plan.slots[r] % whole.slots;
      const int rest_bits = rest * info(precision).weight_bits;
      const int rest_words = storage == Storage::dense ? (rest_bits + 31) / 32
                             : rest == 0               ? 0
                             : precision == Precision::fp8 || precision == Precision::fp32
                                 ? (rest_bits + 31) / 32 + (rest + 1) / 2
                                 : rest;
      const int row = plan.slots[r] / whole.slots * whole.words + rest_words;
      CHECK(row_words(network, plan, plan.slots[r]) == row);
      words += row;
    }
    CHECK(weight_words(network, plan) == words);
    int in_tiles = 0, in_quads = 0;
    for (int tile = 0; tile < tiles(network, plan); ++tile) {
      in_tiles += tile_words(network, plan, tile);
      in_quads += tile_words(network, plan, tile) / 4;
    }
    CHECK(in_tiles == words);
    CHECK(total_quads(network, plan) == in_quads);

    plan.shared_quads = static_cast<int>(random() % (in_quads + 1));
    plan.streamed_quads = static_cast<int>(random() % (in_quads - plan.shared_quads + 1));
    plan.ring_quads = 3;
    const std::vector<Tier> tiers = quad_tiers(network, plan);
    REQUIRE(static_cast<int>(tiers.size()) == in_quads);
    CHECK(std::count(tiers.begin(), tiers.end(), Tier::shared_memory) == plan.shared_quads);
    CHECK(std::count(tiers.begin(), tiers.end(), Tier::streamed) == plan.streamed_quads);
    CHECK(register_words(network, plan) == words - 4 * (plan.shared_quads + plan.streamed_quads));
    // Of any number of quads from the first on, each tier has its share, but for one: shared memory of those that are
    // not streamed.
    int streamed = 0, shared = 0;
    for (int seen = 1; seen <= in_quads; ++seen) {
      streamed += tiers[seen - 1] == Tier::streamed;
      shared += tiers[seen - 1] == Tier::shared_memory;
      REQUIRE(std::abs(streamed - static_cast<double>(seen) * plan.streamed_quads / in_quads) < 1);
      const int kept = in_quads - plan.streamed_quads;
      if (kept > 0) {
        REQUIRE(std::abs(shared - static_cast<double>(seen - streamed) * plan.shared_quads / kept) < 1);
      }
    }
    const std::int64_t quad_bytes = std::int64_t{kQuadBytes} * plan.threads;
    const int ring = plan.streamed_quads > 0 ? plan.ring_quads : 0;
    CHECK(shared_bytes(network, plan) == state_bytes(network, plan) + quad_bytes * (plan.shared_quads + ring));
  }
}

TEST_CASE("shared memory holds the state in whole words for every cell and load", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32, Precision::fp8);
  const int batch = GENERATE(1, 3, 8, 17, 32);
  const Network network{cell, precision, 1151, batch, 1, 0.1};
  const int gates = info(cell).gates;
  for (int load_bytes = info(precision).bytes; load_bytes <= kWidestLoad; load_bytes *= 2) {
    Plan plan = shape_plan(network, RowProfile::uniform(network), Storage::packed_pair, 23, 8, gates);
    plan.load_bytes = load_bytes;
    CAPTURE(describe(network), to_string(plan));
    CHECK(planes(network, plan) * plane_unit_bytes(network, plan) == unit_bytes(network, plan));
    CHECK(plane_unit_bytes(network, plan) <= load_bytes);
    CHECK(units_per_sm(network, plan) * 23 >= 1151);
    CHECK((units_per_sm(network, plan) - 16) * 23 < 1151);
    CHECK(exchange_bytes(network, plan) % 16 == 0);
    CHECK(state_bytes(network, plan) % 16 == 0);
    CHECK(state_bytes(network, plan) > exchange_bytes(network, plan));
    // Zero units in every bank.
    CHECK(zero_units(network, plan) * plane_unit_bytes(network, plan) >= 128);
    const std::int64_t reach = state_units(network, plan) + zero_units(network, plan);
    CHECK((reach - 1) * plane_unit_bytes(network, plan) >> index_shift(network, plan) < 65536);
    CHECK(plane_unit_bytes(network, plan) % (1 << index_shift(network, plan)) == 0);
  }
}
