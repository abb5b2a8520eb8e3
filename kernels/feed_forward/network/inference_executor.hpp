// SPDX-License-Identifier: Apache-2.0
// Images in and results out of whatever runs an inference's program.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace onchip {

class InferenceExecutor {
 public:
  // `executor`: of the same program.
  InferenceExecutor(InferenceProgram program, std::shared_ptr<ProgramExecutor> executor)
      : program_(std::move(program)), executor_(std::move(executor)) {}

  // As the program takes them, bitmaps or lists. Throws InputError for images of other neurons, more than the program
  // takes, or values other than 1 where it takes bitmaps.
  void upload(const Inputs& images);
  // Of the images that were uploaded last.
  Inference infer();
  // What infer() kept, of a program that keeps features: [images, feature_neurons], zeros of dead images.
  std::vector<float> features() const;
  int most_images() const { return program_.most_images; }

 private:
  InferenceProgram program_;
  std::shared_ptr<ProgramExecutor> executor_;
  int images_ = 0, kept_ = 0;
};

template <typename Executor>
InferenceExecutor inference_on(const InferenceProgram& program) {
  return {program, std::make_shared<Executor>(program)};
}

}  // namespace onchip
