// SPDX-License-Identifier: Apache-2.0
#include "experiments/compilation.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace onchip {

std::vector<CompileOutcome> compile_all(std::span<const CompileRequest> requests,
                                        const std::function<void(std::size_t done)>& progress) {
  std::vector<CompileOutcome> outcomes(requests.size());
  std::atomic<std::size_t> next{0};
  std::mutex progress_mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) {
      try {
        outcomes[i].kernel = compile(requests[i]);
      } catch (...) {
        outcomes[i].problem = std::current_exception();
      }
      const std::scoped_lock lock(progress_mutex);
      progress(++done);
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t i = 1; i < std::min(cores, requests.size()); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  return outcomes;
}

}  // namespace onchip
