// SPDX-License-Identifier: Apache-2.0
// The words of a page: text that is safe inside it, tables, and the page around them, which asks nobody for anything.
#pragma once

#include "model/base/table.hpp"

#include <string>
#include <string_view>

namespace onchip {

std::string escaped(std::string_view text);          // as it may stand between tags and in quotes
std::string percent_encoded(std::string_view text);  // as it may stand in an address

// "step_us" -> "step, µs"
std::string heading(std::string_view column);

// A row for each, no more than the first hundred, or side by side: a column for each, for few rows with many fields.
// What is the same in all of many rows stands above them.
std::string table_html(const Table& table, bool are_side_by_side = false);
std::string html_cell(const std::string& html);  // a cell or a column's name that is HTML
void without_html(std::string& cell);            // makes text of it, as which data are shown

std::string note_html(std::string_view text);  // "" for none

std::string page_html(std::string_view title, std::string_view body);

}  // namespace onchip
