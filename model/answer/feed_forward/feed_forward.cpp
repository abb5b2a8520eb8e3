// SPDX-License-Identifier: Apache-2.0
#include "model/answer/feed_forward/feed_forward.hpp"

#include "model/base/clocks.hpp"
#include "model/base/error.hpp"
#include "model/base/units.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace onchip {
namespace {

constexpr double kKibi = 1024;
constexpr BlocksTile kLeastTile{1, 2, true};  // that a plan of blocks has: 8 images of two words

double tera(double count, double us) {
  return us > 0 ? 1e-6 * count / us : 0;
}

// The least shared memory of an SM, in whole KiB, with which it fits; one KiB less is refused.
std::optional<Remedy> more_shared_memory(const ChipFile& chip, const ExaminedNetwork& network, double needed) {
  const auto with = [&](double kib) {
    ChipFile changed = chip;
    set_chip_key(changed, "shared_memory.per_sm=" + std::to_string(static_cast<int>(kib)) + " KiB");
    return changed.chip;
  };
  const auto fits = [&](double kib) {
    return static_cast<double>(network.work->geometry.shared_bytes(kLeastTile)) <= with(kib).smem_bytes_per_block;
  };
  const double kib = std::ceil((needed + chip.chip.smem_reserved_bytes_per_block) / kKibi);
  if (!fits(kib) || fits(kib - 1)) {
    return {};
  }
  const std::string value = std::to_string(static_cast<int>(kib)) + " KiB";
  return Remedy{"shared_memory.per_sm", chip.chip.smem_bytes_per_sm, kib * kKibi,
                "--set 'shared_memory.per_sm=" + value + "'", value + " of shared memory for each SM"};
}

// What is true of the question's network on a chip, whatever plan it has.
FeedForwardCase case_on(const ChipFile& chip, const FeedForwardQuestion& question) {
  const ExaminedNetwork& network = *question.network;
  FeedForwardCase answer{chip.chip.name, question.network, question.activity, question.gpus};
  answer.shared_available = chip.chip.smem_bytes_per_block;
  answer.l2_bytes = chip.chip.l2_bytes * chip.chip.library_l2_share;
  if (network.work) {
    const BlocksGeometry& geometry = network.work->geometry;
    answer.shared_needed = static_cast<double>(geometry.shared_bytes(kLeastTile));
    answer.weight_bytes = network.work->weight_bytes();
    for (int groups = 1; static_cast<double>(geometry.shared_bytes({groups, 1, true})) <= answer.shared_available;
         ++groups) {
      answer.images_per_sm = 8 * groups;
    }
  }
  return answer;
}

void take_plan(FeedForwardCase& answer, const PlannedInference& planned) {
  answer.plan = planned.plan;
  answer.price = planned.price;
  const ExaminedNetwork& network = *answer.network;
  const Activity activity = largest_share(*answer.activity, answer.gpus);
  const std::vector<int> ends = end_layers(planned.plan);
  int first = 0;
  for (const int end : ends) {
    answer.executed_image_layers += activity.alive[first] * (end - first);
    first = end;
  }
  const auto weights = static_cast<double>(network.structure.weights);
  if (answer.family() == BlocksPlan::kName) {
    const BlocksGeometry& geometry = network.work->geometry;
    BlocksGeometry of_plan = geometry;
    of_plan.weight_bytes = std::get<BlocksPlan>(planned.plan).weight_bytes;
    answer.weight_bytes +=
        network.layers * (static_cast<double>(of_plan.layer_bytes()) - static_cast<double>(geometry.layer_bytes()));
    const auto lists = static_cast<double>(std::min<std::size_t>(2, ends.size() - 1));
    const double image_bytes = 4.0 * static_cast<double>(geometry.feature_words({1, 1, false}));
    answer.device_bytes = answer.weight_bytes + 4.0 * weights +
                          activity.images * ((geometry.inputs + 127) / 128 * 16 + lists * (image_bytes + 4));
  }
  answer.tera_edges_per_s = tera(weights * answer.activity->images, answer.price.us);
  answer.tera_macs_per_s = tera(weights / network.layers * answer.executed_image_layers * answer.gpus, answer.price.us);
}

FeedForwardCase case_of(const ChipFile& chip, const FeedForwardQuestion& question) {
  FeedForwardCase answer = case_on(chip, question);
  const std::vector<RankedInference> ranking = rank_plans(chip.chip, *question.network, *question.activity,
                                                          question.gpus, question.constraints, Effort::bounded);
  if (ranking.front().planned) {
    take_plan(answer, *ranking.front().planned);
  }
  PlannedInference library = fastest_library(chip.chip, *question.network, *question.activity, question.gpus);
  if (!answer.plan || library.price.us < answer.price.us) {
    answer.library = std::move(library);
  }
  answer.with_fp16 = with_fp16_weights(chip.chip, *question.network, *question.activity, question.gpus);
  if (answer.with_fp16 && answer.plan && answer.with_fp16->price.us >= answer.price.us) {
    answer.with_fp16.reset();
  }
  for (const RankedInference& of_family : ranking) {
    const std::string& why = of_family.planned.why();
    if (of_family.family == BlocksPlan::kName) {
      answer.problem = why + answer.problem;
    } else if (of_family.family == UnstructuredPlan::kName && !why.empty()) {
      answer.problem += "; " + why;
    }
  }
  if (question.network->work && answer.family() == StreamedPlan::kName) {
    if (const auto remedy = more_shared_memory(chip, *question.network, answer.shared_needed)) {
      answer.to_fit.push_back(*remedy);
    }
  }
  return answer;
}

}  // namespace

