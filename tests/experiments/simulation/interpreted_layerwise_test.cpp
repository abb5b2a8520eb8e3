// SPDX-License-Identifier: Apache-2.0
// What stands between the products of the libraries that feed-forward kernels are compared with, interpreted.
#include "kernels/baselines/feed_forward.hpp"
#include "model/base/numeric.hpp"
#include "model/feed_forward/files/network_text.hpp"
#include "sim/ptx/machine.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/feed_forward/feed_forward_cases.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace onchip {
namespace {

constexpr int kImages = 5, kRoom = 7, kNeurons = 40;

// Room for features in one of the forms, read as numbers without their scale.
struct Held {
  FeatureForm form;
  std::vector<std::uint32_t> value, residual;

  explicit Held(const FeatureForm& of) : form(of), value(kRoom * kNeurons), residual(kRoom * kNeurons) {}
  DeviceFeatures at() { return {value.data(), residual.data()}; }
  std::size_t place(int image, int neuron) const {
    return form.by_neuron ? neuron * kRoom + image : image * kNeurons + neuron;
  }
  float get(int image, int neuron) const {
    const std::size_t at = place(image, neuron);
    if (form.words == 0) {
      return reinterpret_cast<const float*>(value.data())[at];
    }
    const auto half = [&](const std::vector<std::uint32_t>& words) {
      return from_bits(Precision::fp16, reinterpret_cast<const std::uint16_t*>(words.data())[at]);
    };
    return (half(value) + (form.words == 2 ? half(residual) : 0)) / form.scale;
  }
};

}  // namespace

TEST_CASE("features become what a library multiplies, activate and move, in every form", "[fast]") {
  const Bitmaps images = random_images(kImages, kNeurons, 3);
  for (const int form_of : {0, 1, 2, 3, 4, 5}) {
    const int words = form_of % 3;
    for (const bool by_neuron : {false, true}) {
      SparseLayer layer;
      layer.is_linear = form_of < 3;
      INFO(words << " words, " << (by_neuron ? "by neuron" : "by image") << (layer.is_linear ? ", linear" : ""));
      const FeatureForm form{words, by_neuron, words == 0 ? 1.0F : 1024.0F};
      Held first(form), second(form);
      std::vector<float> sums(kRoom * kNeurons), bias(kNeurons);
      std::vector<std::uint32_t> alive(kRoom), bitmaps = images.words, rows{4, 1};
      for (int image = 0; image < kImages; ++image) {
        for (int neuron = 0; neuron < kNeurons; ++neuron) {
          // Image 2 has nothing positive, image 3 a NaN.
          sums[first.place(image, neuron)] =
              image == 2 ? -1 : static_cast<float>(image - 1) * static_cast<float>(neuron) / 7;
          bias[neuron] = -0.01F * static_cast<float>(neuron);
        }
      }
      sums[first.place(3, 5)] = std::numeric_limits<float>::quiet_NaN();
      ptx::Machine machine(ptx::parse(compile_ptx(layerwise_request(form, "sm_90")), "feed_forward_layerwise.ptx"));
      const auto allow = [&](auto& array) { machine.memory().add(std::as_writable_bytes(std::span(array))); };
      for (auto* const array :
           {&first.value, &first.residual, &second.value, &second.residual, &alive, &bitmaps, &rows}) {
        allow(*array);
      }
      allow(sums);
      allow(bias);
      LayerwiseArguments arguments{.bitmaps = bitmaps.data(),
                                   .sums = sums.data(),
                                   .from = second.at(),
                                   .to = first.at(),
                                   .bias = bias.data(),
                                   .rows = rows.data(),
                                   .alive = alive.data(),
                                   .images = kImages,
                                   .neurons = kNeurons,
                                   .words = static_cast<std::uint32_t>(images.words_per_image()),
                                   .stride = kRoom,
                                   .clip = 4,
                                   .scale = form.scale,
                                   .is_linear = layer.is_linear};
      const auto launch = [&](const char* kernel) {
        machine.launch(kernel, {.blocks = 2, .threads = 64, .parameters = std::as_bytes(std::span(&arguments, 1))});
      };
      launch("feed_forward_expand");
      for (int image = 0; image < kImages; ++image) {
        for (int neuron = 0; neuron < kNeurons; ++neuron) {
          CHECK(first.get(image, neuron) == static_cast<float>(images.of(image)[neuron / 32] >> neuron % 32 & 1));
        }
      }
      arguments.to = second.at();
      launch("feed_forward_activate");
      const float tolerance = words == 0 ? 0 : words == 1 ? 0x1p-10F : 0x1p-20F;
      for (int image = 0; image < kImages; ++image) {
        bool any = false;
        for (int neuron = 0; neuron < kNeurons; ++neuron) {
          const float expected =
                          activate(sums[first.place(image, neuron)] + bias[neuron], layer.least(), layer.most(4)),
                      found = second.get(image, neuron);
          any = any || expected != 0;
          CHECK((std::isnan(expected) ? std::isnan(found)
                                      : std::fabs(found - expected) <= tolerance * std::fabs(expected)));
        }
        CHECK((alive[image] != 0) == any);
      }
      CHECK((alive[2] == 0) == !layer.is_linear);
      arguments.to = first.at();
      arguments.images = 2;
      launch("feed_forward_drop");
      for (int neuron = 0; neuron < kNeurons; ++neuron) {
        CHECK(first.get(0, neuron) == second.get(4, neuron));
        CHECK(first.get(1, neuron) == second.get(1, neuron));
      }
    }
  }
}

TEST_CASE("sparse weights become the dense ones that a library multiplies", "[fast]") {
  SparseMatrix sparse =
      read_network("random:neurons=37-53,degree=power-law:1..40,values=uniform:-1..1,precision=fp16").layer(0).weights;
  const std::vector<float> expected = to_dense(sparse);
  for (const int words : {0, 1, 2}) {
    std::vector<std::uint32_t> dense(expected.size());
    ptx::Machine machine(
        ptx::parse(compile_ptx(layerwise_request({.words = words}, "sm_90")), "feed_forward_layerwise.ptx"));
    const auto allow = [&](auto& array) { machine.memory().add(std::as_writable_bytes(std::span(array))); };
    allow(sparse.row_begin);
    allow(sparse.column);
    allow(sparse.value);
    allow(dense);
    const DenseArguments arguments{reinterpret_cast<const long long*>(sparse.row_begin.data()),
                                   sparse.column.data(),
                                   sparse.value.data(),
                                   dense.data(),
                                   static_cast<std::uint32_t>(sparse.rows),
                                   static_cast<std::uint32_t>(sparse.columns)};
    machine.launch("feed_forward_dense",
                   {.blocks = 2, .threads = 64, .parameters = std::as_bytes(std::span(&arguments, 1))});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float found = words == 0
                              ? reinterpret_cast<const float*>(dense.data())[i]
                              : from_bits(Precision::fp16, reinterpret_cast<const std::uint16_t*>(dense.data())[i]);
      CHECK(found == expected[i]);
    }
  }
}

}  // namespace onchip
