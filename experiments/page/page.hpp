// SPDX-License-Identifier: Apache-2.0
// Results of onchip as one HTML page: of each file a sentence, figures, tables, the command, and its data as JSON.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/table.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace onchip {

// What a file holds: an answer, rows, or a figure.
struct Result {
  std::string name;
  Json answer, manifest;  // null: none
  Table rows;
  std::string svg;
};

// By the extension: .csv and .jsonl are rows, .svg a figure, all others JSON. Throws InputError.
Result read_result(const std::filesystem::path& file);

// The same bytes for the same results. `commands`: what else made them, and the page.
std::string report_html(const std::vector<Result>& results, std::vector<std::string> commands);

}  // namespace onchip
