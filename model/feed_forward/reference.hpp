// SPDX-License-Identifier: Apache-2.0
// What a feed-forward network computes, on the CPU, in fp32. The order is that of a plain loop: sum = 0; for each
// weight of the row, inputs ascending, sum += weight * feature, the product rounded, then the sum; then sum + bias,
// ReLU, clip. Each image's numbers are the same for any number of threads and whatever images are beside it.
//
// An image without a non-zero feature is dropped, and comes back where a layer's bias gives it one (wakes_zeros).
// Others are computed in tiles of 32, which share what they read of a layer.
#pragma once

#include "model/base/parallel.hpp"
#include "model/feed_forward/inputs.hpp"
#include "model/feed_forward/network.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace onchip {

struct ReferenceOptions {
  int threads = all_cores();
  std::size_t most_bytes = std::size_t{2} << 30;   // of features: images go through the network in so large batches
  std::function<void(double done)> progress = {};  // from 0 to 1
};

struct ReferenceResult {
  std::vector<int> categories;      // images with a non-zero feature after the last layer, from 0
  std::vector<std::int64_t> alive;  // [layers + 1]: images with one before each layer, and after the last

  // Images that enter a layer, over all layers; what a kernel that drops the dead ones computes.
  std::int64_t image_layers() const;
};

// Throws InputError for images that are not the network's.
ReferenceResult infer_reference(const FeedForward& network, const Inputs& inputs, const ReferenceOptions& options = {});

// The features of some images after the first `layers` layers, [images, neurons].
std::vector<float> reference_features(const FeedForward& network, const Inputs& inputs, std::span<const int> images,
                                      int layers, const ReferenceOptions& options = {});

// [layers + 1]: whether all features of these images are at least so large before the first layer, after it, and so on.
std::vector<char> layers_at_least(const FeedForward& network, const Inputs& inputs, std::span<const int> images,
                                  float least, int layers);

// One layer in double precision, from `features` as they are: [images, inputs] to [images, outputs].
std::vector<double> layer_in_double(const SparseLayer& layer, float clip, std::span<const float> features);

}  // namespace onchip
