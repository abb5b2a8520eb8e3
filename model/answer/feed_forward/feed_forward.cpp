// SPDX-License-Identifier: Apache-2.0
#include "model/answer/feed_forward/feed_forward.hpp"

#include "model/base/error.hpp"
#include "model/feed_forward/plan/blocks_layout.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace onchip {
namespace {

constexpr double kKibi = 1024;
constexpr BlocksTile kLeastTile{1, 2, true};  // that a plan of blocks has: 8 images of two words

double tera(double count, double us) {
  return us > 0 ? 1e-6 * count / us : 0;
}

double ratio(double part, double of) {
  return of > 0 ? part / of : 1;
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

}  // namespace

ExaminedNetwork examine(const FeedForward& network) {
  const auto begin = std::chrono::steady_clock::now();
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
  examined.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return examined;
}

FeedForwardAnswer answer(const ChipFile& chip, const ExaminedNetwork& network, const Activity& of_all, int gpus) {
  const Activity activity = largest_share(of_all, gpus);
  FeedForwardAnswer answer{.chip = chip.chip.name, .gpus = gpus};
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
  const std::vector<RankedInference> ranking = rank_plans(chip.chip, network, of_all, gpus, {}, Effort::bounded);
  if (ranking.front().planned) {
    answer.plan = ranking.front().planned->plan;
    answer.price = ranking.front().planned->price;
  }
  for (const RankedInference& of_family : ranking) {
    const std::string& why = of_family.planned.why();
    if (of_family.family == BlocksPlan::kName) {
      answer.problem = why + answer.problem;
    } else if (of_family.family == UnstructuredPlan::kName && !why.empty()) {
      answer.problem += "; " + why;
    }
  }
  if (network.work && answer.family() == StreamedPlan::kName) {
    if (const auto remedy = more_shared_memory(chip, network, answer.shared_needed)) {
      answer.to_fit.push_back(*remedy);
    }
  }
  const std::vector<int> ends = answer.plan ? end_layers(*answer.plan) : std::vector<int>();
  int first = 0;
  for (const int end : ends) {
    answer.executed_image_layers += activity.alive[first] * (end - first);
    first = end;
  }
  const auto weights = static_cast<double>(network.structure.weights);
  if (answer.family() == BlocksPlan::kName) {
    const BlocksGeometry& geometry = network.work->geometry;
    const auto lists = static_cast<double>(std::min<std::size_t>(2, ends.size() - 1));
    const double image_bytes = 4.0 * static_cast<double>(geometry.feature_words({1, 1, false}));
    answer.device_bytes = answer.weight_bytes + 4.0 * weights +
                          activity.images * ((geometry.inputs + 127) / 128 * 16 + lists * (image_bytes + 4));
  }
  answer.tera_edges_per_s = tera(weights * of_all.images, answer.price.us);
  answer.tera_macs_per_s = tera(weights / network.layers * answer.executed_image_layers * gpus, answer.price.us);
  return answer;
}

Json to_json(const FeedForwardAnswer& answer, const ExaminedNetwork& network, const Activity& activity) {
  const StructureSummary& found = network.structure;
  const auto ms = [](double us) { return rounded(1e-3 * us); };
  const auto terms_ms = [&](const Terms& terms) {
    Json json = Json::object();
    for (const Term& term : terms) {
      json[std::string(term.name)] = ms(term.us);
    }
    return json;
  };
  Json json{
      {"network", network.name},
      {"chip", answer.chip},
      {"gpus", answer.gpus},
      {"fits", answer.fits()},
      {"images", {{"count", activity.images}, {"sampled", activity.sampled}}},
      {"structure",
       {{"weights", found.weights},
        {"in_blocks", rounded(ratio(static_cast<double>(found.weights_in_blocks), static_cast<double>(found.weights)))},
        {"fill",
         rounded(ratio(static_cast<double>(found.weights_in_blocks), static_cast<double>(found.block_elements)))},
        {"read_conflicts", found.reads.extra},
        {"write_conflicts", found.writes.extra},
        {"seconds", rounded(network.seconds, 3)}}},
      {"capacity",
       {{"images_per_sm", answer.images_per_sm},
        {"shared_bytes", {{"needed", answer.shared_needed}, {"available", answer.shared_available}}},
        {"l2_bytes", {{"needed", answer.weight_bytes}, {"available", rounded(answer.l2_bytes)}}},
        {"device_bytes", rounded(answer.device_bytes)}}}};
  if (!answer.problem.empty()) {
    json["problem"] = answer.problem;
    json["to_fit"] = Json::array();
    for (const Remedy& remedy : answer.to_fit) {
      json["to_fit"].push_back(
          {{"what", remedy.what}, {"from", remedy.from}, {"to", remedy.to}, {"option", remedy.option}});
    }
  }
  if (!answer.runs()) {
    return json;
  }
  const InferencePrice& price = answer.price;
  json["family"] = answer.family();
  json["plan"] = answer.plan_text();
  json["ms"] = ms(price.us);
  json["interval_ms"] = {ms(price.low_us), ms(price.high_us)};
  json["floor_ms"] = price.floor_us > 0 ? Json(ms(price.floor_us)) : Json();
  json["binding"] = price.binding();
  json["terms_ms"] = terms_ms(price.terms);
  json["launches"] = Json::array();
  for (const LaunchPrice& launch : price.launches) {
    json["launches"].push_back({{"what", launch.name},
                                {"images", rounded(launch.images)},
                                {"tiles", launch.tiles},
                                {"rounds", launch.rounds},
                                {"ms", ms(launch.terms.total())},
                                {"terms_ms", terms_ms(launch.terms)}});
  }
  json["image_layers"] = {{"alive", rounded(activity.image_layers())},
                          {"executed", rounded(answer.executed_image_layers)}};
  json["tera_edges_per_s"] = rounded(answer.tera_edges_per_s);
  json["tera_macs_per_s"] = rounded(answer.tera_macs_per_s);
  return json;
}

}  // namespace onchip
