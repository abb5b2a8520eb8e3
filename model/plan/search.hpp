// SPDX-License-Identifier: Apache-2.0
// The search for a plan, over any variant of families' plans.
#pragma once

#include "model/base/error.hpp"
#include "model/plan/family.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {

template <Family P>
Prediction predict_one(const Chip& chip, const Network& network, const P& plan) {
  const auto shape = geometry(network, plan);
  return predicted(footprint(chip, shape), price(chip, shape));
}

// How far a plan is from fitting: its largest share of a resource; 1 and below fits.
inline double overload(const Footprint& footprint) {
  double worst = 0;
  for (const ResourceUse& resource : footprint.resources) {
    worst = std::max(worst, resource.share());
  }
  return worst;
}

// What fits before what does not; of what fits the quicker, of what does not what misses by less.
inline bool is_better(const Prediction& a, const Prediction& b) {
  if (a.footprint.fits != b.footprint.fits) {
    return a.footprint.fits;
  }
  return a.footprint.fits ? a.step_us < b.step_us : overload(a.footprint) < overload(b.footprint);
}

// The best of the candidates that `for_each` calls its argument with, with registers to spare if that is asked for;
// nothing if there is none. Only those that fit are priced.
template <Family P>
std::optional<Planned<P>> best_candidate(const Chip& chip, const Network& network, const Constraints& constraints,
                                         auto&& for_each) {
  std::optional<Planned<P>> best;
  for_each(Consider<P>([&](const P& plan) {
    const auto shape = geometry(network, plan);
    Prediction prediction;
    prediction.footprint = footprint(chip, shape);
    const ResourceUse& registers = prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)];
    prediction.footprint.fits &= registers.used + constraints.spare_registers <= registers.available;
    if (best && best->prediction.footprint.fits && !prediction.footprint.fits) {
      return;
    }
    if (prediction.footprint.fits) {
      prediction = predicted(prediction.footprint, price(chip, shape));
    }
    if (!best || is_better(prediction, best->prediction)) {
      best = Planned<P>{network, plan, prediction};
    }
  }));
  return best;
}

// The best candidate of a family. One whose candidates are estimates may have a best_plan() of its own, which counts.
template <Family P>
std::optional<Planned<P>> best_of_family(const Chip& chip, const Network& network, const RowProfile& rows,
                                         const Constraints& constraints) {
  if ((constraints.family && *constraints.family != P::kName) || !why_not_possible<P>(constraints).empty()) {
    return std::nullopt;
  }
  if constexpr (requires { best_plan(chip, network, rows, constraints, P{}); }) {
    return best_plan(chip, network, rows, constraints, P{});
  } else {
    return best_candidate<P>(chip, network, constraints, [&](const Consider<P>& consider) {
      for_each_candidate(chip, network, rows, constraints, consider);
    });
  }
}

// The best plan of any family that keeps the weights on the chip, or of the one that is asked for: the fastest that
// fits; if none fits, the one that misses by least (its footprint says by how much). Throws InputError where no family
// has a candidate.
template <typename... P>
Planned<std::variant<P...>> choose_of(std::type_identity<std::variant<P...>>, const Chip& chip, const Network& network,
                                      const RowProfile& rows, const Constraints& constraints) {
  using Any = std::variant<P...>;
  std::optional<Planned<Any>> best;
  const auto offer = [&]<Family One>(std::type_identity<One>) {
    if (!One::kIsOnChip && constraints.family != One::kName) {
      return;
    }
    if (const auto one = best_of_family<One>(chip, network, rows, constraints)) {
      if (!best || is_better(one->prediction, best->prediction)) {
        best = Planned<Any>{network, one->plan, one->prediction};
      }
    }
  };
  (offer(std::type_identity<P>{}), ...);
  if (!best) {
    std::string why;
    const auto tell = [&]<Family One>(std::type_identity<One>) {
      if (constraints.family ? *constraints.family == One::kName : One::kIsOnChip) {
        const std::string reason = why_not_possible<One>(constraints);
        why += (why.empty() ? "" : "; ") + (reason.empty() ? why_none(chip, network, constraints, One{}) : reason);
      }
    };
    (tell(std::type_identity<P>{}), ...);
    throw InputError("no plan computes " + describe(network) + " with what is asked for: " + why);
  }
  std::visit(
      [&](auto& plan) {
        plan = settled(chip, network, rows, constraints, plan);
        best->prediction = predict_one(chip, network, plan);
      },
      best->plan);
  return *best;
}

// The best plan of every family, the fastest first, then those that do not fit, then families without a candidate; with
// why it is the answer or why it is not.
template <typename Any>
struct Ranked {
  std::string_view family;
  std::optional<Planned<Any>> planned;
  std::string why;  // "0.48 us slower, most of it gather: 0.461 instead of 0.000 us"
};

std::string why_slower(const Prediction& best, const Prediction& other);

template <typename... P>
std::vector<Ranked<std::variant<P...>>> rank_of(std::type_identity<std::variant<P...>>, const Chip& chip,
                                                const Network& network, const RowProfile& rows,
                                                const Constraints& constraints) {
  using Any = std::variant<P...>;
  std::vector<Ranked<Any>> ranking;
  const auto add = [&]<Family One>(std::type_identity<One>) {
    Ranked<Any>& ranked = ranking.emplace_back();
    ranked.family = One::kName;
    Constraints one = One::kIsOnChip ? constraints : Constraints{};
    one.family = One::kName;
    ranked.why = why_not_possible<One>(one);
    if (!ranked.why.empty()) {
      return;
    }
    try {
      ranked.planned = choose_of(std::type_identity<Any>{}, chip, network, rows, one);
    } catch (const InputError& error) {
      ranked.why = error.what();
    }
  };
  (add(std::type_identity<P>{}), ...);
  std::ranges::stable_sort(ranking, [](const Ranked<Any>& a, const Ranked<Any>& b) {
    return a.planned && (!b.planned || is_better(a.planned->prediction, b.planned->prediction));
  });
  if (!ranking.empty() && ranking.front().planned) {
    const Planned<Any>& best = *ranking.front().planned;
    ranking.front().why = std::visit([](const auto& plan) { return plan.kIsOnChip; }, best.plan)
                              ? "the fastest that fits"
                              : "the fastest, reading all weights anew in every step";
    for (auto other = ranking.begin() + 1; other != ranking.end(); ++other) {
      other->why = other->planned ? why_slower(best.prediction, other->planned->prediction) : other->why;
    }
  }
  for (Ranked<Any>& ranked : ranking) {
    if (ranked.planned) {
      std::visit(
          [&](const auto& plan) {
            if constexpr (requires { remark(chip, network, rows, constraints, plan); }) {
              ranked.why += remark(chip, network, rows, constraints, plan);
            }
          },
          ranked.planned->plan);
    }
  }
  return ranking;
}

}  // namespace onchip
