// SPDX-License-Identifier: Apache-2.0
#include "model/answer/training/training.hpp"
#include "model/base/error.hpp"
#include "model/base/random.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/recurrence_price.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

double total_of(const Training& training, const TrainingPlan& plan, PhaseKind kind) {
  const std::vector<Phase> phases = phases_of(training, plan);
  const TrainingPrediction prediction = predict(h100(), training, plan);
  double us = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    us += phases[i].kind == kind ? prediction.phases[i].us : 0;
  }
  return us;
}

TrainingPlan best(const Training& training, Stash stash = Stash::gates) {
  return plan_training(h100(), training, {.stash = stash})->plan;
}

TrainingPlan on_chip(const Training& training, Stash stash = Stash::gates) {
  return choose_on_chip(h100(), training, stash).value_or_throw();
}

// Any training that has kernels, small enough to lay out fast.
Training drawn(std::uint64_t seed) {
  Random random(seed, 13);
  const auto one_of = [&](const auto&... of) {
    const std::array all{of...};
    return all[random.below(all.size())];
  };
  const int hidden = one_of(96, 160, 256, 512, 650, 1024), batch = one_of(1, 5, 16, 33, 64, 128, 256);
  const bool is_sparse = random.below(4) == 0;
  Training training = is_sparse ? sparse_lstm(hidden, std::min(batch, 33), one_of(0.05, 0.1, 0.2))
                                : lstm(hidden, batch, {one_of(1, 2), random.below(2) == 0, one_of(0, 77, 300)});
  training.network.precision = one_of(Precision::fp16, Precision::bf16);
  training.network.steps = one_of(7, 128, 256);
  training.network.cell = is_sparse ? Cell::lstm : one_of(Cell::lstm, Cell::gru);
  return training;
}

}  // namespace

TEST_CASE("columns of a backward recurrence are split over a cluster: an SM polls a share of the state", "[fast]") {
  const TrainingSize size = size_of(lstm(1024, 128));
  RecurrencePlan plan{.batch_groups = 2, .sub_batches = 2};
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
  CHECK(says(error_of([&] { recurrence_shape(size, {.split = 2}, false); }), "split is 1"));
}

TEST_CASE("the chosen plan has the least price, and fits", "[fast]") {
  int compared = 0;
  for (const auto& [hidden, batch] : {std::pair{256, 16}, {512, 512}, {650, 33}, {1024, 64}, {1536, 64}, {2048, 16}}) {
    const TrainingSize size = size_of(lstm(hidden, batch));
    for (const bool is_backward : {false, true}) {
      const RecurrencePlan chosen = *choose_recurrence(h100(), size, is_backward);
      CAPTURE(hidden, batch, fields_text(chosen));
      CHECK(recurrence_shape(size, chosen, is_backward).blocks <= h100().sm_count);
      const double us = recurrence_price(h100(), size, chosen, is_backward).terms.total();
      for (const char* other : {"loads_in_flight=8", "loads_in_flight=16", "sub_batches=4", "warps=16", "split=2"}) {
        try {
          const auto plan = with_room(size, changed(chosen, other), is_backward, 132, 227 * 1024);
          if (plan) {
            ++compared;
            CHECK(us <= recurrence_price(h100(), size, *plan, is_backward).terms.total() * 1.0001);
          }
        } catch (const InputError&) {  // that the kernel does not have
        }
      }
    }
  }
  CHECK(compared >= 30);
}

TEST_CASE("plans of drawn trainings read back from their texts, and are of their trainings", "[fast]") {
  int families[2] = {0, 0};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Training training = drawn(seed);
    const Found<TrainingPlan> plan =
        choose_on_chip(h100(), training, training.mask || seed % 2 == 0 ? Stash::gates : Stash::cells);
    CAPTURE(seed, training.network.hidden, training.network.batch);
    if (!plan) {
      CHECK_FALSE(plan.why().empty());
      continue;
    }
    ++families[std::holds_alternative<DenseTrainingPlan>(*plan) ? 0 : 1];
    CHECK(parse_training_plan(to_string(*plan)) == *plan);
    CHECK_NOTHROW(check(training, *plan));
    const TrainingPrediction prediction = predict(h100(), training, *plan);
    CHECK(prediction.footprint.fits);
    CHECK(prediction.terms.total() == Approx(prediction.step_us));
    CHECK(prediction.step_us * training.network.steps == Approx(prediction.iteration.us));
    CHECK(prediction.phases.size() == phases_of(training, *plan).size());
  }
  CHECK(families[0] >= 20);
  CHECK(families[1] >= 5);
  CHECK(parse_training_plan("cudnn_training") == TrainingPlan(CudnnTrainingPlan{}));
}

