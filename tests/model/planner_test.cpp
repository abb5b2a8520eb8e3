// SPDX-License-Identifier: Apache-2.0
#include "model/plan/planner.hpp"

#include "model/dense/bitmap.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/base/error.hpp"
#include "model/plan/layout.hpp"
#include "model/chip/occupancy.hpp"
#include "model/plan/registers.hpp"
#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

using namespace onchip;

namespace {

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
}

Network headline() {
  return {Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
}

PlannedNetwork planned(const Network& network, const PlanWishes& wishes) {
  return choose_plan(h200(), network, RowProfile::uniform(network), wishes);
}

PlanWishes of_family(Family family) {
  PlanWishes wishes;
  wishes.family = family;
  return wishes;
}
const PlanWishes kSparse = of_family(Family::sparse_persistent), kDense = of_family(Family::dense_persistent);

// Rows that are all of one length.
RowProfile equal_rows(int units, int length) {
  return RowProfile::from_matrix(rows_of_lengths(units, std::vector<int>(units, length)));
}

}  // namespace

TEST_CASE("the parts of a prediction sum to its total, and the total lies between floor and interval", "[fast]") {
  const double density = GENERATE(0.01, 0.1, 0.3, 1.0);
  const int hidden = GENERATE(1, 31, 512, 2304);
  const int batch = GENERATE(1, 3, 8, 32);
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::tanh, Precision::fp16}, std::pair{Cell::tanh, Precision::bf16},
               std::pair{Cell::relu, Precision::fp32}, std::pair{Cell::relu, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  const Network network{cell, precision, hidden, batch, 1, density};
  const Family family = GENERATE(Family::sparse_persistent, Family::dense_persistent);
  if (family == Family::dense_persistent && precision != Precision::fp16 && precision != Precision::bf16) {
    return;  // the tensor cores multiply these two
  }
  const PlannedNetwork result = planned(network, of_family(family));
  CAPTURE(describe(network), to_string(result.plan));
  const Prediction& p = result.prediction;
  CHECK_THAT(std::accumulate(p.parts_us.begin(), p.parts_us.end(), 0.0), Catch::Matchers::WithinRel(p.step_us, 1e-12));
  for (const double part : p.parts_us) {
    CHECK(part >= 0);
  }
  CHECK(p.low_us <= p.step_us);
  CHECK(p.step_us <= p.high_us);
  CHECK(p.floor_us <= p.step_us);
  CHECK(p.floor_us > 0);
}

TEST_CASE("what the user wishes of a plan is what the plan has", "[fast]") {
  PlanWishes wishes;  // of which some have a meaning for the sparse family only
  wishes.storage = Storage::packed_pair;
  wishes.order = RowOrder::natural;
  wishes.sms = 100;
  wishes.lanes_per_row = 16;
  wishes.rows_per_group = 2;
  wishes.loads_in_flight = 3;
  wishes.promote_every = 4;
  wishes.exchange = GENERATE(ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier);
  wishes.tile_rows = 2;
  wishes.load_bytes = 4;
  const Plan plan = planned(headline(), wishes).plan;
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::natural);
  CHECK(plan.sms == 100);
  CHECK(plan.lanes_per_row == 16);
  CHECK(plan.rows_per_group == 2);
  CHECK(plan.loads_in_flight == 3);
  CHECK(plan.promote_every == 4);
  CHECK(plan.exchange == *wishes.exchange);
  CHECK(plan.tile_rows == 2);
  CHECK(plan.load_bytes == 4);
}

TEST_CASE("without wishes a plan is what the kernels do best: packed, bank-aware, lamport, wide loads", "[fast]") {
  PlanWishes wishes = kSparse;
  wishes.exchange_warps = 0;
  const Plan plan = planned(headline(), wishes).plan;
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::bank_aware);
  CHECK(plan.exchange == ExchangeProtocol::lamport);
  CHECK(plan.load_bytes == kWidestLoad);
}

TEST_CASE("a plan leaves as many registers to the compiler as is wished", "[fast]") {
  const Family family = GENERATE(Family::sparse_persistent, Family::dense_persistent);
  const auto [cell, hidden, batch, density] = GENERATE(
      std::tuple{Cell::relu, 2304, 4, 0.3}, std::tuple{Cell::lstm, 5632, 4, 0.1}, std::tuple{Cell::gru, 2560, 8, 0.1});
  const Network network{cell, Precision::fp16, hidden, batch, 1, density};
  PlanWishes wishes = of_family(family);
  const PlannedNetwork best = planned(network, wishes);
  for (wishes.spare_registers = 1; wishes.spare_registers <= 16; wishes.spare_registers *= 2) {
    const PlannedNetwork other = planned(network, wishes);
    const ResourceUse& registers = other.prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)];
    INFO(describe(network) << ": " << to_string(other.plan));
    CHECK(other.prediction.footprint.fits == best.prediction.footprint.fits);
    if (other.prediction.footprint.fits) {
      CHECK(registers.used + wishes.spare_registers <= registers.available);
      CHECK(other.prediction.step_us >= best.prediction.step_us);
    }
  }
}

