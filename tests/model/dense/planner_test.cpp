// SPDX-License-Identifier: Apache-2.0
// What the planner chooses of the dense family: storages, clusters and batch groups, tiles in shared memory.
#include "model/families/planner.hpp"

#include "model/base/error.hpp"
#include "model/dense/bitmap.hpp"
#include "tests/catch.hpp"
#include "tests/model/plan/planned.hpp"

#include <algorithm>
#include <tuple>

using namespace onchip;

TEST_CASE("of a 2:4 mask the planner takes the faster of both dense storages", "[fast]") {
  const auto [cell, hidden, batch] =
      GENERATE(std::tuple{Cell::relu, 2304, 4}, std::tuple{Cell::lstm, 1536, 8}, std::tuple{Cell::gru, 300, 1});
  const Recurrent network{cell, Precision::fp16, hidden, batch, 1, 0.5};
  const RowProfile rows = RowProfile::uniform(network, MaskKind::two_four);
  const auto stored = [&](Storage storage) {
    const PlannedNetwork result = choose_plan(h200(), network, rows, dense_stored_as(storage));
    CHECK(dense(result).storage == storage);
    CHECK(result.prediction.footprint.fits);
    return result.prediction.step_us;
  };
  const double whole = stored(Storage::dense), structured = stored(Storage::structured_2_4);
  CHECK(structured < whole);  // fewer products, and nothing else that takes longer
  CHECK(choose_plan(h200(), network, rows, kDense).prediction.step_us == structured);
  // Another mask of the same density cannot be stored so.
  CHECK(dense(planned(network, kDense)).storage == Storage::dense);

  const std::vector<RankedPlan> ranking = rank_families(h200(), network, rows);
  const auto ranked = std::ranges::find(ranking, DensePlan::kName, &RankedPlan::family);
  REQUIRE(ranked != ranking.end());
  CHECK_THAT(ranked->why, Catch::Matchers::Contains("; stored as dense, ") && Catch::Matchers::Contains(" us slower"));
}

TEST_CASE("where a dense network does not fit, one without its empty words may", "[fast]") {
  for (const auto& [cell, hidden, batch] :
       {std::tuple{Cell::lstm, 2560, 16}, {Cell::relu, 5632, 32}, {Cell::gru, 3072, 8}}) {
    const Recurrent network{cell, Precision::fp16, hidden, batch, 1, 0.2};
    CAPTURE(describe(network));
    CHECK_FALSE(planned(network, dense_stored_as(Storage::dense)).prediction.footprint.fits);
    const PlannedNetwork compact = planned(network, kDense);
    CHECK(dense(compact).storage == Storage::bitmap);
    CHECK(compact.plan == planned(network, dense_stored_as(Storage::bitmap)).plan);
    CHECK(compact.prediction.footprint.fits);
    CHECK(dense(compact).bank_words > 0);
    CHECK(planned(network, {}).plan == compact.plan);  // far faster than any sparse one
    // Of a mask that is known the words are counted.
    const SparseMatrix mask = generate_mask(network.rows(), hidden, 0.2, 1, Precision::fp16);
    const PlannedNetwork exact = choose_plan(h200(), network, RowProfile::from_matrix(mask), kDense);
    CHECK(dense(exact).storage == Storage::bitmap);
    CHECK(dense(exact).bank_words == needed_bank_words(dense_geometry(exact), word_mask(mask)));
    CHECK(dense(exact).bank_words <= dense(compact).bank_words);

    const std::vector<RankedPlan> ranking = rank_families(h200(), network, RowProfile::uniform(network));
    CHECK(ranking.front().family == DensePlan::kName);
    CHECK_THAT(ranking.front().why, Catch::Matchers::Contains("; stored as dense, does not fit: needs"));
  }
}

TEST_CASE("where a dense network fits, it is stored whole", "[fast]") {
  for (const auto& [hidden, density] : {std::pair{2304, 0.05}, {4096, 0.2}, {512, 0.01}}) {
    const Recurrent network{Cell::relu, Precision::fp16, hidden, 8, 1, density};
    CHECK(dense(planned(network, kDense)).storage == Storage::dense);
    Constraints constraints;
    fix<&DensePlan::storage>(constraints, Storage::bitmap);
    const PlannedNetwork asked = planned(network, constraints);
    REQUIRE(is_dense(asked));
    CHECK(dense(asked).storage == Storage::bitmap);
    CHECK(asked.prediction.footprint.fits);
    CHECK(asked.prediction.step_us >= planned(network, kDense).prediction.step_us);
  }
}

