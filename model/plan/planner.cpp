// SPDX-License-Identifier: Apache-2.0
#include "model/plan/planner.hpp"

#include "model/dense/bitmap.hpp"
#include "model/base/error.hpp"
#include "model/plan/plan_choices.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

namespace onchip {
namespace {

// How far a plan is from fitting: its largest share of a resource; 1 and below fits.
double overload(const Footprint& footprint) {
  double worst = 0;
  for (const ResourceUse& resource : footprint.resources) {
    worst = std::max(worst, resource.share());
  }
  return worst;
}

bool better(const Prediction& a, const Prediction& b) {
  if (a.footprint.fits != b.footprint.fits) {
    return a.footprint.fits;
  }
  return a.footprint.fits ? a.step_us < b.step_us : overload(a.footprint) < overload(b.footprint);
}

// The best of the plans that it is offered. Only those that fit are priced; with registers to spare, if that is wished.
class Best {
 public:
  Best(const Chip& chip, const Network& network, const PlanWishes& wishes)
      : chip_(chip), network_(network), spare_registers_(wishes.spare_registers) {}

  void offer(const Plan& plan) {
    Prediction prediction;
    prediction.footprint = footprint(chip_, network_, plan);
    const ResourceUse& registers = prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)];
    prediction.footprint.fits &= registers.used + spare_registers_ <= registers.available;
    if (plan_ && prediction_.footprint.fits && !prediction.footprint.fits) {
      return;
    }
    if (prediction.footprint.fits) {
      prediction = predict(chip_, network_, plan);
    }
    if (!plan_ || better(prediction, prediction_)) {
      plan_ = plan;
      prediction_ = prediction;
    }
  }
  const std::optional<Plan>& plan() const { return plan_; }

 private:
  const Chip& chip_;
  const Network& network_;
  int spare_registers_;
  std::optional<Plan> plan_;
  Prediction prediction_;
};

// Calls `consider` with every plan that the wishes allow; crowding: see for_each_dense_plan().
void for_each_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes,
                   double crowding, const Consider& consider) {
  if (wishes.family.value_or(Family::sparse_persistent) == Family::sparse_persistent && sparse_is_possible(wishes)) {
    for_each_sparse_plan(chip, network, rows, wishes, consider);
  }
  if (wishes.family.value_or(Family::dense_persistent) == Family::dense_persistent &&
      dense_is_possible(chip, network, wishes)) {
    if (wishes.storage != Storage::structured_2_4) {
      for_each_dense_plan(chip, network, rows, wishes, Storage::dense, crowding, consider);
    }
    if (rows.is_two_four() && wishes.storage.value_or(Storage::structured_2_4) == Storage::structured_2_4) {
      for_each_dense_plan(chip, network, rows, wishes, Storage::structured_2_4, crowding, consider);
    }
  }
}

PlannedNetwork with_library(const Chip& chip, const Network& network, Family family) {
  const Plan plan = library_plan(family);
  return {network, plan, predict(chip, network, plan)};
}

double cycles(const Chip& chip, const Prediction& prediction, Part part) {
  return prediction.parts_us[static_cast<int>(part)] * 1e-6 * chip.clock_hz;
}

// Of a step, what is not its exchange.
double body_cycles(const Chip& chip, const Prediction& prediction) {
  return prediction.step_us * 1e-6 * chip.clock_hz - cycles(chip, prediction, Part::exchange) -
         cycles(chip, prediction, Part::staging);
}

constexpr std::array kLibraries{Family::cublas_graph, Family::cudnn, Family::cusparse_graph};

}  // namespace

PlannedNetwork quickest_library(const Chip& chip, const Network& network) {
  PlannedNetwork best = with_library(chip, network, kLibraries[0]);
  for (const Family family : kLibraries) {
    PlannedNetwork other = with_library(chip, network, family);
    if (better(other.prediction, best.prediction)) {
      best = std::move(other);
    }
  }
  return best;
}

