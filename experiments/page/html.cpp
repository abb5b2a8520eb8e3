// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/html.hpp"

#include "model/base/joined.hpp"

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
th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
th:first-child { text-align: left; white-space: nowrap; }
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

std::string table_html(const std::vector<HtmlColumn>& columns, bool are_side_by_side) {
  const std::size_t rows = columns.empty() ? 0 : columns[0].cells.size(), shown = std::min(kShownRows, rows);
  std::string same;
  std::vector<std::vector<std::string>> lines(are_side_by_side ? 0 : shown + 1);  // of cells, with their tags
  for (const HtmlColumn& column : columns) {
    const auto first = std::ranges::find_if_not(column.cells, &std::string::empty);  // that is there
    const auto is_first = [&](const std::string& cell) { return cell.empty() || cell == *first; };
    if (first == column.cells.end()) {
      continue;
    }
    if (rows > 2 && !column.is_kept && std::ranges::all_of(column.cells, is_first)) {
      same += (same.empty() ? "" : "; ") + column.heading + ": " + *first;
      continue;
    }
    if (are_side_by_side) {
      lines.emplace_back();
    }
    const auto add = [&](std::size_t row, const std::string& tag, const std::string& html) {
      const std::string kind = column.kind.empty() ? "" : " class=\"" + column.kind + '"';
      (are_side_by_side ? lines.back() : lines[row]).push_back('<' + tag + kind + '>' + html + "</" + tag + '>');
    };
    add(0, "th", column.heading);
    for (std::size_t row = 0; row < shown; ++row) {
      add(row + 1, "td", column.cells[row]);
    }
  }
  std::string html = same.empty() ? "" : "<p class=\"note\">In all rows: " + same + ".</p>\n";
  html += "<div class=\"wide\"><table>\n";
  for (const auto& line : lines) {
    html += "<tr>" + joined(line, "") + "</tr>\n";
  }
  html += "</table></div>\n";
  return html + (shown == rows ? ""
                               : note_html("The first " + std::to_string(shown) + " of " + std::to_string(rows) +
                                           " rows; all are in the data below."));
}

std::string page_html(std::string_view title, std::string_view body) {
  return std::string(kHead) + "<title>" + escaped(title) + "</title>\n</head>\n<body>\n" + std::string(body) +
         "</body>\n</html>\n";
}

}  // namespace onchip
