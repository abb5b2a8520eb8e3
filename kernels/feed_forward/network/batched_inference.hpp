// SPDX-License-Identifier: Apache-2.0
// Any number of images through a program: in batches, as many at once as device memory holds.
#pragma once

#include "kernels/feed_forward/network/inference_executor.hpp"
#include "model/chip/chip.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace onchip {

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
