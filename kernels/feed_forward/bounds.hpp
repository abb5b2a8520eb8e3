// SPDX-License-Identifier: Apache-2.0
// How a program proves which images are alive (model/feed_forward/plan/blocks_plan.hpp), whatever kernel computes the
// bounds: bits of images, lists of those that are undecided, the order of launches, and fp32 for what no bound decides.
#pragma once

#include "kernels/feed_forward/inference_program.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

CompileRequest exact_request(const std::string& architecture);

// What a bit per image says; behind the bits, results have counts of lists.
enum class Bound : std::uint8_t { upper, lower, wide_upper, wide_lower, exact, count };

// Images of a list: all *count without ids.
struct ImageList {
  std::uint32_t* ids = nullptr;
  std::uint32_t* count = nullptr;
};

class BoundsProof {
 public:
  // Adds what it needs to the program, but for its bitmaps. phases: of the upper bounds.
  BoundsProof(InferenceProgram& program, const BlocksLayout& layout, std::size_t phases, int most_images, int sms,
              const std::string& architecture);

  std::uint32_t* bits(ArrayPlaces at, Bound which) const;
  // Where the images that enter a phase are counted.
  std::uint32_t* count(ArrayPlaces at, std::size_t phase) const;
  // What a kernel sets to 1 that gives up waiting; read() then throws CudaError.
  std::uint32_t* status(ArrayPlaces at) const { return count(at, phases_ + 2); }

  // Sets what kernels of bounds have in common: what they read of the layout, and how they round.
  template <typename Arguments>
  void fill(Arguments& of, ArrayPlaces at, bool upper) const {
    of.records = at[records_];
    of.remainder = at[remainder_];
    of.remainder_begin = array_at<std::uint32_t>(at, remainder_begin_);
    of.clip = clip_ * scale_;
    of.slack = (upper ? 1 + slack_ : 1 - slack_) / weight_factor_;
    of.shift = upper ? underflow_ : 0;
    of.one = one_;
    of.round_up = upper ? 0x1fffU : 0U;
    of.settled = settled_;
  }

  ProgramNode zeros(ArrayPlaces at) const;
  // Adds launches for which images of the list are alive at the end. bound(): the launches of the bounds of all layers,
  // of the images of a list, one after another on a stream; `label` says which they are.
  using AddBound = std::function<int(std::vector<ProgramNode>&, const std::string& label, Bound to,
                                     const ImageList& list, int stream, std::vector<int> after)>;
  void prove(std::vector<ProgramNode>& nodes, ArrayPlaces at, const ImageList& list, const AddBound& bound) const;

  Inference read(std::span<const std::uint32_t> results) const;

 private:
  std::size_t result_words() const {
    return static_cast<std::size_t>(Bound::count) * bit_words(most_images_) + phases_ + 3;
  }

  std::size_t phases_;
  int most_images_, sms_, layers_, inputs_;
  float clip_, scale_, weight_factor_, slack_, underflow_;
  std::uint32_t one_, settled_;  // fp16: the scale; nearly the clip, scaled
  std::uint32_t widest_;
  bool is_wide_;                // features of fp32 are in device memory
  int exact_, find_undecided_;  // kernels
  int weights_, slices_, layer_slices_, biases_, rows_, scratch_ = -1;
  int bitmaps_, results_, image_count_, undecided_narrow_, undecided_wide_;
  int records_, remainder_, remainder_begin_;
};

}  // namespace onchip
