// SPDX-License-Identifier: Apache-2.0
// A floor is below everything that was measured.
#include "experiments/command/configuration_rows.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace onchip;

TEST_CASE("the floor lies below every measured step of every data file, and not far below", "[fast]") {
  int measured = 0, shown = 0, files = 0;
  // Of the fastest plan of each file and network of at least so many units: its time, and that over its floor.
  constexpr int kUnits = 256;
  std::map<std::string, std::pair<double, double>> best;
  for (const auto& folder : std::filesystem::directory_iterator(ONCHIP_SOURCE_DIR "/experiments/data")) {
    if (!folder.is_directory()) {
      continue;
    }
    const Chip chip = find_chip(folder.path().filename().string()).chip;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".csv") {
        continue;
      }
      const CsvReader file(entry.path());
      if (!file.has("plan") || !file.has("step_us") || !file.has("hidden") || !file.has("seed")) {
        continue;
      }
      ++files;
      for (std::size_t row = 0; row < file.size(); ++row) {
        const double step_us = file.number(row, "step_us");
        if (file.text(row, "plan").empty() || std::isnan(step_us)) {
          continue;
        }
        const Configuration configuration = read_configuration_row(file, row, /*with_weights=*/false);
        const double floor_us = predict(chip, configuration.network, *configuration.plan).floor_us;
        if (!is_on_chip(*configuration.plan)) {
          CHECK(floor_us == 0);  // a library's is not proven
          continue;
        }
        ++measured;
        if (floor_us > 0) {
          ++shown;
          std::string network = entry.path().string();
          for (const std::string& cell : configuration_cells(configuration)) {
            network += ',' + cell;
          }
          if (configuration.network.hidden >= kUnits) {
            const auto of_best = best.try_emplace(network, step_us, step_us / floor_us).first;
            of_best->second = std::min(of_best->second, std::pair(step_us, step_us / floor_us));
          }
          CAPTURE(entry.path().string(), row, step_us, floor_us, describe(configuration.network));
          CHECK(floor_us <= step_us);
        }
      }
    }
  }
  std::vector<double> times;
  for (const auto& [network, of_best] : best) {
    times.push_back(of_best.second);
  }
  std::ranges::sort(times);
  CAPTURE(files, measured, shown, times.front(), times[times.size() / 2]);
  CHECK(measured > 3000);
  CHECK(shown >= 0.8 * measured);
  CHECK(times[times.size() / 2] <= 3.1);  // 2.99 before random networks of an H200 were among them
}
