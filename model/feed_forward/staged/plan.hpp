// SPDX-License-Identifier: Apache-2.0
// The method that won the Sparse DNN Graph Challenge in 2020 (Hidayetoglu et al., arXiv 2007.14152), one launch a
// layer, each of its optimisations a field (kernels/feed_forward/device/feed_forward_staged.cu):
//   staging      a block of threads computes `block_outputs` neurons of `images` images, a thread each neuron. It
//   copies
//                the inputs that its rows need, a chunk of `staged_bytes` after the other, to shared memory, and reads
//                them there
//   blocking     a thread reads a weight once and multiplies it with the inputs of all its images, whose sums are in
//                registers
//   compaction   after a layer, images without a feature are dropped, by the host as in 2020 or on the device
//   residency    the weights are in device memory, or on the host and copied layer by layer, if wanted while the layer
//                before is computed
#pragma once

#include "model/feed_forward/network.hpp"
#include "model/plan/field.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace onchip {

enum class Staging : std::uint8_t { shared, l1 };
inline constexpr std::array<std::string_view, 2> kStagingNames{"shared_memory", "l1"};
enum class ImageBlocking : std::uint8_t { registers, none };
inline constexpr std::array<std::string_view, 2> kImageBlockingNames{"blocked", "unblocked"};
enum class Compaction : std::uint8_t { device, host, none };
inline constexpr std::array<std::string_view, 3> kCompactionNames{"compact_on_device", "compact_on_host", "keep_dead"};
enum class Residency : std::uint8_t { resident, copied, overlapped };
inline constexpr std::array<std::string_view, 3> kResidencyNames{"resident", "copied", "copied_ahead"};
enum class StagedWeights : std::uint8_t { fp32, fp16 };
inline constexpr std::array<std::string_view, 2> kStagedWeightNames{"fp32", "fp16"};

// "staged shared_memory blocked compact_on_device resident fp32 block_outputs=256 images=12 staged_bytes=24576"; fields
// that are not said are as usual.
struct StagedPlan {
  using Workload = FeedForward;
  static constexpr std::string_view kName = "staged";
  static constexpr bool kIsOnChip = false;

  Staging staging = Staging::shared;
  ImageBlocking blocking = ImageBlocking::registers;
  Compaction compaction = Compaction::device;
  Residency residency = Residency::resident;
  StagedWeights weights = StagedWeights::fp32;
  int block_outputs = 256;       // neurons, and threads, of a block
  int images = 12;               // of a block
  int staged_bytes = 24 * 1024;  // inputs of a chunk: [images, chunk_inputs()] in fp32

  int chunk_inputs() const { return staged_bytes / (images * 4); }
  int warps() const { return block_outputs / 32; }
  int weight_bytes() const { return weights == StagedWeights::fp32 ? 4 : 2; }
  // Of a block: an image's inputs, and behind them a zero, which is what padding multiplies.
  int shared_bytes() const { return staging == Staging::shared ? 4 * images * (chunk_inputs() + 1) : 0; }
  friend bool operator==(const StagedPlan&, const StagedPlan&) = default;
};

std::span<const Field<StagedPlan>> fields(const StagedPlan& plan);

// Throws InputError with what was expected, of any network.
void check(const StagedPlan& plan);
inline void check(const FeedForward&, const StagedPlan& plan) {
  check(plan);
}

}  // namespace onchip
