// SPDX-License-Identifier: Apache-2.0
// Which plan runs a feed-forward network, and the price of one.
#include "model/answer/feed_forward/feed_forward.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/families/workload.hpp"
#include "model/feed_forward/plan/search.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <type_traits>
#include <utility>

namespace onchip {
namespace {

constexpr int kLeastComputeCapability = 9;  // of the instructions of kernels on tensor cores: stmatrix

// ---- the best plan of a family -------------------------------------------------------------------------------------

// What a plan of blocks with so many warps and bytes of a weight has to do. `usual`: in fp16, for as many warps as are
// chosen. Plans of fewer bytes are taken where they are asked for: no GPU has timed them.
const BlocksWork& work_of(std::string_view family, const ExaminedNetwork& network, const NetworkStructure& structure,
                          const BlocksWork& usual, int warps, int weight_bytes) {
  if (warps == usual.geometry.warps && weight_bytes == usual.geometry.weight_bytes) {
    return usual;
  }
  return network.off_chip->blocks.of({family, warps, weight_bytes}, [&] {
    return blocks_work(network.network, structure, blocks_geometry(network.network, structure, warps, 0, weight_bytes));
  });
}

std::string why_no_tensor_cores(const Chip& chip) {
  return chip.compute_capability_major >= kLeastComputeCapability ? "" : "plans of blocks need an sm_90 or newer";
}

Found<BlocksPlan> chosen(std::type_identity<BlocksPlan>, const Chip& chip, const ExaminedNetwork& network,
                         const Activity& activity) {
  const std::string why = network.work ? why_no_tensor_cores(chip) : network.problem;
  return why.empty() ? choose_blocks_plan(chip, *network.work, activity) : Found<BlocksPlan>::nothing(why);
}

Found<StreamedPlan> chosen(std::type_identity<StreamedPlan>, const Chip& chip, const ExaminedNetwork& network,
                           const Activity&) {
  const std::string why = network.work ? why_no_tensor_cores(chip) : network.problem;
  return why.empty() ? choose_streamed_plan(chip, network.network, network.blocks) : Found<StreamedPlan>::nothing(why);
}

Found<DenseLayerPlan> chosen(std::type_identity<DenseLayerPlan>, const Chip& chip, const ExaminedNetwork& network,
                             const Activity& activity) {
  const auto nothing = [](const std::string& why) { return Found<DenseLayerPlan>::nothing(why); };
  if (const std::string why = why_no_tensor_cores(chip); !why.empty()) {
    return nothing(why);
  }
  const Found<DenseLayer>& dense = dense_layer(network);
  if (!dense) {
    return nothing(dense.why());
  }
  const Found<BlocksPlan> plan = choose_blocks_plan(chip, dense->work, activity);
  return plan ? DenseLayerPlan{*plan} : nothing(plan.why());
}

Found<UnstructuredPlan> chosen(std::type_identity<UnstructuredPlan>, const Chip& chip, const ExaminedNetwork& network,
                               const Activity& activity) {
  return choose_unstructured_plan(chip, network.network, activity);
}

// Images that enter each layer.
std::vector<std::int64_t> entering(const Activity& activity) {
  std::vector<std::int64_t> images;
  std::transform(activity.alive.begin(), activity.alive.end() - 1, std::back_inserter(images),
                 [](double alive) { return std::llround(alive); });
  return images;
}

Found<StagedPlan> chosen(std::type_identity<StagedPlan>, const Chip& chip, const ExaminedNetwork& network,
                         const Activity& activity) {
  return choose_staged_plan(chip, network.network, entering(activity));
}

template <OfLibrary P>
InferencePrice price_of_library(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                                const P& plan) {
  const std::vector<std::int64_t>& weights = network.off_chip->weights.of("", [&] {
    std::vector<std::int64_t> of_layers(static_cast<std::size_t>(network.layers));
    parallel_for(network.layers, all_cores(), [&](int l) { of_layers[l] = network.network.layer(l).weights.nnz(); });
    return of_layers;
  });
  return price_layers(chip, network.network, weights, activity.alive, plan);
}

// The fastest of the library's.
template <OfLibrary P>
Found<P> chosen(std::type_identity<P>, const Chip& chip, const ExaminedNetwork& network, const Activity& activity) {
  const std::vector<P> plans = plans_of_library<P>();
  return *std::ranges::min_element(plans, {},
                                   [&](const P& plan) { return price_of_library(chip, network, activity, plan).us; });
}

// ---- the price of a plan -------------------------------------------------------------------------------------------

using Priced = Found<InferencePrice>;

const BlocksWork& streamed_work(const ExaminedNetwork& network, int chain) {
  return network.off_chip->streamed.of(chain, [&] {
    return blocks_work(network.network, network.blocks, streamed_geometry(network.network, network.blocks, chain));
  });
}

template <typename P>
Priced price_of_blocks(const Chip& chip, const ExaminedNetwork& network, const NetworkStructure& structure,
                       const BlocksWork& usual, const Activity& activity, const P& plan) {
  const BlocksWork& work = work_of(P::kName, network, structure, usual, plan.warps, plan.weight_bytes);
  const std::string why = why_not_fitting(chip, work.geometry, plan);
  return why.empty() ? price_blocks(chip, work, activity, plan) : Priced::nothing(why);
}

Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity, const BlocksPlan& plan) {
  return network.work ? price_of_blocks(chip, network, network.blocks, *network.work, activity, plan)
                      : Priced::nothing(network.problem);
}

Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity, const StreamedPlan& plan) {
  return network.work ? price_streamed(chip, streamed_work(network, plan.chain), activity, plan)
                      : Priced::nothing(network.problem);
}

Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity, const DenseLayerPlan& plan) {
  const Found<DenseLayer>& dense = dense_layer(network);
  return dense ? price_of_blocks(chip, network, dense->structure, dense->work, activity, plan)
               : Priced::nothing(dense.why());
}

Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
              const UnstructuredPlan& plan) {
  const std::string why = why_not_fitting(chip, network.network, plan);
  return why.empty()
             ? price_unstructured(chip, network.network,
                                  network.off_chip->unstructured.of(
                                      plan_text(plan), [&] { return unstructured_work(network.network, plan); }),
                                  activity, plan)
             : Priced::nothing(why);
}

Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity, const StagedPlan& plan) {
  const std::string why = why_not_fitting(chip, network.network, plan);
  return why.empty()
             ? staged_inference(chip, plan, sampled_counts(network.network, std::span(&plan, 1)).front(), activity)
             : Priced::nothing(why);
}

