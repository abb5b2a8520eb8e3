// SPDX-License-Identifier: Apache-2.0
// Inference of a feed-forward network by a plan of blocks on the current device: from bitmaps in device memory to the
// categories in host memory, as one CUDA graph, without the host in between.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "model/feed_forward/inputs.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

struct Inference {
  std::vector<int> categories;  // images with a non-zero feature after the last layer, from 0
  std::vector<int> entering;  // images that enter each phase, where those above have no feature left by the upper bound
  int open_narrow = 0;        // images that the bounds of one word do not decide
  int open_wide = 0;          // those of two words: computed in the reference's order
  double wall_ms = 0;         // from the launch to the categories
};

// What a tile's kernel compiles to, for an architecture; the number of output blocks in flight is the largest that does
// not spill. Needs no GPU. Throws InputError for architectures before sm_90.
struct BlocksKernel {
  int ahead = 0;
  CompiledKernel kernel;
};
BlocksKernel compile_blocks(const BlocksGeometry& geometry, const BlocksTile& tile, bool settles,
                            const std::string& architecture);
CompiledKernel compile_exact(const std::string& architecture);

class BlocksInference {
 public:
  // Compiles and uploads. Throws InputError for networks whose bounds are not monotone (see BlocksLayout), CudaError.
  BlocksInference(const BlocksLayout& layout, const BlocksPlan& plan, const Bitmaps& images);
  ~BlocksInference();

  Inference infer();
  // Milliseconds of each phase, the lower bounds, and the last phase with what runs beside it, by events.
  std::vector<double> phase_ms();
  int spill_bytes() const;  // of all kernels

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace onchip
