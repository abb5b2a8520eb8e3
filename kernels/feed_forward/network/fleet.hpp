// SPDX-License-Identifier: Apache-2.0
// Inference on several GPUs of a host: each has all weights and a share of the images, and nothing is exchanged.
// Results are the same bits for any number of GPUs, since an image's do not depend on those beside it.
#pragma once

#include "kernels/feed_forward/network/batched_inference.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace onchip {

enum class Split : std::uint8_t {
  // By the features that are set: of as many images next to each other in that order as there are GPUs each gets one,
  // drawn at random but the same each time. Images with many features live longer in many networks, so that each GPU
  // gets as many of these; where they do not, chance decides, whatever the order of the images. Counts differ by one.
  dealt,
  contiguous,  // as many images that follow each other to each GPU, whichever stay alive
};
// The images of each GPU, ascending.
std::vector<std::vector<int>> shares(const Inputs& images, int gpus, Split split = Split::dealt);

struct FleetInference {
  Inference all;                // times from the start to the last GPU's categories
  std::vector<Inference> each;  // categories by the GPU's own numbers
};

class Fleet {
 public:
  // Loads the program on a GPU; called, as all that the executor does, on the GPU's own thread.
  using Load = std::function<InferenceExecutor(int gpu, const InferenceProgram& program)>;

  // Throws what loading throws.
  Fleet(const ProgramOfImages& program, int gpus, const Inputs& images, const Load& load, Split split = Split::dealt);
  ~Fleet();

  FleetInference infer();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// GPUs of this host.
int gpu_count();
// Executors on GPUs by their numbers.
InferenceExecutor load_on_gpu(int gpu, const InferenceProgram& program);

}  // namespace onchip
