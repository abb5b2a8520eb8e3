// SPDX-License-Identifier: Apache-2.0
// A sparse feed-forward network: layer by layer, for each image,
//   y = min(max(W x + b, 0), clip)      W: [outputs, inputs]; y = W x + b of a linear layer, such as one of logits
// A weight that is not stored multiplies nothing; NaN passes through ReLU and clip, as in dense frameworks. The Sparse
// DNN Graph Challenge (Kepner et al., arXiv 1909.05631) adds the bias only where W x is not zero: the same for b <= 0.
// A network may be larger than memory (65536 neurons x 1920 layers have 4e9 weights), so that layers are made when they
// are asked for.
#pragma once

#include "model/workload/mask.hpp"

#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr float kNoClip = std::numeric_limits<float>::infinity();

struct SparseLayer {
  SparseMatrix weights;     // [outputs, inputs]
  std::vector<float> bias;  // [outputs], or one number for all
  bool is_linear = false;   // neither ReLU nor clip

  float bias_of(int output) const { return bias[bias.size() == 1 ? 0 : output]; }
  float least() const { return is_linear ? -kNoClip : 0; }  // that its features may be
  float most(float clip) const { return is_linear ? kNoClip : clip; }
  friend bool operator==(const SparseLayer&, const SparseLayer&) = default;
};

struct FeedForward {
  std::string name;          // "spdnn:1024x120"
  std::vector<int> neurons;  // [layers + 1]: of the input, then of each layer
  float clip = kNoClip;
  // Layer l of [0, layers()), [neurons[l + 1], neurons[l]]: the same each time. Threads may call it at once.
  std::function<SparseLayer(int)> layer;

  int layers() const { return static_cast<int>(neurons.size()) - 1; }
  int inputs(int l) const { return neurons[l]; }
  int outputs(int l) const { return neurons[l + 1]; }
};

// max(z, least) and then min(., most); NaN stays.
template <typename Real>
constexpr Real activate(Real z, Real least, Real most) {
  return z < least ? least : z > most ? most : z;
}

// Whether an image of zeros gets a feature that is not zero: some bias is positive or NaN, or, of a linear layer, not
// zero. Where none is, images without a non-zero feature are dead: they stay so.
bool wakes_zeros(const SparseLayer& layer);

// Throws InputError naming what does not fit: no rows or columns, columns that do not ascend, a number of biases that
// is neither 1 nor that of the rows.
void check(const SparseLayer& layer);

// Throws InputError for the first weight that `precision` rounds to an infinity. `who` is for the message: "layer 7".
void check_representable(const SparseLayer& layer, Precision precision, std::string_view who);

// Throws InputError if it has fewer layers.
FeedForward first_layers(FeedForward network, int layers);

// A network of layers in memory. Throws InputError if one is not well formed, or takes another number of inputs than
// the layer before it gives.
FeedForward stored_network(std::string name, std::vector<SparseLayer> layers, float clip);

}  // namespace onchip
