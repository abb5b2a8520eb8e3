// SPDX-License-Identifier: Apache-2.0
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"
#include "model/training/recurrence_price.hpp"
#include "model/training/sparse_price.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

using namespace onchip;

namespace {

const Chip& h100() {
  static const Chip chip = find_chip("h100_sxm").chip;
  return chip;
}

Training lstm(int hidden, int batch, Stack stack = {}) {
  return {{Cell::lstm, Precision::fp16, hidden, batch, 256, 1}, stack};
}

Training sparse_lstm(int hidden, int batch, double density, Stack stack = {}) {
  Training training = lstm(hidden, batch, stack);
  training.network.density = density;
  training.mask = std::make_shared<const SparseMatrix>(generate_mask(4 * hidden, hidden, density, 1, Precision::fp16));
  return training;
}

double total_of(const TrainingStep& step, const TrainingPrice& price, PhaseKind kind) {
  double us = 0;
  for (std::size_t i = 0; i < step.phases.size(); ++i) {
    us += step.phases[i].kind == kind ? price.phases[i].us : 0;
  }
  return us;
}

}  // namespace

TEST_CASE("columns of a backward recurrence are split over a cluster: an SM polls a share of the state", "[fast]") {
  const TrainingSize size = size_of(lstm(1024, 128));
  RecurrencePlan plan{.batch_groups = 2, .turns = 2};
  const RecurrenceShape whole = recurrence_shape(size, plan, true);
  plan.split = 4;
  const RecurrenceShape split = recurrence_shape(size, plan, true);
  CHECK(whole.spans == 4 * 1024 / 32);
  CHECK(split.spans == whole.spans / 4);
  CHECK(split.tiles == whole.tiles);  // as many weights, cut otherwise
  CHECK(split.row_tiles == 4);
  const Terms of_split = recurrence_price(h100(), size, plan, true).terms;
  plan.split = 1;
  const Terms of_whole = recurrence_price(h100(), size, plan, true).terms;
  CHECK(of_whole["split"] == 0);
  CHECK(of_split["split"] > 0);
  CHECK(of_split["staging"] < of_whole["staging"]);
  CHECK(error_of([&] { recurrence_shape(size, {.split = 2}, false); }).find("split is 1") != std::string::npos);
}

TEST_CASE("the pick is the plan with the least price, and fits", "[fast]") {
  int fitting = 0;
  for (const auto& [hidden, batch] : {std::pair{256, 16}, {512, 512}, {650, 33}, {1024, 64}, {1536, 64}, {2048, 16}}) {
    const TrainingSize size = size_of(lstm(hidden, batch));
    for (const bool is_backward : {false, true}) {
      const RecurrencePlan pick = choose_recurrence(h100(), size, is_backward);
      CAPTURE(hidden, batch, text(pick));
      CHECK(recurrence_shape(size, pick, is_backward).blocks <= h100().sm_count);
      const double us = recurrence_price(h100(), size, pick, is_backward).terms.total();
      for (const char* other : {"loads_in_flight=8", "loads_in_flight=16", "turns=4", "warps=16", "split=2"}) {
        std::optional<RecurrencePlan> plan;
        try {
          plan = with_room(size, changed(pick, other), is_backward, 132, 227 * 1024);
        } catch (const InputError&) {
          continue;  // it does not fit
        }
        CHECK(us <= recurrence_price(h100(), size, *plan, is_backward).terms.total() * 1.0001);
        ++fitting;
      }
    }
  }
  CHECK(fitting > 20);  // of 60
}

TEST_CASE("a training step reads back from its text", "[fast]") {
  for (const Training& training :
       {lstm(512, 64), lstm(1024, 32, {2, true, 300}), lstm(512, 512), lstm(16384, 64), lstm(2048, 512)}) {
    for (const Stash stash : {Stash::gates, Stash::cells}) {
      const TrainingStep step = plan_training(h100(), training, stash);
      CHECK(parse_training_step(to_string(step)) == step);
      CHECK_NOTHROW(check(training, step));
    }
  }
}

