// SPDX-License-Identifier: Apache-2.0
// One line on the terminal that says how far long work is; nothing where stderr is no terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace onchip {

class Progress {
 public:
  ~Progress() { clear(); }

  void show(const std::string& text) {
    if (terminal_) {
      std::fprintf(stderr, "\r\033[K%.100s", text.c_str());
      std::fflush(stderr);
    }
  }
  void clear() { show(""); }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

// For work that does not say how far it is: from the first second on, which work it is and how long it takes by now.
class Waiting {
 public:
  explicit Waiting(std::string work)
      : thread_([this, work = std::move(work)](const std::stop_token& stop) {
          Progress progress;
          std::unique_lock lock(mutex_);
          for (int seconds = 1;
               !ended_.wait_for(lock, stop, std::chrono::seconds(1), [&] { return stop.stop_requested(); });
               ++seconds) {
            progress.show(work + ": " + std::to_string(seconds) + " s");
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;  // ends before what it waits with
};

}  // namespace onchip
