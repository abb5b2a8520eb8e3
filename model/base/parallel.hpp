// SPDX-License-Identifier: Apache-2.0
// Independent pieces of work on several threads; what each computes does not depend on how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace onchip {

inline int all_cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Calls work(i) for every i in [0, count), in any order, and throws on what the lowest of the failing ones threw.
template <typename Work>
void parallel_for(int count, int threads, Work&& work) {
  std::atomic<int> next = 0;
  std::mutex mutex;
  int failed = count;
  std::exception_ptr failure;
  const auto run = [&] {
    for (int i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int t = 1; t < threads && t < count; ++t) {
      helpers.emplace_back(run);
    }
    run();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace onchip
