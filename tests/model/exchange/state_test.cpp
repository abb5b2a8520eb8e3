// SPDX-License-Identifier: Apache-2.0
// The state that SMs exchange, and how long warps wait before they poll for it, of both families that do.
#include "model/exchange/state.hpp"

#include "model/dense/family.hpp"
#include "model/families/plan.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"

using namespace onchip;

namespace {

const Chip& h200() {
  static const Chip chip = find_chip("h200").chip;
  return chip;
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

TEST_CASE("warps of a barrier or of a cluster wait for nothing before they poll", "[fast]") {
  const Recurrent network{Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
  SparsePlan plan;
  plan.sms = 132;
  plan.threads = 256;
  Terms terms;
  terms.add("gather", 1);
  CHECK(best_poll_delay(h200(), SparseGeometry(network, plan), terms) > 0);
  plan.exchange = ExchangeProtocol::atomic_barrier;
  CHECK(best_poll_delay(h200(), SparseGeometry(network, plan), terms) == 0);
  DensePlan in_cluster = shape_dense_plan(network, 16, 256);
  in_cluster.exchange = ExchangeProtocol::cluster;
  CHECK(best_poll_delay(DenseGeometry(network, in_cluster)) == 0);
}
