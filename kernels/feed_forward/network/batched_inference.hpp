// SPDX-License-Identifier: Apache-2.0
// Images in and results out of whatever runs an inference's program; and any number of them, in batches, as many at
// once as device memory holds.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/chip/chip.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

// What kernels run on.
struct InferenceTarget {
  Chip chip;                 // that plans are made for
  std::string architecture;  // "sm_90"
  int sms = 0;
  std::function<std::size_t()> available_bytes;  // of device memory
  std::function<InferenceExecutor(const InferenceProgram&)> load;
};

// By the number of images that it takes at once.
using ProgramOfImages = std::function<InferenceProgram(int most_images)>;

// Adds what a part of the images came to: categories, as all images are numbered, counts and time.
void add_part(Inference& sum, const Inference& part, const std::function<int(int image)>& number_of);

// The largest number of images whose program takes at most so much memory. Throws DoesNotFit where one takes more.
int images_at_once(const ProgramOfImages& program, std::size_t available_bytes);

class BatchedInference {
 public:
  // The target must live as long.
  BatchedInference(ProgramOfImages program, const InferenceTarget& target)
      : program_(std::move(program)), target_(target) {}

  // Counts are summed over the batches. Appends what features() has of each to `features`, if there is such.
  Inference infer(const Inputs& images, std::vector<float>* features = nullptr);

 private:
  void load(int images);

  ProgramOfImages program_;
  const InferenceTarget& target_;
  int most_images_ = 0;
  std::optional<InferenceExecutor> executor_;
};

}  // namespace onchip
