// SPDX-License-Identifier: Apache-2.0
// Images in and results out of whatever runs an inference's program: a GPU (inference.hpp), or an interpreter of its
// kernels (experiments/measurement/interpreted_inference.hpp).
#pragma once

#include "kernels/feed_forward/inference_program.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

class InferenceExecutor {
 public:
  virtual ~InferenceExecutor() = default;

  // As the program takes them, bitmaps or lists. Throws InputError for images of other neurons, more than the program
  // takes, or values other than 1 where it takes bitmaps.
  void upload(const Inputs& images);
  // Of the images that were uploaded last.
  Inference infer();
  // What infer() kept, of a program that keeps features: [images, program().feature_neurons], zeros of dead images.
  std::vector<float> features() const;
  const InferenceProgram& program() const { return program_; }

  // At the beginning of an array.
  virtual void write(int array, std::span<const std::byte> bytes) = 0;
  virtual void read(int array, std::span<std::byte> bytes) const = 0;
  // Runs the nodes, and has the array of results.
  virtual std::span<const std::uint32_t> run() = 0;

 protected:
  explicit InferenceExecutor(InferenceProgram program) : program_(std::move(program)) {}

  InferenceProgram program_;

 private:
  int images_ = 0, kept_ = 0;
};

}  // namespace onchip