TEST_CASE("texts that are no plan of a training are refused with what is expected", "[fast]") {
  const auto parse = [](const std::string& text) { return error_of([&] { parse_training_plan(text); }); };
  CHECK(says(parse(""), "unknown family ''"));
  CHECK(says(parse("dense_trainin gates"), "did you mean 'dense_training'"));
  CHECK(says(parse("dense_training gate forward=[] backward=[]"), "did you mean 'gates'"));
  CHECK(says(parse("dense_training gates forward=[]"), "expects 'backward=', too"));
  CHECK(says(parse("dense_training gates forward=[] backward=[] forward=[]"), "stands twice"));
  CHECK(says(parse("dense_training gates forward=warps=8 backward=[]"), "fields in brackets"));
  CHECK(says(parse("dense_training gates forward=[turns=2] backward=[]"), "it is called sub_batches now"));
  CHECK(says(parse("dense_training gates forward=[groups=2] backward=[]"), "it is called batch_groups now"));
  CHECK(says(parse("dense_training gates forward=[warps=99999] backward=[]"), "expected warps to be"));
  CHECK(says(parse("dense_training gates forward=[samples=4] backward=[]"), "unknown key 'samples'"));
  // What this version's predecessors printed.
  CHECK(says(parse("stash=gates | packing elements=8 | forward layer=0 groups=4 turns=1"), "expected 'dense_training"));
  CHECK(says(parse("stash=gates | library cudnn"), "expected 'cudnn_training'"));
  const TrainingPlan plan = best(lstm(512, 64));
  CHECK(says(error_of([&] { check(lstm(512, 2048), plan); }), "at most 64 samples"));
  CHECK(says(error_of([&] {
               check(lstm(512, 64), DenseTrainingPlan{Stash::gates, {}, {}, true, false});
             }),
             "this network has one"));
}

TEST_CASE("an iteration has every product and recurrence once for each layer and direction, in an order that works",
          "[fast]") {
  const Training training = lstm(512, 32, {3, true, 128});
  const std::vector<Phase> phases = phases_of(training, best(training, Stash::cells));
  const auto count = [&](PhaseKind kind) { return std::ranges::count(phases, kind, &Phase::kind); };
  CHECK(count(PhaseKind::packing) == 1);
  for (const PhaseKind kind : {PhaseKind::input_product, PhaseKind::forward, PhaseKind::gates_cell, PhaseKind::backward,
                               PhaseKind::data_product}) {
    CHECK(count(kind) == 6);
  }
  CHECK(count(PhaseKind::gates_product) == 12);
  CHECK(count(PhaseKind::weight_product) == 12);
  int layer = 0;
  bool is_backward = false;
  for (const Phase& phase : phases) {
    is_backward |= phase.kind == PhaseKind::backward;
    CHECK((is_backward || phase.kind == PhaseKind::gates_product ? phase.layer <= 2 : phase.layer >= layer));
    layer = phase.layer;
    if (phase.kind == PhaseKind::input_product) {
      CHECK(std::get<ProductSize>(phase.how) ==
            ProductSize{2048, 256 * 32, phase.layer == 0 ? 128 : 1024, Precision::fp16});
    }
  }
  CHECK(phases.back().layer == 0);
}

TEST_CASE("the gradients of a GRU's recurrent weights are two products", "[fast]") {
  Training training = lstm(512, 32);
  training.network.cell = Cell::gru;
  std::int64_t rows = 0;
  int products = 0;
  for (const Phase& phase : phases_of(training, best(training))) {
    if (phase.kind == PhaseKind::weight_product) {
      rows += std::get<ProductSize>(phase.how).rows;
      ++products;
    }
  }
  CHECK(products == 3);
  CHECK(rows == 2 * 3 * 512);
}

