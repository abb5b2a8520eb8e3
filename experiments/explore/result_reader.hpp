// SPDX-License-Identifier: Apache-2.0
// The rows of a CSV or JSON Lines file, one after another, in memory that does not depend on how many there are.
#pragma once

#include "model/answer/json.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

class ResultReader {
 public:
  // By the extension: .jsonl, else CSV. Throws InputError for a file that cannot be read, or has no names of columns.
  explicit ResultReader(const std::filesystem::path& file);
  ~ResultReader();
  ResultReader(const ResultReader&) = delete;
  ResultReader& operator=(const ResultReader&) = delete;

  const std::vector<std::string>& columns() const { return columns_; }

  bool next();                                      // to the next row; false at the end
  std::uint64_t offset() const { return offset_; }  // where it begins
  void seek(std::uint64_t offset);                  // so that next() reads the row there

  // Of the row. NaN for an empty cell. Throws InputError with its place for what is no number.
  void numbers(std::span<const std::size_t> columns, std::span<double> values);
  std::vector<std::string> cells();
  [[noreturn]] void fail(const std::string& message) const;

 private:
  bool read_line();
  std::size_t cell_end(std::size_t begin) const;

  std::string name_;
  bool is_json_ = false;
  int descriptor_ = -1;
  std::string buffer_;
  std::size_t place_ = 0;           // in the buffer, of the next line
  std::uint64_t buffer_begin_ = 0;  // in the file
  std::size_t at_once_ = 1 << 20;   // bytes
  bool is_at_end_ = false;
  std::string_view line_;
  std::uint64_t offset_ = 0;
  long number_ = 0;  // of the line
  std::vector<std::string> columns_;
};

}  // namespace onchip
