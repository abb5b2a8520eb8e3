// SPDX-License-Identifier: Apache-2.0
// A stack of layers that are on the SMs at once, its kernels interpreted, against the reference in double
// precision.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "model/answer/training/training.hpp"
#include "model/base/random.hpp"
#include "model/training/memory.hpp"
#include "model/training/planner.hpp"
#include "sim/training/simulate_recurrence.hpp"
#include "tests/experiments/training/with_change.hpp"
#include "tests/kernels/training/training_cases.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr Precision fp16 = Precision::fp16, bf16 = Precision::bf16;

// `forward`: what differs from a plan without choices.
TrainingProgram stack(const TrainingSize& size, Precision precision, const std::string& forward, int chunk) {
  const DenseTrainingPlan plan{
      .stash = Stash::none, .forward = changed(RecurrencePlan{}, forward), .backward = {}, .chunk = chunk};
  return training_program(size, precision, plan, "sm_90");
}

void check_stack_of(TrainingSize size, int layers, Precision precision, bool initial, const std::string& forward,
                    int chunk = 0) {
  size.layers = layers;
  INFO("input " << size.input << " hidden " << size.hidden << " batch " << size.batch << " steps " << size.steps
                << " layers " << layers << ' ' << info(precision).name << ", '" << forward << "' chunk " << chunk);
  for (const bool is_reverse : chunk > 0 ? std::vector{false, true} : std::vector{false}) {
    size.is_reverse = is_reverse;
    const TrainingProgram training = stack(size, precision, forward, chunk);
    InterpretedProgram interpreted(training.program);
    check_stack(interpreted, training, size, precision, random_stack(size, precision, initial, false, 11));
  }
}

}  // namespace

TEST_CASE("an interpreted stack whose layers are on the SMs at once is that of the reference", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  check_stack_of({24, 32, 4, 5, cell}, 2, fp16, true, "warps=4 layers=2");
  check_stack_of({24, 32, 4, 40, cell}, 3, fp16, false, "warps=2 layers=3 ahead=4");  // the ring comes round five times
  check_stack_of({7, 33, 9, 6, cell}, 2, bf16, true, "warps=4 layers=2 shared_tiles=3 ahead=4");
  check_stack_of({8, 70, 3, 9, cell}, 2, fp16, true, "units=32 warps=4 layers=2 ahead=4");
  check_stack_of({8, 40, 22, 12, cell}, 2, fp16, true,
                 "batch_groups=2 sub_batches=4 warps=2 ahead=4 warp_groups=2 loads_in_flight=4 layers=2");
  check_stack_of({8, 17, 20, 20, cell}, 4, bf16, true, "batch_groups=1 sub_batches=3 warps=4 ahead=4 layers=4");
  // Other units: threads without items, several items of a thread side by side, units beyond the last span.
  check_stack_of({16, 64, 9, 6, cell}, 1, fp16, true, "units=24 warps=4 interleaved=1");
  check_stack_of({8, 30, 5, 9, cell}, 2, bf16, true, "units=8 warps=4 layers=2 ahead=4");
  check_stack_of({8, 60, 11, 8, cell}, 2, fp16, true, "units=40 warps=4 layers=2 ahead=4 interleaved=1");
  // One layer after another, and groups of which the last has fewer.
  check_stack_of({16, 24, 3, 6, cell}, 3, fp16, true, "warps=4");
  check_stack_of({16, 24, 3, 6, cell}, 5, fp16, true, "warps=4 layers=2 ahead=4");
  // Chunks of steps, between which states are carried.
  check_stack_of({16, 24, 3, 11, cell}, 3, fp16, true, "warps=4 layers=2 ahead=4", 4);
  check_stack_of({16, 19, 3, 9, cell}, 2, fp16, false, "warps=4 layers=2 ahead=4", 3);
  check_stack_of({13, 19, 3, 9, cell}, 6, fp16, false, "warps=4", 4);  // rows that are not whole 16 bytes
}