TEST_CASE("masks whose words crowd in few tiles get a plan that has room for them, or a sparse one", "[fast][long]") {
  // As many weights as a uniform mask of 10 % has, all in every tenth stretch of 32 rows.
  constexpr int kHidden = 5632;
  const Recurrent network{Cell::relu, Precision::fp16, kHidden, 16, 1, 0.1};
  std::vector<int> lengths;
  for (int row = 0; row < kHidden; ++row) {
    lengths.push_back(row / 32 % 10 == 0 ? kHidden : 0);
  }
  const SparseMatrix crowded = rows_of_lengths(kHidden, lengths);
  CHECK(dense(planned(network, {})).storage == Storage::bitmap);
  const PlannedNetwork found = choose_plan(h200(), network, RowProfile::from_matrix(crowded));
  CHECK(found.prediction.footprint.fits);
  CHECK((!is_dense(found) || dense(found).storage != Storage::bitmap ||
         dense(found).bank_words == needed_bank_words(dense_geometry(found), word_mask(crowded))));
}

TEST_CASE("structured_2_4 is refused where the mask or the family cannot be stored so", "[fast]") {
  using Catch::Matchers::Contains;
  const Recurrent network{Cell::relu, Precision::fp16, 256, 4, 1, 0.4};
  Constraints constraints;
  fix<&DensePlan::storage>(constraints, Storage::structured_2_4);
  CHECK_THROWS_WITH(planned(network, constraints),
                    Contains("at most two non-zeros of every four neighbouring columns"));
  const SparseMatrix uniform = generate_mask(256, 256, 0.4, 1, Precision::fp16);
  CHECK_THROWS_WITH(choose_plan(h200(), network, RowProfile::from_matrix(uniform), constraints),
                    Contains("found that " + describe(find_crowded_group(uniform).value())));
  const RowProfile rows = RowProfile::uniform(network, MaskKind::two_four);
  CHECK(is_dense(choose_plan(h200(), network, rows, constraints)));
  Recurrent single = network;
  single.precision = Precision::fp32;
  CHECK_THROWS_WITH(choose_plan(h200(), single, rows, constraints), Contains("fp16 or bf16"));
  // Sparse kernels take a 2:4 mask like any other.
  CHECK(is_sparse(choose_plan(h200(), single, rows)));
}

TEST_CASE("small networks stay in clusters, groups of which share the samples out, large ones need the chip",
          "[fast]") {
  for (const int batch : {1, 6, 32}) {
    const PlannedNetwork small = planned({Cell::relu, Precision::fp16, 512, batch, 1, 1}, kDense);
    CAPTURE(batch, to_string(small.plan));
    CHECK(small.prediction.footprint.fits);
    CHECK(dense(small).exchange == ExchangeProtocol::cluster);
    CHECK(dense_geometry(small).samples % dense(small).batch_groups == 0);
    CHECK((dense(small).batch_groups > 1) == (batch > 1));
    CHECK(dense_geometry(small).blocks <= h200().cluster_usable_sms);
  }
  const PlannedNetwork large = planned({Cell::relu, Precision::fp16, 4096, 8, 1, 1}, kDense);
  CHECK(dense(large).exchange == ExchangeProtocol::lamport);
  Constraints constraints = kDense;
  fix<&DensePlan::exchange>(constraints, ExchangeProtocol::cluster);
  CHECK_FALSE(planned({Cell::relu, Precision::fp16, 4096, 8, 1, 1}, constraints).prediction.footprint.fits);
  constraints.family = SparsePlan::kName;
  CHECK_THROWS_AS(planned({Cell::relu, Precision::fp16, 512, 8, 1, 1}, constraints), InputError);
  constraints = {};
  fix<&DensePlan::batch_groups>(constraints, 2);
  CHECK(is_dense(planned({Cell::relu, Precision::fp16, 512, 8, 1, 1}, constraints)));
}

TEST_CASE("a dense plan keeps in shared memory what its registers cannot hold, unless that is ruled out", "[fast]") {
  for (const int hidden : {512, 1536, 2304}) {
    const Recurrent network{Cell::lstm, Precision::fp16, hidden, 8, 1, 1};
    Constraints constraints = kDense;
    fix<&DensePlan::exchange>(constraints, ExchangeProtocol::lamport);
    const PlannedNetwork result = planned(network, constraints);
    CAPTURE(to_string(result.plan));
    CHECK((dense(result).shared_tiles == 0 || hidden > 512));
    REQUIRE(result.prediction.footprint.fits);
    CHECK((dense(result).shared_tiles > 0 || hidden < 2304));
    constraints.tier = Tier::registers;
    CHECK(dense(planned(network, constraints)).shared_tiles == 0);
    CHECK(planned(network, constraints).prediction.footprint.fits == (hidden < 2304));
    fix<&DensePlan::exchange>(constraints, ExchangeProtocol::atomic_barrier);
    fix<&DensePlan::sms>(constraints, 132);
    fix<&DensePlan::loads_in_flight>(constraints, 4);
    const PlannedNetwork barrier = planned(network, constraints);
    CHECK(dense(barrier).exchange == ExchangeProtocol::atomic_barrier);
    CHECK(dense(barrier).sms == 132);
    CHECK(dense(barrier).loads_in_flight == 4);
  }
}
