// SPDX-License-Identifier: Apache-2.0
// The choice between families, and what holds for plans of any.
#include "model/families/planner.hpp"

#include "experiments/validation/drawn_questions.hpp"
#include "model/base/error.hpp"
#include "model/chip/chip_keys.hpp"
#include "model/families/layout.hpp"
#include "tests/catch.hpp"
#include "tests/model/plan/planned.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

using namespace onchip;

TEST_CASE("the terms of a prediction sum to its total, and the total lies between floor and interval", "[fast][long]") {
  const double density = GENERATE(0.01, 0.1, 0.3, 1.0);
  const int hidden = GENERATE(1, 31, 512, 2304);
  const int batch = GENERATE(1, 3, 8, 32);
  const auto [cell, precision] =
      GENERATE(std::pair{Cell::tanh, Precision::fp16}, std::pair{Cell::tanh, Precision::bf16},
               std::pair{Cell::relu, Precision::fp32}, std::pair{Cell::relu, Precision::fp8},
               std::pair{Cell::lstm, Precision::fp16}, std::pair{Cell::gru, Precision::fp8});
  const Recurrent network{cell, precision, hidden, batch, 1, density};
  const std::string_view family =
      GENERATE(SparsePlan::kName, DensePlan::kName, CublasPlan::kName, CudnnPlan::kName, CusparsePlan::kName);
  if (family == DensePlan::kName && precision != Precision::fp16 && precision != Precision::bf16) {
    return;  // the tensor cores multiply these two
  }
  const PlannedNetwork result = planned(network, of_family(family));
  CAPTURE(describe(network), to_string(result.plan));
  const Prediction& p = result.prediction;
  double sum = 0;
  for (const Term& term : p.terms) {
    CHECK(term.us >= 0);
    sum += term.us;
  }
  CHECK_THAT(sum, Catch::Matchers::WithinRel(p.step_us, 1e-9));
  CHECK(p.terms[p.binding()] > 0);
  CHECK(p.low_us <= p.step_us);
  CHECK(p.step_us <= p.high_us);
  CHECK(p.floor_us <= p.step_us);
  CHECK((p.floor_us > 0) == is_on_chip(result.plan));
}

TEST_CASE("a step lies between its floor and its interval's end on all chips, whatever their clocks and numbers are",
          "[fast]") {
  std::vector<Chip> chips;
  std::ranges::transform(shipped_chips(), std::back_inserter(chips),
                         [](const auto& name) { return find_chip(name).chip; });
  std::vector<std::string_view> keys{"sm.clock", "sm.count"};
  std::ranges::copy_if(key_names(), std::back_inserter(keys),
                       [](auto key) { return key.starts_with("timing.") || key.starts_with("exchange."); });
  std::mt19937 draw(44);
  const auto any = [&](const auto& of) { return of[draw() % of.size()]; };
  constexpr std::array kTimes{"x0.25", "x0.5", "x0.8", "+10%", "x1.5", "x2", "x4"};
  int priced = 0;
  for (DrawnQuestion& question : draw_questions(draws(150), 44)) {
    Recurrent& network = question.network;
    network.hidden = draw() % 2 == 0 ? 1 + network.hidden / 32 : network.hidden / 4;  // where floors are near
    Chip chip = any(chips);
    for (const std::string_view key : {keys[0], any(keys), any(keys)}) {
      try {
        change_chip(chip, std::array{parse_chip_change(std::string(key) + "=" + any(kTimes))});
      } catch (const InputError&) {  // there is no such chip
      }
    }
    for (const std::string_view family : {SparsePlan::kName, DensePlan::kName}) {
      try {
        const PlannedNetwork result = choose_plan(chip, network, RowProfile::uniform(network), of_family(family));
        const Prediction& p = result.prediction;
        CAPTURE(chip.name, describe(network), to_string(result.plan), p.floor_us, p.low_us, p.step_us, p.high_us);
        CHECK((p.floor_us <= p.low_us && p.low_us <= p.step_us && p.step_us <= p.high_us));
        ++priced;
      } catch (const InputError&) {  // the family has no plan there
      }
    }
  }
  CHECK(priced > 150);
}