TEST_CASE("an interpreted stack whose steps are launches is that of the reference", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  const auto check = [](TrainingSize size, int layers, Precision precision, bool initial, bool is_reverse = false) {
    size.layers = layers;
    size.is_reverse = is_reverse;
    INFO(info(size.cell).name << " of input " << size.input << " hidden " << size.hidden << " batch " << size.batch
                              << " steps " << size.steps << " layers " << layers << ' ' << info(precision).name);
    const DenseTrainingPlan plan{.stash = Stash::none, .forward = {}, .backward = {}, .stepwise = true};
    const TrainingProgram training = training_program(size, precision, plan, "sm_90");
    InterpretedProgram interpreted(training.program);
    check_stack(interpreted, training, size, precision, random_stack(size, precision, initial, false, 11));
  };
  check({24, 32, 4, 1, cell}, 1, fp16, true);
  check({24, 32, 1, 3, cell}, 2, fp16, false);
  check({7, 33, 9, 4, cell}, 3, bf16, true, true);
  check({300, 70, 20, 2, cell}, 2, fp16, true);
  check({17, 520, 3, 2, cell}, 1, bf16, true);
  check({8, 24, 64, 2, cell}, 1, fp16, true);
}

TEST_CASE("a stack has the same bits whatever its chunks of steps", "[fast]") {
  TrainingSize size{16, 24, 3, 11};
  size.layers = 3;
  const std::vector<TrainingInput> in = random_stack(size, fp16, true, false, 5);
  std::vector<std::vector<float>> found;
  for (const int chunk : {11, 4, 1}) {
    const TrainingProgram training = stack(size, fp16, "warps=4 layers=2 ahead=4", chunk);
    InterpretedProgram interpreted(training.program);
    stack_errors(interpreted, training, size, fp16, in);
    found.push_back(read_elements(interpreted, training.layers.back().y, fp16));
  }
  CHECK(found[1] == found[0]);
  CHECK(found[2] == found[0]);
}

TEST_CASE("an interpreted stack has the wavefronts of shared memory that its replay has", "[fast]") {
  const Cell cell = GENERATE(Cell::lstm, Cell::gru);
  for (const auto& [batch, words] : {std::pair{4, "warps=4 layers=2 ahead=4"},
                                     {4, "warps=4 layers=3 units=32 shared_tiles=3 ahead=4"},
                                     {8, "warps=4 layers=2 units=32 shared_tiles=2 ahead=4 interleaved=1"},
                                     {8, "warps=4 units=16 ahead=4"}}) {
    const RecurrencePlan plan = changed(RecurrencePlan{}, words);
    CAPTURE(info(cell).name, words);
    const auto wavefronts = [&, batch = batch, words = words](int steps) {
      TrainingSize size{24, 32, batch, steps, cell};
      size.layers = plan.layers;
      const TrainingProgram training = stack(size, fp16, words, 0);
      InterpretedProgram interpreted(training.program);
      interpreted.count_accesses(BankGeometry{});
      stack_errors(interpreted, training, size, fp16, random_stack(size, fp16, true, false, 5));
      std::uint64_t all = 0;
      for (const InterpretedProgram::Launch& launch : interpreted.launches()) {
        for (const ptx::AccessCounts& of : launch.counts.shared) {
          all += launch.label == "forward" ? of.wavefronts : 0;
        }
      }
      return static_cast<double>(all);
    };
    const TrainingSize size{24, 32, batch, 8, cell};
    const RecurrenceRun replayed = simulate_recurrence(find_chip("h200").chip, size, plan, false, {}, {.keeps = false});
    CHECK(wavefronts(6) - wavefronts(3) ==
          Approx(3 * recurrence_shape(size, plan, false).blocks * replayed.shared_wavefronts));
  }
}

TEST_CASE("a layer waits for one above that is slow, and is wrong where it does not", "[fast]") {
  TrainingSize size{16, 24, 3, 40};
  size.layers = 2;
  const TrainingProgram training = stack(size, fp16, "warps=4 layers=2 ahead=4", 0);
  std::string of_slow, of_hasty;
  // What the second layer does more before it says how far it is takes longer than the first may be ahead.
  const KernelProgram slow = with_change(training.program, "u32* const of_group = a.progress",
                                         R"(for (int i = 0; layer() > 0 && i < 300; ++i) {
      asm volatile("");
    }
    u32* const of_group = a.progress)",
                                         of_slow);
  const KernelProgram hasty = with_change(slow, "above + kPaceSteps < step", "above + 1000 < step", of_hasty);
  InterpretedProgram waiting(slow);
  check_stack(waiting, training, size, fp16, random_stack(size, fp16, true, false, 5));
  InterpretedProgram overrun(hasty);
  for (std::size_t array = 0; array < hasty.arrays.size(); ++array) {
    overrun.write(static_cast<int>(array), std::vector<std::byte>(hasty.arrays[array].bytes));
  }
  overrun.limit(2'000'000);
  CHECK_THROWS_WITH(overrun.run(), Catch::Matchers::Contains("more than 2000000 instructions"));  // waits in vain
}