ExaminedNetwork examine(const FeedForward& network) {
  const double begin = wall_seconds();
  ExaminedNetwork examined{network.name, network.layers(), {}};
  examined.network = network;
  const NetworkStructure& structure = examined.blocks = find_structure(network);
  examined.structure = summary(structure);
  try {
    examined.structure.check_mostly_blocks();
    examined.work = blocks_work(network, structure, blocks_geometry(network, structure));
    if (!examined.work->monotone) {
      examined.work.reset();
      examined.problem = std::string(kNotMonotone);
    }
  } catch (const InputError& error) {
    examined.problem = error.what();
  }
  examined.seconds = wall_seconds() - begin;
  return examined;
}

PlanTime plan_time(const FeedForwardCase& answer) {
  return {answer.runs(), answer.runs() ? answer.price.us : std::numeric_limits<double>::infinity(), answer.plan_text()};
}

FeedForwardFit fit(const FeedForwardQuestion& question) {
  return {case_of(question.chip, question)};
}

FeedForwardAnswer predict(const FeedForwardQuestion& question) {
  return {case_of(question.chip, question)};
}

RankOf<FeedForwardCase> rank(const FeedForwardQuestion& question) {
  const Chip& chip = question.chip.chip;
  const ExaminedNetwork& network = *question.network;
  RankOf<FeedForwardCase> answer{
      chip.name,
      network.name + ", " + std::to_string(question.activity->images) + " images on " + chip.name,
      {{"name", network.name}, {"layers", network.layers}, {"images", question.activity->images}}};
  for (const RankedInference& ranked :
       rank_plans(chip, network, *question.activity, question.gpus, question.constraints)) {
    RankedOf<FeedForwardCase>& one = answer.ranking.emplace_back();
    one.family = ranked.family;
    one.why = ranked.planned.why();
    if (ranked.planned) {
      take_plan(one.answer.emplace(case_on(question.chip, question)), *ranked.planned);
      one.is_on_chip = one.answer->fits();
      answer.has_fitting |= one.is_on_chip;
      const double us = answer.ranking.front().answer->price.us, times = one.answer->price.us / us;
      one.why = answer.ranking.size() == 1 ? "the plan that runs"
                : times > 1                ? significant(times, 3) + " times as long"
                : times < 1 && !library_call(ranked.planned->plan).empty()
                    ? significant(times, 3) + " times as long, but it rounds otherwise"
                    : "runs where no plan before it does";
    }
  }
  return answer;
}

SideOf<FeedForwardCase> side_of(const ChipFile& chip, const FeedForwardQuestion& question) {
  return {case_of(chip, question), 0};
}

AskedOfChips asked_of_chips(const FeedForwardQuestion& question, const FeedForwardCase&, int) {
  return {[](const Chip&, int, int) { return 0; },
          [question](const Chip& chip) {
            return plan_time(case_of({chip, {}, {}}, question));
          }};
}

