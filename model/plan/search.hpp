// SPDX-License-Identifier: Apache-2.0
// The search for a plan, over any variant of families' plans.
#pragma once

#include "model/base/error.hpp"
#include "model/plan/choices.hpp"
#include "model/plan/family.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
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

// What fits before what does not; of what fits the faster, of what does not what misses by less.
inline bool is_better(const Prediction& a, const Prediction& b) {
  if (a.footprint.fits != b.footprint.fits) {
    return a.footprint.fits;
  }
  return a.footprint.fits ? a.step_us < b.step_us : overload(a.footprint) < overload(b.footprint);
}

// What the search goes by: whether a plan fits, with registers to spare if that is asked for, and if so its time.
template <Family P>
Prediction searched(const Chip& chip, const typename P::Workload& network, const Constraints& constraints,
                    const P& plan) {
  const auto shape = geometry(network, plan);
  Prediction prediction;
  prediction.footprint = footprint(chip, shape);
  const ResourceUse& registers = prediction.footprint.resources[static_cast<std::size_t>(Resource::registers)];
  prediction.footprint.fits &= registers.used + constraints.spare_registers <= registers.available;
  return prediction.footprint.fits ? predicted(prediction.footprint, price(chip, shape)) : prediction;
}

// Why a family is no candidate, "" if it is one.
template <Family P>
std::string why_not(const typename P::Workload& network, const Constraints& constraints) {
  const std::string beyond = beyond_limits(network, P{});
  return beyond.empty() ? why_not_possible<P>(constraints) : std::string(P::kName) + " " + beyond;
}

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kAlike = 1.0005;  // times another: no difference in time

// The best plan of one family. Its candidates may be estimates, so those that come near the best are settled, and the
// best of these is the answer; of plans that are alike in time the first by its fields, so that neighbouring questions
// have the same answer.
template <Family P>
class FamilySearch {
 public:
  using Workload = typename P::Workload;
  using Found = Planned<P, Workload>;

  // Plans that take longer than `limit_us` are of no interest.
  FamilySearch(const Chip& chip, const Workload& network, const RowProfile& rows, const Constraints& constraints,
               Effort effort, double limit_us)
      : chip_(chip), network_(network), rows_(rows), constraints_(constraints), effort_(effort), limit_us_(limit_us) {}

  std::optional<Found> best() {
    if ((constraints_.family && *constraints_.family != P::kName) || !why_not<P>(network_, constraints_).empty()) {
      return std::nullopt;
    }
    look(kNear);
    std::optional<Found> found = best_settled();
    if (!found && !near_.empty()) {  // none fits after all: all others, too, from the fastest on
      near_.clear();
      best_us_ = kNever;
      look(kNever);
      found = best_settled();
      if (!found && !near_.empty()) {
        nearest_ = {network_, near_.front().plan, {}};
      }
    }
    if (!found && nearest_) {
      nearest_->plan = settled(chip_, network_, rows_, constraints_, nearest_->plan);
      nearest_->prediction = predict_one(chip_, network_, nearest_->plan);
    }
    return found ? found : nearest_;
  }

 private:
  static constexpr double kNear = 1.01;    // times the best estimate: what is settled may turn out to be the best
  static constexpr double kNearer = 1.02;  // where nothing fits, what may miss by clearly less is looked for
  static constexpr int kMostSettled = 16, kMostTried = 64;

  void look(double near) {
    const bool stops = effort_ == Effort::whether_fits && near == kNear;
    const auto is_near = [&, near](double us) { return us <= std::min(limit_us_, near * best_us_); };
    const auto is_worth = [&](const Bound& bound) {
      if (near_.empty() && limit_us_ == kNever) {  // nothing fits so far
        return bound.overload <= 1 || !nearest_ || kNearer * bound.overload < overload(nearest_->prediction.footprint);
      }
      return bound.overload <= 1 && !stops && is_near(bound.step_us);
    };
    const auto consider = [&](const P& plan) {
      const Prediction prediction = searched(chip_, network_, constraints_, plan);
      if (!prediction.footprint.fits) {
        if (near_.empty() && (!nearest_ || is_better(prediction, nearest_->prediction))) {
          nearest_ = {network_, plan, prediction};
        }
      } else if (is_near(prediction.step_us)) {
        best_us_ = std::min(best_us_, prediction.step_us);
        near_.push_back({prediction.step_us, plan});
        if (near_.size() == near_.capacity()) {
          std::erase_if(near_, [&](const Estimate& estimate) { return !is_near(estimate.us); });
        }
      }
    };
    for_each_candidate(chip_, network_, rows_, constraints_,
                       effort_ == Effort::exhaustive ? Consider<P>(consider) : Consider<P>(consider, is_worth));
    std::erase_if(near_, [&](const Estimate& estimate) { return !is_near(estimate.us); });
  }