TEST_CASE("directions are beside each other in both passes or in none, whichever is faster", "[fast]") {
  int beside = 0, apart = 0;
  for (const int hidden : {128, 256, 512, 768, 1024}) {
    for (const int batch : {4, 32, 128, 512}) {
      const Training training = lstm(hidden, batch, {1, true});
      const auto plan = std::get<DenseTrainingPlan>(on_chip(training));
      ++(plan.beside ? beside : apart);
      const std::vector<Phase> phases = phases_of(training, plan);
      CHECK(std::ranges::count_if(phases, &Phase::beside) == (plan.beside ? 2 : 0));
      const int shares = plan.beside ? 1 : 2;
      const auto forward = choose_recurrence(h100(), size_of(training), false, shares);
      const auto backward = choose_recurrence(h100(), size_of(training), true, shares);
      if (forward && backward) {
        const DenseTrainingPlan other{Stash::gates, *forward, *backward, !plan.beside};
        CHECK(predict(h100(), training, plan).iteration.us <= 1.0001 * predict(h100(), training, other).iteration.us);
      }
    }
  }
  CHECK(beside > 0);
  CHECK(apart > 0);
}

TEST_CASE("a stash of cells is smaller and costs the gates again, chunk by chunk", "[fast]") {
  const Training training = lstm(1024, 64);
  const TrainingPlan gates = on_chip(training), cells = on_chip(training, Stash::cells);
  const TrainingPrediction of_gates = predict(h100(), training, gates), of_cells = predict(h100(), training, cells);
  const std::int64_t state = 64 * 1024, output = 2 * 256 * state;
  CHECK(of_gates.memory.stash_bytes == 6 * output + 2 * state);  // as cuDNN's reserve space and output, and c0
  CHECK(chunk_steps(size_of(training), std::get<DenseTrainingPlan>(cells)) == 128);
  CHECK(of_cells.memory.stash_bytes == output + 4 * state);  // c between the two chunks
  const double anew =
      total_of(training, cells, PhaseKind::gates_product) + total_of(training, cells, PhaseKind::gates_cell);
  CHECK(anew > 0.05 * of_gates.iteration.us);
  const double more = of_cells.iteration.us - of_gates.iteration.us - anew;  // products of chunks, and launches
  CHECK(more > 0);
  CHECK(more < 0.03 * of_gates.iteration.us);
}

TEST_CASE("what a training with few chunks needs at once follows from its arrays", "[fast]") {
  const Training training = lstm(1024, 128, {2, false, 0});
  Training longer = training;
  longer.network.steps = 512;
  const auto memory = [](const Training& of, Stash stash) { return predict(h100(), of, on_chip(of, stash)).memory; };
  constexpr double kMiB = 1 << 20;
  const double output = 2.0 * 512 * 128 * 1024 / kMiB;  // 128
  // y of both layers, what is kept, the gradients of y and x, of the weights, the workspace.
  struct Mebibytes {
    double stash, workspace, peak;
  };
  const auto in_mib = [](const TrainingMemory& of) {
    const auto mib = [](std::int64_t bytes) { return static_cast<double>(bytes) / kMiB; };
    return Mebibytes{mib(of.stash_bytes), mib(of.workspace_bytes), mib(of.peak_bytes)};
  };
  const Mebibytes gates = in_mib(memory(longer, Stash::gates)), cells = in_mib(memory(longer, Stash::cells));
  CHECK(gates.stash == Approx(12 * output).epsilon(0.002));
  CHECK(cells.stash < 2.06 * output);
  CHECK(gates.peak == Approx(gates.stash + 2 * output + 16 + gates.workspace).epsilon(0.01));
  CHECK(cells.peak < 880);
  CHECK(gates.peak > 1.9 * cells.peak);
  // A workspace of chunks does not grow with the steps.
  CHECK(in_mib(memory(training, Stash::cells)).workspace == Approx(cells.workspace).epsilon(0.03));
}

