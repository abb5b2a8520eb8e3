// SPDX-License-Identifier: Apache-2.0
// Patterns of the Deep Learning Matrix Collection (https://github.com/google-research/google-research, state of
// sparsity):
//   rows, columns, non-zeros
//   where each row begins, and where the last ends    rows + 1 numbers
//   columns of the non-zeros, from 0                  row by row
// They have no values: all are 1, as those of a Matrix Market pattern.
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace onchip {
namespace {

class Numbers {
 public:
  Numbers(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::int64_t number(const std::string& what, std::int64_t least, std::int64_t most) {
    while (at_ < text_.size() && std::string_view(" \t\r\n,").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc() || value < least || value > most) {
      const auto stop = std::min(text_.find_first_of(" \t\r\n,", at_), text_.size());
      fail("expected " + what + " from " + std::to_string(least) + " to " + std::to_string(most) +
           (at_ == text_.size() ? ", found the end of the file"
                                : ", found " + in_quotes(text_.substr(at_, stop - at_))));
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::size_t left() const { return text_.size() - at_; }

  [[noreturn]] void fail(const std::string& message) const {
    const std::string_view before = text_.substr(0, at_);
    const std::size_t newline = before.rfind('\n');
    throw InputError(file_, static_cast<long>(std::count(before.begin(), before.end(), '\n')) + 1,
                     static_cast<long>(at_ - (newline == std::string_view::npos ? 0 : newline + 1)) + 1, message);
  }

 private:
  std::string_view text_, file_;
  std::size_t at_ = 0;
};

}  // namespace

SparseMatrix parse_smtx(std::string_view text, std::string_view file_name) {
  Numbers numbers(text, file_name);
  SparseMatrix matrix;
  matrix.rows = static_cast<int>(numbers.number("a number of rows", 1, kMaxDimension));
  matrix.columns = static_cast<int>(numbers.number("a number of columns", 1, kMaxDimension));
  const std::int64_t nnz = numbers.number("a number of non-zeros", 0, std::int64_t{matrix.rows} * matrix.columns);
  if (static_cast<std::size_t>(matrix.rows + 1 + nnz) > numbers.left()) {  // each takes a digit and what ends it
    numbers.fail(std::to_string(nnz) + " non-zeros of " + std::to_string(matrix.rows) + " rows do not fit into the " +
                 std::to_string(numbers.left()) + " bytes that follow; is the file truncated?");
  }
  std::int64_t begin = 0;
  for (int row = 0; row <= matrix.rows; ++row) {
    begin = numbers.number("where a row begins,", row == 0 ? 0 : begin, row == 0 ? 0 : nnz);
    matrix.row_begin.push_back(begin);
  }
  if (begin != nnz) {
    numbers.fail("the rows end at " + std::to_string(begin) + "; expected " + std::to_string(nnz));
  }
  for (int row = 0; row < matrix.rows; ++row) {
    std::int64_t least = 0;
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      const std::int64_t column = numbers.number("a column after the one before,", least, matrix.columns - 1);
      matrix.column.push_back(static_cast<std::int32_t>(column));
      least = column + 1;
    }
  }
  matrix.value.assign(matrix.column.size(), 1.0F);
  return matrix;
}

}  // namespace onchip
