// SPDX-License-Identifier: Apache-2.0
// The kernels of staged plans, interpreted, against the reference: the same features, bit by bit.
#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/feed_forward/network/batched_inference.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/model/feed_forward/plans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr int kSms = 1;

// One set of images after another, by the same kernels.
void check_staged(const FeedForward& network, const std::vector<Bitmaps>& sets, const std::string& plan_text) {
  const StagedPlan plan = staged_plan(plan_text);
  const StagedLayout layout = stage_network(network, plan);
  const int most = std::ranges::max(sets, {}, &Bitmaps::images).images;
  InferenceExecutor interpreted = inference_on<InterpretedProgram>(staged_program(layout, most, kSms, "sm_90"));
  for (const Bitmaps& images : sets) {
    INFO(network.name << ", " << images.images << " images, " << plan_text);
    const ReferenceResult reference = infer_reference(network, images);
    interpreted.upload(images);
    const Inference inference = interpreted.infer();
    CHECK(inference.categories == reference.categories);
    std::vector<int> entering{images.images};
    for (int l = 1; l < network.layers(); ++l) {
      if (plan.compaction != Compaction::none && l > layout.first_drop) {
        entering.push_back(static_cast<int>(reference.alive[l]));
      }
    }
    CHECK(inference.entering == entering);
  }
}

// Of the last layer, of all images.
void check_features(const FeedForward& network, const Bitmaps& images, const std::string& plan_text) {
  INFO(network.name << ", " << plan_text);
  const StagedLayout layout = stage_network(network, staged_plan(plan_text + " keep_dead"));
  InferenceExecutor interpreted =
      inference_on<InterpretedProgram>(staged_program(layout, images.images, kSms, "sm_90"));
  interpreted.upload(images);
  interpreted.infer();
  std::vector<int> all(static_cast<std::size_t>(images.images));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<float> reference = reference_features(network, images, all, network.layers());
  const std::vector<float> features = interpreted.features();
  int differ = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    differ += std::isnan(reference[i]) ? !std::isnan(features[i]) : features[i] != reference[i];
  }
  CHECK(differ == 0);
}

}  // namespace

TEST_CASE("interpreted kernels of staged plans have the categories of the reference in each of their ways", "[fast]") {
  const FeedForward network = read_network(
      "random:neurons=70,layers=4,degree=uniform:0..9,values=uniform:-0.3..0.5,"
      "bias=uniform:-0.3..-0.1,clip=1");
  const std::vector<Bitmaps> images{random_images(31, 70, 7), random_images(31, 70, 8)};
  for (const char* ways : {"", "l1", "unblocked", "l1 unblocked", "compact_on_host", "keep_dead", "copied",
                           "copied_ahead compact_on_host"}) {
    check_staged(network, images, "staged block_outputs=32 staged_bytes=480 " + std::string(ways));
  }
  check_staged(network, images, "staged block_outputs=32 images=5 staged_bytes=180");
  check_staged(network, images, "staged block_outputs=64 staged_bytes=480");
}

TEST_CASE("interpreted kernels of staged plans run networks that nobody chose", "[fast]") {
  for (const char* text : {
           "random:neurons=1-50-3-64,degree=uniform:0..3,bias=-0.01",
           "random:neurons=45,layers=3,degree=0,bias=-0.5",
           "random:neurons=45,layers=3,degree=2,bias=uniform:-1..1,values=uniform:-1..1,clip=none",
           "random:neurons=45-60-10,degree=4,bias=uniform:-1..1,values=uniform:-1..1,clip=1,logits=yes",
           "random:neurons=45-10,degree=4,bias=0,values=uniform:-1..1,logits=yes",
           "random:neurons=300-40-200,degree=power-law:1..200,values=uniform:-0.2..0.3,bias=-0.1,clip=4",
       }) {
    const FeedForward network = read_network(text);
    const int inputs = network.neurons.front();
    const std::vector<Bitmaps> sets{random_images(14, inputs, 7), random_images(0, inputs, 7),
                                    random_images(1, inputs, 9)};
    check_staged(network, sets, "staged block_outputs=64 staged_bytes=2400");
    check_staged(network, sets, "staged l1 compact_on_host");
    check_features(network, sets[0], "staged block_outputs=64 staged_bytes=2400");
  }
}

TEST_CASE("the challenge's first layers by an interpreted staged plan, weights as fp16", "[slow]") {
  const FeedForward network = read_network("spdnn:1024x4");
  check_staged(network, {synthetic_digits(1024, 0, 40)}, "staged fp16");
  check_features(network, synthetic_digits(1024, 0, 12), "staged fp16");
}

TEST_CASE("NaN and infinity pass through a staged plan as through the reference", "[fast]") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  // Rows of three lengths, so that two are padded, beside a feature that is NaN and one that is infinite.
  const auto layer = [](std::vector<float> bias) {
    return SparseLayer{{3, 3, {0, 3, 4, 4}, {0, 1, 2, 1}, {0.5F, -0.25F, 1, -1}}, std::move(bias)};
  };
  const FeedForward network =
      stored_network("", {layer({kNan, kInfinity, -1}), layer({-0.1F}), layer({0.1F})}, kNoClip);
  const Bitmaps images{2, 3, {5, 0}};
  for (const char* plan : {"staged staged_bytes=96", "staged l1"}) {
    check_staged(network, {images}, plan);
    check_features(network, images, plan);
  }
}

TEST_CASE("an interpreted staged plan has the wavefronts that were counted from its layout", "[fast]") {
  for (const char* text : {"random:neurons=500,layers=3,degree=power-law:1..60,bias=-0.2", "spdnn:1024x2"}) {
    for (const char* plan_text : {"staged block_outputs=64 staged_bytes=2400", "staged unblocked"}) {
      const FeedForward network = read_network(text);
      const StagedPlan plan = staged_plan(plan_text);
      const StagedLayout layout = stage_network(network, plan);
      const InferenceProgram program = staged_program(layout, 30, kSms, "sm_90");
      const auto interpreted = std::make_shared<InterpretedProgram>(program);
      interpreted->count_accesses(BankGeometry{});
      InferenceExecutor executor(program, interpreted);
      executor.upload(random_images(30, network.neurons.front(), 7));
      const Inference inference = executor.infer();
      std::size_t l = 0;
      for (const InterpretedProgram::Launch& launch : interpreted->launches()) {
        if (launch.label.starts_with("layer")) {
          INFO(text << ", " << plan_text << ", " << launch.label);
          const std::vector<StagedCounts> counts{count(layout.layers[l], plan)};
          const std::vector<std::int64_t> alive{inference.entering[l++]};
          const ptx::AccessCounts loads = launch.counts.of(ptx::Access::load);
          const ptx::AccessCounts stores = launch.counts.of(ptx::Access::store);
          const auto counted = static_cast<std::uint64_t>(shared_wavefronts(plan, counts, alive));
          // Each block of threads stores zeros once, a wavefront.
          CHECK(loads.wavefronts + stores.wavefronts >= counted);
          CHECK(loads.wavefronts + stores.wavefronts <= counted + 32 * kSms);
        }
      }
      CHECK(l == layout.layers.size());
    }
  }
}

}  // namespace onchip