TEST_CASE("samples take turns where that is quicker, and one sample has nobody to take turns with", "[fast]") {
  Network network{Cell::gru, Precision::fp16, 2048, 16, 1, 0.1};
  PlanWishes without = kSparse;
  without.exchange_warps = 0;
  const PlannedNetwork turns = planned(network, kSparse);
  CAPTURE(to_string(turns.plan));
  CHECK(turns.plan.exchange_warps >= 2);
  CHECK(takes_turns(network, turns.plan));
  CHECK(turns.plan.block_threads() == turns.plan.threads + 32 * turns.plan.exchange_warps);
  CHECK(turns.prediction.footprint.fits);
  CHECK(turns.prediction.step_us < planned(network, without).prediction.step_us);
  PlanWishes with = kSparse;
  with.exchange_warps = 4;
  CHECK(planned(network, with).plan.exchange_warps == 4);
  const Chip v100 = find_chip("v100").chip;  // which has no mbarriers
  CHECK(choose_plan(v100, network, RowProfile::uniform(network), kSparse).plan.exchange_warps == 0);
  CHECK_THROWS_AS(choose_plan(v100, network, RowProfile::uniform(network), with), InputError);

  network.batch = 1;
  CHECK(planned(network, kSparse).plan.exchange_warps == 0);
  CHECK_THROWS_AS(planned(network, with), InputError);
  with.exchange = ExchangeProtocol::atomic_barrier;
  network.batch = 16;
  CHECK_THROWS_AS(planned(network, with), InputError);
}

TEST_CASE("large states of samples that take turns come as bulk copies, on chips that have them", "[fast]") {
  Network network{Cell::lstm, Precision::fp16, 4096, 16, 256, 0.1};
  const PlannedNetwork bulk = planned(network, kSparse);
  CAPTURE(to_string(bulk.plan));
  CHECK(bulk.plan.exchange == ExchangeProtocol::bulk_copy);
  CHECK(bulk.plan.line_words == kLineWords);
  CHECK(bulk.plan.first_look == 0);
  CHECK(takes_turns(network, bulk.plan));
  // A flag of every SM for each pass, in lines of 32.
  CHECK(barrier_bytes(network, bulk.plan) == 4 * passes(network, bulk.plan) * ((bulk.plan.sms + 31) / 32 * 32));
  CHECK(parse_plan(to_string(bulk.plan)) == bulk.plan);
  PlanWishes looked_for = kSparse;
  looked_for.exchange = ExchangeProtocol::lamport;
  const PlannedNetwork lamport = planned(network, looked_for);
  CHECK(bulk.prediction.step_us < lamport.prediction.step_us);
  CHECK(barrier_bytes(network, lamport.plan) == 4);

  PlanWishes wished = kSparse;
  wished.exchange = ExchangeProtocol::bulk_copy;
  const Chip a100 = find_chip("a100").chip;
  CHECK_THROWS_AS(choose_plan(a100, network, RowProfile::uniform(network), wished), InputError);
  wished.family = Family::dense_persistent;
  CHECK_THROWS_AS(planned(network, wished), InputError);
  wished.family = Family::sparse_persistent;
  wished.exchange_warps = 0;
  CHECK_THROWS_AS(planned(network, wished), InputError);
  // Small ones only where it is wished: then flags take longer than words.
  network.hidden = 1024;
  network.density = 0.3;
  CHECK(planned(network, kSparse).plan.exchange == ExchangeProtocol::lamport);
  wished.exchange_warps.reset();
  const PlannedNetwork small = planned(network, wished);
  CHECK(small.plan.exchange == ExchangeProtocol::bulk_copy);
  CHECK(small.prediction.step_us > planned(network, looked_for).prediction.step_us);
}

TEST_CASE("a whole warpgroup of exchange warps hands registers over, on chips that can", "[fast]") {
  Plan plan;
  plan.threads = 256;
  plan.exchange_warps = 4;
  const auto split = register_split(plan);
  REQUIRE(split);
  // A partition has 512 registers for a lane of all its warps; a block starts with as many for each.
  CHECK(2 * split->computing + split->fetching <= 512);
  CHECK(2 * split->computing + split->fetching <= 3 * (512 / 3 / 8 * 8));
  CHECK(split->computing > max_registers_per_thread(h200(), plan.block_threads()));
  CHECK(registers_available(h200(), plan) == split->computing);
  // More words in flight take more registers; twice as many warps that fetch, those of as many again.
  Plan more = plan;
  more.loads_in_flight = 8;
  REQUIRE(register_split(more));
  CHECK(register_split(more)->fetching > split->fetching);
  CHECK(register_split(more)->computing < split->computing);
  Plan twice = plan;
  twice.exchange_warps = 8;
  REQUIRE(register_split(twice));
  CHECK(2 * register_split(twice)->computing + 2 * register_split(twice)->fetching <= 512);
  CHECK(register_split(twice)->computing < split->computing);
  const Chip a100 = find_chip("a100").chip;
  CHECK(registers_available(a100, plan) == max_registers_per_thread(a100, plan.block_threads()));
  plan.threads = 288;  // of which the last warps have no warpgroup
  CHECK_FALSE(register_split(plan));
  CHECK(registers_available(h200(), plan) == max_registers_per_thread(h200(), plan.block_threads()));
}

