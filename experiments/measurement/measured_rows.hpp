// SPDX-License-Identifier: Apache-2.0
// Rows of a file, measured one after another while the next are prepared; CSV grows with them.
#pragma once

#include "experiments/command/output.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/parallel.hpp"

#include <cstddef>
#include <exception>
#include <future>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

struct RowsMeasured {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> problems;  // what failed
};

// The manifest of a file of measurements (manifest.hpp); nothing beside the standard output.
inline void write_manifest_beside(const Output& output, const Manifest& manifest) {
  if (!output.path().empty()) {
    write_file(manifest_path(output.path()), to_json_text(manifest));
  }
}

// Of the rows of a file. `prepare(row)` needs no GPU, and runs on other threads; `measure(row, std::future of what that
// returns)` returns RowsMeasured. What either throws is the row's problem. Returns the exit status: 1 if there were
// problems.
template <typename Prepare, typename Measure>
int measure_rows(const std::string& file, std::size_t count, const std::vector<std::string>& columns, Output& output,
                 const Prepare& prepare, const Measure& measure) {
  const Manifest manifest = current_manifest();
  std::vector<std::future<decltype(prepare(std::size_t{0}))>> prepared(count);
  const auto begin_row = [&](std::size_t i) {
    if (i < count) {
      prepared[i] = std::async(std::launch::async, [&prepare, i] { return prepare(i); });
    }
  };
  const auto ahead = static_cast<std::size_t>(all_cores());
  for (std::size_t i = 0; i < ahead; ++i) {
    begin_row(i);
  }
  output.append(csv_line(columns));
  bool is_all_right = true;
  for (std::size_t i = 0; i < count; ++i) {
    begin_row(i + ahead);
    RowsMeasured rows;
    try {
      rows = measure(i, std::move(prepared[i]));
    } catch (const std::exception& error) {
      rows.problems.emplace_back(error.what());
    }
    for (const std::vector<std::string>& cells : rows.cells) {
      output.append(csv_line(cells));
    }
    for (const std::string& problem : rows.problems) {
      std::cerr << file << ": row " << i + 1 << ": " << problem << '\n';
      is_all_right = false;
    }
  }
  output.finish();
  write_manifest_beside(output, manifest);
  return is_all_right ? 0 : 1;
}

}  // namespace onchip
