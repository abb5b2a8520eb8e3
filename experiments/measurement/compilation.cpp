// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/compilation.hpp"

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

}  // namespace onchip
