// SPDX-License-Identifier: Apache-2.0
// Training steps of LSTM and GRU layers on a GPU.
#include "kernels/runtime/device_program.hpp"
#include "tests/kernels/training/training_cases.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kSharedBytes = 227 * 1024;

}  // namespace

TEST_CASE(
    "training steps of an LSTM and a GRU on a GPU have the gradients of the reference, with the same bits every time",
    "[gpu]") {
  const DeviceInfo device = device_info();
  constexpr Cell gru = Cell::gru;
  std::uint64_t seed = 0;
  const std::vector<TrainingSize> sizes{
      {64, 256, 16, 30, gru},   {512, 512, 128, 12, gru}, {100, 800, 32, 35, gru}, {128, 1024, 16, 20, gru},
      {128, 1024, 100, 5, gru}, {64, 1536, 5, 9, gru},    {64, 2048, 128, 2, gru}, {32, 96, 500, 40, gru},
      {13, 77, 3, 300, gru},    {64, 256, 16, 30},        {512, 512, 64, 12},      {100, 650, 32, 35},
      {128, 1024, 16, 20},      {128, 1024, 100, 9},      {64, 1536, 5, 9},        {64, 2048, 16, 9},
      {32, 96, 500, 40},        {13, 77, 3, 300},         {1207, 177, 204, 6},     {300, 300, 40, 9, gru}};
  for (const TrainingSize& size : sizes) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      INFO(info(size.cell).name << " of input " << size.input << " hidden " << size.hidden << " batch " << size.batch
                                << " " << info(precision).name);
      DenseTrainingPlan plan = chosen_on(size, device.sm_count);
      if (precision == Precision::bf16 && size.batch > 16) {  // as many sub-batches as any plan's, of two warp groups
        const std::string words = "warps=4 loads_in_flight=8 warp_groups=2 sub_batches=8";
        plan.forward =
            with_room(size, changed(plan.forward, words), false, device.sm_count, kSharedBytes).value_or_throw();
        plan.backward =
            with_room(size, changed(plan.backward, words), true, device.sm_count, kSharedBytes).value_or_throw();
      }
      const TrainingProgram training = confirmed_program(size, precision, plan, device.architecture);
      DeviceProgram gpu(training.program);
      CHECK(gpu.spill_bytes() == 0);
      ++seed;
      const TrainingInput in = random_training(size, precision, seed % 3 != 0, seed % 4 != 0, seed);
      check_training(gpu, training.arrays, size, precision, in);
      const TrainingArrays& a = training.arrays;
      check_repeats(gpu, {a.dx, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0}, precision);
    }
  }
}

TEST_CASE(
    "training steps of several launches and of stacks that are replayed have the gradients of the reference on a GPU",
    "[gpu]") {
  const DeviceInfo device = device_info();
  for (const Cell cell : {Cell::lstm, Cell::gru}) {
    INFO(info(cell).name);
    for (TrainingSize size :
         {TrainingSize{32, 256, 4300, 3, cell}, {64, 512, 100, 12, cell}, {100, 650, 32, 20, cell}}) {
      INFO("hidden " << size.hidden << " batch " << size.batch);
      const TrainingInput in = random_training(size, Precision::fp16, true, true, 5);
      DenseTrainingPlan plan = chosen_on(size, device.sm_count);
      if (size.batch < 1000) {
        plan.forward =
            with_room(size, changed(plan.forward, "launches=3"), false, device.sm_count, kSharedBytes).value_or_throw();
        plan.backward =
            with_room(size, changed(plan.backward, "launches=2"), true, device.sm_count, kSharedBytes).value_or_throw();
      }
      const TrainingProgram training = confirmed_program(size, Precision::fp16, plan, device.architecture);
      DeviceProgram gpu(training.program);
      check_training(gpu, training.arrays, size, Precision::fp16, in);
      check_repeats(gpu, {training.arrays.y, training.arrays.dx, training.arrays.dw_hh}, Precision::fp16);
      if (size.batch < 1000) {
        size.layers = 3;
        plan.stash = Stash::replay;
        plan.chunk = 5;
        const TrainingProgram replay = confirmed_program(size, Precision::fp16, plan, device.architecture);
        DeviceProgram replayed(replay.program);
        check_stack(replayed, replay, size, Precision::fp16, random_stack(size, Precision::fp16, true, true, 6));
      }
    }
  }
}

