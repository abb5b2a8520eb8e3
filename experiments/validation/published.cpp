// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/published.hpp"

#include "model/plan/planner.hpp"

#include <cmath>
#include <limits>

namespace onchip {
namespace {

constexpr const char* kLayers =
    "Diamos et al., Persistent RNNs, ICML 2016, and the README of baidu-research/persistent-rnn";
constexpr const char* kSteps =
    "GTC 2017, session S7182, from the TFLOP/s of the dense network; its precision is not stated, fp16 assumed";

// The largest layer whose dense weights stay on the chip; kernels of that time had layers in multiples of 32 units.
struct Layer {
  const char* chip;
  Precision precision;
  int hidden;
};
constexpr Layer kLargest[] = {
    {"TITAN X (Maxwell)", Precision::fp32, 1152},
    {"P100", Precision::fp32, 1792},
    {"P100", Precision::fp16, 2432},
};

struct Step {
  int hidden, batch;
  double density;
  int sms;
  double us;
};
constexpr Step kStepTimes[] = {
    {1792, 4, 0.10, 56, 5.7},
    {5760, 2, 0.01, 45, 7.4},
};

}  // namespace

std::vector<PublishedFigure> published_figures() {
  std::vector<PublishedFigure> figures;
  for (const Layer& layer : kLargest) {
    const Chip chip = find_chip(layer.chip).chip;
    const Recurrent network{.precision = layer.precision, .batch = 4, .density = 1};
    Constraints dense;
    fix<&SparsePlan::storage>(dense, Storage::dense);
    dense.tier = Tier::registers;  // as the published kernels kept them
    const Capacity capacity = find_capacity(chip, network, 32, dense);
    figures.push_back({"largest dense layer, " + chip.name + ' ' + std::string(info(layer.precision).name),
                       "hidden units", static_cast<double>(layer.hidden),
                       static_cast<double>(capacity.largest ? capacity.largest->network.hidden : 0), kLayers});
  }
  const Chip p100 = find_chip("P100").chip;
  for (const Step& step : kStepTimes) {
    const Recurrent network{.hidden = step.hidden, .batch = step.batch, .density = step.density};
    Constraints constraints;
    fix<&SparsePlan::sms>(constraints, step.sms);
    constraints.tier = Tier::registers;
    const Prediction prediction = choose_plan(p100, network, RowProfile::uniform(network), constraints).prediction;
    figures.push_back({"step time, " + describe(network) + " on " + std::to_string(step.sms) + " SMs of a P100",
                       "us per step", step.us,
                       prediction.footprint.fits ? prediction.step_us : std::numeric_limits<double>::quiet_NaN(),
                       kSteps, prediction.low_us, prediction.high_us});
  }
  return figures;
}

Json to_json(const std::vector<PublishedFigure>& figures) {
  Json json = Json::array();
  for (const PublishedFigure& figure : figures) {
    json.push_back({{"what", figure.what},
                    {"unit", figure.unit},
                    {"published", figure.published},
                    {"predicted", rounded(figure.predicted)},
                    {"low", rounded(figure.low)},
                    {"high", rounded(figure.high)},
                    {"error_percent", rounded(figure.error_percent())},
                    {"source", figure.source}});
  }
  return json;
}

std::string to_text(const std::vector<PublishedFigure>& figures) {
  Table table{{"published figure", "published", "predicted", "95 %", "error %", "unit"}, {}};
  for (const PublishedFigure& figure : figures) {
    const bool known = std::isfinite(figure.predicted);
    table.rows.push_back({figure.what, significant(figure.published, 4),
                          known ? significant(figure.predicted, 4) : "does not fit",
                          figure.high > 0 ? significant(figure.low, 3) + " to " + significant(figure.high, 3) : "",
                          known ? fixed(figure.error_percent(), 1) : "", figure.unit});
  }
  return to_aligned(table);
}

}  // namespace onchip