TEST_CASE("fewer samples never take longer: a batch is computed padded to a larger one where that is faster",
          "[fast]") {
  int padded = 0;
  for (DrawnQuestion& question : draw_questions(draws(24), 45)) {
    Recurrent& network = question.network;
    network.hidden = std::min(network.hidden, 3000);
    const RowProfile rows = RowProfile::uniform(network, question.mask);
    network.batch = std::min(network.batch, 60);
    Recurrent more = network;
    more.batch += 1 + static_cast<int>(network.hidden % 4);
    const PlannedNetwork fewer = choose_plan(*question.chip, network, rows, {});
    const PlannedNetwork of_more = choose_plan(*question.chip, more, rows, {});
    CAPTURE(question.chip->name, describe(network), more.batch, to_string(fewer.plan), to_string(of_more.plan));
    if (of_more.prediction.footprint.fits) {
      REQUIRE(fewer.prediction.footprint.fits);
      CHECK(fewer.prediction.step_us <= 1.002 * of_more.prediction.step_us);
    }
    CHECK_NOTHROW(check_plan(network, fewer.plan));
    CHECK(parse_recurrent_plan(to_string(fewer.plan)) == fewer.plan);
    padded += says(to_string(fewer.plan), "padded_samples=") ? 1 : 0;
  }
  CHECK(padded > 0);
}

TEST_CASE("fewer units never take longer than the next whole words, spans and clusters' sectors of them", "[fast]") {
  for (DrawnQuestion& question : draw_questions(draws(24), 46)) {
    Recurrent& network = question.network;
    network.hidden = network.hidden % 1000 + 40;
    Recurrent more = network;
    for (const int granule : {8, 32, 128}) {
      more.hidden = (network.hidden + granule - 1) / granule * granule;
      const PlannedNetwork fewer = choose_plan(*question.chip, network, RowProfile::uniform(network), {});
      const PlannedNetwork of_more = choose_plan(*question.chip, more, RowProfile::uniform(more), {});
      CAPTURE(question.chip->name, describe(network), more.hidden, to_string(fewer.plan), to_string(of_more.plan));
      CHECK(fewer.prediction.step_us <= 1.02 * of_more.prediction.step_us);
      CHECK_NOTHROW(check_plan(network, fewer.plan));
      CHECK(parse_recurrent_plan(to_string(fewer.plan)) == fewer.plan);
    }
  }
}

TEST_CASE("what a user fixes of a plan is what the plan has", "[fast]") {
  Constraints constraints;  // of which some have a meaning for the sparse family only
  const ExchangeProtocol exchange = GENERATE(ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier);
  fix<&SparsePlan::storage>(constraints, Storage::packed_pair);
  fix<&SparsePlan::order>(constraints, RowOrder::natural);
  fix<&SparsePlan::sms>(constraints, 100);
  fix<&SparsePlan::lanes_per_row>(constraints, 16);
  fix<&SparsePlan::rows_per_group>(constraints, 2);
  fix<&SparsePlan::loads_in_flight>(constraints, 3);
  fix<&SparsePlan::promote_every>(constraints, 4);
  fix<&SparsePlan::exchange>(constraints, exchange);
  fix<&SparsePlan::tile_rows>(constraints, 2);
  fix<&SparsePlan::load_bytes>(constraints, 4);
  const PlannedNetwork result = planned(headline(), constraints);
  const SparsePlan& plan = sparse(result);
  CHECK(plan.storage == Storage::packed_pair);
  CHECK(plan.order == RowOrder::natural);
  CHECK(plan.sms == 100);
  CHECK(plan.lanes_per_row == 16);
  CHECK(plan.rows_per_group == 2);
  CHECK(plan.loads_in_flight == 3);
  CHECK(plan.promote_every == 4);
  CHECK(plan.exchange == exchange);
  CHECK(plan.tile_rows == 2);
  CHECK(plan.load_bytes == 4);
}

TEST_CASE("where nothing is asked for a plan is what the kernels do best: packed, bank-aware, lamport, wide loads",
          "[fast]") {
  Constraints constraints = kSparse;
  fix<&SparsePlan::producer_warps>(constraints, 0);
  const PlannedNetwork result = planned(headline(), constraints);
  CHECK(sparse(result).storage == Storage::packed_pair);
  CHECK(sparse(result).order == RowOrder::bank_aware);
  CHECK(sparse(result).exchange == ExchangeProtocol::lamport);
  CHECK(sparse(result).load_bytes == kWidestLoad);
}

