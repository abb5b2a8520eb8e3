// SPDX-License-Identifier: Apache-2.0
// Matrix Market files (Boisvert, Pozo, Remington: The Matrix Market exchange formats, NISTIR 5935, 1996):
//   %%MatrixMarket matrix coordinate real general
//   % comments
//   rows columns entries
//   row column value            one line per entry, indices from 1
// Of the format "array" all values are listed instead, column by column, behind a line with rows and columns.
#include "model/base/joined.hpp"
#include "model/workload/files/text_reader.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

namespace onchip {
namespace {

enum class Field : std::uint8_t { real, integer, pattern };
constexpr std::array<std::string_view, 1> kObjects{"matrix"};
constexpr std::array<std::string_view, 2> kFormats{"coordinate", "array"};
constexpr std::array<std::string_view, 3> kFields{"real", "integer", "pattern"};
enum class Symmetry : std::uint8_t { general, symmetric, skew };
constexpr std::array<std::string_view, 3> kSymmetries{"general", "symmetric", "skew-symmetric"};
constexpr std::string_view kBanner = "%%MatrixMarket";

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : reader_(text, file_name) {}

  SparseMatrix parse() {
    read_header();
    read_size();
    read_entries();
    return matrix_of(rows_, columns_, std::move(entry_), [&](const Entry& first, const Entry& second) {
      reader_.fail(second.where, "entry (" + std::to_string(second.row + 1) + ", " + std::to_string(second.column + 1) +
                                     ") is already on line " + std::to_string(reader_.line_of(first.where)) +
                                     (is_symmetric() ? "; a symmetric file holds one triangle" : ""));
    });
  }

 private:
  void read_header() {
    if (const std::string_view banner = reader_.word();
        !equal_ignoring_case(banner, kBanner) && !equal_ignoring_case(banner, kBanner.substr(1))) {
      reader_.fail(0, "not a Matrix Market file: it does not begin with '" + std::string(kBanner) + "'");
    }
    choose("object", kObjects);
    is_array_ = choose("format", kFormats) == 1;
    const std::size_t field_at = reader_.at();
    field_ = static_cast<Field>(choose("field", kFields));
    symmetry_ = static_cast<Symmetry>(choose("symmetry", kSymmetries));
    if (is_array_ && (field_ == Field::pattern || is_symmetric())) {
      reader_.fail(field_at, "an array is read as 'real general' or 'integer general'");
    }
    if (field_ == Field::pattern && symmetry_ == Symmetry::skew) {
      reader_.fail(field_at, "a pattern has no signs; expected 'pattern general' or 'pattern symmetric'");
    }
    reader_.end_line("the header");
  }

  void read_size() {
    if (!next_data_line()) {
      reader_.fail(reader_.at(), "the file ends before the line with rows, columns and entries");
    }
    const std::size_t line = reader_.at();
    rows_ = static_cast<int>(integer("number of rows", 1, kMaxDimension));
    columns_ = static_cast<int>(integer("number of columns", 1, kMaxDimension));
    if (is_symmetric() && rows_ != columns_) {
      reader_.fail(
          line, "a symmetric matrix must be square; found " + std::to_string(rows_) + " x " + std::to_string(columns_));
    }
    const std::int64_t elements = std::int64_t{rows_} * columns_;
    reader_.skip_blanks();
    const std::size_t count_at = reader_.at();
    // Of a symmetric matrix those of a triangle, with the diagonal unless it is skew, whose diagonal is zero.
    const std::int64_t most_entries = symmetry_ == Symmetry::general ? elements
                                      : symmetry_ == Symmetry::skew  ? (elements - rows_) / 2
                                                                     : (elements + rows_) / 2;
    entries_ = is_array_ ? elements : integer("number of entries", 0, most_entries);
    reader_.end_line(is_array_ ? "the numbers of rows and columns" : "the numbers of rows, columns and entries");
    // "1 1 1\n", "1 1\n" for a pattern, "1\n" of an array; the last line end may be missing. This bounds what is
    // allocated below.
    const std::size_t left = reader_.left();
    const std::size_t most = (left + 1) / (is_array_ ? 2 : field_ == Field::pattern ? 4 : 6);
    if (static_cast<std::size_t>(entries_) > most) {
      reader_.fail(count_at, std::to_string(entries_) + " entries do not fit into the " + std::to_string(left) +
                                 " bytes that follow (at most " + std::to_string(most) +
                                 " do); is the file truncated?");
    }
  }

