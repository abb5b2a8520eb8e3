// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/staged/plan.hpp"

#include "model/plan/plan_text.hpp"
#include "model/plan/require.hpp"

#include <string>

namespace onchip {
namespace {

using P = StagedPlan;

constexpr int kMostStagedBytes = 1 << 20;
constexpr int kMostImages = 64;
constexpr int kMostChunkInputs = 65535;  // places in a chunk are 16 bits, and one is the zero behind it

constexpr Field<P> kFields[] = {
    choice<&P::staging>("staging", kStagingNames),
    choice<&P::blocking>("blocking", kImageBlockingNames),
    choice<&P::compaction>("compaction", kCompactionNames),
    choice<&P::residency>("residency", kResidencyNames),
    choice<&P::weights>("weights", kStagedWeightNames),
    number<&P::block_outputs>("block_outputs", 32, 1024).define(),
    number<&P::images>("images", 1, kMostImages).define(),
    number<&P::staged_bytes>("staged_bytes", 4, kMostStagedBytes),
};

}  // namespace

std::span<const Field<StagedPlan>> fields(const StagedPlan&) {
  return kFields;
}

void check(const StagedPlan& plan) {
  check_ranges(plan);
  require(plan.block_outputs % 32 == 0,
          "block_outputs to be whole warps of 32, found " + std::to_string(plan.block_outputs));
  require(plan.chunk_inputs() >= 1, "staged_bytes to hold an input of " + std::to_string(plan.images) + " images, " +
                                        std::to_string(4 * plan.images) + " bytes, found " +
                                        std::to_string(plan.staged_bytes));
  require(plan.chunk_inputs() <= kMostChunkInputs, "staged_bytes to hold at most " + std::to_string(kMostChunkInputs) +
                                                       " inputs of " + std::to_string(plan.images) + " images, found " +
                                                       std::to_string(plan.chunk_inputs()));
}

}  // namespace onchip