TEST_CASE("a batch of any size is planned, in several launches where one has no room", "[fast]") {
  const auto us = [](int batch) { return predict(h100(), lstm(1024, batch), on_chip(lstm(1024, batch))).iteration.us; };
  const auto plan = std::get<DenseTrainingPlan>(on_chip(lstm(1024, 12000)));
  CHECK(plan.forward.launches > 1);
  CHECK(plan.backward.launches > 1);
  CHECK(parse_training_plan(to_string(plan)) == TrainingPlan(plan));
  CHECK(predict(h100(), lstm(1024, 12000), plan).footprint.fits);
  CHECK(us(12000) == Approx(6 * us(2000)).epsilon(0.1));
  const TrainingSize size = size_of(lstm(1024, 12000));
  const RecurrenceShape shape = recurrence_shape(size, plan.forward, false);
  CHECK(shape.launch_samples * plan.forward.launches >= 12000);
  for (const Phase& phase : phases_of(lstm(1024, 12000), plan)) {
    CHECK((phase.kind != PhaseKind::forward || phase.times == plan.forward.launches));
  }
  CHECK(std::get<DenseTrainingPlan>(on_chip(lstm(1024, 1000))).forward.launches == 1);
}

TEST_CASE("less is kept of a stack for more time: gates, cells of the first layers, cells of all, a replay", "[fast]") {
  Training training = lstm(1024, 128, {3, false, 0});
  training.network.steps = 512;
  auto plan = std::get<DenseTrainingPlan>(on_chip(training));
  std::vector<TrainingPrediction> all{predict(h100(), training, plan)};
  for (const int layers : {1, 2}) {
    plan.cell_layers = layers;
    all.push_back(predict(h100(), training, plan));
    CHECK(parse_training_plan(to_string(plan)) == TrainingPlan(plan));
    CHECK(std::ranges::count(phases_of(training, plan), PhaseKind::gates_cell, &Phase::kind) == layers);
  }
  plan.cell_layers = 0;
  for (const Stash stash : {Stash::cells, Stash::replay}) {
    plan.stash = stash;
    all.push_back(predict(h100(), training, plan));
  }
  for (std::size_t i = 1; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK(all[i].memory.peak_bytes < all[i - 1].memory.peak_bytes);
    CHECK(all[i].iteration.us > all[i - 1].iteration.us);
    const auto found =
        plan_training_on_chip(h100(), training, {.memory_bytes = static_cast<double>(all[i].memory.peak_bytes)});
    REQUIRE(found);
    CHECK(found->prediction.memory.peak_bytes <= all[i].memory.peak_bytes);
    CHECK(found->prediction.iteration.us <= all[i].iteration.us);
  }
  const auto phases = phases_of(training, plan);
  CHECK(std::ranges::count(phases, PhaseKind::replay, &Phase::kind) == 6);  // a product and a recurrence of each layer
  plan.cell_layers = 1;
  CHECK(says(error_of([&] { check(training, plan); }), "cell_layers=1"));
  plan.cell_layers = 0;
  training.stack.bidirectional = true;
  CHECK(says(error_of([&] { check(training, plan); }), "stacks of one direction"));
}

TEST_CASE("a replay of two layers needs the output, its gradient and that of the input, and little more", "[fast]") {
  Training training = lstm(1024, 128, {2, false, 0});
  training.network.steps = 512;
  const TrainingMemory memory = predict(h100(), training, on_chip(training, Stash::replay)).memory;
  const std::int64_t output = 2 * 512 * 128 * 1024, state = 128 * 1024;
  CHECK(memory.stash_bytes == output + 31 * 2 * 4 * state + 31 * 2 * state);  // 32 chunks; c of both layers, h of one
  CHECK(memory.peak_bytes < std::int64_t{600} << 20);
  training.network.cell = Cell::gru;
  CHECK(predict(h100(), training, on_chip(training, Stash::replay)).memory.peak_bytes < std::int64_t{600} << 20);
}

