// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/tuned_plans.hpp"

#include "model/base/random.hpp"
#include "model/training/planner.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/runtime/small_kernels.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace onchip {
namespace {

const DeviceInfo kDevice{.name = "NVIDIA H200", .architecture = "sm_90", .driver = "580.1", .runtime = "13.0"};
constexpr Precision fp16 = Precision::fp16, bf16 = Precision::bf16;

TrainingPlan plan_of(const TrainingSize& size) {
  return choose_on_chip(find_chip("h200").chip, training_of(size, fp16)).value_or_throw();
}

}  // namespace

TEST_CASE("a tuned plan comes back for the same layer, and for no other", "[fast]") {
  const TemporaryCache cache;
  const TrainingSize size{512, 512, 64, 256};
  CHECK_FALSE(tuned_plan(kDevice, size, fp16, Stash::gates));
  remember_plan(kDevice, size, fp16, Stash::gates, plan_of(size));
  REQUIRE(tuned_plan(kDevice, size, fp16, Stash::gates) == plan_of(size));
  const auto changed = [&](auto change) {
    TrainingSize other = size;
    change(other);
    return tuned_plan(kDevice, other, fp16, Stash::gates).has_value();
  };
  CHECK(changed([](TrainingSize& of) { of.steps = 35; }));
  CHECK(changed([](TrainingSize& of) { of.batch = 57; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.batch = 56; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.hidden = 511; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.input = 511; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.cell = Cell::gru; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.directions = 2; }));
  CHECK_FALSE(changed([](TrainingSize& of) { of.length_bytes = 4; }));
  CHECK_FALSE(tuned_plan(kDevice, size, bf16, Stash::gates));
  CHECK_FALSE(tuned_plan(kDevice, size, fp16, Stash::cells));
  DeviceInfo device = kDevice;
  device.driver = "581.0";
  CHECK_FALSE(tuned_plan(device, size, fp16, Stash::gates));
  device = kDevice;
  device.name = "NVIDIA H100 80GB HBM3";
  CHECK_FALSE(tuned_plan(device, size, fp16, Stash::gates));

  remember_plan(kDevice, size, fp16, Stash::gates, CudnnTrainingPlan{});
  CHECK(tuned_plan(kDevice, size, fp16, Stash::gates) == TrainingPlan(CudnnTrainingPlan{}));
  for (const std::filesystem::path& file : cache.files()) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
  }
  CHECK_FALSE(tuned_plan(kDevice, size, fp16, Stash::gates));
  remember_plan(kDevice, size, fp16, Stash::gates, plan_of(size));
  CHECK(tuned_plan(kDevice, size, fp16, Stash::gates) == plan_of(size));
}

TEST_CASE("300 kills while plans are remembered lose none but the one in hand", "[slow]") {
  const TemporaryCache cache;
  const TrainingPlan plan = plan_of({64, 64, 8, 16});
  const auto layer = [](int number) { return TrainingSize{number + 1, 64, 8, 16}; };
  Random random(300, 1);
  int remembered = 0;
  for (int kill = 0; kill < 300; ++kill) {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int number = remembered;; ++number) {
        remember_plan(kDevice, layer(number), fp16, Stash::gates, plan);
        if (::write(pipe[1], "x", 1) != 1) {
          ::_exit(1);
        }
      }
    }
    ::close(pipe[1]);
    std::array<char, 4096> said{};
    REQUIRE(::read(pipe[0], said.data(), 1) == 1);
    ++remembered;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(1000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (ssize_t count = 0; (count = ::read(pipe[0], said.data(), said.size())) > 0;) {
      remembered += static_cast<int>(count);
    }
    ::close(pipe[0]);
  }
  REQUIRE(remembered >= 300);
  int found = 0;
  for (int number = 0; number < remembered; ++number) {
    found += tuned_plan(kDevice, layer(number), fp16, Stash::gates) == plan ? 1 : 0;
  }
  CHECK(found == remembered);
}

}  // namespace onchip
