// SPDX-License-Identifier: Apache-2.0
// Questions to the planner, drawn at random: cells, precisions, masks, batches of 1 to 64, densities of 1 to 100 %,
// and 128 to 8192 units, on five chips.
#pragma once

#include "model/chip/chip.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/recurrent.hpp"

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace onchip {

struct DrawnQuestion {
  const Chip* chip = nullptr;  // for as long as the program runs
  Recurrent network;
  MaskKind mask = MaskKind::uniform;
};

// The same for the same seed on every machine: raw words of the generator, no standard distributions.
inline std::vector<DrawnQuestion> draw_questions(int number, unsigned seed) {
  static const std::array<Chip, 5> chips{find_chip("h200").chip, find_chip("h100 sxm").chip, find_chip("a100").chip,
                                         find_chip("b200").chip, find_chip("rtx 4090").chip};
  std::mt19937 draw(seed);
  const auto below = [&](unsigned most) { return static_cast<int>(draw() % most); };
  const auto between = [&](double least, double most) {  // evenly in the logarithm
    return least * std::pow(most / least, static_cast<double>(draw()) / 4294967296.0);
  };
  constexpr std::array kDrawn{Precision::fp16, Precision::fp16, Precision::bf16,
                              Precision::bf16, Precision::fp32, Precision::fp8};
  std::vector<DrawnQuestion> questions;
  for (int i = 0; i < number; ++i) {
    DrawnQuestion question;
    question.chip = &chips[static_cast<std::size_t>(below(chips.size()))];
    question.network.cell = static_cast<Cell>(below(kCells.size()));
    question.network.precision = kDrawn[static_cast<std::size_t>(below(kDrawn.size()))];
    question.mask = below(10) == 0 ? MaskKind::two_four : MaskKind::uniform;
    question.network.density = question.mask == MaskKind::two_four ? 0.5 : std::round(between(0.01, 1) * 1e4) / 1e4;
    question.network.batch = below(2) == 0 ? 1 << below(7) : 1 + below(64);
    question.network.hidden = static_cast<int>(std::lround(between(128, 8192)));
    questions.push_back(question);
  }
  return questions;
}

}  // namespace onchip