TEST_CASE("with a budget of memory the fastest plan that fits in it is taken", "[fast]") {
  Training training = lstm(1024, 128);
  const auto planned = [&](std::optional<double> bytes) {
    return plan_training_on_chip(h100(), training, {.memory_bytes = bytes});
  };
  const double most = static_cast<double>(planned({})->prediction.memory.peak_bytes);
  CHECK(stash_of(planned(most)->plan) == Stash::gates);
  CHECK(stash_of(planned(most - 1)->plan) == Stash::cells);
  const double least = static_cast<double>(planned(most - 1)->prediction.memory.peak_bytes);
  CHECK(least < most);
  CHECK(stash_of(planned(least)->plan) == Stash::cells);
  // Chunks of fewer steps, or a replay.
  const auto less = planned(least - 1);
  REQUIRE(less);
  CHECK(static_cast<double>(less->prediction.memory.peak_bytes) < least);
  CHECK(less->prediction.iteration.us > planned(least)->prediction.iteration.us);
  CHECK(says(planned(least / 2).why(), "of device memory beside the input and the weights"));
  // Nor is a library taken that needs more.
  CHECK(says(plan_training(h100(), training, {.memory_bytes = least / 2}).why(), "of device memory"));
  // A stash that is asked for has shorter chunks, too.
  const auto cells = plan_training_on_chip(h100(), training, {.stash = Stash::cells, .memory_bytes = least - 1});
  REQUIRE(cells);
  CHECK(stash_of(cells->plan) == Stash::cells);
  CHECK(std::get<DenseTrainingPlan>(cells->plan).chunk == 32);
  training.network.cell = Cell::gru;
  training.network.hidden = 512;
  CHECK(stash_of(planned(1e12)->plan) == Stash::gates);
}

// An H100 has room for 30 clusters of four or more, of 132 SMs: 2048 units on 128 SMs went beyond.
TEST_CASE("no chosen plan has more clusters than every chip of its kind holds", "[fast]") {
  for (const int hidden : {1024, 1920, 2048}) {
    for (const int batch : {1, 16, 64}) {
      const RecurrencePlan plan = *choose_recurrence(h100(), {.input = hidden, .hidden = hidden, .batch = batch}, true);
      CAPTURE(hidden, batch, fields_text(plan));
      CHECK((plan.split < 4 || plan.batch_groups * ((hidden + 63) / 64) <= 30));
    }
  }
}

TEST_CASE("what no kernel trains is a library's, and the planner says why with its numbers", "[fast]") {
  const TrainingPlan library = CudnnTrainingPlan{};
  Training training = lstm(512, 64);
  training.network.precision = Precision::fp32;
  CHECK(best(training) == library);
  training.network = {Cell::tanh, Precision::fp16, 512, 64, 256, 1};
  CHECK(best(training) == library);
  CHECK(plan_training(find_chip("v100").chip, lstm(512, 64))->plan == library);
  CHECK(best(lstm(8192, 64)) == library);
  CHECK(best(lstm(2048, 512)) == library);  // slower, though it fits
  CHECK(says(choose_on_chip(h100(), training).why(), "not for 'tanh'"));
  CHECK(says(choose_on_chip(h100(), lstm(8192, 64)).why(), "takes 512 SMs"));
  CHECK(says(choose_on_chip(h100(), lstm(8192, 64)).why(), "there are 132"));
  Training many = lstm(512, 4096);
  many.network.steps = 1 << 20;
  CHECK(says(choose_on_chip(h100(), many).why(), "at most 2147483647 samples"));
}

TEST_CASE("a call without gradients has a price of its own, by which cuDNN is chosen for it", "[fast]") {
  int others = 0, layers = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Training training = drawn(seed);
    training.network.batch = seed % 3 == 0 ? 1 : training.network.batch;
    const auto of = [&](bool is_inference) {
      return call_prices(seed % 2 == 0 ? h100() : find_chip("h200").chip, training, is_inference);
    };
    const Found<CallPrices> with = of(false), without = of(true);
    if (training.mask || !with) {
      continue;
    }
    CAPTURE(seed, training.network.hidden, training.network.batch, training.network.steps);
    CHECK(without->own_us < with->own_us);
    CHECK(without->library_us < with->library_us);
    others += with->takes_library() != without->takes_library() ? 1 : 0;
    ++layers;
    training.network.steps = 1;  // for which all weights would go to the SMs, but where a launch is a step
    CHECK(of(true)->own_us < without->own_us);
    if (training.stack.bidirectional || training.network.batch > kMostOfSingleStep) {
      CHECK(of(true)->takes_library());
    }
  }
  CHECK(layers >= 30);
  CHECK(others > 0);
  CHECK_FALSE(call_prices(h100(), lstm(512, 64), true)->takes_library());
  CHECK(call_prices(h100(), lstm(1536, 256), true)->takes_library());
  CHECK(call_prices(h100(), lstm(8192, 64), true)->takes_library());  // step by step it has a plan
  CHECK(says(call_prices(h100(), lstm(8192, 65), true).why(), "there are 132"));
  for (const int batch : {1, 32}) {
    Training one = lstm(1024, batch);
    one.network.steps = 1;
    CHECK_FALSE(call_prices(h100(), one, true)->takes_library());
  }
}

