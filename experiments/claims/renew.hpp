// SPDX-License-Identifier: Apache-2.0
// What recipes compare with, measured anew on this machine's GPU, claim by claim.
#pragma once

#include "experiments/claims/replicate.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace onchip {

// Writes the rows of every claim that one GPU can measure into the folder, and says of the others why not, on the
// standard error: steps of recurrent networks with the plans of the recipes' rows, or those of the model of `chip`
// ("": this GPU's); inferences of feed-forward networks; trainings by the recipe's script. What the folder has is not
// measured again, so that the same call goes on where it was stopped. Throws CudaError where there is no GPU.
Renewed measure_anew(std::span<const Recipe> recipes, MeasuredRows& measured, const std::filesystem::path& folder,
                     const std::string& chip);

}  // namespace onchip
