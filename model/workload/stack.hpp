// SPDX-License-Identifier: Apache-2.0
// Layers of a recurrent network, all of one size, each in one or in both directions.
#pragma once

#include "model/workload/recurrent.hpp"

namespace onchip {

inline constexpr int kMostLayers = 1024;

struct Stack {
  int layers = 1;
  bool bidirectional = false;
  int input = 0;  // elements of a sample's input to the first layer; 0: as many as hidden units

  int directions() const { return bidirectional ? 2 : 1; }
  // Elements that a layer of the network takes of a sample.
  int columns(const Recurrent& network, int layer) const {
    return layer > 0 ? directions() * network.hidden : input > 0 ? input : network.hidden;
  }
  friend bool operator==(const Stack&, const Stack&) = default;
};

}  // namespace onchip
