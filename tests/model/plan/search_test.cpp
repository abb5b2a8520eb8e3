// SPDX-License-Identifier: Apache-2.0
// The bounded search: its bounds lie below every plan, and its answer is that of the exhaustive search.
#include "model/plan/search.hpp"
#include "experiments/validation/drawn_questions.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/family.hpp"
#include "model/dense/price.hpp"
#include "model/families/planner.hpp"
#include "model/sparse/family.hpp"
#include "model/sparse/search/overflow.hpp"
#include "tests/catch.hpp"
#include "tests/nightly.hpp"

#include <algorithm>

using namespace onchip;

namespace {

constexpr double kRounding = 1 + 1e-9;

// The rows of every third question are those of a mask with rows of a power law.
RowProfile rows_of(DrawnQuestion& question, int number) {
  if (number % 3 != 0 || question.mask != MaskKind::uniform) {
    return RowProfile::uniform(question.network, question.mask);
  }
  Recurrent& network = question.network;
  network.hidden = std::min(network.hidden, 1500);
  return RowProfile::from_matrix(
      generate_mask(network.rows(), network.hidden, network.density, 1, network.precision, MaskKind::power_law));
}

// Calls `check` with every so manieth of all candidates.
template <typename P>
int for_some(const DrawnQuestion& question, const RowProfile& rows, const Constraints& constraints, auto&& check) {
  constexpr int kEvery = 23;
  int number = 0;
  for_each_candidate(*question.chip, question.network, rows, constraints, Consider<P>([&](const P& plan) {
    if (number++ % kEvery == 0) {
      check(plan);
    }
  }));
  return number;
}

// How far a bound lies above what it is a bound of, at most.
struct Excess {
  double time = 0, overload = 0, slots = 0;
};

}  // namespace

TEST_CASE("no sparse plan takes less time, room or slots than its bounds say", "[fast][long]") {
  int number = 0, plans = 0, fitting = 0;
  for (DrawnQuestion& question : draw_questions(18, 5)) {
    if (!is_chosen(number++, 3)) {
      continue;
    }
    const RowProfile rows = rows_of(question, number - 1);
    const Chip& chip = *question.chip;
    Constraints constraints;
    if (number % 2 == 0) {
      constraints.tier = Tier::shared_memory;
    }
    Excess excess;
    plans += for_some<SparsePlan>(question, rows, constraints, [&](const SparsePlan& plan) {
      const SparseGeometry shape = geometry(question.network, plan);
      const Prediction of_plan = predict_one(chip, question.network, plan);
      // The same shape with nothing chosen yet.
      SparsePlan open = plan;
      open.overflow_chunks = open.longest_overflow = open.shared_chunks = open.ring_chunks = 0;
      open.row_splits = open.split_slots = open.most_splits = open.row_chunks = open.split_chunks = 0;
      open.chunks_in_flight = open.loads_in_flight = 1;
      give_slots(question.network, rows, open);
      const bool splits = may_split({}, shape, rows);
      const double slots = shape.mean_slots();
      excess.slots = std::max(excess.slots, least_slots(geometry(question.network, open), rows, splits) / slots);
      const double beyond = least_bytes_beyond(chip, geometry(question.network, open), slots);
      const LeastWork with_tiles{slots, splits, /*any_tiles=*/false, beyond};
      const double of_tiles = least_step_us(chip, geometry(question.network, open), with_tiles);
      open.tile_rows = shape.gates > 1 ? 4 : 1;
      open.pass_planes = 1;
      const SparseGeometry of_open = geometry(question.network, open);
      const double of_any = least_step_us(chip, of_open, {slots, splits, /*any_tiles=*/true, beyond});
      const bool fits = of_plan.footprint.fits;
      if (fits) {
        excess.time = std::max({excess.time, of_any / of_plan.step_us, of_tiles / of_plan.step_us});
        ++fitting;
      }
      // All shapes on as many SMs, and those with as many threads.
      SparsePlan of_any_shape = shape_sparse_plan(question.network, rows, plan.storage, plan.sms, 32, shape.gates);
      of_any_shape.promote_every = plan.promote_every;
      const SparseGeometry of_sms = geometry(question.network, of_any_shape);
      const double nonzeros = plan.storage == Storage::dense ? 1.0 * question.network.rows() * question.network.hidden
                                                             : static_cast<double>(rows.nnz());
      const Tier most = constraints.tier.value_or(Tier::streamed);
      for (const int threads : {0, plan.threads}) {
        LeastWorkOfSms least{nonzeros, least_bytes_beyond_of_sms(chip, of_sms, nonzeros, threads)};
        if (threads > 0) {
          least.fewest_threads = least.most_threads = threads;
        }
        if (fits) {
          excess.time = std::max(excess.time, least_us_of_sms(chip, of_sms, least) / of_plan.step_us);
        }
        if (of_plan.footprint.resources[static_cast<std::size_t>(Resource::registers)].share() <= 1) {
          excess.overload = std::max(
              excess.overload,
              least_overload(chip, of_sms, static_cast<double>(of_sms.exchange_bytes), least.bytes_beyond, most) /
                  overload(of_plan.footprint));
        }
      }
      // One that asks for more registers than there are misses by those, and has less elsewhere.
      const Footprint& footprint = of_plan.footprint;
      if (footprint.resources[static_cast<std::size_t>(Resource::registers)].share() <= 1) {
        const double least = least_overload(chip, of_open, least_state_bytes(of_open), beyond, most);
        excess.overload = std::max(excess.overload, least / overload(footprint));
      }
    });
    CAPTURE(describe(question.network), chip.name, number);
    CHECK(excess.time <= kRounding);
    CHECK(excess.overload <= kRounding);
    CHECK(excess.slots <= kRounding);
  }
  CHECK(plans > 15000);
  CHECK(fitting > 1000);
}

