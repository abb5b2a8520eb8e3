// SPDX-License-Identifier: Apache-2.0
#include "kernels/api/confirmed_plan.hpp"

#include "kernels/recurrent/program.hpp"
#include "kernels/training/sparse_program.hpp"
#include "kernels/training/training_program.hpp"
#include "model/base/error.hpp"
#include "model/dense/plan.hpp"

#include <algorithm>
#include <future>
#include <thread>
#include <variant>

namespace onchip {
namespace {

// ---- recurrent networks ---------------------------------------------------------------------------------------------

constexpr int kSpareStep = 2, kMostSpare = 8;

// Of what is no kernel, or none that runs: no spill. What does not compile at all is said where it is needed.
ResourceReport compiled(const PlannedNetwork& planned, const std::string& architecture) {
  if (!planned.prediction.footprint.fits || !is_on_chip(planned.plan)) {
    return {};
  }
  try {
    return compile(compile_request(planned.network, planned.plan, architecture)).resources;
  } catch (const CudaError&) {
    return {};
  }
}

// What `find` says with more registers to spare, call by call; nothing once it is enough.
template <typename Find>
auto with_more_spare(const Constraints& constraints, const Find& find) {
  return [find, asked = constraints](const auto&, const ResourceReport&) mutable {
    asked.spare_registers += kSpareStep;
    return asked.spare_registers > kMostSpare ? std::nullopt : find(asked);
  };
}

}  // namespace

Confirmed<PlannedNetwork> confirmed_plan(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                         const Constraints& constraints, const std::string& architecture) {
  return confirm(
      choose_plan(chip, network, rows, constraints),
      [&](const PlannedNetwork& planned) { return compiled(planned, architecture); },
      with_more_spare(constraints, [&](const Constraints& asked) {
        PlannedNetwork planned = choose_plan(chip, network, rows, asked);
        return planned.prediction.footprint.fits ? std::optional(std::move(planned)) : std::nullopt;
      }));
}

Confirmed<std::vector<RankedPlan>> confirmed_ranking(const Chip& chip, const Recurrent& network, const RowProfile& rows,
                                                     const Constraints& constraints, const std::string& architecture) {
  using Ranking = std::vector<RankedPlan>;
  return confirm(
      rank_families(chip, network, rows, constraints),
      [&](const Ranking& ranking) {
        ResourceReport report;
        for (const RankedPlan& ranked : ranking) {
          if (ranked.planned && !report.spills()) {
            report = compiled(*ranked.planned, architecture);
          }
        }
        return report;
      },
      with_more_spare(constraints, [&](const Constraints& asked) {
        return std::optional(rank_families(chip, network, rows, asked));
      }));
}

// ---- training -------------------------------------------------------------------------------------------------------

PlannedTraining planned_layer(const Chip& chip, const TrainingSize& size, Precision precision, const SparseMatrix* mask,
                              Stash stash) {
  const Found<PlannedTraining> found =
      plan_training_on_chip(chip, training_of(size, precision, mask), {.stash = stash});
  if (!found) {
    throw DoesNotFit(found.why());
  }
  return *found;
}

namespace {

struct TrainedLayer {
  const Chip& chip;
  const TrainingSize& size;
  Precision precision;
  const SparseMatrix* mask;
  const std::string& architecture;
};

// With all tiles in shared memory there is nothing left to move, and so nothing to ask.
Confirmed<RecurrencePlan> confirmed_pass(const TrainedLayer& layer, const RecurrencePlan& plan, bool is_backward) {
  constexpr int kFewest = 2, kTileStack = 16;  // tiles at least; bytes of a lane, of a tile
  constexpr unsigned kManyCores = 4;
  const int tiles = recurrence_shape(layer.size, plan, is_backward).tiles;
  const auto room = [&](const RecurrencePlan& pass) {  // of shared memory, for so many more
    const auto taken = static_cast<double>(recurrence_shape(layer.size, pass, is_backward).shared_bytes);
    return static_cast<int>((layer.chip.smem_bytes_per_block.value - taken) / (pass.warps * kTileBytes));
  };
  const auto compiled = [&layer, is_backward](const RecurrencePlan& pass) {
    return compile(compile_request(layer.size, layer.precision, pass, is_backward, layer.architecture)).resources;
  };
  // Often a few tiles are enough. With cores to spare, they are compiled beside the first.
  RecurrencePlan next = plan;
  next.shared_tiles += kFewest;
  std::future<ResourceReport> ahead;
  if (std::thread::hardware_concurrency() >= kManyCores && next.shared_tiles < tiles && room(next) >= 0) {
    ahead = std::async(std::launch::async, compiled, next);
  }
  return confirm(
      plan,
      [&](const RecurrencePlan& pass) {
        return pass.shared_tiles == tiles      ? ResourceReport()
               : ahead.valid() && pass == next ? ahead.get()
                                               : compiled(pass);
      },
      [&](RecurrencePlan pass, const ResourceReport& report) {
        // Seven tenths of what is on the stack: it goes there sooner than it has to.
        const int spilled = report.stack_bytes * 7 / (10 * kTileStack);
        const int more = std::min({tiles - pass.shared_tiles, room(pass), std::max(kFewest, spilled)});
        if (more > 0 && pass.shared_tiles >= plan.shared_tiles) {
          pass.shared_tiles += more;
          return std::optional(pass);
        }
        // No room for more: with a few less the compiler may be luckier.
        pass.shared_tiles = std::min(pass.shared_tiles, plan.shared_tiles) - kFewest;
        return pass.shared_tiles >= std::max(0, plan.shared_tiles - 3 * kFewest) ? std::optional(pass) : std::nullopt;
      });
}

Confirmed<SparseRecurrencePlan> confirmed_pass(const TrainedLayer& layer, const SparseRecurrencePlan& plan,
                                               bool is_backward) {
  constexpr int kFewer = 8, kLeast = 16;
  const auto laid = [&](const SparseRecurrencePlan& pass) {
    return sparse_recurrence(layer.size, layer.precision, *layer.mask, pass, is_backward,
                             static_cast<int>(layer.chip.sm_count),
                             static_cast<std::size_t>(layer.chip.smem_bytes_per_block.value));
  };
  return confirm(
      plan,
      [&](const SparseRecurrencePlan& pass) {
        return pass.register_words <= kLeast
                   ? ResourceReport()
                   : compile(compile_request(laid(pass).value_or_throw(), layer.size, layer.precision, is_backward,
                                             layer.architecture))
                         .resources;
      },
      [&](SparseRecurrencePlan pass, const ResourceReport&) {
        pass.register_words -= kFewer;
        return laid(pass) ? std::optional(pass) : std::nullopt;
      });
}

}  // namespace

Confirmed<TrainingPlan> confirmed_plan(const Chip& chip, const TrainingSize& size, Precision precision,
                                       const SparseMatrix* mask, const TrainingPlan& plan,
                                       const std::string& architecture) {
  const TrainedLayer layer{chip, size, precision, mask, architecture};
  return std::visit(
      [&]<typename P>(P chosen) -> Confirmed<TrainingPlan> {
        if constexpr (P::kIsOnChip) {
          if constexpr (requires { chosen.stepwise; }) {
            if (chosen.stepwise) {  // nothing is kept in registers
              return {chosen};
            }
          }
          const bool has_backward = chosen.stash != Stash::none;
          auto backward = std::async(has_backward ? std::launch::async : std::launch::deferred,
                                     [&, of = chosen.backward] { return confirmed_pass(layer, of, true); });
          chosen.forward = confirmed_pass(layer, chosen.forward, false).chosen;
          chosen.backward = has_backward ? backward.get().chosen : chosen.backward;
        }
        return {chosen, TrainingPlan(chosen) == plan ? std::nullopt : std::optional(plan)};
      },
      plan);
}

}  // namespace onchip