  void read_entries() {
    entry_.reserve(is_array_ ? 0 : static_cast<std::size_t>(entries_) * (is_symmetric() ? 2 : 1));
    for (read_ = 0; read_ < entries_; ++read_) {
      if (!next_data_line()) {
        refuse_truncated();
      }
      const std::size_t offset = reader_.at();
      const auto row = static_cast<std::int32_t>(is_array_ ? read_ % rows_ : integer("row", 1, rows_) - 1);
      const auto column = static_cast<std::int32_t>(is_array_ ? read_ / rows_ : integer("column", 1, columns_) - 1);
      const float entry_value = value();
      if (reader_.skip_blanks(); field_ == Field::pattern && !reader_.is_at_end() && !reader_.is_at('\n')) {
        reader_.fail(reader_.at(), "an entry of a pattern is a row and a column; is the field 'real' or 'integer'?");
      }
      reader_.end_line("the entry");
      if (is_array_ && entry_value == 0) {
        continue;
      }
      if (symmetry_ == Symmetry::skew && row == column) {
        reader_.fail(offset, "an entry on the diagonal, which is zero in a skew-symmetric matrix");
      }
      entry_.push_back({row, column, entry_value, offset});
      if (is_symmetric() && row != column) {
        entry_.push_back({column, row, symmetry_ == Symmetry::skew ? -entry_value : entry_value, offset});
      }
    }
    if (next_data_line()) {
      const std::size_t start = reader_.at();
      reader_.fail(start, "unexpected " + in_quotes(reader_.word()) + " after the last of " + std::to_string(entries_) +
                              " entries");
    }
  }

  float value() {
    if (field_ == Field::pattern) {
      return 1;
    }
    refuse_truncated();
    const float value = reader_.value();
    if (field_ == Field::integer && value != std::trunc(value)) {  // "1.0", too
      const std::size_t start = reader_.word_at();
      reader_.fail(start,
                   "expected an integer value, found " + in_quotes(reader_.text().substr(start, reader_.at() - start)));
    }
    return value;
  }

  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most) {
    refuse_truncated();
    return reader_.integer("a " + name, name, least, most);
  }

  // Skips empty lines and comments; false at the end of the file.
  bool next_data_line() {
    for (;;) {
      reader_.skip_blanks();
      if (reader_.is_at_end()) {
        return false;
      }
      if (reader_.is_at('%')) {
        reader_.go_to(reader_.text().find('\n', reader_.at()));
      } else if (!reader_.is_at('\n')) {
        return true;
      }
      reader_.go_to(reader_.at() + 1);
    }
  }

  int choose(std::string_view what, std::span<const std::string_view> supported) {
    const std::string_view found = reader_.word();
    for (std::size_t i = 0; i < supported.size(); ++i) {
      if (equal_ignoring_case(found, supported[i])) {
        return static_cast<int>(i);
      }
    }
    reader_.fail(reader_.word_at(), (found.empty() ? "the header ends before the " + std::string(what)
                                                   : "unsupported " + std::string(what) + " " + in_quotes(found)) +
                                        "; supported: " + joined(supported));
  }

  bool is_symmetric() const { return symmetry_ != Symmetry::general; }

  // Within an entry.
  void refuse_truncated() {
    reader_.skip_blanks();
    if (reader_.is_at_end() && read_ >= 0) {
      reader_.fail(reader_.at(),
                   "the file ends after " + std::to_string(read_) + " of " + std::to_string(entries_) + " entries");
    }
  }

  TextReader reader_;
  Field field_ = Field::real;
  Symmetry symmetry_ = Symmetry::general;
  bool is_array_ = false;
  int rows_ = 0;
  int columns_ = 0;
  std::int64_t entries_ = 0;
  std::int64_t read_ = -1;  // entries read so far; -1 before the first
  std::vector<Entry> entry_;
};

}  // namespace

SparseMatrix parse_matrix_market(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).parse();
}

}  // namespace onchip