TEST_CASE("the ranking has the kernels' plan and cuDNN, the fastest first, and cuBLAS without a plan", "[fast]") {
  for (const auto& [training, is_first] :
       {std::pair{lstm(512, 64), true}, {lstm(2048, 512), false}, {lstm(8192, 64), false}}) {
    const std::vector<RankedTraining> ranking = rank_trainings(h100(), training);
    REQUIRE(ranking.size() == 3);
    CHECK((ranking.front().family == DenseTrainingPlan::kName) == is_first);
    CHECK(says(ranking.front().why, "the fastest"));
    const auto products = std::ranges::find(ranking, CublasPlan::kName, &RankedTraining::family);
    REQUIRE(products != ranking.end());
    CHECK_FALSE(products->planned);
    CHECK(products->iteration.us > 0);
  }
  CHECK(says(rank_trainings(h100(), lstm(8192, 64)).back().why, "takes 512 SMs"));
}

TEST_CASE("a sparse LSTM is trained with plans of its mask, and its gradient is masked", "[fast]") {
  const Training training = sparse_lstm(1024, 16, 0.1), dense = lstm(1024, 16);
  const TrainingPlan plan = on_chip(training);
  CHECK(with_passes(training, {pass_text(plan, false), pass_text(plan, true)}) == plan);
  check(training, plan);
  CHECK(says(error_of([&] { check(dense, plan); }), "this one is dense"));
  CHECK(says(error_of([&] { check(training, on_chip(dense)); }), "this one is sparse"));
  CHECK(total_of(training, plan, PhaseKind::gradient_mask) > 0);
  for (const auto& other : {sparse_lstm(1024, 16, 0.1, {2}), sparse_lstm(1024, 16, 0.1, {1, true})}) {
    CHECK(says(choose_on_chip(h100(), other).why(), "one layer and direction"));
  }
  Chip small = h100();
  small.sm_count.value = 8;
  const std::string why = choose_on_chip(small, sparse_lstm(1024, 16, 0.8)).why();
  CHECK(says(why, "do not fit on 8 SMs"));
  CHECK(says(why, "there are"));
}