TEST_CASE("a plan has room for every unit", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  for (const int hidden : {1, 5, 131, 132, 133, 1000, 5000}) {
    const PlannedNetwork result = planned({cell, Precision::fp16, hidden, 4, 1, 0.02}, kSparse);
    CAPTURE(hidden, to_string(result.plan));
    CHECK(result.plan.rows_per_group % info(cell).gates == 0);
    CHECK(result.plan.sms * result.plan.groups() * result.plan.rows_per_group / info(cell).gates >= hidden);
    CHECK(result.plan.threads % 32 == 0);
    CHECK(result.plan.sms <= 132);
  }
}

TEST_CASE("the largest size fits and the next granule does not", "[fast]") {
  const double density = GENERATE(0.05, 0.3, 1.0);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32);
  const Capacity capacity = find_capacity(h200(), {Cell::relu, precision, 1, 4, 1, density}, 32);
  REQUIRE(capacity.largest);
  CHECK(capacity.largest->prediction.footprint.fits);
  CHECK_FALSE(capacity.next.prediction.footprint.fits);
  CHECK(capacity.next.network.hidden == capacity.largest->network.hidden + 32);
}

TEST_CASE("more of a chip never makes the largest network smaller", "[fast]") {
  const Network network{Cell::relu, Precision::fp16, 1, 4, 1, 0.1};
  const int base = find_capacity(h200(), network, 32).largest->network.hidden;
  for (const char* change : {"registers.per_sm=+20%", "sm.count=+20%", "shared_memory.per_sm=+20%"}) {
    ChipFile changed = find_chip("h200");
    set_chip_key(changed, change);
    CAPTURE(change);
    CHECK(find_capacity(changed.chip, network, 32).largest->network.hidden >= base);
  }
}

TEST_CASE("distances are stored where indices leave no room for a network, and never beside fp32", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  Network network{Cell::relu, Precision::fp8, 13000, 1, 1, 0.1};
  PlanWishes wishes = kSparse;
  wishes.tier = Tier::shared_memory;
  wishes.lanes_per_row = 8;
  wishes.loads_in_flight = 4;
  const RowProfile rows = RowProfile::uniform(network);
  CHECK(choose_plan(chip, network, rows, wishes).plan.storage == Storage::packed_delta);
  wishes.storage = Storage::packed_pair;
  const PlannedNetwork pairs = choose_plan(chip, network, rows, wishes);
  CHECK_FALSE(pairs.prediction.footprint.fits);
  network.precision = Precision::fp32;
  network.hidden = 4000;
  wishes.storage = Storage::packed_delta;
  CHECK_THROWS_WITH(choose_plan(chip, network, RowProfile::uniform(network), wishes),
                    Catch::Matchers::StartsWith("packed_delta stores values of 8 or 16 bits, found fp32"));
}

TEST_CASE("a row whose non-zeros are further apart than its slots foresee is refused as distances", "[fast]") {
  const Network network{Cell::relu, Precision::fp16, 1024, 1, 1, 0.25};
  SparseMatrix matrix = rows_of_lengths(1024, std::vector<int>(1024, 256));
  Plan plan = shape_plan(network, RowProfile::from_matrix(matrix), Storage::packed_delta, 32, 8, 1);
  REQUIRE_NOTHROW(make_layout(network, plan, matrix));
  plan.slots[0] = 256 / 8 - 1;
  REQUIRE_THROWS_WITH(make_layout(network, plan, matrix), Catch::Matchers::Contains("slots as packed_delta"));
}

TEST_CASE("a network that no plan can hold is answered with what is missing", "[fast]") {
  const PlannedNetwork result = planned({Cell::relu, Precision::fp32, 20000, 32, 1, 0.5}, {});
  CHECK_FALSE(result.prediction.footprint.fits);
  const ResourceUse& use = result.prediction.footprint.resources[static_cast<int>(result.prediction.footprint.binding)];
  CHECK(use.used > use.available);
}

TEST_CASE("sensitivities name the resource that binds", "[fast]") {
  Network network = headline();
  network.density = 0.2;
  const ChipFile chip = find_chip("h200");
  PlanWishes wishes = kSparse;
  const Tier tier = GENERATE(Tier::registers, Tier::shared_memory, Tier::streamed);
  wishes.tier = tier;
  wishes.storage = Storage::packed_pair;  // of one, or the largest size jumps from one storage's shapes to another's
  if (tier != Tier::registers) {          // or the search takes minutes
    wishes.lanes_per_row = 16;
    wishes.loads_in_flight = 4;
  }
  CAPTURE(name(tier));
  const auto found = sensitivities(chip, network, RowProfile::uniform(network), 32, wishes);
  REQUIRE(found.size() >= 5);
  const auto hidden_percent = [&](std::string_view key) {
    const auto at = std::find_if(found.begin(), found.end(), [&](const Sensitivity& s) { return s.key == key; });
    return at == found.end() ? 0 : at->hidden_percent;
  };
  CHECK(std::any_of(found.begin(), found.end(),
                    [](const Sensitivity& s) { return s.key == "sm.clock" && s.step_percent < -2; }));
  // Threads have 255 registers at most, of which more threads have as many more to work with: they bind only alone.
  CHECK((tier == Tier::registers ? hidden_percent("registers.per_sm") > 2 : hidden_percent("registers.per_sm") >= 0));
  CHECK((tier == Tier::registers ? hidden_percent("shared_memory.per_sm") == 0
                                 : hidden_percent("shared_memory.per_sm") > 1));
  // Most of the weights come from L2 where they may.
  CHECK((tier == Tier::streamed ? hidden_percent("l2.size") > 2 : hidden_percent("l2.size") == 0));
}

