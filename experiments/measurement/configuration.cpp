// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/configuration.hpp"

#include "model/answer/constraint_words.hpp"
#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/program.hpp"
#endif

#include <algorithm>

namespace onchip {

namespace {

#ifdef ONCHIP_HAS_CUDA

// The compiler's report on the plan's kernel, if it spills.
std::optional<ResourceReport> find_spill(const PlannedNetwork& planned, const std::string& architecture) {
  if (!is_on_chip(planned.plan)) {
    return std::nullopt;
  }
  const ResourceReport report = compile(compile_request(planned.network, planned.plan, architecture)).resources;
  return report.spills() ? std::optional(report) : std::nullopt;
}

void let_compiler_decide(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                         const std::string& architecture, ChosenPlan& chosen) {
  if (!chosen.prediction.footprint.fits) {
    return;
  }
  const std::optional<ResourceReport> spill = find_spill(chosen, architecture);
  if (!spill) {
    return;
  }
  if (!configuration.plan) {
    const Confirmed<PlannedNetwork> confirmed =
        confirmed_plan(chip, chosen.network, rows, configuration.constraints, architecture);
    if (confirmed.refused) {
      chosen = {confirmed.chosen, confirmed.refused->plan};
      return;
    }
  }
  Footprint& need = chosen.prediction.footprint;
  ResourceUse& registers = need.resources[static_cast<std::size_t>(Resource::registers)];
  registers.used = registers.available + spill->lacking_registers();
  need.binding = Resource::registers;
  need.fits = false;
  need.registers_in_doubt = false;
}

#else

[[noreturn]] void let_compiler_decide(const Chip&, const Configuration&, const RowProfile&, const std::string&,
                                      ChosenPlan&) {
  throw InputError("built without CUDA: no compiler can be asked");
}

#endif

}  // namespace

ChosenPlan compiled_plan(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                         const std::string& architecture) {
  ChosenPlan chosen{plan_network(chip, configuration, rows)};
  if (!architecture.empty()) {
    let_compiler_decide(chip, configuration, rows, architecture, chosen);
  }
  return chosen;
}

std::vector<RankedPlan> rank_compiled_plans(const Chip& chip, const Configuration& configuration,
                                            const RowProfile& rows, const std::string& architecture) {
  if (const std::string_view family = configuration.family(); !family.empty()) {
    return {{find_family(family).name, compiled_plan(chip, configuration, rows, architecture), "asked for"}};
  }
  const std::vector<RankedPlan> by_model = rank_plans(chip, configuration, rows);
#ifdef ONCHIP_HAS_CUDA
  std::vector<RankedPlan> ranking =
      confirmed_ranking(chip, configuration.network, rows, configuration.constraints, architecture).chosen;
  for (RankedPlan& ranked : ranking) {
    const auto said = std::ranges::find(by_model, ranked.family, &RankedPlan::family);
    if (ranked.planned && said->planned && ranked.planned->plan != said->planned->plan) {
      ranked.why += "; not the model's choice, since the compiler spills one: " + to_string(said->planned->plan);
    }
  }
  return ranking;
#else
  throw InputError("built without CUDA: no compiler can be asked");
#endif
}

}  // namespace onchip
