// SPDX-License-Identifier: Apache-2.0
// The zero-fit check: what the model and its chip files say of figures that others published for GPUs on which nothing
// was measured here. No constant was fitted to any of them, and every error is shown.
#pragma once

#include "experiments/command/output.hpp"

#include <string>
#include <vector>

namespace onchip {

struct PublishedFigure {
  std::string what;  // "largest dense layer, TITAN X (Maxwell) fp32"
  std::string unit;  // "hidden units", "us per step", "cycles", "ns" or "TB/s"
  double published = 0;
  double predicted = 0;  // NaN: the model says that it does not fit
  std::string source;
  double low = 0, high = 0;  // the 95 % interval of what is predicted, 0 where there is none

  double error_percent() const { return 100 * (predicted / published - 1); }
};

std::vector<PublishedFigure> published_figures();

Json to_json(const std::vector<PublishedFigure>& figures);
std::string to_text(const std::vector<PublishedFigure>& figures);

}  // namespace onchip
