// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/network_inference.hpp"

#include "model/feed_forward/reference.hpp"

#include <chrono>
#include <numeric>

namespace onchip {
namespace {

class ReferenceInference : public NetworkInference {
 public:
  using NetworkInference::NetworkInference;

  std::string plan() const override { return "reference"; }

  Inference infer(const Inputs& images) override {
    const auto begin = std::chrono::steady_clock::now();
    ReferenceResult result = infer_reference(network(), images);
    Inference inference{.categories = std::move(result.categories), .entering = {}};
    inference.entering.assign(result.alive.begin(), result.alive.end() - 1);
    inference.wall_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return inference;
  }

  std::vector<float> features(const Inputs& images, int layers) override {
    std::vector<int> all(static_cast<std::size_t>(image_count(images)));
    std::iota(all.begin(), all.end(), 0);
    return reference_features(network(), images, all, layers);
  }
};

}  // namespace

std::unique_ptr<NetworkInference> reference_inference(FeedForward network) {
  return std::make_unique<ReferenceInference>(std::move(network));
}

}  // namespace onchip
