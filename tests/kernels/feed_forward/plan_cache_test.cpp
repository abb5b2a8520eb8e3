// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/network/plan_cache.hpp"

#include "kernels/api/inference_plan.hpp"
#include "kernels/feed_forward/network/planned_network.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/runtime/small_kernels.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace onchip {
namespace {

// Streamed, whose kernels are not compiled before they run.
PlannedProgram plan(const std::string& network, const std::string& chip = "h100_sxm") {
  InferenceTarget target;
  target.chip = find_chip(chip).chip;
  target.architecture = "sm_90";
  target.sms = static_cast<int>(target.chip.sm_count.value);
  const FeedForward made = read_network(network);
  return plan_inference(made, target, plan_images(made, {.images = "digits:1000"}),
                        {.family = std::string(StreamedPlan::kName)});
}

// Contents of all arrays of the program.
std::string contents(const PlannedProgram& planned) {
  std::string all;
  for (const ProgramArray& array : planned.program(100).arrays) {
    all.append(reinterpret_cast<const char*>(array.contents.data()), array.contents.size()).append("\n");
  }
  return all;
}

}  // namespace

TEST_CASE("a network that was planned before has the plan and the layout of then", "[fast]") {
  const TemporaryCache cache;
  for (const std::string network : {"spdnn:64x5", "spdnn:64x5,shuffle=yes,moved=0.1"}) {
    INFO(network);
    const PlannedProgram first = plan(network);
    CHECK_FALSE(first.cached);
    const PlannedProgram again = plan(network);
    CHECK(again.cached);
    CHECK(again.text == first.text);
    CHECK(again.end_layers == first.end_layers);
    CHECK(again.found.weights == first.found.weights);
    CHECK(again.found.reads.accesses == first.found.reads.accesses);
    CHECK(contents(again) == contents(first));
  }
  for (const std::filesystem::path& file : cache.files()) {
    CHECK(file.extension() != ".tmp");
  }
}

TEST_CASE("what a plan depends on makes another one", "[fast]") {
  const TemporaryCache cache;
  plan("spdnn:64x5");
  for (const std::string network : {
           "spdnn:64x6",
           "spdnn:64x5,values=0.125",
           "spdnn:64x5,bias=-0.31",
           "spdnn:64x5,shuffle=yes",
       }) {
    INFO(network);
    CHECK_FALSE(plan(network).cached);
    CHECK(plan(network).cached);
  }
  CHECK_FALSE(plan("spdnn:64x5", "h200").cached);
  const FeedForward network = read_network("spdnn:64x5");
  const Activity some = given_activity(network, 1000, 0.1), others = given_activity(network, 1000, 0.2);
  int asked = 0;
  for (const Activity* activity : {&some, &others, &some}) {
    PlanCache(network).plan("blocks", find_chip("h100_sxm").chip, numbers_of(*activity),
                            [&]() -> Found<std::string> { return std::to_string(++asked); });
  }
  CHECK(asked == 2);
}

TEST_CASE("a reason why there is no plan is found again, but not in a torn file or one that is off by a bit",
          "[fast]") {
  const TemporaryCache cache;
  const FeedForward network = read_network("spdnn:64x5");
  const Chip chip = find_chip("h100_sxm").chip;
  int asked = 0;
  const auto refuse = [&] {
    ++asked;
    return Found<std::string>::nothing("it does not fit");
  };
  for (int i = 0; i < 2; ++i) {
    PlanCache of(network);
    CHECK(of.plan("blocks", chip, "digits:1000", refuse).why() == "it does not fit");
    CHECK(of.has_found() == (i == 1));
  }
  CHECK(asked == 1);

  const std::string right = contents(plan("spdnn:64x5"));
  for (const std::filesystem::path& file : cache.files()) {
    INFO(file);
    const std::string bytes = read(file);
    for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 50) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ 4);
      std::ofstream(file, std::ios::binary) << other;
      CHECK(contents(plan("spdnn:64x5")) == right);
      std::ofstream(file, std::ios::binary) << bytes.substr(0, at);
      CHECK(contents(plan("spdnn:64x5")) == right);
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }
  CHECK(plan("spdnn:64x5").cached);
}

TEST_CASE("no cache is no error, nor is one that cannot be written", "[fast]") {
  const TemporaryCache cache("a file/below");
  cache.folder().write("a file", "here");
  CHECK_FALSE(plan("spdnn:64x5").cached);
  CHECK_FALSE(plan("spdnn:64x5").cached);
}

}  // namespace onchip