TEST_CASE("stacks whose layers are at once on a GPU are those of the reference, with the same bits every time",
          "[gpu]") {
  const DeviceInfo device = device_info();
  std::uint64_t seed = 0;
  const auto check = [&](TrainingSize size, int layers, const std::string& words, bool stepwise = false) {
    size.layers = layers;
    INFO(info(size.cell).name << " of " << layers << " layers, hidden " << size.hidden << " batch " << size.batch
                              << " steps " << size.steps << ", '" << words << "' " << stepwise);
    RecurrencePlan pass = changed(RecurrencePlan{}, words);
    pass = stepwise ? pass : with_room(size, pass, false, device.sm_count, kSharedBytes).value_or_throw();
    const DenseTrainingPlan plan{.stash = Stash::none, .forward = pass, .backward = {}, .stepwise = stepwise};
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      const TrainingProgram training = confirmed_program(size, precision, plan, device.architecture);
      DeviceProgram gpu(training.program);
      ++seed;
      check_stack(gpu, training, size, precision, random_stack(size, precision, seed % 2 == 0, false, seed));
      check_repeats(gpu, {training.layers.back().y, training.layers.front().hn}, precision);
    }
  };
  for (const Cell cell : {Cell::lstm, Cell::gru}) {
    check({512, 512, 4, 40, cell}, 4, "warps=8 layers=4");
    check({64, 256, 1, 300, cell}, 6, "warps=8 layers=6 ahead=4");
    check({100, 650, 20, 35, cell}, 2, "warps=8 layers=2 loads_in_flight=6");
    check({512, 512, 64, 12, cell}, 4, "warps=4 warp_groups=2 sub_batches=4 layers=4 ahead=8");
    check({384, 384, 17, 20, cell}, 5, "warps=8 layers=2 batch_groups=2");
    check({1024, 1024, 2, 12, cell}, 2, "warps=8 layers=2");
    for (const int batch : {1, 5, 32, 64}) {
      check({512, 512, batch, 3, cell}, 2, "", true);
    }
    check({77, 333, 9, 2, cell}, 3, "", true);
  }
}

TEST_CASE("the largest stacks that are on the SMs at once run on a GPU, with the results of the reference", "[gpu]") {
  const DeviceInfo device = device_info();
  for (const auto& [cell, layers, batch, hidden, precision] : kResidentStacks) {
    INFO(info(cell).name << " of " << layers << " layers, hidden " << hidden << " batch " << batch);
    TrainingSize size{64, hidden, batch, 5, cell};
    size.layers = layers;
    const TrainingPlan plan = choose_resident(some_sms(device.sm_count), training_of(size, precision)).value_or_throw();
    const TrainingProgram training = confirmed_program(size, precision, plan, device.architecture);
    CHECK(std::get<DenseTrainingPlan>(training.plan).forward.layers == layers);
    DeviceProgram gpu(training.program);
    CHECK(gpu.spill_bytes() == 0);
    check_stack(gpu, training, size, precision, random_stack(size, precision, true, false, 3));
    check_repeats(gpu, {training.layers.back().y, training.layers.front().hn}, precision);
  }
}

TEST_CASE("training steps with lengths have the gradients of the reference on a GPU, padded and packed", "[gpu]") {
  const DeviceInfo device = device_info();
  std::uint64_t seed = 0;
  for (const auto& [input, hidden, batch, steps] :
       {std::array{64, 256, 100, 5}, {100, 650, 32, 8}, {32, 96, 500, 10}, {13, 77, 3, 300}}) {
    for (const Cell cell : {Cell::lstm, Cell::gru}) {
      const bool is_reverse = ++seed / 2 % 2 == 1;  // alternates for each cell and size
      INFO(info(cell).name << " of input " << input << " hidden " << hidden << " batch " << batch);
      const TrainingSize size{.input = input,
                              .hidden = hidden,
                              .batch = batch,
                              .steps = steps,
                              .cell = cell,
                              .directions = is_reverse ? 2 : 1,
                              .is_reverse = is_reverse,
                              .length_bytes = 8};
      DenseTrainingPlan plan = chosen_on(size, device.sm_count);
      if (batch == 100) {
        plan.backward = with_room(size, changed(plan.backward, "split=2 warps=4 warp_groups=2 sub_batches=2"), true,
                                  device.sm_count, kSharedBytes)
                            .value_or_throw();
      }
      const TrainingProgram training = confirmed_program(size, Precision::fp16, plan, device.architecture);
      TrainingInput in = random_training(size, Precision::fp16, true, true, seed);
      DeviceProgram padded(training.program);
      check_training(padded, training.arrays, size, Precision::fp16, in);
      DeviceProgram packed(packed_program(training, size, in));
      check_training(packed, training.arrays, size, Precision::fp16, in, nullptr, true);
    }
  }
}

TEST_CASE("100,000 interleaved training iterations of 100 layers lose no status and end with the bits of the first",
          "[gpu][soak]") {
  const DeviceInfo device = device_info();
  check_iterations<DeviceProgram>(100, 1000, 320, 48, device.sm_count, device.architecture);
}

}  // namespace onchip