TEST_CASE("sparse recurrences are priced by their slots, passes, sub-batches and split", "[fast]") {
  const auto terms = [](const Training& training, bool is_backward, const std::string& words) {
    SparseRecurrencePlan plan = choose_sparse_recurrence(h100(), training, is_backward)->plan;
    plan = changed(unsettled(plan), words);
    const SparseRecurrence recurrence = *sparse_recurrence(h100(), training, plan, is_backward);
    return recurrence_price(h100(), Precision::fp16, recurrence).terms;
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

TEST_CASE("the JSON of a training has its plan, phases, bytes and libraries", "[fast]") {
  const TrainingAnswer answer = predict_training(find_chip("h100_sxm"), lstm(512, 64));
  const Json json = to_json(answer);
  CHECK(json["phases"].size() == phases_of(answer.training, answer.planned->plan).size());
  CHECK(json["phases"][2]["name"] == "forward");
  CHECK(json["phases"][2]["plan"] == pass_text(answer.planned->plan, false));
  CHECK(json["phases"][1]["size"]["depth"] == 512);
  CHECK(json["plan"]["family"] == "dense_training");
  CHECK(json["plan"]["forward"]["batch_groups"].is_number());
  CHECK(json["fits"] == true);
  CHECK(json["stash_bytes"] == 6 * 2 * 256 * 64 * 512 + 2 * 64 * 512);
  CHECK(json["libraries"][0]["library"] == "cudnn");
  CHECK(parse_training_plan(json["plan"]["text"].get<std::string>()) == answer.planned->plan);
}

// ---- fit and what-if ------------------------------------------------------------------------------------------------

namespace {

TrainingQuestion question(Cell cell, int hidden, int batch, double density = 1) {
  TrainingQuestion asked{find_chip("h100_sxm"), {}, {}, {}};
  asked.configuration.network = {cell, Precision::fp16, hidden, batch, 256, density};
  return asked;
}

bool fits(const TrainingQuestion& asked) {
  const Training training = training_of(asked.configuration, asked.stack);
  return plan_training_on_chip(asked.chip.chip, training, asked.constraints).why().empty();
}

}  // namespace

TEST_CASE("the largest training fits and the next does not, in hidden units, batch and steps", "[fast]") {
  for (TrainingQuestion asked :
       {question(Cell::lstm, 0, 64), question(Cell::gru, 0, 300), question(Cell::lstm, 0, 4, 0.2)}) {
    asked.granule = asked.configuration.network.density < 1 ? 256 : 32;
    const TrainingFit found = fit(asked);
    CAPTURE(asked.configuration.network.batch);
    CHECK(found.answer.fits());
    REQUIRE(found.limits.size() == 3);
    CHECK(found.answer.training.network.hidden == found.limits[0].largest);
    CHECK_FALSE(found.to_fit);
    asked.configuration.network.hidden = found.limits[0].largest;
    CHECK(fits(asked));
    asked.configuration.network.hidden += asked.granule;
    CHECK_FALSE(fits(asked));
    CHECK(found.limits[0].why.find(std::to_string(asked.configuration.network.hidden)) == 0);
    CHECK(found.limits[1].what == "batch");
    CHECK(found.limits[1].largest >= asked.configuration.network.batch);
    CHECK(found.limits[2].largest > 256);
  }
}

TEST_CASE("what does not fit is told with the least of each chip number that makes it fit", "[fast]") {
  const TrainingQuestion asked = question(Cell::lstm, 2560, 16);
  const TrainingFit found = fit(asked);
  CHECK_FALSE(found.answer.fits());
  CHECK(says(found.answer.planned.why(), "there are 132"));
  REQUIRE(found.to_fit);
  int reached = 0;
  for (const LeastOf<TrainingCase>& least : found.to_fit->alone) {
    if (least.reaches) {
      ++reached;
      CHECK(least.at.answer.fits());
    }
  }
  CHECK(reached >= 1);
  CHECK(to_json(found)["to_fit"].size() == 4);
}

TEST_CASE("a chip's memory bounds what it trains, and more of it lets more be trained", "[fast]") {
  TrainingQuestion asked = question(Cell::lstm, 1024, 128);
  asked.stack.layers = 2;
  int largest = 0;
  for (const double gibibytes : {4, 8, 24, 80}) {
    CAPTURE(gibibytes);
    asked.chip.chip.dram_bytes.value = gibibytes * (1 << 30);
    const int before = std::exchange(largest, fit(asked).limits[2].largest);
    CHECK(largest > 1.9 * before);
    TrainingQuestion longest = asked;
    longest.configuration.network.steps = largest;
    const TrainingAnswer answer = predict(longest);
    const auto peak = static_cast<double>(answer.planned->prediction.memory.peak_bytes);
    CHECK(peak < asked.chip.chip.dram_bytes.value);
    CHECK(peak > 0.6 * asked.chip.chip.dram_bytes.value);    // the rest is x
    CHECK(stash_of(answer.planned->plan) == Stash::replay);  // all others need more
    longest.constraints.stash = Stash::gates;
    CHECK(says(fit(longest).answer.planned.why(), "of device memory beside the input and the weights; there are"));
  }
}

TEST_CASE("a changed chip trains faster or larger, alone and together", "[fast]") {
  const TrainingQuestion asked = question(Cell::gru, 512, 64);
  const WhatIfOf<TrainingCase> answer = what_if(asked, {"sm.clock=+10%", "sm.count=+50%"}, false);
  REQUIRE(answer.changed);
  REQUIRE(answer.alone.size() == 2);
  CHECK(answer.alone[0].side->planned->prediction.step_us < answer.base.planned->prediction.step_us);
  CHECK(answer.alone[1].side->largest_hidden > answer.base.largest_hidden);
  CHECK(answer.changed->largest_hidden >= answer.alone[1].side->largest_hidden);
  CHECK(to_json(answer)["alone"].size() == 2);

  TargetQuestion words;
  words.target.step_us = 0.8 * answer.base.planned->prediction.step_us;
  words.vary = {"sm.clock"};
  const TargetOf<TrainingCase> target = reach(asked, words);
  CHECK_FALSE(target.base_reaches);
  REQUIRE(target.alone.at(0).reaches);
  CHECK(target.alone[0].at.answer.planned->prediction.step_us <= *words.target.step_us);
}
