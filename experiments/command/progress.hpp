// SPDX-License-Identifier: Apache-2.0
// One line on the terminal that says how far long work is; nothing where stderr is no terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

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

}  // namespace onchip
