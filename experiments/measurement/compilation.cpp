// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/compilation.hpp"

#include "kernels/recurrent/spill_free_plan.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/base/parallel.hpp"

#include <mutex>

namespace onchip {

std::vector<CompileOutcome> compile_all(std::span<const CompileRequest> requests,
                                        const std::function<void(std::size_t done)>& progress) {
  std::vector<CompileOutcome> outcomes(requests.size());
  std::mutex progress_mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(requests.size()), all_cores(), [&](int i) {
    try {
      outcomes[i].kernel = compile(requests[i]);
    } catch (...) {
      outcomes[i].problem = std::current_exception();
    }
    const std::scoped_lock lock(progress_mutex);
    progress(++done);
  });
  return outcomes;
}

PlannedNetwork plan_kernel(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                           const std::string& architecture) {
  return configuration.plan ? plan_network(chip, configuration, rows)
                            : choose_kept_plan(chip, configuration.network, rows, configuration.wishes, architecture);
}

PlannedNetwork plan_compiled(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                             const std::string& architecture) {
  PlannedNetwork planned = plan_kernel(chip, configuration, rows, architecture);
  Footprint& need = planned.prediction.footprint;
  if (need.fits) {
    const ResourceReport report = compile(compile_request(planned.network, planned.plan, architecture)).resources;
    if (report.spills()) {
      ResourceUse& registers = need.resources[static_cast<std::size_t>(Resource::registers)];
      registers.used = registers.available + report.lacking_registers();
      need.binding = Resource::registers;
      need.fits = false;
    }
  }
  return planned;
}

}  // namespace onchip