template <OfLibrary P>
Priced priced(const Chip& chip, const ExaminedNetwork& network, const Activity& activity, const P& plan) {
  return price_of_library(chip, network, activity, plan);
}

Found<PlannedInference> planned(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                                const FeedForwardPlan& plan) {
  Priced price = std::visit([&](const auto& of_family) { return priced(chip, network, activity, of_family); }, plan);
  return price ? PlannedInference{plan, std::move(*price)} : Found<PlannedInference>::nothing(price.why());
}

template <typename P>
Found<PlannedInference> best_of(const Chip& chip, const ExaminedNetwork& network, const Activity& activity) {
  const Found<P> plan = chosen(std::type_identity<P>{}, chip, network, activity);
  return plan ? planned(chip, network, activity, *plan) : Found<PlannedInference>::nothing(plan.why());
}

// ---- which family --------------------------------------------------------------------------------------------------

struct FamilyOfPlans {
  std::string_view name;
  int rank = 0;  // one of a lower rank is the answer, whatever its price
  bool is_asked_for_only = false;
  bool takes_values = false;
  Found<PlannedInference> (*best)(const Chip&, const ExaminedNetwork&, const Activity&) = nullptr;
};
template <typename P>
concept TakesValues = P::kTakesValues;
template <typename P>
constexpr FamilyOfPlans family_of_plans(int rank, bool is_asked_for_only = false) {
  return {P::kName, rank, is_asked_for_only, TakesValues<P>, best_of<P>};
}
constexpr std::array kFamilies{family_of_plans<BlocksPlan>(0),
                               family_of_plans<StreamedPlan>(1),
                               family_of_plans<UnstructuredPlan>(2),
                               family_of_plans<DenseLayerPlan>(2),
                               family_of_plans<StagedPlan>(3, true),
                               family_of_plans<CublasLayersPlan>(4, true),
                               family_of_plans<CusparseLayersPlan>(4, true)};

}  // namespace

InferenceConstraints read_inference_constraints(std::string_view text) {
  if (text.empty()) {
    return {};
  }
  if (text != StagedPlan::kName && std::ranges::find(kFamilies, text, &FamilyOfPlans::name) != kFamilies.end()) {
    return {.family = std::string(text)};
  }
  return {.plan = parse_plan_as<FeedForwardPlan>(text)};
}

std::string library_asked(const InferenceConstraints& constraints) {
  return constraints.plan                                  ? library_call(*constraints.plan)
         : constraints.family == CublasLayersPlan::kName   ? "cublas"
         : constraints.family == CusparseLayersPlan::kName ? "cusparse"
                                                           : "";
}

