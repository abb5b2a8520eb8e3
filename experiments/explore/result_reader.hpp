// SPDX-License-Identifier: Apache-2.0
// The rows of a CSV or JSON Lines file, one after another, in memory that does not depend on how many there are.
#pragma once

#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/table.hpp"
#include "model/explore/front_of_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

class ResultReader {
 public:
  // By the extension: .jsonl, else CSV. Throws InputError for a file that cannot be read, or CSV without names of
  // columns.
  explicit ResultReader(const std::filesystem::path& file)
      : name_(file.string()), file_(file), is_json_(file.extension() == ".jsonl") {
    if (!read_line()) {
      if (is_json_) {  // no row, so no names
        return;
      }
      throw InputError(name_, 1, 1, "the file is empty: expected a line with the names of the columns");
    }
    if (is_json_) {
      const Json first = parse_json(line_, place());
      if (!first.is_object()) {
        fail("expected a JSON object");
      }
      for (const auto& [key, unused] : first.items()) {
        columns_.push_back(key);
      }
      seek(0);
      number_ = 0;
    } else {
      columns_ = parse_csv(std::string(line_) + "\n", name_).columns;
    }
  }

  const std::vector<std::string>& columns() const { return columns_; }

  // to the next row; false at the end
  bool next() {
    while (read_line()) {
      if (!line_.empty()) {
        return true;
      }
    }
    return false;
  }

  std::uint64_t offset() const { return offset_; }  // where it begins
  // so that next() reads the row there
  void seek(std::uint64_t offset) {
    if (offset >= buffer_begin_ && offset < buffer_begin_ + buffer_.size()) {
      place_ = static_cast<std::size_t>(offset - buffer_begin_);
      return;
    }
    buffer_.clear();
    place_ = 0;
    buffer_begin_ = offset;
    at_once_ = 1 << 12;  // for a row or two
  }

  // Of the row. NaN for an empty cell. Throws InputError with its place for what is no number.
  void numbers(std::span<const std::size_t> columns, std::span<double> values) {
    const auto read = [&](std::string_view cell, std::size_t column) {
      const std::optional<double> number = cell_number(cell);
      if (!number) {
        fail("column '" + columns_[column] + "': found " + in_quotes(cell) + ": expected a number");
      }
      return *number;
    };
    if (is_json_) {
      const std::vector<std::string> all = cells();
      for (std::size_t i = 0; i < columns.size(); ++i) {
        values[i] = read(all[columns[i]], columns[i]);
      }
      return;
    }
    std::size_t column = 0;
    for (std::size_t begin = 0; begin <= line_.size(); ++column) {
      const std::size_t end = cell_end(begin);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (columns[i] == column) {
          values[i] = read(line_.substr(begin, end - begin), column);
        }
      }
      begin = end + 1;
    }
    if (column != columns_.size()) {
      cells();  // says what is wrong
    }
  }

  std::vector<std::string> cells() {
    if (!is_json_) {
      const long line = number_ - static_cast<long>(std::ranges::count(line_, '\n'));
      std::vector<std::string> row = parse_csv_row(line_, name_, line);
      if (row.size() != columns_.size()) {
        throw InputError(name_, line, 1,
                         "found " + std::to_string(row.size()) + " fields: expected " +
                             std::to_string(columns_.size()) + ", as in the first line");
      }
      return row;
    }
    const Json json = parse_json(line_, place());
    if (!json.is_object()) {
      fail("expected a JSON object");
    }
    std::vector<std::string> found;
    for (const std::string& column : columns_) {
      const auto value = json.find(column);
      found.push_back(value == json.end() ? "" : cell_text(*value));
    }
    return found;
  }

  std::string place() const { return name_ + ":" + std::to_string(number_) + ":1"; }
  [[noreturn]] void fail(const std::string& message) const { throw InputError(name_, number_, 1, message); }

 private:
  // A line may be longer than the buffer, which grows then; quoted cells may hold ends of lines.
  bool read_line() {
    std::size_t searched = place_;
    bool is_quoted = false;
    for (;;) {
      const void* found =
          searched < buffer_.size() ? std::memchr(buffer_.data() + searched, '\n', buffer_.size() - searched) : nullptr;
      const std::uint64_t read = buffer_begin_ + buffer_.size();
      const bool is_at_end = read == file_.size();
      if (found != nullptr || (is_at_end && place_ < buffer_.size())) {
        const std::size_t end = found != nullptr
                                    ? static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data())
                                    : buffer_.size();
        const std::string_view seen(buffer_.data() + searched, end - searched);
        if (!is_json_ && std::memchr(seen.data(), '"', seen.size()) != nullptr) {
          is_quoted ^= std::ranges::count(seen, '"') % 2 != 0;
        }
        ++number_;
        if (is_quoted && found != nullptr) {
          searched = end + 1;
          continue;
        }
        line_ = std::string_view(buffer_).substr(place_, end - place_);
        if (line_.ends_with('\r')) {
          line_.remove_suffix(1);
        }
        offset_ = buffer_begin_ + place_;
        place_ = std::min(buffer_.size(), end + 1);
        return true;
      }
      if (is_at_end) {
        return false;
      }
      buffer_begin_ += place_;
      buffer_.erase(0, place_);
      searched -= place_;
      place_ = 0;
      buffer_ += file_.read(read, std::min<std::uint64_t>(at_once_, file_.size() - read));
    }
  }

  std::size_t cell_end(std::size_t begin) const {
    if (begin < line_.size() && line_[begin] == '"') {
      for (std::size_t i = begin + 1; i < line_.size(); ++i) {
        if (line_[i] == '"' && !(i + 1 < line_.size() && line_[i + 1] == '"' && ++i < line_.size())) {
          return std::min(line_.find(',', i), line_.size());
        }
      }
    }
    return std::min(line_.find(',', begin), line_.size());
  }

  std::string name_;
  InputFile file_;
  bool is_json_ = false;
  std::string buffer_;
  std::size_t place_ = 0;           // in the buffer, of the next line
  std::uint64_t buffer_begin_ = 0;  // in the file
  std::size_t at_once_ = 1 << 20;   // bytes
  std::string_view line_;
  std::uint64_t offset_ = 0;
  long number_ = 0;  // of the line
  std::vector<std::string> columns_;
};

}  // namespace onchip
