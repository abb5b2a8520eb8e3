// SPDX-License-Identifier: Apache-2.0
#include "experiments/validation/published.hpp"

#include "model/plan/planner.hpp"

#include <cmath>
#include <limits>

namespace onchip {
namespace {

constexpr const char* kLayers =
    "Diamos et al., Persistent RNNs, ICML 2016, and the README of baidu-research/persistent-rnn";
constexpr const char* kLibrarySteps =
    "DeepBench (baidu-research/DeepBench): forward passes of cuDNN 6 (P100) and 7.6 (V100) over all steps, no CUDA "
    "graph";
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

// Dense networks, their input product not included.
struct LibraryStep {
  const char* chip;
  Cell cell;
  Precision precision;
  int hidden, batch, steps;
  double milliseconds;
};
constexpr LibraryStep kLibraryTimes[] = {
    {"P100", Cell::relu, Precision::fp32, 1760, 16, 50, 4.73},
    {"P100", Cell::relu, Precision::fp32, 1760, 32, 50, 14.0},
    {"P100", Cell::relu, Precision::fp32, 2048, 16, 50, 6.06},
    {"P100", Cell::relu, Precision::fp32, 2560, 16, 50, 7.63},
    {"V100", Cell::relu, Precision::fp32, 1760, 16, 50, 4.20},
    {"V100", Cell::relu, Precision::fp32, 2048, 16, 50, 4.24},
    {"V100", Cell::relu, Precision::fp32, 2560, 16, 50, 4.50},
    {"V100", Cell::relu, Precision::fp16, 1760, 16, 50, 2.96},
    {"V100", Cell::relu, Precision::fp16, 2048, 16, 50, 2.98},
    {"V100", Cell::relu, Precision::fp16, 2560, 16, 50, 4.33},
    {"V100", Cell::lstm, Precision::fp16, 2048, 16, 25, 2.21},
    {"V100", Cell::lstm, Precision::fp16, 1536, 8, 50, 3.65},
    {"V100", Cell::gru, Precision::fp16, 2816, 32, 1500, 180},
};

// What microbenchmarks of others read, beside the numbers of chip files that were not taken from them.
struct Reading {
  const char* what;
  const char* unit;
  double (*of)(const Chip&);
};
constexpr Reading kL2Cycles{"load that hits L2", "cycles", [](const Chip& chip) { return +chip.l2_latency_cycles; }};
constexpr Reading kL2Nanoseconds{"load that hits L2", "ns",
                                 [](const Chip& chip) { return 1e9 * chip.l2_latency_cycles / chip.clock_hz; }};
constexpr Reading kL2Bandwidth{"bandwidth of L2", "TB/s", [](const Chip& chip) {
                                 return 1e-12 * chip.exchange_bytes_per_cycle_per_sm * chip.sm_count * chip.clock_hz;
                               }};
constexpr Reading kSharedBandwidth{
    "bandwidth of shared memory", "TB/s",
    [](const Chip& chip) { return 1e-12 * chip.smem_banks * chip.smem_bank_bytes * chip.sm_count * chip.clock_hz; }};
struct PublishedReading {
  const char* chip;
  Reading reading;
  double value;
  const char* source;
};
constexpr const char* kDissected = "Luo et al., IPDPS 2024: mean of the near and the far partition";
constexpr const char* kGpuBenches = "te42kyfo/gpu-benches";
constexpr const char* kKernels = "markdewing/AI_kernels";
constexpr PublishedReading kReadings[] = {
    {"V100", kL2Cycles, 221, kKernels},
    {"V100", kL2Nanoseconds, 156, kGpuBenches},
    {"A100", kL2Cycles, 282.5, kDissected},
    {"A100", kL2Nanoseconds, 150, kGpuBenches},
    {"RTX 4090", kL2Cycles, 296, kKernels},
    {"V100", kSharedBandwidth, 13.9, kGpuBenches},
    {"A100", kSharedBandwidth, 19.1, kGpuBenches},
    {"A100", kL2Bandwidth, 5.4, kGpuBenches},
};

std::vector<PublishedFigure> library_steps() {
  std::vector<PublishedFigure> figures;
  for (const LibraryStep& step : kLibraryTimes) {
    const Chip chip = find_chip(step.chip).chip;
    const Recurrent network{step.cell, step.precision, step.hidden, step.batch, step.steps, 1};
    Constraints constraints;
    constraints.family = LibraryPlan<Library::cudnn>::kName;
    const Prediction prediction = choose_plan(chip, network, RowProfile::uniform(network), constraints).prediction;
    figures.push_back({"cuDNN, " + describe(network) + " on " + chip.name, "us per step",
                       1e3 * step.milliseconds / step.steps, prediction.step_us, kLibrarySteps, prediction.low_us,
                       prediction.high_us});
  }
  return figures;
}

std::vector<PublishedFigure> readings() {
  std::vector<PublishedFigure> figures;
  for (const auto& [chip, reading, value, source] : kReadings) {
    const Chip of = find_chip(chip).chip;
    figures.push_back({std::string(reading.what) + ", " + of.name, reading.unit, value, reading.of(of), source});
  }
  return figures;
}

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
  for (const std::vector<PublishedFigure>& more : {library_steps(), readings()}) {
    figures.insert(figures.end(), more.begin(), more.end());
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