std::vector<RankedInference> rank_plans(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all,
                                        int gpus, const InferenceConstraints& constraints, Effort effort) {
  if (constraints.plan) {
    check_plan(network.network, *constraints.plan);
  }
  const Activity activity = largest_share(of_all, gpus);
  const std::optional<std::string> asked =
      constraints.plan ? std::string(family_name(*constraints.plan)) : constraints.family;
  std::vector<RankedInference> ranking;
  int found_rank = kFamilies.back().rank;
  for (const FamilyOfPlans& family : kFamilies) {
    const bool may_be = asked ? family.name == *asked : effort == Effort::exhaustive || !family.is_asked_for_only;
    if (!may_be || (effort == Effort::bounded && family.rank > found_rank) ||
        std::ranges::find(constraints.refused, family.name) != constraints.refused.end()) {
      continue;
    }
    ranking.push_back({family.name, !activity.are_binary && !family.takes_values
                                        ? Found<PlannedInference>::nothing("takes images of 0 and 1")
                                    : constraints.plan ? planned(chip, network, activity, *constraints.plan)
                                                       : family.best(chip, network, activity)});
    found_rank = ranking.back().planned ? family.rank : found_rank;
  }
  const auto rank = [](std::string_view family) {
    return std::ranges::find(kFamilies, family, &FamilyOfPlans::name)->rank;
  };
  std::ranges::stable_sort(ranking, [&](const RankedInference& a, const RankedInference& b) {
    if (!a.planned || !b.planned) {
      return a.planned && !b.planned;
    }
    return rank(a.family) != rank(b.family) ? rank(a.family) < rank(b.family)
                                            : a.planned->price.us < b.planned->price.us;
  });
  return ranking;
}

Found<PlannedInference> best_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all, int gpus,
                                  const InferenceConstraints& constraints) {
  std::string why;
  for (RankedInference& of_family : rank_plans(chip, network, of_all, gpus, constraints, Effort::bounded)) {
    if (of_family.planned) {
      return std::move(of_family.planned);
    }
    why += (why.empty() ? "" : "; ") + std::string(of_family.family) + ": " + of_family.planned.why();
  }
  return Found<PlannedInference>::nothing(std::move(why));
}

PlannedInference fastest_library(const Chip& chip, const ExaminedNetwork& network, const Activity& of_all, int gpus) {
  const Activity activity = largest_share(of_all, gpus);
  PlannedInference dense = *best_of<CublasLayersPlan>(chip, network, activity);
  PlannedInference sparse = *best_of<CusparseLayersPlan>(chip, network, activity);
  return dense.price.us < sparse.price.us ? dense : sparse;
}

std::optional<PlannedInference> with_fp16_weights(const Chip& chip, const ExaminedNetwork& network,
                                                  const Activity& of_all, int gpus) {
  if (std::ranges::all_of(network.blocks.values, &WeightValues::halves)) {
    return {};
  }
  const std::shared_ptr<const ExaminedNetwork>& rounded = network.off_chip->rounded.of(Precision::fp16, [&] {
    try {
      return std::make_shared<const ExaminedNetwork>(examine(rounded_to(Precision::fp16, network.network)));
    } catch (const InputError&) {
      return std::shared_ptr<const ExaminedNetwork>();
    }
  });
  const Found<PlannedInference> best =
      rounded ? best_plan(chip, *rounded, of_all, gpus) : Found<PlannedInference>::nothing("");
  return best ? std::optional(*best) : std::nullopt;
}

const Found<DenseLayer>& dense_layer(const ExaminedNetwork& network) {
  return network.off_chip->dense.of(DenseLayerPlan::kName, [&] { return dense_layer(network.network); });
}

InferencePrice staged_inference(const Chip& chip, const StagedPlan& plan, std::span<const StagedCounts> counts,
                                const Activity& activity) {
  std::vector<std::int64_t> images = entering(activity);
  if (plan.compaction == Compaction::none) {
    std::ranges::fill(images, activity.images);
  }
  const Price price = price_staged(chip, plan, counts, images);
  const double us = price.terms.total();
  return {.launches = {},
          .terms = price.terms,
          .us = us,
          .low_us = us - price.below_us,
          .high_us = us + price.above_us,
          .floor_us = price.floor_us};
}

InferencePrice price_plan(const Chip& chip, const ExaminedNetwork& network, const Activity& activity,
                          const FeedForwardPlan& plan) {
  check_plan(network.network, plan);
  Found<PlannedInference> found = planned(chip, network, activity, plan);
  if (!found) {
    throw InputError("plan of " + std::string(family_name(plan)) + ": " + found.why());
  }
  return std::move(found->price);
}

}  // namespace onchip
