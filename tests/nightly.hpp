// SPDX-License-Identifier: Apache-2.0
// Some tests have more cases than a change has to wait for. Every run takes a fixed part of them; one with
// ONCHIP_NIGHTLY in the environment (.ci/run nightly) takes all.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace onchip {

// How many cases are drawn: another number with ONCHIP_DRAWS in the environment.
inline int draws(int few) {
  const char* const number = std::getenv("ONCHIP_DRAWS");
  return number == nullptr ? few : std::atoi(number);
}

// Is this case, by its number, one of every so many?
inline bool is_chosen(std::int64_t number, int every) {
  return number % every == 0 || std::getenv("ONCHIP_NIGHTLY") != nullptr;
}

}  // namespace onchip
