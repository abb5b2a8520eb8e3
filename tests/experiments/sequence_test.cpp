// SPDX-License-Identifier: Apache-2.0
// Whole sequences of one layer, as predicted and as measured: without the input product, which no file has.
#include "experiments/command/configuration_rows.hpp"
#include "model/answer/whole_network.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <string>

using namespace onchip;

TEST_CASE("regression: sequences take about as long as predicted, and nearly all lie in the interval", "[fast]") {
  struct File {
    const char *chip, *name;
    std::size_t rows;
    double mean_error;
  };
  // drawn_again: nothing was fitted to it.
  for (const auto& [chip_name, name, rows, mean_error] : {File{"h100_sxm", "drawn_again", 154, 0.075},
                                                          {"h100_sxm", "validation", 343, 0.05},
                                                          {"h200", "families", 952, 0.055}}) {
    const Chip chip = find_chip(chip_name).chip;
    const CsvReader file(std::string(ONCHIP_SOURCE_DIR "/experiments/data/") + chip_name + '/' + name + ".csv");
    double error = 0;
    std::size_t count = 0, inside = 0;
    for (std::size_t row = 0; row < file.size(); ++row) {
      const double measured = file.number(row, "sequence_us");
      if (std::isnan(measured)) {
        continue;
      }
      const Configuration configuration = read_configuration_row(file, row, /*with_weights=*/false);
      const Recurrent& network = configuration.network;
      if (!is_on_chip(*configuration.plan)) {
        continue;
      }
      double us = 0, low = 0, high = 0;
      for (const SequencePart& part : sequence_parts(chip, network, predict(chip, network, *configuration.plan), {})) {
        if (part.name != kInputProduct) {
          us += part.us, low += part.low_us, high += part.high_us;
        }
      }
      ++count;
      error += std::abs(us / measured - 1);
      inside += low <= measured && measured <= high;
    }
    CAPTURE(name, error / static_cast<double>(count), inside);
    CHECK(count == rows);
    CHECK(error / static_cast<double>(count) < mean_error);
    CHECK(static_cast<double>(inside) >= 0.95 * static_cast<double>(count));
  }
}
