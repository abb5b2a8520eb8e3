// SPDX-License-Identifier: Apache-2.0
// The state that SMs exchange, and how long warps wait before they poll for it, of both families that do.
#include "model/exchange/state.hpp"

#include "model/dense/family.hpp"
#include "model/families/plan.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"

using namespace onchip;

namespace {

// A step whose staging and everything else take so many cycles.
int delay_of(const SparsePlan& plan, const Recurrent& network, double body_cycles, double staging_cycles) {
  const Chip chip = find_chip("h200").chip;
  const double us_per_cycle = 1e6 / chip.clock_hz;
  Terms terms;
  terms.add("staging", staging_cycles * us_per_cycle);
  terms.add("gather", (body_cycles + 1e-6) * us_per_cycle);
  return best_poll_delay(chip, SparseGeometry(network, plan), terms);
}

int delay_of_dense(int hidden, int batch, int sms, int batch_groups = 1) {
  const Recurrent network{Cell::relu, Precision::fp16, hidden, batch, 256, 1};
  return best_poll_delay(DenseGeometry(network, shape_dense_plan(network, sms, 256, batch_groups)));
}

}  // namespace

TEST_CASE("SMs that write half a line or less have lines of their own, and states grow by as much", "[fast]") {
  CHECK(line_words_for(1) == 1);
  CHECK(line_words_for(2) == 4);
  CHECK(line_words_for(3) == 4);
  CHECK(line_words_for(4) == 4);
  CHECK(line_words_for(5) == kLineWords);
  CHECK(line_words_for(9) == kLineWords);
  const Recurrent network{Cell::relu, Precision::fp16, 1024, 1, 1, 0.1};
  SparsePlan plan = shape_sparse_plan(network, RowProfile::uniform(network), Storage::packed_pair, 128, 8, 1);
  CHECK(SparseGeometry(network, plan).state_stride == 2048);
  plan.line_words = 1;
  CHECK(SparseGeometry(network, plan).state_stride == 128 * 128);
  CHECK(parse_recurrent_plan(to_string(RecurrentPlan(plan))) == RecurrentPlan(plan));
  DensePlan dense = shape_dense_plan(network, 128, 128);
  dense.line_words = kLineWords / 2;
  CHECK(DenseGeometry(network, dense).state_stride == 2 * 2048);
}

TEST_CASE("regression: the longer an SM computes, the longer its warps wait before they first poll", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
  SparsePlan plan;
  plan.sms = 132;
  plan.threads = 256;
  CHECK(delay_of(plan, network, 0, 0) == 100);
  CHECK(delay_of(plan, network, 2000, 0) == 220);
  CHECK(delay_of(plan, network, 1e6, 0) == 480);
  CHECK(delay_of(plan, network, 2000, 1000) == 220);
  SparsePlan pipelined = plan;
  pipelined.producer_warps = 5;
  pipelined.load_bytes = 4;
  REQUIRE(SparseGeometry(network, pipelined).passes == 2);
  CHECK(delay_of(pipelined, network, 100, 0) == 0);
  CHECK(delay_of(pipelined, network, 2000, 0) == 200);
  CHECK(delay_of(pipelined, network, 2000, 400) < 100);
  CHECK(delay_of(pipelined, network, 1e6, 0) == 640);
  plan.exchange = ExchangeProtocol::atomic_barrier;
  CHECK(delay_of(plan, network, 2000, 0) == 0);
  CHECK(delay_of_dense(2048, 1, 128) == 60);  // 0.5 MiB that all SMs together poll
  CHECK(delay_of_dense(2048, 4, 128) == 120);
  CHECK(delay_of_dense(2048, 4, 64) == 80);
  CHECK(delay_of_dense(2048, 32, 16, 8) == 120);
  CHECK(delay_of_dense(2048, 16, 128) == 200);
  DensePlan in_cluster = shape_dense_plan(network, 16, 256);
  in_cluster.exchange = ExchangeProtocol::cluster;
  CHECK(best_poll_delay(DenseGeometry(network, in_cluster)) == 0);
}
