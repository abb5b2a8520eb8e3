// SPDX-License-Identifier: Apache-2.0
#include "kernels/feed_forward/bounds.hpp"

#include "kernels/feed_forward/device/arguments.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kUndecidedThreads = 512, kUndecidedBlocks = 4;
constexpr std::size_t kMostSharedBytes = std::size_t{128} << 10;  // of features; larger ones are in device memory
constexpr int kFewClusters = 4;                                   // that have room there

enum Stream : std::uint8_t { kMain, kBeside, kThird };

}  // namespace

CompileRequest exact_request(const std::string& architecture) {
  return {"feed_forward_exact", kFeedForwardExactSource, architecture, {}};
}

BoundsProof::BoundsProof(InferenceProgram& program, const BlocksLayout& layout, std::size_t phases, int most_images,
                         int sms, const std::string& architecture)
    : phases_(phases),
      most_images_(most_images),
      sms_(sms),
      layers_(layout.geometry.layers),
      inputs_(layout.geometry.inputs),
      clip_(layout.clip),
      scale_(layout.scale),
      weight_factor_(layout.geometry.weight_factor),
      slack_(layout.slack),
      underflow_(layout.underflow),
      one_(to_bits(Precision::fp16, scale_)),
      settled_(to_bits(Precision::fp16, clip_ * scale_ * (1 - 0x1p-10F))),
      widest_(std::max(std::ranges::max(layout.exact.rows), static_cast<std::uint32_t>(layout.geometry.inputs))),
      is_wide_(2 * sizeof(float) * widest_ > kMostSharedBytes),
      exact_(
          program.add_kernel(exact_request(architecture), is_wide_ ? "feed_forward_exact_wide" : "feed_forward_exact")),
      find_undecided_(program.add_kernel(exact_request(architecture), "feed_forward_undecided")),
      weights_(program.add_array(layout.exact.weight)),
      slices_(program.add_array(layout.exact.slice_begin)),
      layer_slices_(program.add_array(layout.exact.layer_slice)),
      biases_(program.add_array(layout.exact.bias)),
      rows_(program.add_array(layout.exact.rows)),
      bitmaps_(program.add_array(sizeof(std::uint32_t) * bitmap_words(inputs_) * most_images)),
      results_(program.add_array(sizeof(std::uint32_t) * result_words())),
      image_count_(program.add_array(sizeof(std::uint32_t))),
      undecided_narrow_(program.add_array(sizeof(std::uint32_t) * most_images)),
      undecided_wide_(program.add_array(sizeof(std::uint32_t) * most_images)),
      records_(program.add_array(layout.records)),
      remainder_(program.add_array(layout.remainder)),
      remainder_begin_(program.add_array(layout.remainder_begin)) {
  if (is_wide_) {
    scratch_ = program.add_array(2 * sizeof(float) * widest_ * kFewClusters);
  }
  program.bitmaps = bitmaps_;
  program.results = results_;
  program.image_count = image_count_;
}

std::uint32_t* BoundsProof::bits(ArrayPlaces at, Bound which) const {
  return array_at<std::uint32_t>(at, results_) + static_cast<std::size_t>(which) * bit_words(most_images_);
}

std::uint32_t* BoundsProof::count(ArrayPlaces at, std::size_t phase) const {
  return phase == 0 ? array_at<std::uint32_t>(at, image_count_) : bits(at, Bound::count) + phase;
}

ProgramNode BoundsProof::zeros(ArrayPlaces at) const {
  return fill_node("zeros", at[results_], sizeof(std::uint32_t) * result_words());
}

void BoundsProof::prove(std::vector<ProgramNode>& nodes, ArrayPlaces at, const ImageList& list,
                        const AddBound& bound) const {
  const ImageList narrow{array_at<std::uint32_t>(at, undecided_narrow_), count(at, phases_)};
  const ImageList wide{array_at<std::uint32_t>(at, undecided_wide_), narrow.count + 1};
  const auto find_undecided = [&](const char* label, const UndecidedArguments& of, int after) {
    return add_node(nodes, launch_node(label, find_undecided_, kUndecidedBlocks, kUndecidedThreads, 0, of), kBeside,
                    {after});
  };
  // The lower bound; then, beside the last phase, what is finer.
  const int lower = bound(nodes, "lower bounds", Bound::lower, list, kMain, {});
  const int known = find_undecided("which are undecided",
                                   {.ids = list.ids,
                                    .count = list.count,
                                    .wanted = nullptr,
                                    .known = bits(at, Bound::lower),
                                    .undecided = narrow.ids,
                                    .undecided_count = narrow.count},
                                   lower);
  const int upper = bound(nodes, "upper bounds of two words", Bound::wide_upper, narrow, kThird, {known});
  bound(nodes, "lower bounds of two words", Bound::wide_lower, narrow, kBeside, {});
  find_undecided("which are undecided still",
                 {.ids = narrow.ids,
                  .count = narrow.count,
                  .wanted = bits(at, Bound::wide_upper),
                  .known = bits(at, Bound::wide_lower),
                  .undecided = wide.ids,
                  .undecided_count = wide.count},
                 upper);
  const ExactArguments exact{.weights = array_at<std::uint32_t>(at, weights_),
                             .slice_begin = array_at<std::uint32_t>(at, slices_),
                             .layer_slice = array_at<std::uint32_t>(at, layer_slices_),
                             .biases = array_at<float>(at, biases_),
                             .rows = array_at<std::uint32_t>(at, rows_),
                             .layers = layers_,
                             .inputs = inputs_,
                             .buffer = widest_,
                             .scratch = !is_wide_ ? nullptr : array_at<float>(at, scratch_),
                             .bitmaps = array_at<std::uint32_t>(at, bitmaps_),
                             .words = bitmap_words(inputs_),
                             .ids = wide.ids,
                             .count = wide.count,
                             .categories = bits(at, Bound::exact),
                             .clip = clip_};
  const int blocks = is_wide_ ? kWideCluster * kFewClusters : kExactCluster * std::max(1, sms_ / kExactCluster);
  add_node(nodes,
           launch_node("fp32", exact_, blocks, is_wide_ ? kWideThreads : kExactThreads,
                       is_wide_ ? 0 : 2 * sizeof(float) * widest_, exact),
           kBeside);
}

Inference BoundsProof::read(std::span<const std::uint32_t> results) const {
  if (results.back() != 0) {
    throw CudaError("a block gave up waiting for the features of another; there are no results");
  }
  const std::size_t words = bit_words(most_images_);
  const auto word_of = [&](Bound which, std::size_t word) {
    return results[static_cast<std::size_t>(which) * words + word];
  };
  std::vector<std::uint32_t> proven(words);
  for (std::size_t word = 0; word < words; ++word) {
    proven[word] = word_of(Bound::lower, word) | word_of(Bound::wide_lower, word) | word_of(Bound::exact, word);
    if ((proven[word] & ~word_of(Bound::upper, word)) != 0) {
      throw CudaError("an image is alive by its lower bound and dead by its upper bound: the kernels are wrong");
    }
  }
  Inference inference;
  inference.categories = images_set(proven);
  const std::span<const std::uint32_t> counts = results.subspan(static_cast<std::size_t>(Bound::count) * words);
  for (std::size_t phase = 1; phase < phases_; ++phase) {
    inference.entering.push_back(static_cast<int>(counts[phase]));
  }
  inference.undecided_narrow = static_cast<int>(counts[phases_]);
  inference.undecided_wide = static_cast<int>(counts[phases_ + 1]);
  return inference;
}

}  // namespace onchip
