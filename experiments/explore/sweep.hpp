// SPDX-License-Identifier: Apache-2.0
// All rows of a spec, in order, by several threads and processes: the same bytes for any number of them.
#pragma once

#include "experiments/command/ranks.hpp"
#include "model/explore/row.hpp"
#include "model/explore/spec.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace onchip {

struct SweepOptions {
  RowFormat format = RowFormat::csv;
  int threads = 1;
  AskEngine engine;
  Json device = {};              // that measures, for the manifest
  bool estimates = true;         // how long it takes, by some of its rows; else a row takes too long for that
  std::filesystem::path output;  // empty: the standard output, which nothing resumes
  std::string command;           // that resumes
};

// False if it was interrupted (SIGINT, SIGTERM), after it has said what resumes it. Throws InputError; a spec that is
// wrong leaves no file behind. All ranks must call it.
bool sweep(const SweepSpec& spec, const SweepOptions& options, const Ranks& ranks);

}  // namespace onchip