PlannedNetwork choose_plan(const Chip& chip, const Network& network, const RowProfile& rows, const PlanWishes& wishes) {
  if (wishes.family && is_library(*wishes.family)) {
    return with_library(chip, network, *wishes.family);
  }
  if (wishes.storage == Storage::structured_2_4) {
    check_two_four(rows);
  }
  PlannedNetwork best{network, {}, {}};
  bool found = false;
  // The words of a bitmap plan's tiles are estimated until it is the best, then counted, of a mask that is known. Where
  // they are crowded, so that it does not fit after all, the next search knows; the last one expects all of them.
  double crowding = 1;
  constexpr int kSearches = 3;
  for (int searches = kSearches; searches > 0; --searches) {
    Best search(chip, network, wishes);
    for_each_plan(chip, network, rows, wishes, crowding, [&](const Plan& plan) { search.offer(plan); });
    found = search.plan().has_value();
    if (!found) {
      break;
    }
    best.plan = *search.plan();
    best.prediction = predict(chip, network, best.plan);
    if (best.plan.storage != Storage::bitmap || rows.words() == nullptr) {
      break;
    }
    const bool seemed_to_fit = best.prediction.footprint.fits;
    const double expected = std::exchange(best.plan.bank_words, needed_bank_words(network, best.plan, *rows.words()));
    best.prediction = predict(chip, network, best.plan);
    if (!seemed_to_fit || best.prediction.footprint.fits) {
      break;
    }
    constexpr double kAll = 1e9;
    crowding = searches > 2 ? crowding * best.plan.bank_words / expected : kAll;
  }
  if (!found && wishes.storage == Storage::packed_delta && network.precision == Precision::fp32) {
    throw InputError("packed_delta stores values of 8 or 16 bits, found fp32: packed_pair takes no more room for them");
  }
  if (!found && (wishes.exchange_warps.value_or(0) > 0 || wishes.exchange == ExchangeProtocol::bulk_copy)) {
    throw InputError(
        "no plan with exchange warps computes " + describe(network) +
        " as wished: they need the lamport exchange, or bulk_copy and compute capability 9.0, and at least two "
        "loads' worth of samples, of which each is exchanged in turn");
  }
  if (!found && wishes.pieces.value_or(0) > 0) {
    throw InputError("no plan with " + std::to_string(*wishes.pieces) + " pieces of rows per group computes " +
                     describe(network) + " as wished: they are of packed_pair or packed_delta, 1, 2 or 4");
  }
  if (!found && wishes.family == Family::sparse_persistent && !sparse_is_possible(wishes)) {
    throw InputError(
        "sparse_persistent plans know neither structured_2_4 nor bitmap nor the cluster exchange nor teams");
  }
  if (!found && (wishes.family == Family::dense_persistent || !sparse_is_possible(wishes))) {
    throw InputError(
        "no dense_persistent plan computes " + describe(network) +
        " as wished: it needs compute capability 8.0, fp16 or bf16, loads_in_flight in multiples of two for "
        "every 8 samples of a team, teams that divide the batch, and for the cluster exchange clusters");
  }
  if (!found && !wishes.rows_per_group) {  // no shape has few enough threads: say so with the least that is asked for
    PlanWishes most_rows = wishes;
    most_rows.rows_per_group = kMaxRowsPerGroup / info(network.cell).gates * info(network.cell).gates;
    return choose_plan(chip, network, rows, most_rows);
  }
  if (best.plan.has_tail()) {  // of which so far an estimate was enough
    settle_tails(chip, network, rows, wishes, best.plan);
    best.prediction = predict(chip, network, best.plan);
  }
  best.plan.first_look = wishes.first_look.value_or(best_first_look(
      network, best.plan, body_cycles(chip, best.prediction), cycles(chip, best.prediction, Part::staging)));
  return best;
}

namespace {

std::string microseconds(double us) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", us);
  return text.data();
}

// Why `other` is not taken: it does not fit, or the part by which it falls behind most.
std::string why_not(const Prediction& best, const Prediction& other) {
  if (!other.footprint.fits) {
    return explain(other.footprint);
  }
  std::size_t most = 0;
  const auto more = [&](std::size_t part) { return other.parts_us[part] - best.parts_us[part]; };
  for (std::size_t part = 1; part < kPartNames.size(); ++part) {
    most = more(part) > more(most) ? part : most;
  }
  return microseconds(other.step_us - best.step_us) + " us slower, most of it " + std::string(kPartNames[most]) + ": " +
         microseconds(other.parts_us[most]) + " instead of " + microseconds(best.parts_us[most]) + " us";
}

}  // namespace

std::vector<RankedPlan> rank_families(const Chip& chip, const Network& network, const RowProfile& rows,
                                      const PlanWishes& wishes) {
  std::vector<RankedPlan> ranking;
  std::optional<PlannedNetwork> other_storage;  // of a dense plan, where there is a choice
  for (const Family family : {Family::sparse_persistent, Family::dense_persistent}) {
    RankedPlan& ranked = ranking.emplace_back();
    ranked.family = family;
    if (family == Family::dense_persistent && !dense_is_possible(chip, network, wishes)) {
      ranked.why = "needs compute capability 8.0, fp16 or bf16, and no wish about sparse rows";
    } else if (family == Family::sparse_persistent && !sparse_is_possible(wishes)) {
      ranked.why = "knows neither structured_2_4 nor bitmap nor the cluster exchange nor teams";
    } else {
      PlanWishes one = wishes;
      one.family = family;
      ranked.planned = choose_plan(chip, network, rows, one);
      const bool is_dense = ranked.planned->plan.storage == Storage::dense;
      if (family == Family::dense_persistent && (rows.is_two_four() || !is_dense) && !wishes.storage) {
        one.storage = is_dense ? Storage::structured_2_4 : Storage::dense;
        other_storage = choose_plan(chip, network, rows, one);
      }
    }
  }
  for (const Family family : kLibraries) {
    ranking.push_back({family, with_library(chip, network, family), ""});
  }
  std::stable_sort(ranking.begin(), ranking.end(), [](const RankedPlan& a, const RankedPlan& b) {
    return a.planned && (!b.planned || better(a.planned->prediction, b.planned->prediction));
  });
  const Prediction& best = ranking.front().planned->prediction;
  ranking.front().why = is_library(ranking.front().family) ? "the fastest, reading all weights anew in every step"
                                                           : "the fastest that fits";
  for (auto other = ranking.begin() + 1; other != ranking.end(); ++other) {
    other->why = other->planned ? why_not(best, other->planned->prediction) : other->why;
  }
  for (RankedPlan& ranked : ranking) {
    if (ranked.family == Family::dense_persistent && other_storage) {
      ranked.why += "; stored as " + std::string(name(other_storage->plan.storage)) + ", " +
                    why_not(ranked.planned->prediction, other_storage->prediction);
    }
  }
  return ranking;
}

}  // namespace onchip
