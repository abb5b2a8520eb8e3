// SPDX-License-Identifier: Apache-2.0
// A training step of a sparse LSTM layer, its kernels interpreted, against the reference in double precision.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/training/sparse_training_cases.hpp"

#include <string>

namespace onchip {
namespace {

struct Tried {
  TrainingSize size;
  Precision precision;
  double density;
  bool initial, last;
  std::string forward, backward;  // what differs from the chosen plan
};

void check_interpreted(const Tried& c) {
  INFO("input " << c.size.input << " hidden " << c.size.hidden << " batch " << c.size.batch << " steps " << c.size.steps
                << ", " << info(c.precision).name << ", " << c.density << ", '" << c.forward << "', '" << c.backward
                << "'");
  TrainingInput in = random_training(c.size, c.precision, c.initial, c.last, 3);
  const SparseMatrix mask = prune(c.size, c.density, 5, in.w_hh);
  const Training layer = training_of(c.size, c.precision, &mask);
  const TrainingPlan plan =
      with_fields(some_sms(8), layer, choose_on_chip(some_sms(8), layer).value_or_throw(), {c.forward, c.backward});
  const TrainingProgram training = confirmed_program(c.size, c.precision, plan, "sm_90", &mask, 8);
  InterpretedProgram interpreted(training.program);
  check_training(interpreted, training.arrays, c.size, c.precision, in, &mask);
}

}  // namespace

TEST_CASE("an interpreted training step of a sparse LSTM has the gradients of the reference where it has weights",
          "[fast]") {
  const Precision fp16 = Precision::fp16, bf16 = Precision::bf16;
  for (const Tried& c :
       {Tried{{8, 64, 4, 5}, fp16, 0.2, true, true, "", ""},
        Tried{{5, 40, 3, 20}, bf16, 0.3, true, false, "ahead=4", "split=2 ahead=4"},
        Tried{{4, 33, 1, 3}, fp16, 0.1, false, true, "", "split=2"},
        Tried{{4, 96, 9, 3}, fp16, 0.3, true, true, "register_words=6", "split=4 register_words=6"},
        Tried{{4, 64, 6, 4}, bf16, 0.2, true, true, "samples=4", "samples=2 lanes=16"},
        Tried{
            {4, 72, 16, 4}, fp16, 0.3, true, true, "load_bytes=16 register_words=8", "load_bytes=4 buffers=3 split=2"},
        Tried{{4, 40, 32, 3}, bf16, 0.3, true, true, "buffers=2 load_bytes=4", "buffers=3"}}) {
    check_interpreted(c);
  }
}

TEST_CASE("a sparse training step that does not fit says so", "[fast]") {
  const TrainingSize size{8, 512, 4, 3};
  TrainingInput in = random_training(size, Precision::fp16, false, false, 1);
  const SparseMatrix mask = prune(size, 1, 5, in.w_hh);
  const Training layer = training_of(size, Precision::fp16, &mask);
  CHECK(choose_on_chip(some_sms(1), layer).why().find("do not fit on 1 SMs") != std::string::npos);
  const auto plan = std::get<SparseTrainingPlan>(choose_on_chip(some_sms(8), layer).value_or_throw());
  CHECK_THROWS_WITH(lay_out_sparse_training(size, Precision::fp16, mask, some_sms(1), plan, "sm_90"),
                    Catch::Matchers::Contains("do not fit on 1 SMs"));
  CHECK_THROWS_AS(changed(SparseRecurrencePlan{}, "sample=4"), InputError);
}

}  // namespace onchip