TEST_CASE("a plan leaves as many registers to the compiler as is asked for", "[fast][long]") {
  const std::string_view family = GENERATE(SparsePlan::kName, DensePlan::kName);
  const auto [cell, hidden, batch, density] = GENERATE(
      std::tuple{Cell::relu, 2304, 4, 0.3}, std::tuple{Cell::lstm, 5632, 4, 0.1}, std::tuple{Cell::gru, 2560, 8, 0.1});
  const Recurrent network{cell, Precision::fp16, hidden, batch, 1, density};
  Constraints constraints = of_family(family);
  const PlannedNetwork best = planned(network, constraints);
  for (constraints.spare_registers = 1; constraints.spare_registers <= 16; constraints.spare_registers *= 2) {
    const PlannedNetwork other = planned(network, constraints);
    const ResourceUse& registers = other.prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)];
    INFO(describe(network) << ": " << to_string(other.plan));
    CHECK(other.prediction.footprint.fits == best.prediction.footprint.fits);
    if (other.prediction.footprint.fits) {
      CHECK(registers.used + constraints.spare_registers <= registers.available);
      CHECK(other.prediction.step_us >= best.prediction.step_us);
    }
  }
}

TEST_CASE("a network that no plan can hold is answered with what is missing", "[fast]") {
  const PlannedNetwork result = planned({Cell::relu, Precision::fp32, 20000, 32, 1, 0.5}, {});
  CHECK_FALSE(result.prediction.footprint.fits);
  const ResourceUse& use = result.prediction.footprint.resources[static_cast<int>(result.prediction.footprint.binding)];
  CHECK(use.used > use.available);
}

// A few of them have a row that is longer than those of the SMs by which the planner estimates the overflow.
TEST_CASE("the plans of small networks hold every row", "[fast]") {
  for (const Cell cell : {Cell::relu, Cell::lstm}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const Recurrent network{cell, Precision::fp16, 37, 3, 1, 0.3};
      const SparseMatrix matrix =
          generate_mask(network.rows(), network.hidden, network.density, seed, network.precision, MaskKind::uniform);
      const RecurrentPlan plan = choose_plan(h200(), network, RowProfile::from_matrix(matrix)).plan;
      CAPTURE(describe(network), seed, to_string(plan));
      CHECK_NOTHROW(make_layout(network, plan, matrix));
    }
  }
}

TEST_CASE("where no family is asked for the faster one that fits is taken", "[fast][long]") {
  const double density = GENERATE(0.02, 0.1, 0.4, 1.0);
  const int hidden = GENERATE(256, 1152, 2304, 4096, 9000);
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  const Recurrent network{cell, Precision::fp16, hidden, 8, 1, density};
  CAPTURE(describe(network));
  const Prediction of_sparse = planned(network, kSparse).prediction, of_dense = planned(network, kDense).prediction;
  const PlannedNetwork either = planned(network, {});
  const bool takes_dense =
      of_dense.footprint.fits && (!of_sparse.footprint.fits || of_dense.step_us < of_sparse.step_us);
  if (of_sparse.footprint.fits || of_dense.footprint.fits) {
    CHECK((takes_dense ? is_dense(either) : is_sparse(either)));
  }
}

TEST_CASE("tensor cores win where the network is dense, registers where it is sparse and large", "[fast]") {
  CHECK(is_dense(planned({Cell::lstm, Precision::fp16, 1536, 8, 1, 1}, {})));
  CHECK(is_sparse(planned({Cell::relu, Precision::fp16, 8192, 4, 1, 0.05}, {})));
  // What the tensor cores do not multiply, or what is asked of sparse rows alone.
  CHECK(is_sparse(planned({Cell::relu, Precision::fp32, 512, 4, 1, 1}, {})));
  CHECK(is_sparse(planned({Cell::relu, Precision::fp8, 512, 4, 1, 1}, {})));
  Constraints constraints;
  fix<&SparsePlan::lanes_per_row>(constraints, 32);
  CHECK(is_sparse(planned({Cell::relu, Precision::fp16, 512, 4, 1, 1}, constraints)));
}

TEST_CASE("a term beyond the most is refused, in release builds too", "[fast]") {
  Terms terms;
  for (std::size_t i = 0; i < Terms::kMost; ++i) {
    terms.add("term", 1);
  }
  CHECK_THROWS_AS(terms.add("one more", 1), std::out_of_range);
  CHECK(terms.size() == Terms::kMost);
  CHECK(terms.total() == static_cast<double>(Terms::kMost));
}