TEST_CASE("no dense plan takes less time or room than its bounds say", "[fast][long]") {
  int plans = 0;
  for (DrawnQuestion& question : draw_questions(24, 6)) {
    const RowProfile rows = RowProfile::uniform(question.network, question.mask);
    const Chip& chip = *question.chip;
    Excess excess;
    plans += for_some<DensePlan>(question, rows, {}, [&](const DensePlan& plan) {
      const Prediction of_plan = predict_one(chip, question.network, plan);
      DensePlan open = plan;
      open.shared_tiles = open.bank_words = 0;
      open.storage = plan.storage == Storage::bitmap ? Storage::dense : plan.storage;
      open.loads_in_flight = 1 << 20;
      const DenseGeometry of_open = geometry(question.network, open);
      const double share = plan.storage == Storage::bitmap && plan.shared_tiles > 0
                               ? static_cast<double>(kBankRowBytes) * plan.bank_words /
                                     (static_cast<double>(kTileBytes) * plan.shared_tiles * plan.warps())
                               : 1;
      const Bound of_sms = least_of_sms(chip, of_open, share, Tier::streamed);
      excess.time =
          std::max({excess.time, least_step_us(chip, of_open) / of_plan.step_us, of_sms.step_us / of_plan.step_us});
      const double least = std::max(least_overload(chip, of_open, share, Tier::streamed), of_sms.overload);
      excess.overload = std::max(excess.overload, least / overload(of_plan.footprint));
    });
    CAPTURE(describe(question.network), chip.name);
    CHECK(excess.time <= kRounding);
    CHECK(excess.overload <= kRounding);
  }
  CHECK(plans > 5000);
}

TEST_CASE("the bounded search finds what the exhaustive one finds", "[fast][long]") {
  int number = 0, fitting = 0;
  for (DrawnQuestion& question : draw_questions(12, 7)) {
    if (!is_chosen(number++, 4)) {
      continue;
    }
    const RowProfile rows = rows_of(question, number - 1);
    const Chip& chip = *question.chip;
    const PlannedNetwork found = choose_plan(chip, question.network, rows);
    const PlannedNetwork all = choose_plan(chip, question.network, rows, {}, Effort::exhaustive);
    CAPTURE(describe(question.network), chip.name, to_string(found.plan), to_string(all.plan));
    const bool fits = all.prediction.footprint.fits;
    CHECK(found.prediction.footprint.fits == fits);
    CHECK(any_plan_fits(chip, question.network, rows) == fits);
    if (fits) {
      CHECK(found.plan == all.plan);
      ++fitting;
    } else {  // what misses by about as little
      CHECK(overload(found.prediction.footprint) <= 1.03 * overload(all.prediction.footprint));
    }
  }
  CHECK(fitting > 0);
}
