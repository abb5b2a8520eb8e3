// SPDX-License-Identifier: Apache-2.0
// Rows of text under named columns: as CSV (RFC 4180), read and written, and aligned for people.
#pragma once

#include "model/base/units.hpp"

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// A cell that says yes or no, in JSON's words.
inline std::string truth(bool value) {
  return value ? "true" : "false";
}

bool is_number(std::string_view cell);

std::string csv_line(const std::vector<std::string>& cells);  // with its end of line
std::string to_csv(const Table& table);

// Where a column stands. Throws InputError "WHERE: no column ..." with the nearest name.
std::size_t find_column(const std::vector<std::string>& columns, std::string_view column, std::string_view where);

// Two spaces between columns; columns of numbers to the right.
std::string to_aligned(const Table& table);

// A CSV file with a header line. Throws InputError with file and line for rows of another length, quotes that do not
// close or stand inside a field, columns without a name or with the same one.
Table read_csv(const std::filesystem::path& file);
Table parse_csv(std::string_view text, std::string_view file_name);
// The cells of one row, which begins in this line of the file.
std::vector<std::string> parse_csv_row(std::string_view text, std::string_view file_name, long line);

// Access by column name; throws InputError naming the file and what it has instead.
class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& file);

  std::size_t size() const { return table_.rows.size(); }
  const std::string& file() const { return file_; }
  bool has(std::string_view column) const;
  const std::string& text(std::size_t row, std::string_view column) const;
  double number(std::size_t row, std::string_view column) const;  // "" and "nan" are NaN
  [[noreturn]] void fail(std::size_t row, std::string_view message) const;

 private:
  std::size_t index(std::string_view column) const { return find_column(table_.columns, column, file_); }

  std::string file_;
  Table table_;
};

}  // namespace onchip
