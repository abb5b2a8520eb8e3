// SPDX-License-Identifier: Apache-2.0
// Text files of numbers: their words one after another, what is wrong refused with its line and column, and what they
// list as a matrix.
#pragma once

#include "model/base/error.hpp"
#include "model/workload/mask.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

class TextReader {
 public:
  TextReader(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {
    if (text_.starts_with("\xef\xbb\xbf")) {  // the byte order mark that some editors put before UTF-8
      text_.remove_prefix(3);
    }
  }

  std::string_view text() const { return text_; }
  std::size_t at() const { return at_; }
  void go_to(std::size_t at) { at_ = std::min(at, text_.size()); }
  std::size_t left() const { return text_.size() - at_; }
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool is_at_end() const { return at_ == text_.size(); }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r", at_), text_.size()); }
  // The next word of the line, "" at its end.
  std::string_view word() {
    skip_blanks();
    word_at_ = at_;
    at_ = std::min(text_.find_first_of(" \t\r\n", at_), text_.size());
    return text_.substr(word_at_, at_ - word_at_);
  }
  std::size_t word_at() const { return word_at_; }  // where the last one began
  std::string_view needed_word(const std::string& expected) {
    const std::string_view found = word();
    if (found.empty()) {
      fail(at_, "expected " + expected + ", found the end of the " + (is_at_end() ? "file" : "line"));
    }
    return found;
  }

  // "expected a row, found 'x'", "row '4' is outside 1 to 3"
  std::int64_t integer(const std::string& expected, std::string_view name, std::int64_t least, std::int64_t most) {
    const std::string_view found = needed_word(expected), digits = without_plus(found);
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (stop != digits.data() + digits.size() || error == std::errc::invalid_argument) {
      fail(word_at_, "expected " + expected + ", found " + in_quotes(found));
    }
    if (error != std::errc() || number < least || number > most) {
      fail(word_at_, std::string(name) + " " + in_quotes(found) + " is outside " + std::to_string(least) + " to " +
                         std::to_string(most));
    }
    return number;
  }
  // What is too small for fp32 is zero.
  template <typename IsAllowed>
  float value(const std::string& expected, IsAllowed&& is_allowed) {
    const std::string_view found = needed_word("a value");
    std::string_view digits = without_plus(found);
    std::string fortran;  // "6.9D-01"
    if (const std::size_t exponent = digits.find_first_of("dD"); exponent != std::string_view::npos) {
      digits = (fortran = digits).replace(exponent, 1, "e");
    }
    float number = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (stop != digits.data() + digits.size() || error == std::errc::invalid_argument || !is_allowed(number)) {
      fail(word_at_, "expected " + expected + ", found " + in_quotes(found));
    }
    if (error == std::errc::result_out_of_range) {  // of fp32, at either end
      if (std::abs(std::strtod(std::string(digits).c_str(), nullptr)) > 1) {
        fail(word_at_, "value " + in_quotes(found) + " is beyond the range of fp32");
      }
      return 0;
    }
    if (!std::isfinite(number)) {
      fail(word_at_, "value " + in_quotes(found) + " is not a finite number");
    }
    return number;
  }
  float value() {
    return value("a value", [](float) { return true; });
  }

  // after: "the header", or nothing.
  void end_line(const std::string& after = "") {
    skip_blanks();
    if (!is_at_end() && !is_at('\n')) {
      const std::size_t start = at_;
      fail(start,
           "expected the end of the line" + (after.empty() ? "" : " after " + after) + ", found " + in_quotes(word()));
    }
    go_to(at_ + 1);
  }

  // Lines and columns count from 1.
  long line_of(std::size_t at) const {
    return static_cast<long>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n')) + 1;
  }
  [[noreturn]] void fail(std::size_t at, const std::string& message) const {
    const std::size_t newline = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    throw InputError(file_name_, line_of(at), static_cast<long>(at - (newline + 1)) + 1, message);  // npos + 1 is 0
  }

  static std::string_view without_plus(std::string_view text) {  // from_chars takes none
    return text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
  }

 private:
  std::string_view text_, file_name_;
  std::size_t at_ = 0, word_at_ = 0;
};

// An element of a matrix.
struct Entry {
  std::int32_t row, column;  // from 0
  float value;
  std::size_t where;  // it stands in the file
};

// The matrix of entries in any order, without zeros. Calls twice(first, second) for two of the same place, which must
// throw. Entries are put into their rows where they are, without a copy of all.
template <typename Twice>
SparseMatrix matrix_of(int rows, int columns, std::vector<Entry> entries, Twice&& twice) {
  std::vector<std::size_t> begin(static_cast<std::size_t>(rows) + 1);
  for (const Entry& entry : entries) {
    ++begin[entry.row + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);  // of each row, behind those that are in their place
  for (int row = 0; row < rows; ++row) {
    while (next[row] < begin[row + 1]) {
      Entry& entry = entries[next[row]];
      const std::size_t place = next[entry.row]++;
      if (entry.row != row) {
        std::swap(entry, entries[place]);
      }
    }
  }
  SparseMatrix matrix{rows, columns, {0}, {}, {}};
  matrix.column.reserve(entries.size());
  matrix.value.reserve(entries.size());
  const auto before = [](const Entry& a, const Entry& b) {
    return a.column != b.column ? a.column < b.column : a.where < b.where;
  };
  for (int row = 0; row < rows; ++row) {
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(begin[row]),
               last = entries.begin() + static_cast<std::ptrdiff_t>(begin[row + 1]);
    if (!std::is_sorted(first, last, before)) {
      std::sort(first, last, before);
    }
    for (auto entry = first; entry != last; ++entry) {
      if (entry != first && entry->column == entry[-1].column) {
        twice(entry[-1], *entry);
      }
      if (entry->value != 0) {
        matrix.column.push_back(entry->column);
        matrix.value.push_back(entry->value);
      }
    }
    matrix.row_begin.push_back(matrix.nnz());
  }
  return matrix;
}

}  // namespace onchip
