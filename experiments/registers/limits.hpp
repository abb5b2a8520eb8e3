// SPDX-License-Identifier: Apache-2.0
// What was measured (search.cpp). A row of LIMITS.csv: all plans of this shape with up to `words` words were kept in
// registers, the next larger one, with `spilling_words`, was not; `registers` is what a computing thread of such a
// block may use.
#pragma once

#include "experiments/registers/shape.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace onchip::registers {

inline constexpr const char* kLimitsHeader =
    "architecture,cell,hidden,batch,precision,plan,registers,words,spilling_words";

struct Measured {
  Shape shape;
  int most = 0;   // registers that are enough to work with: as many as the largest plan that was kept leaves
  int least = 0;  // as many as leave no room for the smallest plan that was not
  std::size_t architecture = 0;
  bool held_out = false;
};

// But for shapes of which no plan was kept.
std::vector<Measured> read_limits(const std::vector<std::string>& paths);

}  // namespace onchip::registers
