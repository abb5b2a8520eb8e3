// SPDX-License-Identifier: Apache-2.0
// What all fuzzers hold a reader to: only InputError comes out of it, and its message is one line of printable text.
#pragma once

#include "model/base/error.hpp"

#include <cstdlib>
#include <string_view>

inline void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

template <typename Read>
void run_reader(Read&& read) {
  try {
    read();
  } catch (const onchip::InputError& error) {
    const std::string_view message = error.what();
    require(!message.empty() && message.size() < 4096);
    require(onchip::one_line(message, message.size()) == message);
  }
}
