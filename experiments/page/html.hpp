// SPDX-License-Identifier: Apache-2.0
// The words of a page: text that is safe inside it, tables, and the page around them, which asks nobody for anything.
#pragma once

#include "model/base/table.hpp"

#include <string>
#include <string_view>

namespace onchip {

std::string escaped(std::string_view text);  // as it may stand between tags and in quotes

// "step_us" -> "step, µs"
std::string heading(std::string_view column);

// A row for each; what is the same in all of many rows stands above them. No more than the first hundred.
std::string table_html(const Table& table);
// A column for each row of `table`, whose first cell is its name: for few rows with many fields.
std::string side_by_side_html(const Table& table);

std::string note_html(std::string_view text);  // "" for none

std::string page_html(std::string_view title, std::string_view body);

}  // namespace onchip
