// SPDX-License-Identifier: Apache-2.0
// Feed-forward networks by the C API: the CPU reference, and a GPU beside it (tag [gpu]).
#include "model/feed_forward/files/network_text.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/api/calls.hpp"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr const char* kNetwork = "random:neurons=30-50-20,degree=7,values=uniform:-1..1,bias=-0.1";

Owned<onchip_inference> inference(const char* network, std::int32_t engine) {
  return made<onchip_inference>(
      [&](onchip_inference** to, onchip_error* e) { return onchip_inference_create(network, engine, to, e); });
}

// Image i has neurons i, i + 3, ... with values of both signs.
IndexLists some_images(int count) {
  IndexLists images{30, {0}, {}, {}};
  for (int i = 0; i < count; ++i) {
    for (int n = i % 30; n < 30; n += 3) {
      images.neuron.push_back(n);
      images.value.push_back(n % 2 == 0 ? 0.25F * static_cast<float>(n) : -1.5F);
    }
    images.begin.push_back(images.nnz());
  }
  return images;
}

onchip_images view(const IndexLists& images) {
  return {sizeof(onchip_images), static_cast<std::int32_t>(images.begin.size()) - 1, images.begin.data(),
          images.neuron.data(), images.value.empty() ? nullptr : images.value.data()};
}

void check_network(std::int32_t engine, const std::string& text) {
  INFO(text);
  const FeedForward network = read_network(text);
  const auto on = inference(text.c_str(), engine);
  std::int32_t layers = 0, neurons = 0;
  REQUIRE(onchip_inference_layers(on.get(), &layers, nullptr) == ONCHIP_OK);
  CHECK(layers == 2);
  for (const int count : {0, 1, 45}) {
    for (const bool has_values : {true, false}) {
      IndexLists images = some_images(count);
      if (!has_values) {
        images.value.clear();
      }
      const onchip_images given = view(images);
      std::vector<std::int32_t> categories(static_cast<std::size_t>(count));
      std::int32_t alive = -1;
      REQUIRE(answer([&](onchip_error* e) {
                return onchip_inference_categories(on.get(), &given, categories.data(), &alive, e);
              }) == "0: ");
      categories.resize(static_cast<std::size_t>(alive));
      CHECK(categories == infer_reference(network, images).categories);
      std::vector<int> all(static_cast<std::size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      for (std::int32_t l = 0; l <= layers; ++l) {
        REQUIRE(onchip_inference_neurons(on.get(), l, &neurons, nullptr) == ONCHIP_OK);
        std::vector<float> features(static_cast<std::size_t>(count) * neurons + 1, 7);
        REQUIRE(onchip_inference_features(on.get(), &given, l, features.data(), nullptr) == ONCHIP_OK);
        CHECK(features.back() == 7);
        features.pop_back();
        CHECK(features == reference_features(network, images, all, l));
      }
    }
  }
}

void check_engine(std::int32_t engine) {
  for (const char* more : {"", ",logits=yes"}) {
    check_network(engine, kNetwork + std::string(more));
  }
}

}  // namespace

TEST_CASE("a feed-forward network is opened by its text and run by the CPU reference", "[fast]") {
  check_engine(ONCHIP_ENGINE_REFERENCE);
  char* plan = nullptr;
  REQUIRE(onchip_inference_plan(inference(kNetwork, ONCHIP_ENGINE_REFERENCE).get(), &plan, nullptr) == ONCHIP_OK);
  CHECK(std::string(plan) == "reference");
  onchip_text_destroy(plan);
}

TEST_CASE("a feed-forward network runs by the engine that there is", "[fast]") {
  check_engine(ONCHIP_ENGINE_AUTOMATIC);
}

TEST_CASE("networks and images that are wrong are refused in words, and lose nothing", "[fast]") {
  onchip_inference* none = nullptr;
  const auto opened = [&](const char* text, std::int32_t engine) {
    return answer([&](onchip_error* e) { return onchip_inference_create(text, engine, &none, e); });
  };
  CHECK(opened(nullptr, 0) == "1: 'network' is null");
  CHECK(opened(kNetwork, 3) == "1: 'engine' is 3; expected 0 to 2");
  CHECK(opened("spdnn:1000x120", 2).starts_with("1: "));
  CHECK(none == nullptr);
  const auto on = inference(kNetwork, ONCHIP_ENGINE_REFERENCE);
  std::int32_t alive = -1;
  std::vector<std::int32_t> categories(2);
  const auto answer_of = [&](const IndexLists& images) {
    const onchip_images given = view(images);
    return answer(
        [&](onchip_error* e) { return onchip_inference_categories(on.get(), &given, categories.data(), &alive, e); });
  };
  CHECK(answer_of({30, {0, 1}, {30}, {}}) == "1: image 0 has neuron 30; the network's inputs are 0 to 29");
  CHECK(answer_of({30, {0, 0, 2}, {4, 4}, {}}) == "1: image 1 has neuron 4 after 4; expected each once, ascending");
  CHECK(answer_of({30, {0, 2, 1}, {1, 2}, {}}) == "1: image 1 has elements 2 to 1; expected at most 30, ascending");
  CHECK(answer_of({30, {1, 2}, {1, 2}, {}}) == "1: 'begin[0]' is 1; expected 0 to 0");
  onchip_images unsized{};
  CHECK(onchip_inference_categories(on.get(), &unsized, nullptr, &alive, nullptr) == ONCHIP_INVALID);
  CHECK(onchip_inference_features(on.get(), nullptr, 1, nullptr, nullptr) == ONCHIP_INVALID);
  CHECK(alive == -1);
  const IndexLists one = some_images(1);
  const onchip_images given = view(one);
  float feature = 0;
  CHECK(answer([&](onchip_error* e) {
          return onchip_inference_features(on.get(), &given, 3, &feature, e);
        }).starts_with("1: the network has 2 layers"));
  CHECK(answer([&](onchip_error* e) { return onchip_inference_neurons(on.get(), 3, &alive, e); }) ==
        "1: 'layers' is 3; expected 0 to 2");
  onchip_inference_destroy(nullptr);
}

TEST_CASE("a feed-forward network runs on a GPU with the reference's results", "[gpu]") {
  check_engine(ONCHIP_ENGINE_GPU);
}

}  // namespace onchip
