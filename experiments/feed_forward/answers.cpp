// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/answers.hpp"

#include "experiments/reports/shown.hpp"
#include "model/base/units.hpp"

#include <string>
#include <utility>

namespace onchip {
namespace {

// ---- text -----------------------------------------------------------------------------------------------------------

std::string percent(double part, double of) {
  return of > 0 ? fixed(100 * part / of, 1) + " %" : "-";
}

std::string kib(double bytes) {
  return bytes < (1 << 20) ? fixed(bytes / 1024, 0) + " KiB" : fixed(bytes / (1 << 20), 1) + " MiB";
}

std::string structure_text(const ExaminedNetwork& network) {
  const StructureSummary& found = network.structure;
  return "structure   " + percent(static_cast<double>(found.weights_in_blocks), static_cast<double>(found.weights)) +
         " of the weights in blocks, " +
         percent(static_cast<double>(found.weights_in_blocks), static_cast<double>(found.block_elements)) +
         " full; bank conflicts left: " + std::to_string(found.reads.extra) + " of " +
         std::to_string(found.reads.accesses) + " reads, " + std::to_string(found.writes.extra) + " of " +
         std::to_string(found.writes.accesses) + " writes; found in " + fixed(network.seconds, 2) + " s\n";
}

std::string values_text(const FeedForwardCase& answer) {
  return answer.runs() ? "weights     " + std::string(values_read(*answer.plan)) + '\n' : "";
}

std::string capacity_text(const FeedForwardCase& answer) {
  const ExaminedNetwork& network = *answer.network;
  if (!network.work) {
    return "";
  }
  std::string text =
      "on the chip " + std::to_string(answer.images_per_sm) + " images on each SM, " + std::to_string(network.layers) +
      " layers in a launch; at least " + kib(answer.shared_needed) + " of shared memory are needed, " +
      kib(answer.shared_available) + " are there\n" + "in L2       weights " + kib(answer.weight_bytes) + " of " +
      kib(answer.l2_bytes) +
      (answer.weight_bytes <= answer.l2_bytes ? "\n" : ": not all, each launch reads them from memory\n");
  if (answer.device_bytes > 0) {
    text += "in memory   " + kib(answer.device_bytes) + "\n";
  }
  return text;
}

std::string time_text(const FeedForwardCase& answer) {
  const InferencePrice& price = answer.price;
  return answer.runs() ? ms(price.us) + " ms (95 %: " + ms(price.low_us) + " to " + ms(price.high_us) + ")"
                       : "nothing runs it";
}

// What runs, and where its features are.
std::string verdict_text(const FeedForwardCase& answer) {
  const std::string in_ms = " in " + ms(answer.price.us) + " ms";
  return answer.family() == BlocksPlan::kName ? "Stays on the chip: yes; runs in blocks" + in_ms
         : answer.family() == DenseLayerPlan::kName
             ? "Stays on the chip: yes, but not in blocks; runs in whole layers" + in_ms
         : answer.family() == UnstructuredPlan::kName
             ? "Stays on the chip: yes, but not in blocks; runs unstructured" + in_ms
         : answer.runs() ? "Stays on the chip: no; runs through L2" + in_ms
                         : "Stays on the chip: no; nothing runs it but 'staged' plans, the method of 2020";
}

std::string reason_text(const FeedForwardCase& answer) {
  return answer.problem.empty() ? "" : "no blocks   " + answer.problem + '\n';
}

// What is faster, but rounds otherwise.
std::string faster_text(const FeedForwardCase& answer) {
  std::string text;
  if (answer.with_fp16) {
    text += "fp16        " + ms(answer.with_fp16->price.us) +
            " ms with ',precision=fp16' behind the network, which rounds its weights; how many categories that changes "
            "is not known before it is measured\n";
  }
  if (answer.library) {
    text += "library     " + ms(answer.library->price.us) + " ms by '" + to_string(answer.library->plan) +
            "', which rounds otherwise; measure --plan says whether its categories are right\n";
  }
  return text;
}

std::string fit_text(const FeedForwardCase& answer) {
  const ExaminedNetwork& network = *answer.network;
  return verdict_text(answer) + ": " + network.name + " on " + answer.chip + "\n\n" +
         (answer.runs() ? "time        " + time_text(answer) + ", most of it " + std::string(answer.price.binding()) +
                              "\nplan        " + answer.plan_text() + '\n'
                        : "") +
         faster_text(answer) + reason_text(answer) + structure_text(network) + values_text(answer) +
         capacity_text(answer) + remedies_text(answer.to_fit, ", in blocks");
}

std::string images_text(const Activity& activity) {
  return "images      " + std::to_string(activity.images) + ", of which " + fixed(activity.alive.back(), 0) +
         " stay alive; " + fixed(activity.image_layers(), 0) + " image-layers" +
         (activity.sampled == 0                 ? ", as given"
          : activity.sampled == activity.images ? ""
                                                : ", from " + std::to_string(activity.sampled) + " of the images") +
         '\n';
}

std::string predict_text(const FeedForwardCase& answer) {
  const ExaminedNetwork& network = *answer.network;
  const Activity& activity = *answer.activity;
  if (!answer.runs()) {
    return fit_text(answer);
  }
  const InferencePrice& price = answer.price;
  Table terms{{"term", "ms", "share %"}, {}}, launches{{"launch", "images", "tiles", "rounds", "ms"}, {}};
  for (const Term& term : price.terms) {
    terms.rows.push_back({std::string(term.name), ms(term.us), fixed(100 * term.us / price.us, 1)});
  }
  for (const LaunchPrice& launch : price.launches) {
    launches.rows.push_back({launch.name, fixed(launch.images, 0), std::to_string(launch.tiles),
                             std::to_string(launch.rounds), ms(launch.terms.total())});
  }
  return network.name + ", " + std::to_string(activity.images) + " images on " + answer.chip + "\n\ntime        " +
         time_text(answer) + (price.floor_us > 0 ? ", never below " + ms(price.floor_us) + " ms" : "") +
         "; most of it " + std::string(price.binding()) + "\nrate        " + fixed(answer.tera_edges_per_s, 1) +
         " TeraEdges/s as the challenge counts; " + fixed(answer.tera_macs_per_s, 1) +
         " T multiply-adds/s executed, of " + fixed(answer.executed_image_layers, 0) + " image-layers\nplan        " +
         answer.plan_text() + '\n' + faster_text(answer) + reason_text(answer) + images_text(activity) +
         structure_text(network) + values_text(answer) + capacity_text(answer) + '\n' + to_aligned(terms) + '\n' +
         to_aligned(launches) + remedies_text(answer.to_fit, ", in blocks");
}

Report report_of(std::string text, const FeedForwardCase& answer, Json json) {
  if (answer.gpus > 1) {
    text += "\nOn " + std::to_string(answer.gpus) +
            " GPUs, which share the images: launches are of the one with most to do, rates of all." +
            (answer.gpus > 2 ? " More than two GPUs have not been measured.\n" : "\n");
  }
  return {std::move(text), columns_of(answer).table({&answer, 1}), std::move(json)};
}

}  // namespace

std::string to_text(const FeedForwardCase& answer) {
  return fit_text(answer);
}

Report report_of(const FeedForwardFit& answer) {
  return report_of(fit_text(answer.answer), answer.answer, to_json(answer));
}

Report report_of(const FeedForwardAnswer& answer) {
  return report_of(predict_text(answer.answer), answer.answer, to_json(answer));
}

}  // namespace onchip
