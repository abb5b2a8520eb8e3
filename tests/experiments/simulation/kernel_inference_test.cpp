// SPDX-License-Identifier: Apache-2.0
// Networks that run images, by kernels that are interpreted.
#include "kernels/api/kernel_inference.hpp"

#include "kernels/api/inference_plan.hpp"
#include "kernels/feed_forward/network/fleet.hpp"

#include "experiments/measurement/interpreted/interpreted_program.hpp"
#include "kernels/feed_forward/programs.hpp"
#include "kernels/runtime/device.hpp"
#include "model/base/error.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"
#include "tests/nightly.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 26;
const ImagesAsked kSomeImages{.images = "digits:1000"};

InferenceTarget interpreted(std::size_t bytes, std::vector<int>* loaded = nullptr) {
  InferenceTarget target;
  target.chip = find_chip("h100_sxm").chip;
  target.architecture = "sm_90";
  target.sms = 3;
  target.available_bytes = [bytes] { return bytes; };
  target.load = [loaded](const InferenceProgram& program) {
    if (loaded != nullptr) {
      loaded->push_back(program.most_images);
    }
    return inference_on<InterpretedProgram>(program);
  };
  return target;
}

std::vector<int> most_features(const Bitmaps& images, std::size_t many) {
  std::vector<std::pair<int, int>> ones;
  for (int image = 0; image < images.images; ++image) {
    int count = 0;
    for_each_feature(images, image, [&](int, float) { --count; });
    ones.emplace_back(count, image);
  }
  std::ranges::sort(ones);
  std::vector<int> most;
  for (std::size_t i = 0; i < many; ++i) {
    most.push_back(ones[i].second);
  }
  std::ranges::sort(most);
  return most;
}

}  // namespace

TEST_CASE("a network runs by the kernel that it has, with what the reference has", "[fast]") {
  struct Expected {
    std::string text, plan;
    double shared_kib = 227;
  };
  const std::string blocks = "random:neurons=64,layers=6,degree=24,blocks=16,bias=-0.1";
  for (const auto& [text, plan, shared_kib] :
       {Expected{blocks, "blocks"}, Expected{blocks, "streamed", 2}, Expected{"spdnn:64x7,moved=0.1", "blocks"},
        Expected{"random:neurons=50-70-20,values=uniform:-1..1,degree=9", "unstructured"}}) {
    INFO(text);
    InferenceTarget target = interpreted(kPlenty);
    target.chip.smem_bytes_per_block.value = 1024 * shared_kib;
    target.chip.sm_count.value = target.sms;
    const auto by_kernels = kernel_inference(read_network(text), target, kSomeImages);
    const auto by_reference = reference_inference(read_network(text));
    CHECK(by_kernels->plan().starts_with(plan));
    CHECK(by_reference->plan() == "reference");
    const int neurons = by_kernels->network().neurons.front();
    for (const int count : {0, 1, 40}) {
      INFO(count << " images");
      IndexLists values = random_lists(count, neurons, 7);
      std::ranges::replace_if(
          values.value, [](float value) { return std::isnan(value); }, 0.5F);
      for (const Inputs& images : {Inputs(random_images(count, neurons, 5)), Inputs(values)}) {
        CHECK(by_kernels->infer(images).categories == by_reference->infer(images).categories);
        for (const int layers : {0, 1, 2}) {
          CHECK(by_kernels->features(images, layers) == by_reference->features(images, layers));
        }
      }
    }
    for (NetworkInference* inference : {by_kernels.get(), by_reference.get()}) {
      CHECK_THROWS_WITH(inference->features(random_images(1, neurons, 5), 99),
                        Catch::Matchers::Contains("layers; found a request for the features after 99"));
      CHECK_THROWS_AS(inference->infer(random_images(1, neurons + 1, 5)), InputError);
    }
  }
}

TEST_CASE("the challenge's networks have the plans that they are made for", "[slow]") {
  for (const auto& [text, plan] : {std::pair("spdnn:1024x12", "blocks"), std::pair("spdnn:4096x12", "blocks"),
                                   std::pair("spdnn:16384x4", "streamed"), std::pair("spdnn:65536x2", "streamed"),
                                   std::pair("spdnn:4096x4,values=uniform:-1..1", "unstructured")}) {
    INFO(text);
    InferenceTarget target = interpreted(std::size_t{80} << 30);
    target.sms = 132;
    CHECK(kernel_inference(read_network(text), target, kSomeImages)->plan().starts_with(plan));
  }
}

TEST_CASE("more images than memory holds at once go through in batches, and keep their numbers", "[fast]") {
  const FeedForward network = read_network("random:neurons=40,layers=6,degree=9,values=uniform:-1..1,bias=-0.3");
  const Bitmaps images = random_images(600, 40, 3);
  const auto by_reference = reference_inference(network);
  std::vector<int> loaded;
  const auto by_kernels = kernel_inference(network, interpreted(50000, &loaded), kSomeImages);
  const Inference inference = by_kernels->infer(images);
  CHECK(inference.categories == by_reference->infer(images).categories);
  CHECK(inference.entering.front() == 600);
  CHECK(by_kernels->features(images, 2) == by_reference->features(images, 2));
  CHECK(by_kernels->features(to_lists(images), 2) == by_reference->features(images, 2));
  REQUIRE(loaded.size() == 2);
  CHECK((loaded.front() % 32 == 0 && loaded.front() < 300));
  const auto with_too_little = [&] { kernel_inference(network, interpreted(10000), kSomeImages)->infer(images); };
  CHECK(says(error_of<DoesNotFit>(with_too_little), "bytes of device memory; 10000 are available"));
}

