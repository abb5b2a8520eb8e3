// SPDX-License-Identifier: Apache-2.0
// Training steps of LSTM and GRU layers on a GPU.
#include "kernels/feed_forward/inference.hpp"
#include "kernels/training/training_timing.hpp"
#include "model/base/error.hpp"
#include "tests/kernels/training_cases.hpp"

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kSharedBytes = 227 * 1024;

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

TrainingTiming print_timing(const TrainingSize& size, Precision precision, const TrainingPlan& plan) {
  const TrainingTiming timing = time_training(size, precision, plan, 7);
  std::printf("%6d %5d %7.2f %8.2f %8.2f %11.2f %5.2f %6d | %s | %s\n", size.hidden, size.batch, timing.forward_us,
              timing.backward_us, timing.products_us, timing.preparation_us, timing.graph_us, timing.spill_bytes,
              text(timing.plan.forward).c_str(), text(timing.plan.backward).c_str());
  std::fflush(stdout);
  return timing;
}

std::string field(const char* name, int value) {
  return std::string(name) + "=" + std::to_string(value);
}

// Plans with one field otherwise, as words.
std::vector<std::vector<std::string>> alternatives(const TrainingSize& size, const RecurrencePlan& plan,
                                                   bool is_backward) {
  std::vector<std::vector<std::string>> all(5);
  for (const int groups : {1, 2, 4, 8}) {
    for (const int samples : {8, 16, 32, 64}) {
      const int of_group = (size.batch + groups - 1) / groups, turns = (of_group + samples - 1) / samples;
      for (const int warps : {8, 16}) {
        if (groups != plan.batch_groups || turns != plan.turns || warps != plan.warps) {
          all[0].push_back(field("groups", groups) + " " + field("turns", turns) + " " + field("warps", warps));
        }
      }
    }
  }
  for (const int split : {1, 2, 4}) {
    if (is_backward && split != plan.split) {
      all[1].push_back(field("split", split));
    }
  }
  for (const int loads : {4, 8, 16}) {
    if (loads != plan.loads_in_flight) {
      all[2].push_back(field("loads_in_flight", loads));
    }
  }
  for (const int ahead : {4, 8, 16}) {
    if (ahead != plan.ahead) {
      all[4].push_back(field("ahead", ahead));
    }
  }
  for (const int delay : {0, 80, 160, 240, 320, 480}) {
    if (delay != plan.poll_delay && plan.turns == 1) {
      all[3].push_back(field("poll_delay", delay));
    }
  }
  return all;
}

void tune(const TrainingSize& size, Precision precision, const TrainingTiming& base, const DeviceInfo& device) {
  TrainingPlan best = base.plan;
  for (const bool is_backward : {false, true}) {
    RecurrencePlan TrainingPlan::*const which = is_backward ? &TrainingPlan::backward : &TrainingPlan::forward;
    std::string together;
    for (const std::vector<std::string>& of_field : alternatives(size, base.plan.*which, is_backward)) {
      std::vector<TrainingPlan> plans;
      std::vector<std::future<void>> compiled;
      std::vector<std::string> words;
      for (const std::string& other : of_field) {
        TrainingPlan plan = base.plan;
        try {
          plan.*which = with_room(size, changed(plan.*which, other), is_backward, device.sm_count, kSharedBytes);
        } catch (const InputError&) {
          continue;
        }
        plans.push_back(plan);
        words.push_back(other);
        compiled.push_back(std::async(std::launch::async,
                                      [&, plan] { training_program(size, precision, plan, device.architecture); }));
      }
      double least = is_backward ? base.backward_us : base.forward_us;
      std::string least_words;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        try {
          compiled[i].get();
          const TrainingTiming timing = print_timing(size, precision, plans[i]);
          const double us = is_backward ? timing.backward_us : timing.forward_us;
          if (us < least) {
            least = us;
            least_words = " " + words[i];
          }
        } catch (const std::exception& error) {
          std::printf("%s: %s\n", words[i].c_str(), error.what());
        }
      }
      together += least_words;
    }
    best.*which = with_room(size, changed(best.*which, together), is_backward, device.sm_count, kSharedBytes);
  }
  std::printf("together:\n");
  print_timing(size, precision, best);
}

}  // namespace