TEST_CASE("texts that are no training step are refused with what is expected", "[fast]") {
  const auto parse = [](const std::string& text) { return error_of([&] { parse_training_step(text); }); };
  CHECK(parse("") == "training step: found '': expected 'stash=gates' or 'stash=cells' first");
  CHECK(parse("stash=gate").find("did you mean 'gates'") != std::string::npos);
  CHECK(parse("stash=gates | forwards layer=0").find("did you mean 'forward'") != std::string::npos);
  CHECK(parse("stash=gates | packing elements=-1").find("expected a whole number") != std::string::npos);
  CHECK(parse("stash=gates | data_product rows=1 colums=2").find("precision 'colums=2'") != std::string::npos);
  CHECK(parse("stash=gates | forward layer=0").find("expected the plan of a recurrence") != std::string::npos);
  CHECK(parse("stash=gates | ").find("unknown phase ''") != std::string::npos);
  CHECK(parse("stash=gates").find("expected phases") != std::string::npos);
  CHECK(parse("stash=gates | packing elements=9000000000000000000").find("expected a whole number") !=
        std::string::npos);

  TrainingStep step = plan_training(h100(), lstm(512, 64));
  CHECK(error_of([&] { check(lstm(512, 2048), step); }).find("at most 64 samples") != std::string::npos);
  step.phases.back().layer = 1;
  CHECK(error_of([&] { check(lstm(512, 64), step); }).find("layer 1") != std::string::npos);
}

TEST_CASE("a step has every product and recurrence once for each layer and direction, in an order that works",
          "[fast]") {
  const Training training = lstm(512, 32, {3, true, 128});
  const TrainingStep step = plan_training(h100(), training, Stash::cells);
  const auto count = [&](PhaseKind kind) { return std::ranges::count(step.phases, kind, &Phase::kind); };
  CHECK(count(PhaseKind::packing) == 1);
  for (const PhaseKind kind : {PhaseKind::input_product, PhaseKind::forward, PhaseKind::gates_product,
                               PhaseKind::backward, PhaseKind::data_product}) {
    CHECK(count(kind) == 6);
  }
  CHECK(count(PhaseKind::weight_product) == 12);
  int layer = 0;
  bool is_backward = false;
  for (const Phase& phase : step.phases) {
    is_backward |= phase.kind == PhaseKind::backward;
    CHECK((is_backward || phase.kind == PhaseKind::gates_product ? phase.layer <= 2 : phase.layer >= layer));
    layer = phase.layer;
    if (phase.kind == PhaseKind::input_product) {
      CHECK(std::get<ProductSize>(phase.how) ==
            ProductSize{2048, 256 * 32, phase.layer == 0 ? 128 : 1024, Precision::fp16});
    }
  }
  CHECK(step.phases.back().layer == 0);
}

TEST_CASE("the gradients of a GRU's recurrent weights are two products", "[fast]") {
  Training training = lstm(512, 32);
  training.network.cell = Cell::gru;
  std::int64_t rows = 0;
  int products = 0;
  for (const Phase& phase : plan_training(h100(), training).phases) {
    if (phase.kind == PhaseKind::weight_product) {
      rows += std::get<ProductSize>(phase.how).rows;
      ++products;
    }
  }
  CHECK(products == 3);
  CHECK(rows == 2 * 3 * 512);
}

TEST_CASE("phases beside each other take as long as the longest", "[fast]") {
  const Training training = lstm(512, 32, {1, true});
  TrainingStep step = plan_training(h100(), training);
  const double beside = price(h100(), training, step).us;
  bool any = false;
  for (Phase& phase : step.phases) {
    any |= phase.beside;
    phase.beside = false;
  }
  CHECK(any);  // two directions of 512 units leave SMs to each other
  CHECK(price(h100(), training, step).us > 1.1 * beside);
}

TEST_CASE("a stash of cells is smaller and costs a product", "[fast]") {
  const Training training = lstm(1024, 64);
  const TrainingStep gates = own_step(h100(), training), cells = own_step(h100(), training, Stash::cells);
  const TrainingPrice of_gates = price(h100(), training, gates), of_cells = price(h100(), training, cells);
  const std::int64_t output = 2ll * 256 * 64 * 1024;
  CHECK(of_gates.stash_bytes == 6 * output);  // as cuDNN's reserve space and output
  CHECK(of_cells.stash_bytes == output + output / 8);
  CHECK(of_cells.us - of_gates.us == Approx(total_of(cells, of_cells, PhaseKind::gates_product)));
}

// An H100 has room for 30 clusters of four or more, of 132 SMs: 2048 units on 128 SMs went beyond.
TEST_CASE("no pick has more clusters than every chip of its kind holds", "[fast]") {
  for (const int hidden : {1024, 1920, 2048}) {
    for (const int batch : {1, 16, 64}) {
      const RecurrencePlan plan = choose_recurrence(h100(), {.input = hidden, .hidden = hidden, .batch = batch}, true);
      CAPTURE(hidden, batch, text(plan));
      CHECK((plan.split < 4 || plan.batch_groups * ((hidden + 63) / 64) <= 30));
    }
  }
}