TEST_CASE("how many images go at once is computed in 64 bits", "[fast]") {
  const ProgramOfImages program = [](int images) {
    InferenceProgram made{{}, images};
    made.add_array(std::size_t{1} << 33);
    made.add_array(std::size_t{65536} * 4 * images);
    return made;
  };
  CHECK(images_at_once(program, std::size_t{80'000'000'000}) == 272384);
  CHECK(images_at_once(program, std::numeric_limits<std::size_t>::max()) == std::numeric_limits<int>::max() / 32 * 32);
  CHECK_THROWS_AS(images_at_once(program, std::size_t{1} << 33), DoesNotFit);
}

TEST_CASE("what no kernel can hold is refused with what it needs and what there is", "[fast]") {
  const FeedForward network = read_network("random:neurons=65536,layers=1,degree=1");
  InferenceTarget target = interpreted(kPlenty);
  const std::string error = error_of<DoesNotFit>([&] { kernel_inference(network, target, kSomeImages); });
  for (const char* part : {"has no kernel on H100 SXM; blocks: ", "has 227 KiB", "the CPU reference runs it",
                           "unstructured: an image of 65536 neurons takes 514 KiB of shared memory"}) {
    CHECK(says(error, part));
  }
  target.chip.smem_bytes_per_block.value = 514 << 10;
  CHECK(choose_unstructured_plan(target.chip, network, given_activity(network, 1000, 1))->phases.size() == 1);
}

TEST_CASE("networks that nobody chose have the categories of the reference, interpreted", "[slow]") {
  for (int seed = 1; seed <= 40; ++seed) {
    if (!is_chosen(seed, 3)) {
      continue;
    }
    const std::string text = random_network_text(seed, 150, 6);
    INFO(text);
    const FeedForward network = read_network(text);
    InferenceTarget target = interpreted(kPlenty);
    target.chip.sm_count.value = target.sms;
    const auto by_kernels = kernel_inference(network, target, kSomeImages);
    INFO(by_kernels->plan());
    const Bitmaps images = random_images(50, network.neurons.front(), static_cast<std::uint64_t>(seed));
    CHECK(by_kernels->infer(images).categories == reference_inference(network)->infer(images).categories);
  }
}

TEST_CASE("several GPUs have the categories of one, whatever the order of the images", "[fast]") {
  const Bitmaps drawn = random_images(1000, 64, 8);
  const std::vector<int> with_most = most_features(drawn, 100);
  for (const int gpus : {1, 2, 3, 8}) {
    const auto numbers = shares(drawn, gpus);
    std::vector<int> all;
    for (const std::vector<int>& of_gpu : numbers) {
      CHECK(std::ranges::is_sorted(of_gpu));
      CHECK(std::abs(static_cast<int>(of_gpu.size()) * gpus - 1000) <= gpus);
      // Of those with the most features as many as of all.
      std::vector<int> shared;
      std::ranges::set_intersection(of_gpu, with_most, std::back_inserter(shared));
      CHECK(std::abs(std::ssize(shared) * gpus - 100) <= gpus);
      all.insert(all.end(), of_gpu.begin(), of_gpu.end());
    }
    std::ranges::sort(all);
    CHECK(std::ranges::adjacent_find(all) == all.end());
    CHECK(all.size() == 1000);
    int next = 0;
    for (const std::vector<int>& of_gpu : shares(drawn, gpus, Split::contiguous)) {
      CHECK(of_gpu.front() == next);
      CHECK(of_gpu.back() - of_gpu.front() + 1 == std::ssize(of_gpu));
      CHECK(std::abs(static_cast<int>(of_gpu.size()) * gpus - 1000) <= gpus);
      next = of_gpu.back() + 1;
    }
    CHECK(next == 1000);
  }
  const FeedForward network = read_network("random:neurons=64,layers=6,degree=24,blocks=16,bias=-0.1");
  InferenceTarget target = interpreted(kPlenty);
  target.chip.sm_count.value = target.sms;
  const PlannedProgram planned = plan_inference(network, target, plan_images(network, kSomeImages));
  const Bitmaps images = random_images(90, 64, 9);
  const std::vector<int> categories = reference_inference(network)->infer(images).categories;
  for (const int gpus : {1, 3}) {
    Fleet fleet(
        planned.program, gpus, images, [&](int, const InferenceProgram& program) { return target.load(program); },
        gpus == 3 ? Split::contiguous : Split::dealt);
    for (int run = 0; run < 2; ++run) {
      const FleetInference result = fleet.infer();
      CHECK(result.all.categories == categories);
      CHECK(result.all.entering.front() == 90);
      CHECK(std::ssize(result.each) == gpus);
    }
  }
  CHECK_THROWS_AS(Fleet(planned.program, 2, images,
                        [](int gpu, const InferenceProgram&) -> InferenceExecutor {
                          throw CudaError("no GPU " + std::to_string(gpu));
                        }),
                  CudaError);
}

}  // namespace onchip