TargetOf<FeedForwardCase> reach(const FeedForwardQuestion& question, const TargetQuestion& asked) {
  constexpr std::array<std::string_view, 3> kKeys{"shared_memory.per_sm", "sm.count", "library.l2_bandwidth"};
  const std::optional<double> ms = asked.target.ms;
  if (asked.target.hidden > 0 || asked.target.step_us) {
    throw InputError("target: hidden and step_us are of recurrent networks; expected ms<=T");
  }
  const auto answer_of = [&](const ChipFile& chip) { return case_of(chip, question); };
  const auto misses = [&](const ChipFile& chip) {
    const FeedForwardCase one = answer_of(chip);
    return ms           ? (one.runs() ? 1e-3 * one.price.us / *ms - 1 : kDoesNotFit)
           : one.fits() ? 0
                        : kDoesNotFit * std::max(1.0, one.shared_needed / one.shared_available);
  };
  // To stay on the chip takes shared memory.
  const std::span<const std::string_view> usual = std::span(kKeys).first(ms ? kKeys.size() : 1);
  const ReachedOf<ChipFile> found = find_least({question.chip, asked.vary_or(usual), asked.prices, misses});
  return {with_answers<FeedForwardCase>(found, answer_of), asked.target};
}

Json target_json(const Target& target, const FeedForwardCase&) {
  return {{"fits", !target.ms}, {"ms", target.ms ? Json(*target.ms) : Json()}};
}

// ---- its columns ----------------------------------------------------------------------------------------------------

