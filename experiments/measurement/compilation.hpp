// SPDX-License-Identifier: Apache-2.0
// Kernels of many configurations, compiled on all cores; the run-time compiler caches what it has made.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/base/parallel.hpp"

#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace onchip {

struct CompileOutcome {
  CompiledKernel kernel;
  std::string problem;  // why it did not compile
};

// In the order of the requests. `progress(done)` is called from several threads, one at a time.
inline std::vector<CompileOutcome> compile_all(std::span<const CompileRequest> requests,
                                               const std::function<void(std::size_t done)>& progress) {
  std::vector<CompileOutcome> outcomes(requests.size());
  std::mutex progress_mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(requests.size()), all_cores(), [&](int i) {
    try {
      outcomes[i].kernel = compile(requests[i]);
    } catch (const std::exception& error) {
      outcomes[i].problem = error.what();
    }
    const std::scoped_lock lock(progress_mutex);
    progress(++done);
  });
  return outcomes;
}

}  // namespace onchip
