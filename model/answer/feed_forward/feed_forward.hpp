// SPDX-License-Identifier: Apache-2.0
// Questions about sparse feed-forward networks: does one stay on the chip, how long does an inference take, what is
// the bottleneck?
#pragma once

#include "model/answer/answer.hpp"
#include "model/answer/json.hpp"
#include "model/base/found.hpp"
#include "model/base/kept.hpp"
#include "model/feed_forward/dense_layer/dense_layer.hpp"
#include "model/feed_forward/plan/blocks_price.hpp"
#include "model/feed_forward/plan/feed_forward_plan.hpp"
#include "model/feed_forward/plan/off_chip_price.hpp"
#include "model/feed_forward/staged/price.hpp"
#include "model/plan/family.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace onchip {

struct ExaminedNetwork;

// What plans ask of a network, by what it depends on of them.
struct OffChipWork {
  // By family, warps and bytes of a weight, where these are not as usual.
  Kept<std::tuple<std::string_view, int, int>, BlocksWork> blocks;
  Kept<int, BlocksWork> streamed;                                   // by chain
  Kept<std::string, std::vector<UnstructuredWork>> unstructured;    // by plan
  Kept<std::string_view, Found<DenseLayer>> dense;                  // by its name
  Kept<Precision, std::shared_ptr<const ExaminedNetwork>> rounded;  // none: beyond the type
  Kept<std::string_view, std::vector<std::int64_t>> weights;        // of each layer
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

// Whole layers as blocks, of the network or, by the plan, its blocks.
const Found<DenseLayer>& dense_layer(const ExaminedNetwork& network);

// ---- which plan, and how long does it take? ------------------------------------------------------------------------

// What is asked of a plan: its family, or all of it; else any may be. Families that a compiler refused are none.
struct InferenceConstraints {
  std::optional<std::string> family = {};
  std::optional<FeedForwardPlan> plan = {};
  std::vector<std::string_view> refused = {};
};
// "": any; a family's name, "blocks"; or the text of a plan. "staged" alone is the plan whose fields are as usual.
// Throws InputError.
InferenceConstraints read_inference_constraints(std::string_view text);

// How the calls of the library begin whose family, or plan, is asked for: "cusparse"; "" of a kernel's.
std::string library_asked(const InferenceConstraints& constraints);

struct PlannedInference {
  FeedForwardPlan plan;
  InferencePrice price;
};

// The best plan of each family that may be, the answer first, then the others that run the network as they would follow
// it, then families with the reason why they do not. The answer is a plan of blocks where one fits, else a streamed
// one, both of networks most of whose weights lie in blocks; else the cheaper of dense_layer and unstructured. A staged
// plan, or one of a library, is the answer only where it is asked for. Effort::bounded looks no further than the answer
// needs. Of several GPUs that share the images (`of_all` of them), one of which has most to do. Throws InputError for a
// plan that is none of the network.
struct RankedInference {
  std::string_view family;
  Found<PlannedInference> planned;
};
std::vector<RankedInference> rank_plans(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all,
                                        int gpus = 1, const InferenceConstraints& constraints = {},
                                        Effort effort = Effort::exhaustive);
// The first of them, or all reasons.
Found<PlannedInference> best_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all,
                                  int gpus = 1, const InferenceConstraints& constraints = {});

// With cuBLAS or cuSPARSE, whichever is predicted to be faster, in whatever arithmetic.
PlannedInference fastest_library(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all, int gpus);

// The best plan with weights rounded to fp16; nothing where they are such numbers, or beyond them. That other images
// then have the reference's categories is known only once both are computed.
std::optional<PlannedInference> with_fp16_weights(const Chip& chip, const ExaminedNetwork& network,
                                                  const Activity& of_all, int gpus);

// The price of this plan, whether it is the best or not. Throws InputError for what is no plan of the network, or does
// not fit.
InferencePrice price_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                          const FeedForwardPlan& plan);
InferencePrice staged_inference(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> counts,
                                const Activity& activity);

// ---- questions and answers ------------------------------------------------------------------------------------------

struct FeedForwardQuestion {
  ChipFile chip;
  std::shared_ptr<const ExaminedNetwork> network;
  std::shared_ptr<const Activity> activity;  // of all images, which the GPUs share
  int gpus = 1;
  InferenceConstraints constraints = {};
  static constexpr int granule = 1;  // no size is sought
};

// The plan that runs; of several GPUs that share the images, that of the one with most to do. Rates are of all.
struct FeedForwardCase {
  static constexpr bool kHasSize = false;

  std::string chip;
  std::shared_ptr<const ExaminedNetwork> network;
  std::shared_ptr<const Activity> activity;
  int gpus = 1;
  std::optional<FeedForwardPlan> plan = {};  // nothing runs it without
  InferencePrice price = {};
  std::optional<PlannedInference> library = {};    // that is faster
  std::optional<PlannedInference> with_fp16 = {};  // weights, where that is faster
  std::string problem = {};                        // why there is no plan of blocks
  std::vector<Remedy> to_fit = {};                 // of what a plan of blocks has no room for
  int images_per_sm = 0;                           // of one word, as many as shared memory holds
  double shared_needed = 0, shared_available = 0;  // bytes of a block: of 8 images of two words
  double weight_bytes = 0, l2_bytes = 0;           // of all layers; of L2, that may be read again and again
  double device_bytes = 0;                         // of device memory: weights, bitmaps, features between phases
  double executed_image_layers = 0;                // of images that are not yet dropped
  double tera_edges_per_s = 0, tera_macs_per_s = 0;

  bool runs() const { return plan.has_value(); }
  std::string_view family() const { return plan ? family_name(*plan) : ""; }
  std::string plan_text() const { return plan ? to_string(*plan) : ""; }
  bool fits() const { return plan && is_on_chip(*plan); }  // features stay on the SMs
};
PlanTime plan_time(const FeedForwardCase& answer);
const Columns<FeedForwardCase>& columns_of(const FeedForwardCase&);
inline Json to_json(const FeedForwardCase& answer) {
  return columns_of(answer).json(answer);
}

struct FeedForwardFit {
  FeedForwardCase answer;
  bool is_yes() const { return answer.fits(); }
};
FeedForwardFit fit(const FeedForwardQuestion& question);
struct FeedForwardAnswer {
  FeedForwardCase answer;
  bool is_yes() const { return answer.fits(); }
};
FeedForwardAnswer predict(const FeedForwardQuestion& question);
inline Json to_json(const FeedForwardFit& answer) {
  return versioned(to_json(answer.answer));
}
inline Json to_json(const FeedForwardAnswer& answer) {
  return versioned(to_json(answer.answer));
}
RankOf<FeedForwardCase> rank(const FeedForwardQuestion& question);

SideOf<FeedForwardCase> side_of(const ChipFile& chip, const FeedForwardQuestion& question);
AskedOfChips asked_of_chips(const FeedForwardQuestion& question, const FeedForwardCase& base, int granule);

// The target is a time, of whatever runs, or else that the network stays on the chip. Throws InputError.
TargetOf<FeedForwardCase> reach(const FeedForwardQuestion& question, const TargetQuestion& target);
Json target_json(const Target& target, const FeedForwardCase& base);

}  // namespace onchip
