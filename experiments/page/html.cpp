// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/html.hpp"

#include <algorithm>
#include <array>
#include <cctype>
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
th { font-weight: 600; } th:first-child { white-space: nowrap; }
td.number { text-align: right; white-space: nowrap; }
td.long { min-width: 14rem; max-width: 26rem; font-size: 0.8rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg, figure img { width: 100%; height: auto; min-width: 30rem; max-width: 45rem; }
svg text { fill: var(--ink); font-size: 12px; }
svg .title { font-weight: 600; font-size: 14px; }
svg .grid { stroke: var(--line); } svg .mark { stroke: var(--ink); } svg.bar { width: 15rem; vertical-align: middle; }
.blue { fill: #0072b2; color: #0072b2; stroke: #0072b2; } .orange { fill: #e69f00; color: #e69f00; stroke: #e69f00; }
.green { fill: #009e73; color: #009e73; stroke: #009e73; } .sky { fill: #56b4e9; color: #56b4e9; stroke: #56b4e9; }
.vermilion { fill: #d55e00; color: #d55e00; stroke: #d55e00; } .purple { fill: #cc79a7; color: #cc79a7; stroke: #cc79a7; }
.yellow { fill: #f0e442; color: #f0e442; stroke: #f0e442; } .grey { fill: #888; color: #888; stroke: #888; }
.map td { border: 1px solid var(--back); } .no { background: var(--line); } svg rect { stroke: none; }
pre { overflow-x: auto; padding: 0.6rem; background: var(--shade); font-size: 0.8rem; }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
details pre { max-height: 30rem; overflow: auto; }
@media print {
  :root { --ink: #000; --dim: #444; --line: #999; --back: #fff; --shade: #fff; }
  body { max-width: none; padding: 0; font-size: 9pt; }
  figure svg { min-width: 0; }
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

// As many digits as people read; the data have all.
std::string shown_number(const std::string& text) {
  constexpr int kDigits = 4;
  if (text.find('.') == std::string::npos || text.size() <= kDigits || !is_number(text)) {
    return text;
  }
  const double value = std::strtod(text.c_str(), nullptr);
  return std::abs(value) < 1000 ? format_number(rounded(value, kDigits)) : text;
}

// What begins so is HTML, as html_cell() makes it.
constexpr char kHtml = '\x01';

std::string cell_html(const char* tag, const std::string& text) {
  constexpr std::size_t kLong = 40;
  if (text.starts_with(kHtml)) {
    return std::string("<") + tag + '>' + text.substr(1) + "</" + tag + '>';
  }
  const char* const kind = is_number(text) ? " class=\"number\"" : text.size() > kLong ? " class=\"long\"" : "";
  return std::string("<") + tag + kind + '>' + escaped(shown_number(text)) + "</" + tag + '>';
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

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kPlain = "._:/=-", kDigits = "0123456789ABCDEF";
  std::string written;
  for (const unsigned char c : text) {
    const bool is_plain = std::isalnum(c) || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
    written += is_plain ? std::string(1, static_cast<char>(c)) : std::string{'%', kDigits[c / 16], kDigits[c % 16]};
  }
  return written;
}

std::string heading(std::string_view column) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kUnits{{{"_us", "µs"},
                                                                                 {"_ms", "ms"},
                                                                                 {"_percent", "%"},
                                                                                 {"_mhz", "MHz"},
                                                                                 {"_kib_per_sm", "KiB per SM"},
                                                                                 {"_mib", "MiB"},
                                                                                 {"_gb_per_second", "GB/s"}}};
  if (column.find('.') != std::string_view::npos || column.starts_with(kHtml)) {  // a chip's key
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

std::string html_cell(const std::string& html) {
  return kHtml + html;
}

void without_html(std::string& cell) {
  cell.erase(0, cell.find_first_not_of(kHtml));
}

std::string table_html(const Table& table, bool are_side_by_side) {
  constexpr std::size_t kFew = 2;
  std::string same;
  std::vector<std::vector<std::string>> cells(std::min(kShownRows, table.rows.size()) + 1);  // the first: headings
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::string first;  // that is there
    for (const auto& row : table.rows) {
      first = first.empty() ? row[i] : first;
    }
    const auto is_first = [&](const auto& row) { return row[i].empty() || row[i] == first; };
    const bool is_html = first.starts_with(kHtml) || table.columns[i].starts_with(kHtml);
    if (first.empty() || (table.rows.size() > kFew && !is_html && std::ranges::all_of(table.rows, is_first))) {
      same += first.empty() ? "" : (same.empty() ? "" : "; ") + heading(table.columns[i]) + ": " + shown_number(first);
      continue;
    }
    const bool is_plan = table.columns[i].ends_with("plan") && table.rows.size() > kFew;  // of many, the family
    cells[0].push_back(heading(table.columns[i]));
    for (std::size_t row = 1; row < cells.size(); ++row) {
      const std::string& text = table.rows[row - 1][i];
      cells[row].push_back(is_plan ? text.substr(0, text.find(' ')) : text);
    }
  }
  if (are_side_by_side) {
    std::vector<std::vector<std::string>> turned(cells[0].size());
    for (const auto& row : cells) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        turned[i].push_back(row[i]);
      }
    }
    cells = std::move(turned);
  }
  std::string html = note_html(same.empty() ? "" : "In all rows: " + same + ".") + "<div class=\"wide\"><table>\n";
  for (std::size_t row = 0; row < cells.size(); ++row) {
    html += "<tr>";
    for (std::size_t i = 0; i < cells[row].size(); ++i) {
      html += cell_html(are_side_by_side ? (i == 0 ? "th" : "td") : (row == 0 ? "th" : "td"), cells[row][i]);
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  if (table.rows.size() > kShownRows) {
    html += note_html("The first " + std::to_string(kShownRows) + " of " + std::to_string(table.rows.size()) +
                      " rows; all are in the data below.");
  }
  return html;
}

std::string page_html(std::string_view title, std::string_view body) {
  return std::string(kHead) + "<title>" + escaped(title) + "</title>\n</head>\n<body>\n" + std::string(body) +
         "</body>\n</html>\n";
}

}  // namespace onchip
