// SPDX-License-Identifier: Apache-2.0
// What a launch of graph_switch.cu is given.
#pragma once

namespace onchip {

struct GraphChoice {
  unsigned long long handle;
  const int* rows;
  int unit;
};

}  // namespace onchip
