// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/measured_plans.hpp"

#include "experiments/measurement/configuration.hpp"
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/sparse/price.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace onchip {
namespace {

bool is_run(const RankedPlan& ranked) {
  return ranked.planned && ranked.planned->prediction.footprint.fits;
}

// Those that run as kernels.
std::vector<RecurrentPlan> kernel_plans(const PlansToMeasure& plans) {
  std::vector<RecurrentPlan> kernels;
  for (const RankedPlan& ranked : plans.ranking) {
    if (is_run(ranked) && find_family(ranked.family).is_on_chip) {
      kernels.push_back(ranked.planned->plan);
    }
  }
  return kernels;
}

// "cublas" of cublas_graph, as its baselines' names begin.
std::string_view library_of(std::string_view family) {
  return family.substr(0, family.find('_'));
}

// Plans whose state goes from L2 to registers read none from shared memory.
double conflict_free_us(const Chip& chip, const Layout& layout) {
  return std::visit(
      [&](const auto& of) {
        if constexpr (requires { conflict_free_reads_us(chip, of.geometry); }) {
          return conflict_free_reads_us(chip, of.geometry);
        } else {
          return 0.0;
        }
      },
      layout);
}

// The fastest of a family's library, or else all their failures in one.
std::optional<Way> fastest_of(std::string_view family, std::span<const Way> ways) {
  std::optional<Way> found;
  for (const Way& way : ways) {
    if (way.library != library_of(family)) {
      continue;
    }
    if (is_fastest_of_library(ways, way)) {
      return way;
    }
    if (!found) {
      found = Way{.name = ""};
    }
    if (!way.ran()) {
      found->failure += (found->failure.empty() ? "" : "; ") + way.name + ": " + way.failure;
    }
  }
  return found;
}

// The plans of all families, or of the one that the configuration asks for, the fastest first: those that leave so many
// more registers to the compiler that it spills none.
std::vector<RankedPlan> rank_compiled_plans(const Chip& chip, const Configuration& configuration,
                                            const RowProfile& rows, const std::string& architecture) {
  if (const std::string_view family = configuration.family(); !family.empty()) {
    return {{find_family(family).name, compiled_plan(chip, configuration, rows, architecture), "asked for"}};
  }
  const std::vector<RankedPlan> by_model = rank_plans(chip, configuration, rows);
  std::vector<RankedPlan> ranking =
      confirmed_ranking(chip, configuration.network, rows, configuration.constraints, architecture).chosen;
  for (RankedPlan& ranked : ranking) {
    const auto said = std::ranges::find(by_model, ranked.family, &RankedPlan::family);
    if (ranked.planned && said->planned && ranked.planned->plan != said->planned->plan) {
      ranked.why += "; not the model's choice, since the compiler spills one: " + to_string(said->planned->plan);
    }
  }
  return ranking;
}

}  // namespace

PlansToMeasure plan_to_measure(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                               const std::string& architecture) {
  const ChosenPlan chosen = compiled_plan(chip, configuration, rows, architecture);
  require_fit(chosen);
  return {configuration, {{family_name(chosen.plan), chosen, ""}}, chosen.refused};
}

PlansToMeasure families_to_measure(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                                   const std::string& architecture, std::span<const std::string_view> without) {
  PlansToMeasure plans{configuration, rank_compiled_plans(chip, configuration, rows, architecture), {}};
  std::erase_if(plans.ranking,
                [&](const RankedPlan& ranked) { return std::ranges::find(without, ranked.family) != without.end(); });
  return plans;
}

std::vector<CompileRequest> compile_requests(const PlansToMeasure& plans, const std::string& architecture,
                                             const MeasureOptions& options) {
  const Recurrent& network = plans.configuration.network;
  std::vector<CompileRequest> requests;
  for (const RecurrentPlan& plan : kernel_plans(plans)) {
    requests.push_back(compile_request(network, plan, architecture));
    requests.push_back(compile_order_request(network, plan, architecture));
    if (options.floor) {
      requests.push_back(compile_request(network, plan, architecture, Work::exchange_only));
    }
    if (options.clocks) {
      requests.push_back(compile_request(network, plan, architecture, Work::clocked));
    }
  }
  return requests;
}

PreparedPlans prepare_plans(const PlansToMeasure& plans, std::shared_ptr<const SparseMatrix> matrix,
                            const MeasureOptions& options) {
  std::vector<Prepared> kernels = prepare_all(plans.configuration.network, kernel_plans(plans), matrix, options);
  return {std::move(matrix), std::move(kernels)};
}

Timing MeasuredPlan::step_us() const {
  return library ? library->time : measurement.failure.empty() ? measurement.step_us : Timing();
}

std::string MeasuredPlan::note() const {
  return is_timed() ? "" : !fits() ? ranked.why : library ? library->failure : measurement.failure;
}

double MeasuredPlan::floor_us() const {
  return measurement.exchange_us.samples > 0 ? measurement.exchange_us.median + conflict_free_us : 0;
}

MeasuredPlans measure_plans(const Chip& chip, const PlansToMeasure& plans, const PreparedPlans& prepared,
                            const MeasureOptions& options) {
  const Recurrent& network = plans.configuration.network;
  // With --baselines all that there are, else of the ranking's libraries what is likely their fastest.
  std::vector<BaselineCandidate> candidates = baseline_candidates(network);
  std::erase_if(candidates, [&](const BaselineCandidate& candidate) {
    return !options.baselines && std::ranges::none_of(plans.ranking, [&](const RankedPlan& ranked) {
      return candidate.likely && !find_family(ranked.family).is_on_chip &&
             candidate.library() == library_of(ranked.family);
    });
  });
  MeasuredNetwork measured = measure(network, *prepared.matrix, prepared.kernels, candidates, options);
  MeasuredPlans result;
  std::size_t kernel = 0;
  for (const RankedPlan& ranked : plans.ranking) {
    MeasuredPlan& row = result.plans.emplace_back(MeasuredPlan{
        .chip = chip.name, .configuration = plans.configuration, .ranked = ranked, .nnz = prepared.matrix->nnz()});
    row.refused = plans.refused;
    if (!row.is_kernel()) {
      row.library = fastest_of(ranked.family, measured.libraries);
    } else if (row.fits()) {
      const Layout& layout = prepared.kernels[kernel].layout;
      row.gather_wavefronts = gather_wavefronts(layout).busiest_sm;
      row.conflict_free_us = conflict_free_us(chip, layout);
      row.measurement = std::move(measured.kernels[kernel++]);
    }
  }
  if (const auto chosen = std::ranges::find_if(result.plans, &MeasuredPlan::fits); chosen != result.plans.end()) {
    chosen->chosen = true;
  }
  MeasuredPlan* fastest = nullptr;
  for (MeasuredPlan& row : result.plans) {
    if (row.is_timed() && (fastest == nullptr || row.step_us().median < fastest->step_us().median)) {
      fastest = &row;
    }
  }
  if (fastest != nullptr) {
    fastest->fastest = true;
  }
  if (options.baselines) {
    result.libraries = std::move(measured.libraries);
  }
  return result;
}

}  // namespace onchip
