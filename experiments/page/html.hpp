// SPDX-License-Identifier: Apache-2.0
// The words of a page: text that is safe inside it, tables, and the page around them, which asks nobody for anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onchip {

std::string escaped(std::string_view text);          // as it may stand between tags and in quotes
std::string percent_encoded(std::string_view text);  // as it may stand in an address

// "step_us" -> "step, µs"
std::string heading(std::string_view column);

// All HTML.
struct HtmlColumn {
  std::string heading;
  std::vector<std::string> cells;  // [rows]
  std::string kind = {};           // of its cells: "number", "long" text
  bool is_kept = false;            // also where all rows have the same
};

// A row for each, no more than the first hundred, or side by side: a column for each, for few rows with many fields.
// What is the same in all of many rows stands above them.
std::string table_html(const std::vector<HtmlColumn>& columns, bool are_side_by_side = false);

std::string note_html(std::string_view text);  // "" for none

std::string page_html(std::string_view title, std::string_view body);

}  // namespace onchip