TEST_CASE("shared memory and L2 hold weights that the registers cannot", "[fast]") {
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::tanh, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp32});
  const Network network{cell, precision, 1, 4, 1, 0.1};
  CAPTURE(describe(network));
  const Capacity whole = find_capacity(h200(), network, 32, kSparse);
  REQUIRE(whole.largest);
  CHECK(whole.largest->plan.shared_chunks > 0);
  CHECK(whole.largest->plan.ring_chunks == 0);  // what fits is not streamed
  // The same with no more shared memory than the state needs, and no L2 to stream from.
  Chip bare = h200();
  bare.smem_bytes_per_block.value =
      static_cast<double>(state_bytes(whole.largest->network, whole.largest->plan)) + 8 * 1024;
  bare.smem_bytes_per_sm.value = bare.smem_bytes_per_block + 1024;
  bare.l2_bytes.value = 0;
  const Capacity registers_only = find_capacity(bare, network, 32, kSparse);
  REQUIRE(registers_only.largest);
  CHECK(registers_only.largest->plan.ring_chunks == 0);
  CHECK(whole.largest->network.hidden > registers_only.largest->network.hidden * 1.05);
}

TEST_CASE("tiers take no more shared memory than there is, wherever the state and a ring leave room", "[fast]") {
  const double kib = GENERATE(8, 16, 24, 32, 48, 64, 100, 227);
  const auto [cell, precision] = GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  Chip chip = h200();
  chip.smem_bytes_per_block.value = kib * 1024;
  chip.smem_bytes_per_sm.value = kib * 1024 + 1024;
  for (const int hidden : {500, 1000, 1500, 2300, 3100, 4000}) {
    const Network network{cell, precision, hidden, 4, 1, 0.2};
    for (const int lanes : {32, 8}) {
      PlanWishes wishes = kSparse;
      wishes.lanes_per_row = lanes;
      const PlannedNetwork result = choose_plan(chip, network, RowProfile::uniform(network), wishes);
      const Plan& plan = result.plan;
      CAPTURE(kib, describe(network), to_string(plan));
      const double ring_bytes = static_cast<double>(chunk_bytes(network, plan)) * plan.warps();
      const double least =
          static_cast<double>(state_bytes(network, plan)) + ring_bytes * (plan.ring_chunks > 0 ? 2 : 0);
      if (least <= chip.smem_bytes_per_block) {
        CHECK(static_cast<double>(shared_bytes(network, plan)) <= chip.smem_bytes_per_block);
      } else {
        CHECK_FALSE(result.prediction.footprint.fits);
      }
      CHECK((plan.ring_chunks == 0 || (plan.ring_chunks >= 2 && plan.ring_chunks <= kMostRingChunks)));
      CHECK((plan.chunks_in_flight == 1 || plan.has_tail()));
      CHECK(plan.chunks_in_flight <= kMostChunksInFlight);
      CHECK((plan.has_tail() || plan.shared_chunks + plan.ring_chunks + plan.longest_tail == 0));
    }
  }
}

TEST_CASE("of a 2:4 mask the planner takes the quicker of both dense storages", "[fast]") {
  const auto [cell, hidden, batch] =
      GENERATE(std::tuple{Cell::relu, 2304, 4}, std::tuple{Cell::lstm, 1536, 8}, std::tuple{Cell::gru, 300, 1});
  const Network network{cell, Precision::fp16, hidden, batch, 1, 0.5};
  const RowProfile rows = RowProfile::uniform(network, MaskKind::two_four);
  const auto stored = [&](std::optional<Storage> storage) {
    PlanWishes wishes = kDense;
    wishes.storage = storage;
    const PlannedNetwork result = choose_plan(h200(), network, rows, wishes);
    CHECK(result.plan.storage == storage.value_or(result.plan.storage));
    CHECK(result.prediction.footprint.fits);
    return result.prediction.step_us;
  };
  const double dense = stored(Storage::dense), structured = stored(Storage::structured_2_4);
  CHECK(structured < dense);  // fewer products, and nothing else that takes longer
  CHECK(stored({}) == structured);
  // Another mask of the same density cannot be stored so.
  CHECK(planned(network, kDense).plan.storage == Storage::dense);

  const std::vector<RankedPlan> ranking = rank_families(h200(), network, rows);
  const auto ranked = std::find_if(ranking.begin(), ranking.end(),
                                   [](const RankedPlan& r) { return r.family == Family::dense_persistent; });
  CHECK_THAT(ranked->why, Catch::Matchers::Contains("; stored as dense, ") && Catch::Matchers::Contains(" us slower"));
}

