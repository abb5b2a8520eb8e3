// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/library/layers.hpp"

#include "model/library/price.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

constexpr Field<CublasLayersPlan> kCublasFields[] = {
    choice<&CublasLayersPlan::arithmetic>("arithmetic", kLayerArithmeticNames),
    choice<&CublasLayersPlan::dead>("dead", kDeadImagesNames),
};
constexpr Field<CusparseLayersPlan> kCusparseFields[] = {
    choice<&CusparseLayersPlan::dead>("dead", kDeadImagesNames),
};

// Nodes of a layer: the product, what zeroes the images' flags, bias and ReLU; where images are dropped their list,
// its number of images, which goes to the host and to its place, and their copy.
constexpr int kNodes = 3, kNodesOfDropping = 4;

struct Seconds {
  double products = 0, elementwise = 0, nodes = 0, round_trips = 0;
};

// Of a layer, by a dense product.
Seconds product(const Chip& chip, const FeedForward& network, int l, double, double images,
                const CublasLayersPlan& plan) {
  constexpr double kTile = 128, kSumBytes = 4;
  const double inputs = network.inputs(l), outputs = network.outputs(l);
  const bool is_fp32 = plan.arithmetic == LayerArithmetic::fp32;
  const int products = plan.arithmetic == LayerArithmetic::two_fp16 ? 2 : 1;
  const double bytes = plan.arithmetic <= LayerArithmetic::tf32 ? 4 : 2;
  const double tiles = std::ceil(outputs / kTile) * std::ceil(images / kTile);
  const double waves = std::ceil(tiles / chip.sm_count) * chip.sm_count / tiles;
  const double share = chip.cost[is_fp32 ? Cost::layers_fp32_time : Cost::layers_tensor_time];
  const double rate = plan.arithmetic == LayerArithmetic::tf32 ? 2 : 1;
  const double multiplying =
      rate * share * waves *
      multiplying_seconds(chip, is_fp32 ? Precision::fp32 : Precision::fp16, inputs * outputs, images);
  const double streaming = (bytes * inputs * (outputs + images) + kSumBytes * outputs * images) /
                           (chip.library_dram_share * chip.dram_bytes_per_second);
  const double again = kSumBytes * outputs * images / (chip.library_dram_share * chip.dram_bytes_per_second);
  Seconds seconds;
  seconds.products = products * std::max(multiplying, streaming) + (products - 1) * again;
  seconds.nodes = products * chip.library_node_seconds;
  return seconds;
}

Seconds product(const Chip& chip, const FeedForward& network, int l, double weights, double images,
                const CusparseLayersPlan& plan) {
  constexpr double kFeatureBytes = 4;
  Seconds seconds;
  seconds.products =
      weights * images * kFeatureBytes / (chip.cost[Cost::layers_gather_bytes] * chip.sm_count * chip.clock_hz);
  if (plan.dead == DeadImages::dropped) {
    seconds.elementwise = 1e-9 * chip.cost[Cost::layers_far_row] * network.inputs(l);
  }
  seconds.nodes = chip.library_node_seconds;
  return seconds;
}

// Of an element between products: its sum is read, and a value or two words written.
int accesses(const CublasLayersPlan& plan) {
  return plan.arithmetic == LayerArithmetic::two_fp16 ? 3 : 2;
}
int accesses(const CusparseLayersPlan&) {
  return 2;
}

template <typename P>
InferencePrice price_of(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> weights,
                        std::span<const double> alive, const P& plan) {
  const bool drops = plan.dead == DeadImages::dropped;
  Seconds all;
  for (int l = 0; l < network.layers(); ++l) {
    const double images = drops ? alive[l] : alive.front();
    if (images < 1) {
      break;
    }
    const bool some_die = drops && l + 1 < network.layers() && alive[l + 1] < alive[l];
    const double elements = network.outputs(l) * (images + (some_die ? alive[l + 1] : 0)) * accesses(plan);
    const Seconds of = product(chip, network, l, static_cast<double>(weights[l]), images, plan);
    all.products += of.products;
    all.elementwise +=
        of.elementwise + chip.cost[Cost::layers_access_cycles] * elements / (chip.sm_count * chip.clock_hz);
    all.nodes += of.nodes + (kNodes - 1 + (drops ? kNodesOfDropping : 0)) * chip.library_node_seconds;
    all.round_trips += drops ? 1e-6 * chip.cost[Cost::staged_host_round_trip] : 0;
  }
  InferencePrice price;
  price.terms.add("products", 1e6 * all.products);
  price.terms.add("elementwise", 1e6 * all.elementwise);
  price.terms.add("launches", 1e6 * all.nodes);
  price.terms.add("host", 1e6 * all.round_trips + price_parts::listed_us(chip, alive.back()));
  price.us = price.terms.total();
  price.low_us = price.us * (1 - std::min(1.0, chip.library_scatter.value));
  price.high_us = price.us * (1 + chip.library_scatter);
  return price;
}

}  // namespace

std::span<const Field<CublasLayersPlan>> fields(const CublasLayersPlan&) {
  return kCublasFields;
}
std::span<const Field<CusparseLayersPlan>> fields(const CusparseLayersPlan&) {
  return kCusparseFields;
}

std::string library_call(const CublasLayersPlan& plan) {
  constexpr std::array kCalls{"fp32", "TF32", "fp16", "two fp16 words"};
  return std::string("cublas GEMM ") + kCalls[static_cast<std::size_t>(plan.arithmetic)];
}
std::string library_call(const CusparseLayersPlan&) {
  return "cusparse SpMM CSR_ALG2 row-major";
}

InferencePrice price_layers(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> weights,
                            std::span<const double> alive, const CublasLayersPlan& plan) {
  return price_of(chip, network, weights, alive, plan);
}
InferencePrice price_layers(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> weights,
                            std::span<const double> alive, const CusparseLayersPlan& plan) {
  return price_of(chip, network, weights, alive, plan);
}

}  // namespace onchip
