// SPDX-License-Identifier: Apache-2.0
// A feed-forward network layer by layer with a library's products, as kernels/baselines/feed_forward.hpp runs it: what
// its own kernels have to beat. Sums are added in the library's order, so that only a measurement says whether an image
// near a tie has the reference's category.
//
// A layer takes
//   products     cuBLAS: the multiplications of a dense product in tiles of 128 x 128, which are whole waves of the
//                SMs, or longer what it reads and writes of device memory. cuSPARSE: a feature for each weight and
//                image from L1 and L2, in fp32
//   elementwise  bias and ReLU, a feature after the other of each thread, so that latency is the bound; where images
//                are dropped, their copy, too. cuSPARSE's features lie a page apart for each neuron once some are
//   launches     of what follows each other on the device
//   host         waits for the number of images that are alive, where dead ones are dropped
#pragma once

#include "model/feed_forward/inference_price.hpp"
#include "model/feed_forward/network.hpp"
#include "model/plan/field.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class DeadImages : std::uint8_t { dropped, kept };
inline constexpr std::array<std::string_view, 2> kDeadImagesNames{"drop_dead", "keep_dead"};
// Of features and weights; two_fp16: features as a value and its residual.
enum class LayerArithmetic : std::uint8_t { fp32, tf32, fp16, two_fp16 };
inline constexpr std::array<std::string_view, 4> kLayerArithmeticNames{"fp32", "tf32", "fp16", "two_fp16"};

// "cublas_layers fp16 drop_dead"
struct CublasLayersPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "cublas_layers";
  static constexpr bool kIsOnChip = false, kTakesValues = true, kIsLibrary = true;

  LayerArithmetic arithmetic = LayerArithmetic::fp32;
  DeadImages dead = DeadImages::dropped;
  friend bool operator==(const CublasLayersPlan&, const CublasLayersPlan&) = default;
};
// SpMM by CSR_ALG2, features of a neuron next to each other.
struct CusparseLayersPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "cusparse_layers";
  static constexpr bool kIsOnChip = false, kTakesValues = true, kIsLibrary = true;

  DeadImages dead = DeadImages::dropped;
  friend bool operator==(const CusparseLayersPlan&, const CusparseLayersPlan&) = default;
};
template <typename P>
concept OfLibrary = requires {
  requires P::kIsLibrary;
};
// All of the family.
template <OfLibrary P>
std::vector<P> plans_of_library() {
  std::vector<P> plans;
  for (const DeadImages dead : {DeadImages::dropped, DeadImages::kept}) {
    if constexpr (requires(P plan) { plan.arithmetic; }) {
      for (std::size_t of = 0; of < kLayerArithmeticNames.size(); ++of) {
        plans.push_back({static_cast<LayerArithmetic>(of), dead});
      }
    } else {
      plans.push_back({dead});
    }
  }
  return plans;
}
std::span<const Field<CublasLayersPlan>> fields(const CublasLayersPlan&);
std::span<const Field<CusparseLayersPlan>> fields(const CusparseLayersPlan&);
inline void check(const FeedForward&, const CublasLayersPlan&) {}
inline void check(const FeedForward&, const CusparseLayersPlan&) {}

// As the library that runs it is called among those that are measured: "cublas GEMM fp16".
std::string library_call(const CublasLayersPlan& plan);
std::string library_call(const CusparseLayersPlan& plan);
inline std::string_view dead_images_text(DeadImages dead) {
  return dead == DeadImages::dropped ? ", dead images dropped" : ", dead images kept";
}

// alive: images before each layer, [layers + 1]. weights: of each layer, [layers].
InferencePrice price_layers(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> weights,
                            std::span<const double> alive, const CublasLayersPlan& plan);
InferencePrice price_layers(const Chip& chip, const FeedForward& network, std::span<const std::int64_t> weights,
                            std::span<const double> alive, const CusparseLayersPlan& plan);

}  // namespace onchip