TEST_CASE(
    "training steps of an LSTM and a GRU on a GPU have the gradients of the reference, with the same bits every time",
    "[gpu]") {
  const DeviceInfo device = device_info();
  constexpr Cell gru = Cell::gru;
  std::uint64_t seed = 0;
  const std::vector<TrainingSize> sizes{{64, 256, 16, 30, gru},   {512, 512, 128, 12, gru}, {100, 800, 32, 35, gru},
                                        {128, 1024, 16, 20, gru}, {128, 1024, 100, 5, gru}, {64, 1536, 5, 9, gru},
                                        {64, 2048, 128, 2, gru},  {32, 96, 500, 40, gru},   {13, 77, 3, 300, gru},
                                        {64, 256, 16, 30},        {512, 512, 64, 12},       {100, 650, 32, 35},
                                        {128, 1024, 16, 20},      {128, 1024, 100, 9},      {64, 1536, 5, 9},
                                        {64, 2048, 16, 9},        {32, 96, 500, 40},        {13, 77, 3, 300}};
  for (const TrainingSize& size : sizes) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      INFO(info(size.cell).name << " of input " << size.input << " hidden " << size.hidden << " batch " << size.batch
                                << " " << info(precision).name);
      const TrainingPlan plan = choose_training_plan(size, device.sm_count, kSharedBytes);
      const TrainingProgram training = training_program(size, precision, plan, device.architecture);
      DeviceInference gpu(training.program);
      CHECK(gpu.spill_bytes() == 0);
      ++seed;
      const TrainingInput in = random_training(size, precision, seed % 3 != 0, seed % 4 != 0, seed);
      check_training(gpu, training.arrays, size, precision, in);
      const TrainingArrays& a = training.arrays;
      for (const int array : {a.dx, a.dw_ih, a.dw_hh, a.db, a.db_hh, a.dh0, a.dc0}) {
        const std::vector<float> first = read_elements(gpu, array, precision);
        REQUIRE(gpu.run()[0] == 0);
        CHECK(first == read_elements(gpu, array, precision));
      }
    }
  }
}

// ONCHIP_LSTM="1024 64": this one only; ONCHIP_FORWARD="turns=2 ...", ONCHIP_BACKWARD, ONCHIP_PRECISION=bf16,
// ONCHIP_STEPS. ONCHIP_TUNE=1: then with each field of its plans in turn otherwise, and the best of each together.
TEST_CASE("what training steps of an LSTM take", "[gpu][.bench]") {
  std::vector<TrainingSize> sizes;
  const std::int64_t steps = std::stoll(variable("ONCHIP_STEPS", "256"));
  for (const auto& [hidden, batch] : std::vector<std::pair<int, int>>{{256, 16},
                                                                      {256, 64},
                                                                      {512, 16},
                                                                      {512, 64},
                                                                      {512, 256},
                                                                      {512, 512},
                                                                      {1024, 16},
                                                                      {1024, 64},
                                                                      {1024, 128},
                                                                      {1536, 16},
                                                                      {1536, 64},
                                                                      {2048, 16},
                                                                      {2048, 64}}) {
    sizes.push_back({hidden, hidden, batch, steps});
  }
  if (const std::string one = variable("ONCHIP_LSTM"); !one.empty()) {
    const int hidden = std::stoi(one), batch = std::stoi(one.substr(one.find(' ')));
    sizes = {{hidden, hidden, batch, steps}};
  }
  const Precision precision = parse_precision(variable("ONCHIP_PRECISION", "fp16"));
  const DeviceInfo device = device_info();
  std::printf("%s, %s, us per step\nhidden batch forward backward products preparation graph spills\n",
              device.name.c_str(), std::string(info(precision).name).c_str());
  for (const TrainingSize& size : sizes) {
    TrainingPlan plan = choose_training_plan(size, device.sm_count, kSharedBytes);
    plan.forward = changed(plan.forward, variable("ONCHIP_FORWARD"));
    plan.backward = changed(plan.backward, variable("ONCHIP_BACKWARD"));
    const TrainingTiming timing = print_timing(size, precision, plan);
    if (!variable("ONCHIP_TUNE").empty()) {
      tune(size, precision, timing, device);
    }
  }
}

}  // namespace onchip
