// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/html.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace onchip {
namespace {

// No script may run and nothing be asked for, whatever names in the data say.
constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>
:root { color-scheme: light dark; --ink: #222; --dim: #666; --line: #ccc; --back: #fff; --shade: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --dim: #999; --line: #444; --back: #161616; --shade: #222; }
  figure svg { filter: invert(0.91) hue-rotate(180deg); }
}
body { max-width: 72rem; margin: 0 auto; padding: 1rem; color: var(--ink); background: var(--back);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.1rem; color: var(--dim); font-weight: normal; margin: 0; }
h2 { font-size: 1.3rem; margin: 2rem 0 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 0.3rem; overflow-wrap: anywhere; }
.answer { font-size: 1.15rem; margin: 0.3rem 0 1rem; }
.note { color: var(--dim); font-size: 0.9rem; margin: 0.3rem 0; }
.wide { overflow-x: auto; margin: 0.5rem 0; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.long { min-width: 14rem; max-width: 26rem; font-size: 0.8rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { width: 100%; height: auto; min-width: 30rem; max-width: 45rem; }
pre { overflow-x: auto; padding: 0.6rem; background: var(--shade); font-size: 0.8rem; }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
details pre { max-height: 30rem; overflow: auto; }
@media print {
  :root { --ink: #000; --dim: #444; --line: #999; --back: #fff; --shade: #fff; }
  body { max-width: none; padding: 0; font-size: 9pt; }
  figure svg { filter: none; min-width: 0; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: 7.5pt; }
  td.long { min-width: 0; font-size: 6.5pt; }
  details { display: none; }
}
</style>
)";

constexpr std::size_t kShownRows = 100;

std::vector<bool> number_columns(const Table& table) {
  std::vector<bool> numbers(table.columns.size(), !table.rows.empty());
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      numbers[i] = numbers[i] && (row[i].empty() || is_number(row[i]));
    }
  }
  return numbers;
}

// As many digits as people read; the data have all.
std::string shown_number(const std::string& text) {
  constexpr int kDigits = 4;
  if (text.find('.') == std::string::npos || text.size() <= kDigits || !is_number(text)) {
    return text;
  }
  const double value = std::strtod(text.c_str(), nullptr);
  return std::abs(value) < 1000 ? format_number(rounded(value, kDigits)) : text;
}

std::string cell_html(const char* tag, const std::string& text, bool is_to_right) {
  constexpr std::size_t kLong = 40;
  const char* const kind = is_to_right ? " class=\"number\"" : text.size() > kLong ? " class=\"long\"" : "";
  return std::string("<") + tag + kind + '>' + escaped(shown_number(text)) + "</" + tag + '>';
}

void add_same(std::string& same, const std::string& column, const std::string& cell) {
  if (!cell.empty()) {
    same += (same.empty() ? "" : "; ") + heading(column) + ": " + shown_number(cell);
  }
}

}  // namespace

std::string note_html(std::string_view text) {
  return text.empty() ? "" : "<p class=\"note\">" + escaped(text) + "</p>\n";
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kWritten{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string safe;
  for (const char character : text) {
    const std::size_t place = kSpecial.find(character);
    safe += place == std::string_view::npos ? std::string(1, character) : kWritten[place];
  }
  return safe;
}

std::string heading(std::string_view column) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kUnits{{{"_us", "µs"},
                                                                                 {"_percent", "%"},
                                                                                 {"_mhz", "MHz"},
                                                                                 {"_kib_per_sm", "KiB per SM"},
                                                                                 {"_mib", "MiB"},
                                                                                 {"_gb_per_second", "GB/s"}}};
  if (column.find('.') != std::string_view::npos) {  // a chip's key
    return std::string(column);
  }
  std::string unit;
  for (const auto& [end, word] : kUnits) {
    if (column.ends_with(end)) {
      column.remove_suffix(end.size());
      unit = ", " + std::string(word);
      break;
    }
  }
  std::string text(column);
  std::ranges::replace(text, '_', ' ');
  return text + unit;
}

std::string table_html(const Table& table) {
  constexpr std::size_t kFew = 2;
  const std::vector<bool> numbers = number_columns(table);
  std::vector<std::size_t> shown;
  std::string same;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool varies = table.rows.size() <= kFew ||
                        std::ranges::any_of(table.rows, [&](const auto& row) { return row[i] != table.rows[0][i]; });
    if (varies) {
      shown.push_back(i);
    } else {
      add_same(same, table.columns[i], table.rows[0][i]);
    }
  }
  std::string html = note_html(same.empty() ? "" : "In all rows: " + same + ".");
  html += "<div class=\"wide\"><table>\n<thead><tr>";
  for (const std::size_t i : shown) {
    html += cell_html("th", heading(table.columns[i]), numbers[i]);
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < std::min(kShownRows, table.rows.size()); ++r) {
    html += "<tr>";
    for (const std::size_t i : shown) {
      const std::string& cell = table.rows[r][i];
      const bool is_plan = table.columns[i].ends_with("plan");  // of many, the family
      html += cell_html("td", is_plan ? cell.substr(0, cell.find(' ')) : cell, numbers[i]);
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (table.rows.size() > kShownRows) {
    html += note_html("The first " + std::to_string(kShownRows) + " of " + std::to_string(table.rows.size()) +
                      " rows; all are in the data below.");
  }
  return html;
}

std::string side_by_side_html(const Table& table) {
  std::string html, same;
  const auto begin_row = [&](const std::string& name) { html += "<tr>" + cell_html("th", name, false); };
  if (table.rows.size() > 1) {
    begin_row("");
    for (const auto& row : table.rows) {
      html += cell_html("th", row[0], false);
    }
    html += "</tr>\n";
  }
  for (std::size_t i = 1; i < table.columns.size(); ++i) {
    const std::string& first = table.rows[0][i];
    const bool is_same = std::ranges::all_of(table.rows, [&](const auto& row) { return row[i] == first; });
    if (is_same && (first.empty() || table.rows.size() > 1)) {
      add_same(same, table.columns[i], first);
      continue;
    }
    begin_row(heading(table.columns[i]));
    for (const auto& row : table.rows) {
      html += cell_html("td", row[i], false);
    }
    html += "</tr>\n";
  }
  return note_html(same.empty() ? "" : "In all: " + same + ".") + "<div class=\"wide\"><table>\n" + html +
         "</table></div>\n";
}

std::string page_html(std::string_view title, std::string_view body) {
  return std::string(kHead) + "<title>" + escaped(title) + "</title>\n</head>\n<body>\n" + std::string(body) +
         "</body>\n</html>\n";
}

}  // namespace onchip
