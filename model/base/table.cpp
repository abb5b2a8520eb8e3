// SPDX-License-Identifier: Apache-2.0
#include "model/base/table.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/number.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace onchip {
namespace {

// One record from `place` on, which is moved behind its end of line.
std::vector<std::string> read_record(std::string_view text, std::size_t& place, long& line,
                                     std::string_view file_name) {
  std::vector<std::string> cells(1);
  const long first_line = line;
  std::size_t line_begin = place;
  bool quoted = false, closed = false;  // the cell is in quotes, which are open, or closed
  for (; place < text.size(); ++place) {
    const char character = text[place];
    if (quoted) {
      if (character == '"' && place + 1 < text.size() && text[place + 1] == '"') {
        cells.back() += '"';
        ++place;
      } else if (character == '"') {
        quoted = false;
        closed = true;
      } else {
        if (character == '\n') {
          ++line;
          line_begin = place + 1;
        }
        cells.back() += character;
      }
    } else if (character == '"' && cells.back().empty() && !closed) {
      quoted = true;
    } else if (character == ',') {
      cells.emplace_back();
      closed = false;
    } else if (character == '\n') {
      ++place;
      break;
    } else if (character == '"' || (closed && character != '\r')) {
      throw InputError(file_name, line, static_cast<long>(place - line_begin) + 1,
                       "a field has a quote inside: expected the whole field in quotes, and its own quotes twice");
    } else if (character != '\r') {
      cells.back() += character;
    }
  }
  if (quoted) {
    throw InputError(file_name, first_line, 1, "a quoted field has no closing quote");
  }
  ++line;
  return cells;
}

}  // namespace

bool is_number(std::string_view cell) {
  return number_in<double>(cell).has_value();
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += i ? "," : "";
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      line += cells[i];
      continue;
    }
    line += '"';
    for (const char character : cells[i]) {
      line += character == '"' ? "\"\"" : std::string(1, character);
    }
    line += '"';
  }
  return line + '\n';
}

std::string to_csv(const Table& table) {
  std::string text = csv_line(table.columns);
  for (const auto& row : table.rows) {
    text += csv_line(row);
  }
  return text;
}

std::size_t find_column(const std::vector<std::string>& columns, std::string_view column, std::string_view where) {
  const auto found = std::ranges::find(columns, column);
  if (found == columns.end()) {
    const std::vector<std::string_view> names(columns.begin(), columns.end());
    throw InputError(std::string(where) + ": no column " + in_quotes(column) + did_you_mean(column, names));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

std::string to_aligned(const Table& table) {
  const std::size_t columns = table.columns.size();
  std::vector<std::size_t> width(columns);
  std::vector<bool> to_right(columns, !table.rows.empty());
  for (std::size_t i = 0; i < columns; ++i) {
    width[i] = table.columns[i].size();
    for (const auto& row : table.rows) {
      width[i] = std::max(width[i], row[i].size());
      to_right[i] = to_right[i] && (row[i].empty() || is_number(row[i]));
    }
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < columns; ++i) {
      const std::string padding(width[i] - cells[i].size(), ' ');
      line += (i ? "  " : "") + (to_right[i] ? padding + cells[i] : cells[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add(table.columns);
  for (const auto& row : table.rows) {
    add(row);
  }
  return text;
}

std::vector<std::string> parse_csv_row(std::string_view text, std::string_view file_name, long line) {
  std::size_t place = 0;
  return read_record(text, place, line, file_name);
}

Table parse_csv(std::string_view text, std::string_view file_name) {
  Table table;
  std::size_t place = 0;
  long line = 1;
  if (text.empty()) {
    throw InputError(file_name, 1, 1, "the file is empty: expected a line with the names of the columns");
  }
  table.columns = read_record(text, place, line, file_name);
  std::vector<std::string_view> names(table.columns.begin(), table.columns.end());
  std::ranges::sort(names);
  if (names.front().empty()) {
    throw InputError(file_name, 1, 1, "a column has no name");
  }
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    throw InputError(file_name, 1, 1, "two columns have the name " + in_quotes(*twice));
  }
  while (place < text.size()) {
    const long record_line = line;
    std::vector<std::string> row = read_record(text, place, line, file_name);
    if (row.size() == 1 && row[0].empty()) {
      continue;
    }
    if (row.size() != table.columns.size()) {
      throw InputError(file_name, record_line, 1,
                       "found " + std::to_string(row.size()) + " fields: expected " +
                           std::to_string(table.columns.size()) + ", as in the first line");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table read_csv(const std::filesystem::path& file) {
  return parse_csv(InputFile(file).bytes(), file.string());
}

CsvReader::CsvReader(const std::filesystem::path& file) : file_(file.string()), table_(read_csv(file)) {}

bool CsvReader::has(std::string_view column) const {
  return std::find(table_.columns.begin(), table_.columns.end(), column) != table_.columns.end();
}

const std::string& CsvReader::text(std::size_t row, std::string_view column) const {
  return table_.rows[row][index(column)];
}

double CsvReader::number(std::size_t row, std::string_view column) const {
  const std::string& cell = text(row, column);
  if (cell.empty() || cell == "nan") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (!is_number(cell)) {
    fail(row, "column '" + std::string(column) + "': found " + in_quotes(cell) + ": expected a number");
  }
  return std::strtod(cell.c_str(), nullptr);
}

void CsvReader::fail(std::size_t row, std::string_view message) const {
  throw InputError(file_ + ": row " + std::to_string(row + 1) + ": " + std::string(message));
}

}  // namespace onchip