TEST_CASE("what no kernel trains is a library's step", "[fast]") {
  Training training = lstm(512, 64);
  training.network.precision = Precision::fp32;
  CHECK(plan_training(h100(), training) == library_step());
  training.network = {Cell::tanh, Precision::fp16, 512, 64, 256, 1};
  CHECK(plan_training(h100(), training) == library_step());
  CHECK(plan_training(find_chip("v100").chip, lstm(512, 64)) == library_step());
  CHECK(plan_training(h100(), lstm(8192, 64)) == library_step());
  CHECK(price(h100(), training, library_step()).us == Approx(library_prices(h100(), training)[0].us));
  CHECK(error_of([&] { own_step(h100(), training); }).find("not for 'tanh'") != std::string::npos);
  CHECK(error_of([&] { own_step(h100(), lstm(8192, 64)); }).find("takes 512 SMs") != std::string::npos);
  CHECK(plan_training(h100(), lstm(2048, 512)) == library_step());  // slower, though it fits
}

TEST_CASE("a sparse LSTM is trained with plans of its mask, and its gradient is masked", "[fast]") {
  const Training training = sparse_lstm(1024, 16, 0.1), dense = lstm(1024, 16);
  const TrainingStep step = own_step(h100(), training);
  CHECK(parse_training_step(to_string(step)) == step);
  CHECK(with_plans(own_step(h100(), training), how_text(step.phases[2]), how_text(step.phases[3])) == step);
  check(training, step);
  CHECK(error_of([&] { check(dense, step); }).find("this one is dense") != std::string::npos);
  CHECK(error_of([&] { check(training, own_step(h100(), dense)); }).find("this one is sparse") != std::string::npos);
  const TrainingPrice priced = price(h100(), training, step);
  CHECK(total_of(step, priced, PhaseKind::gradient_mask) > 0);
  const TrainingAnswer answer = predict_training(find_chip("h100_sxm"), training, Stash::gates);
  CHECK(to_json(answer)["phases"][2]["plan"] == how_text(step.phases[2]));
  for (const auto& other : {sparse_lstm(1024, 16, 0.1, {2}), sparse_lstm(1024, 16, 0.1, {1, true})}) {
    CHECK(error_of([&] { own_step(h100(), other); }).find("one layer and direction") != std::string::npos);
  }
  Chip small = h100();
  small.sm_count.value = 8;
  CHECK(error_of([&] { own_step(small, sparse_lstm(1024, 16, 0.8)); }).find("do not fit on 8 SMs") !=
        std::string::npos);
}

TEST_CASE("sparse recurrences are priced by their slots, passes, turns and split", "[fast]") {
  const auto terms = [](const Training& training, bool is_backward, const std::string& words) {
    SparseTrainingPlan plan = choose_sparse_recurrence(h100(), training, is_backward).plan;
    plan = changed(unsettled(plan), words);
    const SparseRecurrence recurrence = sparse_recurrence(h100(), training, plan, is_backward);
    return sparse_recurrence_price(h100(), Precision::fp16, recurrence).terms;
  };
  const Training sparser = sparse_lstm(1024, 16, 0.1), denser = sparse_lstm(1024, 16, 0.2);
  CHECK(terms(denser, false, "lanes=8")["gather"] > 1.7 * terms(sparser, false, "lanes=8")["gather"]);
  for (const bool is_backward : {false, true}) {
    const Terms one = terms(sparser, is_backward, "samples=16 lanes=8"),
                two = terms(sparser, is_backward, "samples=8 lanes=8");
    CHECK(two["exchange"] > 1.8 * one["exchange"]);
    CHECK(two["activation"] >= one["activation"]);
  }
  // A cluster's SMs have half of the columns each.
  const Terms whole = terms(sparser, true, "split=1 lanes=8"), split = terms(sparser, true, "split=2 lanes=8");
  CHECK(whole["split"] == 0);
  CHECK(split["split"] > 0);
  CHECK(split["staging"] < 0.7 * whole["staging"]);
}

TEST_CASE("the JSON of a training step has its phases, bytes and libraries", "[fast]") {
  const TrainingAnswer answer = predict_training(find_chip("h100_sxm"), lstm(512, 64), Stash::gates);
  const Json json = to_json(answer);
  CHECK(json["phases"].size() == answer.step.phases.size());
  CHECK(json["phases"][2]["name"] == "forward");
  CHECK(json["phases"][2]["plan"].get<std::string>().starts_with("groups="));
  CHECK(json["phases"][1]["size"]["depth"] == 512);
  CHECK(json["stash_bytes"] == 6 * 2 * 256 * 64 * 512);
  CHECK(json["libraries"][0]["library"] == "cudnn");
  CHECK(parse_training_step(json["text"].get<std::string>()) == answer.step);
}
