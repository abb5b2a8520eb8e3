// SPDX-License-Identifier: Apache-2.0
// The recurrent network whose step is to stay on the chip:
//   h[t+1] = act(W h[t] + x[t])      W: [gates * hidden, hidden], density of non-zeros; h, x: [hidden, batch]
// x is the input projection with its bias, computed for all steps beforehand.
//
// The backward pass of training is a recurrence, too:
//   dh[t-1] = W^T dgates[t]          dgates: [gates * hidden, batch], of dh[t] and what the forward pass left
// so that its matrix is [hidden, gates * hidden], and its state has a value for each gate of a unit.
#pragma once

#include "model/base/precision.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace onchip {

enum class Cell : std::uint8_t { relu, tanh, lstm, gru };
// The forward pass of training leaves what the backward pass needs.
enum class Pass : std::uint8_t { inference, forward, backward };

struct CellInfo {
  std::string_view name;
  int gates;            // rows of W per hidden unit
  int states;           // vectors carried from step to step (h, and c for the LSTM)
  int transcendentals;  // tanh or sigmoid evaluations per unit and sample on the critical path
  int squashes;         // all of them, each an exponential and a reciprocal, by a thread of a dense kernel: of an item,
                        // which has two units where there is one gate
};
inline constexpr std::array<CellInfo, 4> kCells{{
    {"relu", 1, 1, 0, 0},
    {"tanh", 1, 1, 1, 2},
    {"lstm", 4, 2, 3, 5},
    {"gru", 3, 1, 2, 3},
}};

constexpr const CellInfo& info(Cell cell) {
  return kCells[static_cast<int>(cell)];
}

// Throw InputError with the nearest valid name.
Cell parse_cell(std::string_view name);
Precision parse_precision(std::string_view name);

// What the formulas and files are good for; families of plans have limits of their own.
inline constexpr int kMaxHidden = 1 << 18, kMaxBatch = 1 << 14;

struct Recurrent {
  Cell cell = Cell::relu;
  Precision precision =
      Precision::fp16;  // of weights and state (see kPrecisions); sums are fp32 (see Plan::promote_every)
  int hidden = 0;
  int batch = 1;
  int steps = 256;
  double density = 1;  // non-zeros / (gates * hidden * hidden)
  Pass pass = Pass::inference;

  constexpr int gates() const { return pass == Pass::backward ? 1 : info(cell).gates; }   // rows of a unit
  constexpr int values() const { return pass == Pass::backward ? info(cell).gates : 1; }  // of a unit's state
  constexpr int rows() const { return gates() * hidden; }
  constexpr int columns() const { return values() * hidden; }
};

// Throws InputError naming the field that is out of range.
void check(const Recurrent& network);

// "relu H=2304 B=4 30 % fp16"
std::string describe(const Recurrent& network);

}  // namespace onchip
