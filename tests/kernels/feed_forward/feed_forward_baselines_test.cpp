// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/feed_forward.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>

namespace onchip {

TEST_CASE("what stands between a library's products compiles for every form of features", "[fast]") {
  for (const int words : {0, 1, 2}) {
    for (const bool by_neuron : {false, true}) {
      CHECK(compile(layerwise_request({words, by_neuron, 1}, "sm_90")).resources.spill_bytes == 0);
    }
  }
  std::set<std::string> names;
  for (const FeedForwardBaseline& baseline : feed_forward_baselines()) {
    names.insert(baseline.name);
  }
  CHECK(names.size() == 10);
}

TEST_CASE("libraries have the categories of the reference, layer by layer", "[gpu]") {
  for (const char* text : {"spdnn:1024x40", "random:neurons=256-120-300,degree=uniform:0..40,bias=-0.2",
                           "random:neurons=96,layers=5,degree=0,bias=-1"}) {
    const FeedForward network = read_network(text);
    for (const int count : {1, 2000}) {
      const Bitmaps images =
          text[0] == 's' ? synthetic_digits(1024, 0, count) : random_images(count, network.neurons.front(), 5);
      const std::vector<int> reference = infer_reference(network, images).categories;
      for (const FeedForwardBaseline& baseline : feed_forward_baselines()) {
        INFO(text << ", " << count << " images, " << baseline.name);
        std::unique_ptr<LayerwiseInference> inference;
        try {
          inference = baseline.make(network, images);
        } catch (const BaselineRefusal& refusal) {
          WARN(baseline.name << " on " << text << ": " << refusal.what());
          continue;
        }
        for (const bool drops : {true, false, true}) {
          const std::vector<int> categories = inference->infer(drops).categories;
          // Other orders of summation, and fewer bits, may turn an image on a tie.
          std::vector<int> differ;
          std::ranges::set_symmetric_difference(categories, reference, std::back_inserter(differ));
          CHECK(differ.size() <= (baseline.is_exact ? 1U : 3U));
        }
      }
    }
  }
}

}  // namespace onchip
