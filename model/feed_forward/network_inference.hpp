// SPDX-License-Identifier: Apache-2.0
// A network that runs images: on the CPU by the reference here, on a GPU by kernels
// (kernels/api/kernel_inference.hpp). Any number of images at once.
#pragma once

#include "model/feed_forward/inputs.hpp"
#include "model/feed_forward/network.hpp"

#include <memory>
#include <string>
#include <vector>

namespace onchip {

struct Inference {
  std::vector<int> categories;  // images with a non-zero feature after the last layer, from 0
  std::vector<int> entering;    // images that enter each phase
  int undecided_narrow = 0;     // images that the bounds of one word do not decide
  int undecided_wide = 0;       // those of two words: computed in the reference's order
  int kept = 0;                 // images whose features were kept, by a program that does so
  double wall_ms = 0;           // from the launch to the categories
};

class NetworkInference {
 public:
  explicit NetworkInference(FeedForward network) : network_(std::move(network)) {}
  virtual ~NetworkInference() = default;

  const FeedForward& network() const { return network_; }
  // What computes the categories, in one line: a plan of kernels, or "reference".
  virtual std::string plan() const = 0;
  // Both throw InputError for images that are not the network's.
  virtual Inference infer(const Inputs& images) = 0;
  // After the first `layers` layers, 0 being the images themselves: [images, network().neurons[layers]], as the
  // reference computes them, bit by bit. Rows of dead images are zero. Throws InputError if there are fewer layers.
  virtual std::vector<float> features(const Inputs& images, int layers) = 0;

 private:
  FeedForward network_;
};

// By infer_reference and reference_features; each layer is a phase.
std::unique_ptr<NetworkInference> reference_inference(FeedForward network);

}  // namespace onchip
