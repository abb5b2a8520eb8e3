// SPDX-License-Identifier: Apache-2.0
// The columns that say which recurrent network a row is of.
#pragma once

#include "experiments/command/columns.hpp"
#include "experiments/command/configuration_rows.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace onchip {

// configuration_columns(), in CSV; `get(row)`: its Configuration.
template <typename Row, typename Get>
void add_network(Columns<Row>& columns, Get get) {
  static constexpr std::array kHelps{"as the option",
                                     "units of the hidden state",
                                     "samples at once",
                                     "time steps of the sequence that is timed",
                                     "share of the weights that are not zero, of what the kernel holds",
                                     "of weights and state",
                                     "of generated weights; `file` of a user's",
                                     "that they were generated with",
                                     "the user's file",
                                     "its tensor",
                                     "whether that was transposed"};
  const std::vector<std::string> names = configuration_columns();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto cell = [get, i](const Row& row) { return configuration_cells(std::invoke(get, row))[i]; };
    columns.add(names[i], "", kHelps.at(i), cell, "", In::csv);
  }
}

}  // namespace onchip
