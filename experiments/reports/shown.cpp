// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/shown.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

std::vector<ShownNumber> resources_of(const Footprint& footprint) {
  std::vector<ShownNumber> resources;
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    const auto& [name, unit] = kResources[i];
    const ResourceUse& use = footprint.resources[i];
    resources.push_back(
        {unit.starts_with("bytes") ? std::string(name) + " (" + std::string(unit) + ")" : std::string(unit),
         format_number(use.used) + " of " + format_number(use.available)});
  }
  return resources;
}

void take_prediction(Shown& shown, const Prediction& prediction) {
  shown.low_us = prediction.low_us;
  shown.high_us = prediction.high_us;
  shown.binding = shown.time.fits ? prediction.binding() : "";
  shown.terms = prediction.terms;
  shown.more = resources_of(prediction.footprint);
}

}  // namespace

std::string ms(double us) {
  return fixed(1e-3 * us, us < 1e3 ? 3 : us < 1e5 ? 2 : 0);
}

std::string time_text(double us, double low_us, double high_us) {
  return fixed(us, 2) + " us (95 %: " + fixed(low_us, 2) + " to " + fixed(high_us, 2) + ")";
}

std::string bar(double share) {
  return std::string(static_cast<std::size_t>(std::clamp(std::round(40 * share), 0.0, 40.0)), '#');
}

std::string remedies_text(const std::vector<Remedy>& remedies, const std::string& where) {
  std::string text = remedies.empty() ? "" : "\nAny one of these makes it fit" + where + ":\n";
  for (const Remedy& remedy : remedies) {
    text += "  - " + remedy.text + " (" + remedy.option + ")\n";
  }
  return text;
}

std::string Shown::number(double us) const {
  return unit == "ms" ? ms(us) : fixed(us, 3);
}

Shown shown(const RecurrentCase& answer) {
  const auto& [network, plan, prediction] = static_cast<const PlannedNetwork&>(answer.planned);
  Shown of{.title = describe(network) + " on " + answer.chip, .time = plan_time(answer), .hidden = network.hidden};
  of.says = answer.runs() ? time_text(prediction) : explain(prediction.footprint);
  take_prediction(of, prediction);
  return of;
}

Shown shown(const FeedForwardCase& answer) {
  const InferencePrice& price = answer.price;
  Shown of{.title = answer.network->name + ", " + std::to_string(answer.activity->images) + " images on " + answer.chip,
           .what = "inference",
           .unit = "ms",
           .time = plan_time(answer),
           .low_us = price.low_us,
           .high_us = price.high_us};
  of.says = answer.runs() ? ms(price.us) + " ms (95 %: " + ms(price.low_us) + " to " + ms(price.high_us) + "), " +
                                std::string(answer.family())
                          : answer.problem;
  of.binding = price.binding();
  of.terms = price.terms;
  if (price.floor_us > 0) {
    of.more.push_back({"floor, ms", ms(price.floor_us), price.floor_us});
  }
  of.more.push_back({"TeraEdges/s", fixed(answer.tera_edges_per_s, 1), answer.tera_edges_per_s});
  of.more.push_back({"images on each SM", std::to_string(answer.images_per_sm), double{1} * answer.images_per_sm});
  return of;
}

Shown shown(const TrainingCase& answer) {
  Shown of{.title = describe(answer), .time = plan_time(answer), .hidden = answer.training.network.hidden};
  of.says = answer.fits() ? fixed(of.time.us, 3) + " us" : answer.why_not();
  if (answer.planned) {
    take_prediction(of, answer.planned->prediction);
  }
  if (answer.otherwise) {
    const double us = answer.otherwise->prediction.step_us;
    of.more.push_back({"otherwise, us", fixed(us, 3), us});
    of.more.push_back({"otherwise", way_text(std::get<DenseTrainingPlan>(answer.otherwise->plan))});
  }
  return of;
}

}  // namespace onchip
