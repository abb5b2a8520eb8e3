// SPDX-License-Identifier: Apache-2.0
#include "experiments/feed_forward/answers.hpp"

#include "experiments/command/output.hpp"
#include "experiments/command/progress.hpp"
#include "experiments/feed_forward/questions.hpp"
#include "experiments/reports/target_report.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace onchip {
namespace {

// ---- text -----------------------------------------------------------------------------------------------------------

std::string ms(double us) {
  return fixed(1e-3 * us, us < 1e3 ? 3 : us < 1e5 ? 2 : 0);
}

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

std::string capacity_text(const FeedForwardAnswer& answer, const ExaminedNetwork& network) {
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

std::string time_text(const FeedForwardAnswer& answer) {
  const InferencePrice& price = answer.price;
  return answer.runs() ? ms(price.us) + " ms (95 %: " + ms(price.low_us) + " to " + ms(price.high_us) + ")"
                       : "nothing runs it";
}

// What runs, and where its features are.
std::string verdict_text(const FeedForwardAnswer& answer) {
  const std::string in_ms = " in " + ms(answer.price.us) + " ms";
  return answer.family() == BlocksPlan::kName ? "Stays on the chip: yes; runs in blocks" + in_ms
         : answer.family() == DenseLayerPlan::kName
             ? "Stays on the chip: yes, but not in blocks; runs in whole layers" + in_ms
         : answer.family() == UnstructuredPlan::kName
             ? "Stays on the chip: yes, but not in blocks; runs unstructured" + in_ms
         : answer.runs() ? "Stays on the chip: no; runs through L2" + in_ms
                         : "Stays on the chip: no; nothing runs it but 'staged' plans, the method of 2020";
}

std::string reason_text(const FeedForwardAnswer& answer) {
  return answer.problem.empty() ? "" : "no blocks   " + answer.problem + '\n';
}

std::string notes_text(const FeedForwardAnswer& answer) {
  std::string text = answer.to_fit.empty() ? "" : "\nAny one of these makes it fit, in blocks:\n";
  for (const Remedy& remedy : answer.to_fit) {
    text += "  - " + remedy.text + " (" + remedy.option + ")\n";
  }
  return text;
}

std::string fit_text(const FeedForwardAnswer& answer, const ExaminedNetwork& network) {
  return verdict_text(answer) + ": " + network.name + " on " + answer.chip + "\n\n" +
         (answer.runs() ? "time        " + time_text(answer) + ", most of it " + std::string(answer.price.binding()) +
                              "\nplan        " + answer.plan_text() + '\n'
                        : "") +
         reason_text(answer) + structure_text(network) + capacity_text(answer, network) + notes_text(answer);
}

std::string images_text(const Activity& activity) {
  return "images      " + std::to_string(activity.images) + ", of which " + fixed(activity.alive.back(), 0) +
         " stay alive; " + fixed(activity.image_layers(), 0) + " image-layers" +
         (activity.sampled == 0                 ? ", as given"
          : activity.sampled == activity.images ? ""
                                                : ", from " + std::to_string(activity.sampled) + " of the images") +
         '\n';
}

std::string predict_text(const FeedForwardAnswer& answer, const ExaminedNetwork& network, const Activity& activity) {
  if (!answer.runs()) {
    return fit_text(answer, network);
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
         answer.plan_text() + '\n' + reason_text(answer) + images_text(activity) + structure_text(network) +
         capacity_text(answer, network) + '\n' + to_aligned(terms) + '\n' + to_aligned(launches) + notes_text(answer);
}

Table csv_of(const std::vector<FeedForwardAnswer>& answers, const ExaminedNetwork& network, const Activity& activity) {
  const StructureSummary& found = network.structure;
  const auto share = [](std::int64_t part, std::int64_t of) {
    return of > 0 ? significant(static_cast<double>(part) / static_cast<double>(of), 6) : "";
  };
  Table csv;
  for (const FeedForwardAnswer& answer : answers) {
    const InferencePrice& price = answer.price;
    const auto if_runs = [&](const std::string& cell) { return answer.runs() ? cell : std::string(); };
    std::vector<std::pair<std::string, std::string>> cells{
        {"chip", answer.chip},
        {"gpus", std::to_string(answer.gpus)},
        {"network", network.name},
        {"image_count", std::to_string(activity.images)},
        {"sampled", std::to_string(activity.sampled)},
        {"weights", std::to_string(found.weights)},
        {"in_blocks", share(found.weights_in_blocks, found.weights)},
        {"fill", share(found.weights_in_blocks, found.block_elements)},
        {"read_conflicts", std::to_string(found.reads.extra)},
        {"write_conflicts", std::to_string(found.writes.extra)},
        {"fits", truth(answer.fits())},
        {"problem", answer.problem},
        {"images_per_sm", std::to_string(answer.images_per_sm)},
        {"shared_bytes_needed", significant(answer.shared_needed, 9)},
        {"shared_bytes_available", significant(answer.shared_available, 9)},
        {"weight_bytes", significant(answer.weight_bytes, 12)},
        {"family", std::string(answer.family())},
        {"plan", answer.plan_text()},
        {"ms", if_runs(significant(1e-3 * price.us, 6))},
        {"low_ms", if_runs(significant(1e-3 * price.low_us, 6))},
        {"high_ms", if_runs(significant(1e-3 * price.high_us, 6))},
        {"floor_ms", price.floor_us > 0 ? significant(1e-3 * price.floor_us, 6) : ""},
        {"binding", std::string(price.binding())},
        {"image_layers", significant(activity.image_layers(), 9)},
        {"executed_image_layers", if_runs(significant(answer.executed_image_layers, 9))},
        {"tera_edges_per_s", if_runs(significant(answer.tera_edges_per_s, 4))},
        {"tera_macs_per_s", if_runs(significant(answer.tera_macs_per_s, 4))}};
    csv.rows.emplace_back();
    csv.columns.clear();
    for (const auto& [column, cell] : cells) {
      csv.columns.push_back(column);
      csv.rows.back().push_back(cell);
    }
  }
  return csv;
}

int reach_target(const Options& options, const TargetQuestion& question) {
  Output output(options);
  const auto [network, activity, gpus] = read_feed_forward(options);
  const FeedForwardTarget found = [&, &network = network, &activity = activity, gpus = gpus] {
    const Waiting waiting("seeking the least");
    return reach(network, activity, gpus, question);
  }();
  const std::optional<double> wanted_ms = question.target.ms;
  const auto shown = [&, &network = network, &activity = activity](const FeedForwardAnswer& one) {
    return ShownAnswer{
        "inference",
        "ms",
        one.fits() || wanted_ms ? time_text(one) + (one.runs() ? ", " + std::string(one.family()) : "") : one.problem,
        one.runs() ? ms(one.price.us) : "",
        std::string(one.price.binding()),
        csv_of({one}, network, activity).rows[0]};
  };
  const std::vector<std::string> columns = csv_of({found.base}, network, activity).columns;
  output.write(report_of(
      network.name + ", " + std::to_string(activity.images) + " images on " + found.base.chip + "\n\ntarget    " +
          (wanted_ms ? "at most " + significant(*wanted_ms, 6) + " ms" : std::string("it stays on the chip")),
      with_answers<ShownAnswer>(found, shown), columns, to_json(found, network, activity)));
  return found.reaches() ? 0 : 1;
}

int answer_and_write(const Options& options,
                     std::string (*to_text)(const FeedForwardAnswer&, const FeedForwardQuestion&)) {
  const ChipFile chip = read_chip(options);
  Output output(options);
  const FeedForwardQuestion asked = read_feed_forward(options);
  const FeedForwardAnswer found = answer(chip, asked.network, asked.activity, asked.gpus);
  const std::string on_gpus =
      asked.gpus == 1 ? ""
                      : "\nOn " + std::to_string(asked.gpus) +
                            " GPUs, which share the images: launches are of the one with most to do, rates of all." +
                            (asked.gpus > 2 ? " More than two GPUs have not been measured.\n" : "\n");
  output.write({to_text(found, asked) + on_gpus, csv_of({found}, asked.network, asked.activity),
                to_json(found, asked.network, asked.activity)});
  return found.fits() ? 0 : 1;
}

}  // namespace

int fit_feed_forward(const Options& options) {
  return answer_and_write(options, [](const FeedForwardAnswer& found, const FeedForwardQuestion& asked) {
    return fit_text(found, asked.network);
  });
}

int predict_feed_forward(const Options& options) {
  return answer_and_write(options, [](const FeedForwardAnswer& found, const FeedForwardQuestion& asked) {
    return predict_text(found, asked.network, asked.activity);
  });
}

int what_if_feed_forward(const Options& options) {
  const auto targets = options.list("target"), vary = options.list("vary"), prices = options.list("price");
  if (!targets.empty() || !vary.empty() || !prices.empty()) {
    return reach_target(options, target_question({read_chip(options), {}}, targets, vary, prices));
  }
  const ChipFile base_chip = read_base_chip(options), changed_chip = read_chip(options);
  Output output(options);
  const FeedForwardQuestion asked = read_feed_forward(options);
  const FeedForwardAnswer base = answer(base_chip, asked.network, asked.activity, asked.gpus),
                          changed = answer(changed_chip, asked.network, asked.activity, asked.gpus);
  Table table{{"", "base", "changed", "change %"}, {}};
  const auto add = [&](const std::string& name, double before, double after, const std::string& a,
                       const std::string& b) {
    table.rows.push_back({name, a, b, before > 0 && after > 0 ? fixed(100 * (after / before - 1), 1) : ""});
  };
  const auto add_ms = [&](const std::string& name, double before, double after) {
    add(name, before, after, before > 0 ? ms(before) : "", after > 0 ? ms(after) : "");
  };
  add_ms("ms", base.price.us, changed.price.us);
  if (base.family() == changed.family()) {
    for (const Term& term : base.price.terms) {
      add_ms("  " + std::string(term.name), term.us, changed.price.terms[term.name]);
    }
  }
  add_ms("floor, ms", base.price.floor_us, changed.price.floor_us);
  add("TeraEdges/s", base.tera_edges_per_s, changed.tera_edges_per_s, fixed(base.tera_edges_per_s, 1),
      fixed(changed.tera_edges_per_s, 1));
  add("images on each SM", base.images_per_sm, changed.images_per_sm, std::to_string(base.images_per_sm),
      std::to_string(changed.images_per_sm));
  std::string text = asked.network.name + ", " + std::to_string(asked.activity.images) + " images on " + base.chip +
                     "\n\n" + to_aligned(table);
  for (const auto& [side, name] : {std::pair(&base, "base"), std::pair(&changed, "changed")}) {
    text += std::string(name) + ": " + verdict_text(*side) + "\n  " + side->plan_text() + '\n';
  }
  Json json{{"base", to_json(base, asked.network, asked.activity)},
            {"changes", options.list("set")},
            {"changed", to_json(changed, asked.network, asked.activity)}};
  Table csv = csv_of({base, changed}, asked.network, asked.activity);
  csv.columns.insert(csv.columns.begin(), "side");
  csv.rows[0].insert(csv.rows[0].begin(), "base");
  csv.rows[1].insert(csv.rows[1].begin(), "changed");
  output.write({std::move(text), std::move(csv), std::move(json)});
  return changed.fits() ? 0 : 1;
}

}  // namespace onchip