TEST_CASE("a stack whose layers are at once on the chip has its plan and its bytes", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const auto plan_of = [&](int layers, int hidden, int batch, int steps) {
    const Training training{{.cell = Cell::lstm, .precision = fp16, .hidden = hidden, .batch = batch, .steps = steps},
                            {.layers = layers}};
    return std::get<DenseTrainingPlan>(choose_on_chip(chip, training, Stash::none).value_or_throw());
  };
  CHECK(plan_of(4, 512, 4, 256).forward.layers == 4);
  CHECK(plan_of(4, 1024, 2, 256).forward.layers == 2);  // no more have room
  CHECK(plan_of(3, 1800, 4, 35).forward.layers == 1);
  CHECK(plan_of(1, 512, 1, 1).stepwise);
  CHECK_FALSE(plan_of(1, 512, 1, 64).stepwise);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed, 3);
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most))); };
    TrainingSize size{
        .input = up_to(700), .hidden = up_to(900), .batch = up_to(100), .steps = seed % 3 == 0 ? up_to(4) : up_to(600)};
    size.layers = up_to(6);
    const Found<TrainingPlan> found = choose_on_chip(chip, training_of(size, fp16), Stash::none);
    if (!found) {
      continue;
    }
    const auto& plan = std::get<DenseTrainingPlan>(*found);
    CAPTURE(seed, to_string(*found));
    CHECK(parse_training_plan(to_string(*found)) == *found);
    const TrainingProgram training = training_program(size, fp16, plan, "sm_90");
    std::size_t own = 0;
    for (const auto& [array, bytes] : training.forward_arrays) {
      own += (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
    }
    const std::size_t products = plan.stepwise ? 0 : Cublas::kWorkspaceBytes;
    CHECK(own + products == static_cast<std::size_t>(workspace_bytes(size, plan)));
  }
}

TEST_CASE("the largest stacks that are on the SMs at once compile without a spill, and the next size is refused",
          "[slow]") {
  for (const char* const name : {"h100_sxm", "h200"}) {
    const ChipFile file = find_chip(name);
    const Chip& chip = file.chip;
    for (const auto& [cell, layers, batch, hidden, precision] : kResidentStacks) {
      CAPTURE(name, info(cell).name, layers, batch);
      Configuration configuration;
      configuration.network = {
          .cell = cell, .precision = precision, .hidden = 0, .batch = batch, .steps = 64, .density = 1};
      const TrainingFit largest = fit(stack_question(file, configuration, {.layers = layers}, 8));
      REQUIRE(largest.answer.fits());
      REQUIRE(largest.answer.training.network.hidden == hidden);
      REQUIRE(largest.limits.front().what == "hidden");
      const std::string& why = largest.limits.front().why;
      CHECK(says(why, std::to_string(hidden + 8) + ": "));
      CHECK(says(why, " SMs for " + std::to_string(layers) + " layers at once"));
      CHECK(says(why, "there are 132"));

      TrainingSize size = size_of(largest.answer.training);
      size.layers = layers;
      const TrainingPlan plan =
          confirmed_plan(chip, size, precision, nullptr, largest.answer.planned->plan, "sm_90").chosen;
      const RecurrencePlan& forward = std::get<DenseTrainingPlan>(plan).forward;
      CHECK(forward.layers == layers);
      const RecurrenceShape shape = recurrence_shape(size, forward, false);
      CHECK(shape.blocks <= chip.sm_count);
      CHECK(static_cast<double>(shape.shared_bytes) <= chip.smem_bytes_per_block);
      CHECK_FALSE(compile(compile_request(size, precision, forward, false, "sm_90")).resources.spills());
    }
  }
}

}  // namespace onchip