TEST_CASE("networks with 2:4 masks fit up to about 1.78 times the weights of dense ones", "[fast]") {
  for (const auto& [cell, batch] : {std::pair{Cell::relu, 1}, {Cell::relu, 8}, {Cell::lstm, 4}}) {
    const Network network{cell, Precision::bf16, 1, batch, 1, 0.5};
    const auto largest = [&](MaskKind kind) {
      PlanWishes wishes = kDense;
      wishes.storage = kind == MaskKind::two_four ? Storage::structured_2_4 : Storage::dense;
      const Capacity capacity = find_capacity(h200(), network, 32, wishes, {}, kind);
      return capacity.largest->network.hidden;
    };
    const double more = static_cast<double>(largest(MaskKind::two_four)) / largest(MaskKind::uniform);
    CAPTURE(describe(network), more);
    CHECK(more * more > 1.5);
    CHECK(more * more < 2.2);
  }
}

TEST_CASE("where a dense network does not fit, one without its empty words may", "[fast]") {
  for (const auto& [cell, hidden, batch] :
       {std::tuple{Cell::lstm, 2560, 16}, {Cell::relu, 5632, 32}, {Cell::gru, 3072, 8}}) {
    const Network network{cell, Precision::fp16, hidden, batch, 1, 0.2};
    CAPTURE(describe(network));
    const auto stored = [&](std::optional<Storage> storage) {
      PlanWishes wishes = kDense;
      wishes.storage = storage;
      return planned(network, wishes);
    };
    CHECK_FALSE(stored(Storage::dense).prediction.footprint.fits);
    const PlannedNetwork compact = stored({});
    CHECK(compact.plan.storage == Storage::bitmap);
    CHECK(compact.plan == stored(Storage::bitmap).plan);
    CHECK(compact.prediction.footprint.fits);
    CHECK(compact.plan.bank_words > 0);
    CHECK(planned(network, {}).plan == compact.plan);  // far quicker than any sparse one
    // Of a mask that is known the words are counted.
    const SparseMatrix mask = generate_mask(network.rows(), hidden, 0.2, 1, Precision::fp16);
    const Plan exact = choose_plan(h200(), network, RowProfile::from_matrix(mask), kDense).plan;
    CHECK(exact.storage == Storage::bitmap);
    CHECK(exact.bank_words == needed_bank_words(network, exact, word_mask(mask)));
    CHECK(exact.bank_words <= compact.plan.bank_words);

    const std::vector<RankedPlan> ranking = rank_families(h200(), network, RowProfile::uniform(network));
    CHECK(ranking.front().family == Family::dense_persistent);
    CHECK_THAT(ranking.front().why, Catch::Matchers::Contains("; stored as dense, does not fit: needs"));
  }
}

TEST_CASE("where a dense network fits, it is stored whole", "[fast]") {
  for (const auto& [hidden, density] : {std::pair{2304, 0.05}, {4096, 0.2}, {512, 0.01}}) {
    const Network network{Cell::relu, Precision::fp16, hidden, 8, 1, density};
    CHECK(planned(network, kDense).plan.storage == Storage::dense);
    PlanWishes wishes;
    wishes.storage = Storage::bitmap;
    const PlannedNetwork wished = planned(network, wishes);
    CHECK(wished.plan.storage == Storage::bitmap);
    CHECK(wished.plan.family == Family::dense_persistent);
    CHECK(wished.prediction.footprint.fits);
    CHECK(wished.prediction.step_us >= planned(network, kDense).prediction.step_us);
  }
  PlanWishes sparse = kSparse;
  sparse.storage = Storage::bitmap;
  CHECK_THROWS_WITH(planned({Cell::relu, Precision::fp16, 512, 8, 1, 0.1}, sparse),
                    Catch::Matchers::Contains("nor bitmap"));
}

TEST_CASE("masks whose words crowd in few tiles get a plan that has room for them, or a sparse one", "[fast]") {
  // As many weights as a uniform mask of 10 % has, all in every tenth stretch of 32 rows.
  constexpr int kHidden = 5632;
  const Network network{Cell::relu, Precision::fp16, kHidden, 16, 1, 0.1};
  SparseMatrix crowded{kHidden, kHidden, {0}, {}, {}};
  for (int row = 0; row < kHidden; ++row) {
    for (int column = 0; row / 32 % 10 == 0 && column < kHidden; ++column) {
      crowded.column.push_back(column);
      crowded.value.push_back(1);
    }
    crowded.row_begin.push_back(crowded.nnz());
  }
  CHECK(planned(network, {}).plan.storage == Storage::bitmap);
  const PlannedNetwork found = choose_plan(h200(), network, RowProfile::from_matrix(crowded));
  CHECK(found.prediction.footprint.fits);
  CHECK((found.plan.storage != Storage::bitmap ||
         found.plan.bank_words == needed_bank_words(network, found.plan, word_mask(crowded))));
}

TEST_CASE("networks of sparse masks fit with more units where their empty words are not stored", "[fast]") {
  const Network network{Cell::lstm, Precision::fp16, 1, 16, 1, 0.1};
  const auto largest = [&](Storage storage) {
    PlanWishes wishes = kDense;
    wishes.storage = storage;
    return find_capacity(h200(), network, 32, wishes).largest->network.hidden;
  };
  const double more = static_cast<double>(largest(Storage::bitmap)) / largest(Storage::dense);
  CAPTURE(more);
  CHECK(more * more > 1.6);  // times the weights
  CHECK(more * more < 4);
}

