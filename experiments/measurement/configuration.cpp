// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/configuration.hpp"

#include "model/base/error.hpp"

#ifdef ONCHIP_HAS_CUDA
#include "kernels/api/confirmed_plan.hpp"
#include "kernels/recurrent/program.hpp"
#endif

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

}  // namespace onchip
