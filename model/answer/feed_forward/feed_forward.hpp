// SPDX-License-Identifier: Apache-2.0
// Questions about sparse feed-forward networks: does one stay on the chip, how long does an inference take, what binds
// it.
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/base/kept.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/plan/streamed_plan.hpp"
#include "model/feed_forward/staged/price.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// What plans off the chip ask of a network, by what it depends on of them.
struct OffChipWork {
  Kept<int, BlocksWork> streamed;                                 // by chain
  Kept<std::string, std::vector<UnstructuredWork>> unstructured;  // by plan
  Kept<std::string_view, DenseLayer> dense;                       // by its name
};

// What is true of a network on every chip.
struct ExaminedNetwork {
  std::string name;
  int layers = 0;
  StructureSummary structure;
  double seconds = 0;                   // that it took to find out
  std::optional<BlocksWork> work = {};  // of its blocks
  FeedForward network = {};
  NetworkStructure blocks = {};  // with the weights that join blocks
  std::string problem = {};      // why no plan of blocks computes it, on any chip
  std::shared_ptr<OffChipWork> off_chip = std::make_shared<OffChipWork>();
};
ExaminedNetwork examine(const FeedForward& network);

// The plan that runs: of blocks where one fits, else streamed; where there are no blocks, the cheaper of dense_layer
// and unstructured.
struct FeedForwardAnswer {
  std::string chip;
  int gpus = 1;
  std::string family = {}, plan = {};  // "": nothing runs it
  InferencePrice price = {};
  std::string problem = {};                        // why there is no plan of blocks
  std::vector<Remedy> to_fit = {};                 // of what a plan of blocks has no room for
  int images_per_sm = 0;                           // of one word, as many as shared memory holds
  double shared_needed = 0, shared_available = 0;  // bytes of a block: of 8 images of two words
  double weight_bytes = 0, l2_bytes = 0;           // of all layers; of L2, that may be read again and again
  double device_bytes = 0;                         // of device memory: weights, bitmaps, features between phases
  double executed_image_layers = 0;                // of images that are not yet dropped
  double tera_edges_per_s = 0, tera_macs_per_s = 0;

  bool runs() const { return !plan.empty(); }
  bool fits() const { return runs() && family != StreamedPlan::kName; }  // features stay on the SMs
};
// Of several GPUs that share the images, one of which has most to do; rates are of all.
FeedForwardAnswer answer(const ChipFile& chip, const ExaminedNetwork& network, const Activity& activity, int gpus = 1);

const BlocksWork& streamed_work(const ExaminedNetwork& network, int chain);
const DenseLayer& dense_layer(const ExaminedNetwork& network);

// Of a plan by its text, of any family. Throws InputError for what is no plan of the network, or does not fit.
InferencePrice price_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                          std::string_view plan);
InferencePrice staged_inference(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> counts,
                                const Activity& activity);

Json to_json(const FeedForwardAnswer& answer, const ExaminedNetwork& network, const Activity& activity);

struct FeedForwardTarget : ReachedOf<FeedForwardAnswer> {
  Target target;
};
// The target is a time, of whatever runs, or else that the network stays on the chip. Throws InputError.
FeedForwardTarget reach(const ExaminedNetwork& network, const Activity& activity, int gpus,
                        const TargetQuestion& question);

Json to_json(const FeedForwardTarget& target, const ExaminedNetwork& network, const Activity& activity);

}  // namespace onchip