  // Of the candidates that were near, none if none fits after all.
  std::optional<Found> best_settled() {
    std::ranges::sort(near_, [](const Estimate& a, const Estimate& b) {
      return a.us != b.us ? a.us < b.us : comes_first(a.plan, b.plan);
    });
    std::vector<Found> settled_plans;
    double least = kNever;
    int tried = 0;
    for (const Estimate& estimate : near_) {
      if (estimate.us > kAlike * least || settled_plans.size() == kMostSettled || tried++ == kMostTried) {
        break;
      }
      const P plan = settled(chip_, network_, rows_, constraints_, estimate.plan);
      const Prediction prediction = searched(chip_, network_, constraints_, plan);
      if (prediction.footprint.fits) {
        settled_plans.push_back({network_, plan, prediction});
        least = std::min(least, prediction.step_us);
      }
    }
    std::optional<Found> found;
    for (const Found& one : settled_plans) {
      if (one.prediction.step_us <= kAlike * least && (!found || comes_first(one.plan, found->plan))) {
        found = one;
      }
    }
    return found;
  }

  static bool comes_first(const P& a, const P& b) {
    for (const Field<P>& field : fields(a)) {
      if (!field.is_list() && field.get(a) != field.get(b)) {
        return field.get(a) < field.get(b);
      }
    }
    return false;
  }

  struct Estimate {
    double us = 0;
    P plan;
  };

  const Chip& chip_;
  const Workload& network_;
  const RowProfile& rows_;
  const Constraints& constraints_;
  const Effort effort_;
  const double limit_us_;
  double best_us_ = kNever;
  std::vector<Estimate> near_;    // that fit, of about the best time
  std::optional<Found> nearest_;  // of those that do not, the one that misses by least
};

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

// The batches that a batch may be padded to: as many samples as batch groups, which are powers of two, share evenly.
inline std::vector<int> padded_batches(int batch) {
  std::vector<int> batches;
  for (int even = 2; even <= kMostSamples; even *= 2) {
    const int samples = (batch + even - 1) / even * even;
    if (samples > (batches.empty() ? batch : batches.back()) && samples <= kMostSamples) {
      batches.push_back(samples);
    }
  }
  return batches;
}

// The best plan of any family that keeps the weights on the chip, or of the one that is asked for: the fastest that
// fits; if none fits, the one that misses by least (its footprint says by how much). Throws InputError where no family
// has a candidate. Families of other workloads are none.
template <typename... P, typename Workload>
Planned<std::variant<P...>, Workload> choose_of(std::type_identity<std::variant<P...>>, const Chip& chip,
                                                const Workload& network, const RowProfile& rows,
                                                const Constraints& constraints, Effort effort = Effort::bounded) {
  std::optional<Planned<std::variant<P...>, Workload>> best;
  const auto offer = [&]<Family One>(std::type_identity<One>) {
    if constexpr (std::is_same_v<typename One::Workload, Workload>) {
      if (!One::kIsOnChip && constraints.family != One::kName) {
        return;
      }
      const auto search = [&](const Workload& batch, Effort how, double alike, int padded_samples) {
        const bool fits = best && best->prediction.footprint.fits;
        const double limit_us = fits ? best->prediction.step_us / alike : kNever;
        auto one = FamilySearch<One>(chip, batch, rows, constraints, how, limit_us).best();
        const bool counts = one && (padded_samples == 0 || one->prediction.footprint.fits);
        if (counts && (!best || is_better(one->prediction, best->prediction))) {
          if constexpr (requires { one->plan.padded_samples; }) {
            one->plan.padded_samples = padded_samples;
          }
          best = {network, one->plan, one->prediction};
        }
      };
      search(network, effort, 1, 0);
      if constexpr (requires(One plan) { plan.padded_samples; }) {
        // Each is a question of its own, which is searched exhaustively when it is asked.
        const Effort how = effort == Effort::exhaustive ? Effort::bounded : effort;
        for (const int samples : padded_batches(network.batch)) {
          if (how == Effort::bounded || !best || !best->prediction.footprint.fits) {
            Workload padded = network;
            padded.batch = samples;
            search(padded, how, kAlike, samples);
          }
        }
      }
    }
  };
  // From the last on: those with few candidates leave the others less to look at.
  const std::array<std::function<void()>, sizeof...(P)> offers{[&] { offer(std::type_identity<P>{}); }...};
  for (auto last = offers.rbegin(); last != offers.rend(); ++last) {
    (*last)();
  }
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
        bool streams = false;
        if constexpr (requires { plan.tier(); }) {
          streams = plan.tier() == Tier::streamed;
        }
        ranked.why = !plan.kIsOnChip ? "the fastest, reading all weights anew in every step"
                     : streams       ? "the fastest that runs"
                                     : "the fastest that fits";
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
