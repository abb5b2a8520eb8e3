// SPDX-License-Identifier: Apache-2.0
// Shapes of sparse persistent plans, whose need of registers is sought: networks and plans without their slots. And the
// architectures that they are compiled for.
#pragma once

#include "experiments/table.hpp"
#include "model/chip.hpp"
#include "model/network.hpp"
#include "model/plan.hpp"

#include <array>
#include <cstddef>
#include <random>
#include <string>

namespace onchip::registers {

inline constexpr std::array kArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};
inline constexpr std::array kMajors{8, 9, 10, 12};
inline constexpr int kClose = 8;                                                             // words
inline constexpr std::array kChips{"a100", "h200", "b200", "rtx 4090", "h100 sxm", "l40s"};  // that kernels compile for
inline constexpr std::array kBatches{1, 2, 4, 8, 16, 32};

// A chip of each architecture; of sm_120 there is none.
const Chip& chip_of(std::size_t architecture);
// Throws InputError if there is none of this name.
std::size_t architecture_of(const std::string& name);

struct Shape {
  Network network;
  Plan plan;
};

// Without the slots, which are what is sought.
std::string text_of(const Shape& shape);
// With a bundle for every row: the limits are of whole bundles.
Shape read_shape(const CsvReader& file, std::size_t row);
inline constexpr const char* kShapeHeader = "cell,hidden,batch,precision,plan";

// Registers of a computing thread.
int room(const Shape& shape, std::size_t architecture = 1);

// The plan with the most weights, evenly over its rows and in whole bundles, in `words` words or fewer, but a bundle
// for every row; the rows of a dense plan are alike.
Plan with_words(const Shape& shape, int words);

template <typename T, std::size_t kCount>
T one_of(std::mt19937& random, const std::array<T, kCount>& choices) {
  return choices[random() % kCount];
}

}  // namespace onchip::registers