TEST_CASE("structured_2_4 is refused where the mask or the family cannot be stored so", "[fast]") {
  using Catch::Matchers::Contains;
  const Network network{Cell::relu, Precision::fp16, 256, 4, 1, 0.4};
  PlanWishes wishes;
  wishes.storage = Storage::structured_2_4;
  CHECK_THROWS_WITH(planned(network, wishes), Contains("at most two non-zeros of every four neighbouring columns"));
  const SparseMatrix uniform = generate_mask(256, 256, 0.4, 1, Precision::fp16);
  CHECK_THROWS_WITH(choose_plan(h200(), network, RowProfile::from_matrix(uniform), wishes),
                    Contains("found that " + describe(find_crowded_group(uniform).value())));
  const RowProfile rows = RowProfile::uniform(network, MaskKind::two_four);
  CHECK(choose_plan(h200(), network, rows, wishes).plan.family == Family::dense_persistent);
  wishes.family = Family::sparse_persistent;
  CHECK_THROWS_WITH(choose_plan(h200(), network, rows, wishes), Contains("sparse_persistent plans know neither"));
  wishes.family = {};
  Network single = network;
  single.precision = Precision::fp32;
  CHECK_THROWS_WITH(choose_plan(h200(), single, rows, wishes), Contains("fp16 or bf16"));
  wishes.storage = {};  // sparse kernels take a 2:4 mask like any other
  CHECK(choose_plan(h200(), single, rows, wishes).plan.family == Family::sparse_persistent);
}

TEST_CASE("tiers are used as far as they are needed", "[fast]") {
  // Rows that are all alike, and just what the registers hold: nothing elsewhere.
  const PlannedNetwork small =
      choose_plan(h200(), {Cell::relu, Precision::fp16, 1000, 4, 1, 0.1}, equal_rows(1000, 100), kSparse);
  CHECK(small.prediction.footprint.fits);
  CHECK_FALSE(small.plan.has_tail());
  // The same for dense rows, which are alike whatever the mask.
  PlanWishes dense = kSparse;
  dense.storage = Storage::dense;
  CHECK_FALSE(planned({Cell::relu, Precision::fp16, 1000, 4, 1, 0.9}, dense).plan.has_tail());
  // More than the registers of all SMs, less than these and shared memory.
  const PlannedNetwork medium =
      choose_plan(h200(), {Cell::relu, Precision::fp16, 6000, 4, 1, 0.25}, equal_rows(6000, 1500), kSparse);
  CAPTURE(to_string(medium.plan));
  CHECK(medium.prediction.footprint.fits);
  CHECK(medium.plan.has_tail());
  CHECK(medium.plan.ring_chunks == 0);
  // More than registers and shared memory of all SMs, less than these and L2.
  const Network large{Cell::relu, Precision::fp16, 4600, 4, 1, 0.7};
  PlanWishes wishes;
  wishes.storage = Storage::packed_pair;
  const PlannedNetwork streamed = planned(large, wishes);
  CAPTURE(to_string(streamed.plan));
  CHECK(streamed.plan.shared_chunks > 0);
  CHECK(streamed.plan.streamed_chunks() > 0);
}

