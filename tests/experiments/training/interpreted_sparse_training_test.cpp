// SPDX-License-Identifier: Apache-2.0
// A training step of a sparse LSTM layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/training/sparse_training_cases.hpp"

#include <string>

namespace onchip {
namespace {

// `forward`, `backward`: what differs from the chosen plan.
void check_interpreted(const TrainingSize& size, Precision precision, double density, bool initial, bool last,
                       const std::string& forward, const std::string& backward) {
  INFO("input " << size.input << " hidden " << size.hidden << " batch " << size.batch << " steps " << size.steps << ", "
                << info(precision).name << ", " << density << ", '" << forward << "', '" << backward << "'");
  TrainingInput in = random_training(size, precision, initial, last, 3);
  const SparseMatrix mask = prune(size, density, 5, in.w_hh);
  const Training layer = training_of(size, precision, &mask);
  const TrainingPlan plan =
      with_fields(some_sms(8), layer, choose_on_chip(some_sms(8), layer).value_or_throw(), {forward, backward});
  const TrainingProgram training = planned_program(size, precision, plan, &mask, 8);
  InterpretedProgram interpreted(training.program);
  check_training(interpreted, training.arrays, size, precision, in, &mask);
}

}  // namespace

TEST_CASE("an interpreted training step of a sparse LSTM has the gradients of the reference where it has weights",
          "[fast]") {
  const Precision fp16 = Precision::fp16, bf16 = Precision::bf16;
  check_interpreted({8, 64, 4, 5}, fp16, 0.2, true, true, "", "");
  check_interpreted({5, 40, 3, 20}, bf16, 0.3, true, false, "ahead=4", "split=2 ahead=4");
  check_interpreted({4, 33, 1, 3}, fp16, 0.1, false, true, "", "split=2");
  check_interpreted({4, 96, 9, 3}, fp16, 0.3, true, true, "register_words=6", "split=4 register_words=6");
  check_interpreted({4, 64, 6, 4}, bf16, 0.2, true, true, "samples=4", "samples=2 lanes=16");
  check_interpreted({4, 72, 16, 4}, fp16, 0.3, true, true, "load_bytes=16 register_words=8",
                    "load_bytes=4 buffers=3 split=2");
  check_interpreted({4, 40, 32, 3}, bf16, 0.3, true, true, "buffers=2 load_bytes=4", "buffers=3");
}

TEST_CASE("a sparse training step that does not fit says so", "[fast]") {
  const TrainingSize size{8, 512, 4, 3};
  TrainingInput in = random_training(size, Precision::fp16, false, false, 1);
  const SparseMatrix mask = prune(size, 1, 5, in.w_hh);
  const Training layer = training_of(size, Precision::fp16, &mask);
  CHECK(says(choose_on_chip(some_sms(1), layer).why(), "do not fit on 1 SMs"));
  const auto plan = std::get<SparseTrainingPlan>(choose_on_chip(some_sms(8), layer).value_or_throw());
  CHECK_THROWS_WITH(lay_out_sparse_training(size, Precision::fp16, mask, some_sms(1), plan, "sm_90"),
                    Catch::Matchers::Contains("do not fit on 1 SMs"));
  CHECK_THROWS_AS(changed(SparseRecurrencePlan{}, "sample=4"), InputError);
}

}  // namespace onchip
