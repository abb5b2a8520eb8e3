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
Prediction predict_one(const Chip& chip, const typename P::Workload& network, const P& plan) {
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
std::optional<Planned<P, typename P::Workload>> best_candidate(const Chip& chip, const typename P::Workload& network,
                                                               const Constraints& constraints, auto&& for_each) {
  std::optional<Planned<P, typename P::Workload>> best;
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
      best = {network, plan, prediction};
    }
  }));
  return best;
}

// Why a family is no candidate, "" if it is one.
template <Family P>
std::string why_not(const typename P::Workload& network, const Constraints& constraints) {
  const std::string beyond = beyond_limits(network, P{});
  return beyond.empty() ? why_not_possible<P>(constraints) : std::string(P::kName) + " " + beyond;
}

// The best candidate of a family. One whose candidates are estimates may have a best_plan() of its own, which counts.
template <Family P>
std::optional<Planned<P, typename P::Workload>> best_of_family(const Chip& chip, const typename P::Workload& network,
                                                               const RowProfile& rows, const Constraints& constraints) {
  if ((constraints.family && *constraints.family != P::kName) || !why_not<P>(network, constraints).empty()) {
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

// Calls `ask` with a plan that maps such a workload, as the family's own.
template <typename Workload>
void with_family(auto& any, auto&& ask) {
  std::visit(
      [&]<Family P>(P& plan) {
        if constexpr (std::is_same_v<typename P::Workload, Workload>) {
          ask(plan);
        }
      },
      any);
}

// The best plan of any family that keeps the weights on the chip, or of the one that is asked for: the fastest that
// fits; if none fits, the one that misses by least (its footprint says by how much). Throws InputError where no family
// has a candidate. Families of other workloads are none.
template <typename... P, typename Workload>
Planned<std::variant<P...>, Workload> choose_of(std::type_identity<std::variant<P...>>, const Chip& chip,
                                                const Workload& network, const RowProfile& rows,
                                                const Constraints& constraints) {
  std::optional<Planned<std::variant<P...>, Workload>> best;
  const auto offer = [&]<Family One>(std::type_identity<One>) {
    if constexpr (std::is_same_v<typename One::Workload, Workload>) {
      if (!One::kIsOnChip && constraints.family != One::kName) {
        return;
      }
      const auto one = best_of_family<One>(chip, network, rows, constraints);
      if (one && (!best || is_better(one->prediction, best->prediction))) {
        best = {network, one->plan, one->prediction};
      }
    }
  };
  (offer(std::type_identity<P>{}), ...);
  if (!best) {
    std::string why;
    const auto tell = [&]<Family One>(std::type_identity<One>) {
      if constexpr (std::is_same_v<typename One::Workload, Workload>) {
        if (constraints.family ? *constraints.family == One::kName : One::kIsOnChip) {
          const std::string reason = why_not<One>(network, constraints);
          why += (why.empty() ? "" : "; ") + (reason.empty() ? why_none(chip, network, constraints, One{}) : reason);
        }
      }
    };
    (tell(std::type_identity<P>{}), ...);
    throw InputError("no plan computes " + describe(network) + " with what is asked for: " + why);
  }
  with_family<Workload>(best->plan, [&](auto& plan) {
    plan = settled(chip, network, rows, constraints, plan);
    best->prediction = predict_one(chip, network, plan);
  });
  return *best;
}

// The best plan of every family of the workload, the fastest first, then those that do not fit, then families without a
// candidate; with why it is the answer or why it is not.
template <typename Any, typename Workload = Recurrent>
struct Ranked {
  std::string_view family;
  std::optional<Planned<Any, Workload>> planned;
  std::string why;  // "0.48 us slower, most of it gather: 0.461 instead of 0.000 us"
};

std::string why_slower(const Prediction& best, const Prediction& other);

template <typename... P, typename Workload>
std::vector<Ranked<std::variant<P...>, Workload>> rank_of(std::type_identity<std::variant<P...>>, const Chip& chip,
                                                          const Workload& network, const RowProfile& rows,
                                                          const Constraints& constraints) {
  using Any = std::variant<P...>;
  using One = Ranked<Any, Workload>;
  std::vector<One> ranking;
  const auto add = [&]<Family F>(std::type_identity<F>) {
    if constexpr (std::is_same_v<typename F::Workload, Workload>) {
      One& ranked = ranking.emplace_back();
      ranked.family = F::kName;
      Constraints of_family = F::kIsOnChip ? constraints : Constraints{};
      of_family.family = F::kName;
      ranked.why = why_not<F>(network, of_family);
      if (!ranked.why.empty()) {
        return;
      }
      try {
        ranked.planned = choose_of(std::type_identity<Any>{}, chip, network, rows, of_family);
      } catch (const InputError& error) {
        ranked.why = error.what();
      }
    }
  };
  (add(std::type_identity<P>{}), ...);
  std::ranges::stable_sort(ranking, [](const One& a, const One& b) {
    return a.planned && (!b.planned || is_better(a.planned->prediction, b.planned->prediction));
  });
  for (One& ranked : ranking) {
    if (!ranked.planned) {
      continue;
    }
    with_family<Workload>(ranked.planned->plan, [&](const auto& plan) {
      if (&ranked == &ranking.front()) {
        ranked.why = plan.kIsOnChip ? "the fastest that fits" : "the fastest, reading all weights anew in every step";
      } else {
        ranked.why = why_slower(ranking.front().planned->prediction, ranked.planned->prediction);
      }
      if constexpr (requires { remark(chip, network, rows, constraints, plan); }) {
        ranked.why += remark(chip, network, rows, constraints, plan);
      }
    });
  }
  return ranking;
}

}  // namespace onchip