TEST_CASE("tiers are used no further than wished", "[fast]") {
  const auto [cell, precision] = GENERATE(std::pair{Cell::relu, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  for (const int hidden : {500, 1500, 3500}) {
    const Network network{cell, precision, hidden, 4, 1, 0.2};
    const RowProfile rows = RowProfile::from_matrix(generate_mask(network.rows(), hidden, 0.2, 1, precision, mask));
    PlanWishes wishes = kSparse;
    wishes.tier = Tier::registers;
    const PlannedNetwork in_registers = choose_plan(h200(), network, rows, wishes);
    CAPTURE(describe(network), static_cast<int>(mask), to_string(in_registers.plan));
    CHECK_FALSE(in_registers.plan.has_tail());
    CHECK(shared_bytes(network, in_registers.plan) == state_bytes(network, in_registers.plan));
    wishes.tier = Tier::shared_memory;
    const PlannedNetwork in_shared = choose_plan(h200(), network, rows, wishes);
    CAPTURE(to_string(in_shared.plan));
    CHECK(in_shared.plan.ring_chunks == 0);
    // A tail in shared memory holds all that is not in registers, or does not fit.
    if (in_shared.plan.has_tail()) {
      CHECK(in_shared.plan.shared_chunks == tail_of(network, in_shared.plan, rows, /*exact=*/true).fullest);
    }
    CHECK((in_shared.prediction.footprint.fits || !in_registers.prediction.footprint.fits));
  }
}

TEST_CASE("rows of a power law get a tail, which makes their steps quicker", "[fast]") {
  const auto [cell, hidden] = GENERATE(std::pair{Cell::relu, 2304}, std::pair{Cell::gru, 1024});
  const Network network{cell, Precision::fp16, hidden, 4, 1, 0.1};
  const RowProfile rows =
      RowProfile::from_matrix(generate_mask(network.rows(), hidden, 0.1, 1, Precision::fp16, MaskKind::power_law));
  PlanWishes wishes = kSparse;
  wishes.exchange_warps = 0;
  wishes.pieces = 0;
  const PlannedNetwork best = choose_plan(h200(), network, rows, wishes);
  CAPTURE(describe(network), to_string(best.plan));
  REQUIRE(best.prediction.footprint.fits);
  CHECK(best.plan.has_tail());
  wishes.tier = Tier::registers;
  const PlannedNetwork even = choose_plan(h200(), network, rows, wishes);
  CHECK((!even.prediction.footprint.fits || best.prediction.step_us < even.prediction.step_us));
}

TEST_CASE("rows of a power law are cut into pieces where registers hold them, which is quicker than a tail", "[fast]") {
  const auto [cell, hidden] = GENERATE(std::pair{Cell::relu, 4096}, std::pair{Cell::lstm, 2304});
  const Network network{cell, Precision::fp16, hidden, 4, 1, 0.1};
  const RowProfile rows =
      RowProfile::from_matrix(generate_mask(network.rows(), hidden, 0.1, 1, Precision::fp16, MaskKind::power_law));
  PlanWishes wishes = kSparse;
  const PlannedNetwork cut = choose_plan(h200(), network, rows, wishes);
  CAPTURE(describe(network), to_string(cut.plan));
  CHECK(cut.plan.pieces > 0);
  CHECK(cut.prediction.footprint.fits);
  wishes.pieces = 0;
  const PlannedNetwork whole = choose_plan(h200(), network, rows, wishes);
  CHECK(whole.plan.pieces == 0);
  CHECK(cut.prediction.step_us < whole.prediction.step_us);
  wishes.pieces = 2;
  CHECK(choose_plan(h200(), network, rows, wishes).plan.pieces == 2);
  wishes.storage = Storage::dense;
  CHECK_THROWS_AS(choose_plan(h200(), network, rows, wishes), InputError);
  const Plan even = choose_plan(h200(), network, RowProfile::uniform(network), kSparse).plan;
  CHECK(even.pieces == 0);
}

TEST_CASE("a plan's numbers of its tail are those of its rows", "[fast]") {
  const MaskKind mask = GENERATE(MaskKind::uniform, MaskKind::power_law);
  const auto [cell, precision, hidden] =
      GENERATE(std::tuple{Cell::relu, Precision::fp16, 6000}, std::tuple{Cell::lstm, Precision::fp16, 3000},
               std::tuple{Cell::relu, Precision::fp32, 6000});
  const Network network{cell, precision, hidden, 4, 1, 0.2};
  const RowProfile rows = RowProfile::from_matrix(generate_mask(network.rows(), hidden, 0.2, 1, precision, mask));
  const Plan plan = choose_plan(h200(), network, rows, kSparse).plan;
  CAPTURE(describe(network), static_cast<int>(mask), to_string(plan));
  REQUIRE(plan.has_tail());
  const Tail tail = tail_of(network, plan, rows, /*exact=*/true);
  CHECK(plan.tail_chunks == static_cast<int>(std::ceil(tail.mean)));
  CHECK(plan.longest_tail == tail.longest);
  CHECK((plan.ring_chunks > 0 || plan.shared_chunks == tail.fullest));
}

// A few of them have a row that is longer than those of the SMs by which the planner estimates the tails.
TEST_CASE("the plans of small networks hold every row", "[fast]") {
  for (const Cell cell : {Cell::relu, Cell::lstm}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Network network{cell, Precision::fp16, 37, 3, 1, 0.3};
      const SparseMatrix matrix =
          generate_mask(network.rows(), network.hidden, network.density, seed, network.precision, MaskKind::uniform);
      const Plan plan = choose_plan(h200(), network, RowProfile::from_matrix(matrix)).plan;
      CAPTURE(describe(network), seed, to_string(plan));
      CHECK_NOTHROW(make_layout(network, plan, matrix));
    }
  }
}

TEST_CASE("stored indices reach every unit and every zero behind them", "[fast]") {
  for (int hidden = kMaxHidden; hidden > kMaxHidden - 1500; hidden -= 187) {
    for (const int batch : {1, 4}) {
      const Network network{Cell::relu, Precision::fp16, hidden, batch, 1, 0.0005};
      PlanWishes wishes = kSparse;
      wishes.loads_in_flight = 4;
      const PlannedNetwork result = planned(network, wishes);
      if (!result.prediction.footprint.fits) {
        continue;
      }
      CAPTURE(describe(network), to_string(result.plan));
      CHECK(state_units(network, result.plan) + zero_units(network, result.plan) <= 65536);
    }
  }
}

TEST_CASE("a plan whose stored indices do not reach is refused with its reason", "[fast]") {
  const Network network{Cell::relu, Precision::fp16, kMaxHidden, 1, 1, 0.0002};
  PlanWishes wishes = kSparse;
  wishes.storage = Storage::packed_pair;
  wishes.sms = 108;  // 608 units each, of which the last 192 are none
  const PlannedNetwork refused = planned(network, wishes);
  CAPTURE(to_string(refused.plan));
  CHECK(refused.prediction.footprint.indexed_units == 108 * 608 + 64);
  CHECK_FALSE(refused.prediction.footprint.fits);
  CHECK(explain(refused.prediction.footprint) ==
        "does not fit: needs indices of 65728 units, of which 16 bits tell 65536 apart");

  // Of all numbers of SMs on all chips, one is taken whose indices reach.
  for (const char* name : {"a100", "h200", "b200", "rtx 4090"}) {
    for (const int batch : {1, 2}) {
      const Network wide{Cell::relu, Precision::fp16, kMaxHidden - 7, batch, 1, 0.0002};
      const PlannedNetwork found = choose_plan(find_chip(name).chip, wide, RowProfile::uniform(wide), kSparse);
      CAPTURE(name, batch, to_string(found.plan));
      const int reached = state_units(wide, found.plan) + zero_units(wide, found.plan);
      CHECK((!found.prediction.footprint.fits || reached <= 65536));
    }
  }
}

// ---- both families --------------------------------------------------------------------------------------------------

TEST_CASE("without a wish the faster family that fits is taken", "[fast]") {
  const double density = GENERATE(0.02, 0.1, 0.4, 1.0);
  const int hidden = GENERATE(256, 1152, 2304, 4096, 9000);
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  const Network network{cell, Precision::fp16, hidden, 8, 1, density};
  CAPTURE(describe(network));
  const Prediction sparse = planned(network, kSparse).prediction, dense = planned(network, kDense).prediction;
  const PlannedNetwork either = planned(network, {});
  const bool takes_dense = dense.footprint.fits && (!sparse.footprint.fits || dense.step_us < sparse.step_us);
  if (sparse.footprint.fits || dense.footprint.fits) {
    CHECK(either.plan.family == (takes_dense ? Family::dense_persistent : Family::sparse_persistent));
  }
}

TEST_CASE("tensor cores win where the network is dense, registers where it is sparse and large", "[fast]") {
  CHECK(planned({Cell::lstm, Precision::fp16, 1536, 8, 1, 1}, {}).plan.family == Family::dense_persistent);
  CHECK(planned({Cell::relu, Precision::fp16, 8192, 4, 1, 0.05}, {}).plan.family == Family::sparse_persistent);
  // What the tensor cores do not multiply, or what is wished of sparse rows alone.
  CHECK(planned({Cell::relu, Precision::fp32, 512, 4, 1, 1}, {}).plan.family == Family::sparse_persistent);
  CHECK(planned({Cell::relu, Precision::fp8, 512, 4, 1, 1}, {}).plan.family == Family::sparse_persistent);
  PlanWishes wishes;
  wishes.lanes_per_row = 32;
  CHECK(planned({Cell::relu, Precision::fp16, 512, 4, 1, 1}, wishes).plan.family == Family::sparse_persistent);
  CHECK_THROWS_WITH(planned({Cell::relu, Precision::fp32, 512, 4, 1, 1}, kDense),
                    Catch::Matchers::StartsWith("no dense_persistent plan computes relu H=512"));
}

TEST_CASE("small networks stay in clusters, teams of which share the samples out, large ones need the chip", "[fast]") {
  for (const int batch : {1, 6, 32}) {
    const PlannedNetwork small = planned({Cell::relu, Precision::fp16, 512, batch, 1, 1}, kDense);
    CAPTURE(batch, to_string(small.plan));
    CHECK(small.prediction.footprint.fits);
    CHECK(small.plan.exchange == ExchangeProtocol::cluster);
    CHECK(batch % small.plan.teams == 0);
    CHECK((small.plan.teams > 1) == (batch > 1));
    CHECK(small.plan.blocks() <= h200().cluster_usable_sms);
  }
  const PlannedNetwork large = planned({Cell::relu, Precision::fp16, 4096, 8, 1, 1}, kDense);
  CHECK(large.plan.exchange == ExchangeProtocol::lamport);
  PlanWishes wishes = kDense;
  wishes.exchange = ExchangeProtocol::cluster;
  CHECK_FALSE(planned({Cell::relu, Precision::fp16, 4096, 8, 1, 1}, wishes).prediction.footprint.fits);
  wishes.family = Family::sparse_persistent;
  CHECK_THROWS_AS(planned({Cell::relu, Precision::fp16, 512, 8, 1, 1}, wishes), InputError);
  wishes = {};
  wishes.teams = 2;
  CHECK(planned({Cell::relu, Precision::fp16, 512, 8, 1, 1}, wishes).plan.family == Family::dense_persistent);
}

TEST_CASE("a dense plan keeps in shared memory what its registers cannot hold, unless that is not wished", "[fast]") {
  for (const int hidden : {512, 1536, 2304}) {
    const Network network{Cell::lstm, Precision::fp16, hidden, 8, 1, 1};
    PlanWishes wishes = kDense;
    wishes.exchange = ExchangeProtocol::lamport;
    const PlannedNetwork result = planned(network, wishes);
    CAPTURE(to_string(result.plan));
    CHECK((result.plan.shared_tiles == 0 || hidden > 512));
    REQUIRE(result.prediction.footprint.fits);
    CHECK((result.plan.shared_tiles > 0 || hidden < 2304));
    wishes.tier = Tier::registers;
    CHECK(planned(network, wishes).plan.shared_tiles == 0);
    CHECK(planned(network, wishes).prediction.footprint.fits == (hidden < 2304));
    wishes.exchange = ExchangeProtocol::atomic_barrier;
    wishes.sms = 132;
    wishes.loads_in_flight = 4;
    const Plan plan = planned(network, wishes).plan;
    CHECK(plan.exchange == ExchangeProtocol::atomic_barrier);
    CHECK(plan.sms == 132);
    CHECK(plan.loads_in_flight == 4);
  }
}