namespace {

Json terms_ms(const Terms& terms) {
  Json json = Json::object();
  for (const Term& term : terms) {
    json[std::string(term.name)] = rounded(1e-3 * term.us);
  }
  return json;
}

Json launches_json(const InferencePrice& price) {
  Json json = Json::array();
  for (const LaunchPrice& launch : price.launches) {
    json.push_back({{"what", launch.name},
                    {"images", rounded(launch.images)},
                    {"tiles", launch.tiles},
                    {"rounds", launch.rounds},
                    {"ms", rounded(1e-3 * launch.terms.total())},
                    {"terms_ms", terms_ms(launch.terms)}});
  }
  return json;
}

std::optional<double> share(std::int64_t part, std::int64_t of) {
  return of > 0 ? std::optional(static_cast<double>(part) / static_cast<double>(of)) : std::nullopt;
}

Columns<FeedForwardCase> make_columns() {
  using Row = FeedForwardCase;
  Columns<Row> columns;
  const auto of_network = [](auto get) {
    return [get](const Row& row) { return to_value(std::invoke(get, *row.network)); };
  };
  const auto of_structure = [](auto get) {
    return [get](const Row& row) { return to_value(std::invoke(get, row.network->structure)); };
  };
  const auto if_runs = [](auto get) {
    return [get](const Row& row) { return row.runs() ? to_value(std::invoke(get, row)) : ColumnValue(); };
  };
  const auto add_ms = [&](const char* name, const char* help, double InferencePrice::*us, const char* place) {
    columns.add(name, "ms", help, if_runs([us](const Row& row) { return 1e-3 * (row.price.*us); }), place);
  };
  constexpr int kBytes = 12, kCounts = 9, kRates = 4;  // digits
  columns.add("chip", "", "its name", &Row::chip);
  columns.add("gpus", "", "that share the images", &Row::gpus);
  columns.add("network", "", "its name", of_network(&ExaminedNetwork::name));
  columns.add(
      "image_count", "", "all images", [](const Row& row) { return row.activity->images; }, "images/count");
  columns.add(
      "sampled", "", "of them, those whose liveness was computed", [](const Row& row) { return row.activity->sampled; },
      "images/sampled");
  columns.add("weights", "", "that are stored, of all layers", of_structure(&StructureSummary::weights),
              "structure/weights");
  columns.add("in_blocks", "", "share of the weights that lie in blocks",
              of_structure([](const StructureSummary& of) { return share(of.weights_in_blocks, of.weights); }),
              "structure/in_blocks");
  columns.add("fill", "", "share of the blocks' elements that are weights",
              of_structure([](const StructureSummary& of) { return share(of.weights_in_blocks, of.block_elements); }),
              "structure/fill");
  columns.add("read_conflicts", "", "bank conflicts that are left in reads of features",
              of_structure([](const StructureSummary& of) { return of.reads.extra; }), "structure/read_conflicts");
  columns.add("write_conflicts", "", "the same of writes",
              of_structure([](const StructureSummary& of) { return of.writes.extra; }), "structure/write_conflicts");
  columns.add_to_json("seconds", "that it took to find the structure",
                      of_network([](const ExaminedNetwork& of) { return rounded(of.seconds, 3); }),
                      "structure/seconds");
  columns.add("values", "", "that the plan reads of weights: `one value`; `coded values`, of e4m3; `fp16 values`",
              if_runs([](const Row& row) { return values_read(*row.plan); }), "structure/values");
  columns.add("fits", "", "whether features stay on the SMs from layer to layer", &Row::fits);
  columns.add("problem", "", "why no plan of blocks keeps them there", &Row::problem);
  columns.add_to_json("to_fit", "what alone makes a plan of blocks fit", [](const Row& row) {
    return row.problem.empty() ? ColumnValue() : ColumnValue(to_json(row.to_fit));
  });
  columns.add("images_per_sm", "", "that an SM holds at once", &Row::images_per_sm, "capacity/images_per_sm");
  columns.add("shared_bytes_needed", "bytes", "of shared memory, at least", &Row::shared_needed,
              "capacity/shared_bytes/needed", In::csv_and_json, kCounts);
  columns.add("shared_bytes_available", "bytes", "of a block", &Row::shared_available,
              "capacity/shared_bytes/available", In::csv_and_json, kCounts);
  columns.add("weight_bytes", "bytes", "of all layers' weights, which are read from L2", &Row::weight_bytes,
              "capacity/l2_bytes/needed", In::csv_and_json, kBytes);
  columns.add_to_json("l2_bytes", "of L2, that may be read again and again", &Row::l2_bytes,
                      "capacity/l2_bytes/available");
  columns.add_to_json("device_bytes", "of device memory: weights, bitmaps, features between phases", &Row::device_bytes,
                      "capacity/device_bytes");
  columns.add("family", "", "whose plan runs", &Row::family);
  columns.add("plan", "", "as text; JSON: also every field by name",
              [](const Row& row) { return row.plan ? ColumnValue(to_json(*row.plan)) : ColumnValue(); });
  add_ms("ms", "predicted time of all images", &InferencePrice::us, "");
  add_ms("low_ms", "its 95 % interval", &InferencePrice::low_us, "interval_ms/0");
  add_ms("high_ms", "its 95 % interval", &InferencePrice::high_us, "interval_ms/1");
  columns.add("floor_ms", "ms", "no inference is below", if_runs([](const Row& row) {
                return row.price.floor_us > 0 ? ColumnValue(1e-3 * row.price.floor_us) : ColumnValue(Json());
              }));
  columns.add("binding", "", "the largest term", if_runs([](const Row& row) { return row.price.binding(); }));
  columns.add("library", "", "the plan of a library that is faster; its results may differ by rounding",
              [](const Row& row) { return row.library ? to_string(row.library->plan) : ""; });
  columns.add("library_ms", "ms", "its predicted time", [](const Row& row) {
    return row.library ? ColumnValue(1e-3 * row.library->price.us) : ColumnValue(Json());
  });
  columns.add(
      "fp16_ms", "ms", "with weights rounded to fp16, where that is faster; results may differ",
      [](const Row& row) { return row.with_fp16 ? ColumnValue(1e-3 * row.with_fp16->price.us) : ColumnValue(Json()); });
  columns.add_to_json("terms_ms", "parts of the time by name",
                      if_runs([](const Row& row) { return terms_ms(row.price.terms); }));
  columns.add_to_json("launches", "of each what it computes, its `images`, `tiles`, `rounds` and times",
                      if_runs([](const Row& row) { return launches_json(row.price); }));
  columns.add(
      "image_layers", "", "layers that living images pass, over all of them",
      [](const Row& row) { return row.activity->image_layers(); }, "image_layers/alive", In::csv_and_json, kCounts);
  columns.add("executed_image_layers", "", "those that are computed", if_runs(&Row::executed_image_layers),
              "image_layers/executed", In::csv_and_json, kCounts);
  columns.add("tera_edges_per_s", "", "1e12 weights x images a second, as the challenge counts",
              if_runs(&Row::tera_edges_per_s), "", In::csv_and_json, kRates);
  columns.add("tera_macs_per_s", "", "1e12 executed multiply-adds a second", if_runs(&Row::tera_macs_per_s), "",
              In::csv_and_json, kRates);
  return columns;
}

}  // namespace

const Columns<FeedForwardCase>& columns_of(const FeedForwardCase&) {
  static const Columns<FeedForwardCase> kColumns = make_columns();
  return kColumns;
}

}  // namespace onchip
