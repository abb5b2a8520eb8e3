// SPDX-License-Identifier: Apache-2.0
// Patterns of the Deep Learning Matrix Collection (https://github.com/google-research/google-research, state of
// sparsity):
//   rows, columns, non-zeros
//   where each row begins, and where the last ends    rows + 1 numbers
//   columns of the non-zeros, from 0                  row by row
// They have no values: all are 1, as those of a Matrix Market pattern.
#include "model/workload/files/text_reader.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace onchip {
namespace {

std::int64_t next_number(TextReader& reader, const std::string& what, std::int64_t least, std::int64_t most) {
  constexpr std::string_view kBetween = " \t\r\n,";
  const std::string_view text = reader.text();
  reader.go_to(text.find_first_not_of(kBetween, reader.at()));
  const std::size_t at = reader.at();
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (problem != std::errc() || value < least || value > most) {
    const auto stop = std::min(text.find_first_of(kBetween, at), text.size());
    reader.fail(at, "expected " + what + " from " + std::to_string(least) + " to " + std::to_string(most) +
                        (reader.is_at_end() ? ", found the end of the file"
                                            : ", found " + in_quotes(text.substr(at, stop - at))));
  }
  reader.go_to(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

SparseMatrix parse_smtx(std::string_view text, std::string_view file_name) {
  TextReader reader(text, file_name);
  const auto number = [&](const std::string& what, std::int64_t least, std::int64_t most) {
    return next_number(reader, what, least, most);
  };
  SparseMatrix matrix;
  matrix.rows = static_cast<int>(number("a number of rows", 1, kMaxDimension));
  matrix.columns = static_cast<int>(number("a number of columns", 1, kMaxDimension));
  const std::int64_t nnz = number("a number of non-zeros", 0, std::int64_t{matrix.rows} * matrix.columns);
  if (static_cast<std::size_t>(matrix.rows + 1 + nnz) > reader.left()) {  // each takes a digit and what ends it
    reader.fail(reader.at(), std::to_string(nnz) + " non-zeros of " + std::to_string(matrix.rows) +
                                 " rows do not fit into the " + std::to_string(reader.left()) +
                                 " bytes that follow; is the file truncated?");
  }
  std::int64_t begin = 0;
  for (int row = 0; row <= matrix.rows; ++row) {
    begin = number("where a row begins,", row == 0 ? 0 : begin, row == 0 ? 0 : nnz);
    matrix.row_begin.push_back(begin);
  }
  if (begin != nnz) {
    reader.fail(reader.at(), "the rows end at " + std::to_string(begin) + "; expected " + std::to_string(nnz));
  }
  for (int row = 0; row < matrix.rows; ++row) {
    std::int64_t least = 0;
    for (std::int64_t i = matrix.row_begin[row]; i < matrix.row_begin[row + 1]; ++i) {
      const std::int64_t column = number("a column after the one before,", least, matrix.columns - 1);
      matrix.column.push_back(static_cast<std::int32_t>(column));
      least = column + 1;
    }
  }
  matrix.value.assign(matrix.column.size(), 1.0F);
  return matrix;
}

}  // namespace onchip
