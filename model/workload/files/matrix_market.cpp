// SPDX-License-Identifier: Apache-2.0
// Matrix Market files (Boisvert, Pozo, Remington: The Matrix Market exchange formats, NISTIR 5935, 1996):
//   %%MatrixMarket matrix coordinate real general
//   % comments
//   rows columns entries
//   row column value            one line per entry, indices from 1
// Of the format "array" all values are listed instead, column by column, behind a line with rows and columns.
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>

namespace onchip {
namespace {

enum class Field : std::uint8_t { real, integer, pattern };
constexpr std::array<std::string_view, 1> kObjects{"matrix"};
constexpr std::array<std::string_view, 2> kFormats{"coordinate", "array"};
constexpr std::array<std::string_view, 3> kFields{"real", "integer", "pattern"};
constexpr std::array<std::string_view, 2> kSymmetries{"general", "symmetric"};
constexpr std::string_view kBanner = "%%MatrixMarket";

struct Entry {
  std::int32_t row, column;  // from 0
  float value;
  std::size_t offset;  // where the entry stands in the text
};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) {}

  SparseMatrix parse() {
    read_header();
    read_size();
    read_entries();
    return compress();
  }

 private:
  void read_header() {
    if (text_.starts_with("\xef\xbb\xbf")) {  // the byte order mark that some editors put before UTF-8
      at_ = 3;
    }
    if (const std::string_view banner = word();
        !equal_ignoring_case(banner, kBanner) && !equal_ignoring_case(banner, kBanner.substr(1))) {
      fail(0, "not a Matrix Market file: it does not begin with '" + std::string(kBanner) + "'");
    }
    choose("object", kObjects);
    is_array_ = choose("format", kFormats) == 1;
    const std::size_t field_at = at_;
    field_ = static_cast<Field>(choose("field", kFields));
    symmetric_ = choose("symmetry", kSymmetries) == 1;
    if (is_array_ && (field_ == Field::pattern || symmetric_)) {
      fail(field_at, "an array is read as 'real general' or 'integer general'");
    }
    end_line("the header");
  }

  void read_size() {
    if (!next_data_line()) {
      fail(at_, "the file ends before the line with rows, columns and entries");
    }
    const std::size_t line = at_;
    rows_ = static_cast<int>(integer("number of rows", 1, kMaxDimension));
    columns_ = static_cast<int>(integer("number of columns", 1, kMaxDimension));
    const std::int64_t elements = std::int64_t{rows_} * columns_;
    skip_blanks();
    const std::size_t count_at = at_;
    entries_ = is_array_ ? elements : integer("number of entries", 0, symmetric_ ? (elements + rows_) / 2 : elements);
    end_line(is_array_ ? "the numbers of rows and columns" : "the numbers of rows, columns and entries");
    if (symmetric_ && rows_ != columns_) {
      fail(line,
           "a symmetric matrix must be square; found " + std::to_string(rows_) + " x " + std::to_string(columns_));
    }
    // "1 1 1\n", "1 1\n" for a pattern, "1\n" of an array; the last line end may be missing. This bounds what is
    // allocated below.
    const std::size_t left = text_.size() - at_;
    const std::size_t most = (left + 1) / (is_array_ ? 2 : field_ == Field::pattern ? 4 : 6);
    if (static_cast<std::size_t>(entries_) > most) {
      fail(count_at, std::to_string(entries_) + " entries do not fit into the " + std::to_string(left) +
                         " bytes that follow (at most " + std::to_string(most) + " do); is the file truncated?");
    }
  }

  void read_entries() {
    entry_.reserve(is_array_ ? 0 : static_cast<std::size_t>(entries_) * (symmetric_ ? 2 : 1));
    for (read_ = 0; read_ < entries_; ++read_) {
      if (!next_data_line()) {
        fail_truncated();
      }
      const std::size_t offset = at_;
      const auto row = static_cast<std::int32_t>(is_array_ ? read_ % rows_ : integer("row", 1, rows_) - 1);
      const auto column = static_cast<std::int32_t>(is_array_ ? read_ / rows_ : integer("column", 1, columns_) - 1);
      const float entry_value = value();
      if (skip_blanks(); field_ == Field::pattern && at_ < text_.size() && text_[at_] != '\n') {
        fail(at_, "an entry of a pattern is a row and a column; is the field 'real' or 'integer'?");
      }
      end_line("the entry");
      if (is_array_ && entry_value == 0) {
        continue;
      }
      entry_.push_back({row, column, entry_value, offset});
      if (symmetric_ && row != column) {
        entry_.push_back({column, row, entry_value, offset});
      }
    }
    if (next_data_line()) {
      const std::size_t start = at_;
      fail(start, "unexpected " + in_quotes(word()) + " after the last of " + std::to_string(entries_) + " entries");
    }
  }

  float value() {
    if (field_ == Field::pattern) {
      return 1;
    }
    skip_blanks();
    const std::size_t start = at_;
    const std::string_view text = word();
    if (text.empty()) {
      fail_missing("a value");
    }
    double number = 0;
    if (field_ == Field::integer) {
      if (convert_real(text, number) != std::errc() || number != std::trunc(number)) {  // "1.0", too
        fail(start, "expected an integer value, found " + in_quotes(text));
      }
    } else {
      const std::errc error = convert_real(text, number);
      if (error == std::errc::result_out_of_range) {  // of a double, at either end
        number = std::strtod(std::string(text).c_str(), nullptr);
      } else if (error != std::errc()) {
        fail(start, "expected a value, found " + in_quotes(text));
      }
      if (error == std::errc() && !std::isfinite(number)) {
        fail(start, "value " + in_quotes(text) + " is not a finite number");
      }
    }
    const auto rounded = static_cast<float>(number);
    if (std::isinf(rounded)) {
      fail(start, "value " + in_quotes(text) + " is beyond the range of fp32");
    }
    return rounded;
  }

  // Most files are in column order, which a stable sort by row turns into compressed rows without comparing columns.
  SparseMatrix compress() const {
    SparseMatrix matrix{rows_, columns_, {}, {}, {}};
    matrix.row_begin.assign(rows_ + 1, 0);
    std::vector<std::size_t> end(rows_ + 1, 0);  // first the beginnings, then, filled, the ends
    for (const Entry& entry : entry_) {
      ++end[entry.row + 1];
    }
    for (int row = 0; row < rows_; ++row) {
      end[row + 1] += end[row];
    }
    std::vector<Entry> sorted(entry_.size());
    for (const Entry& entry : entry_) {
      sorted[end[entry.row]++] = entry;
    }

    const auto zeros = std::count_if(sorted.begin(), sorted.end(), [](const Entry& entry) { return entry.value == 0; });
    matrix.column.reserve(sorted.size() - zeros);
    matrix.value.reserve(sorted.size() - zeros);
    const auto before = [](const Entry& a, const Entry& b) {
      return a.column != b.column ? a.column < b.column : a.offset < b.offset;
    };
    for (int row = 0; row < rows_; ++row) {
      const std::span<Entry> entries(sorted.begin() + (row ? end[row - 1] : 0), sorted.begin() + end[row]);
      if (!std::is_sorted(entries.begin(), entries.end(), before)) {
        std::sort(entries.begin(), entries.end(), before);
      }
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (i && entries[i].column == entries[i - 1].column) {
          fail_duplicate(entries[i - 1], entries[i]);
        }
        if (entries[i].value != 0) {
          matrix.column.push_back(entries[i].column);
          matrix.value.push_back(entries[i].value);
        }
      }
      matrix.row_begin[row + 1] = matrix.nnz();
    }
    return matrix;
  }

  // --- words and lines

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) {
      ++at_;
    }
  }

  // The next word of the line, "" at its end.
  std::string_view word() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && !is_blank(text_[at_]) && text_[at_] != '\n') {
      ++at_;
    }
    return text_.substr(start, at_ - start);
  }

  void end_line(std::string_view what) {
    skip_blanks();
    if (at_ == text_.size()) {
      return;
    }
    if (text_[at_] != '\n') {
      const std::size_t start = at_;
      fail(start, "expected the end of the line after " + std::string(what) + ", found " + in_quotes(word()));
    }
    ++at_;
  }

  // Skips empty lines and comments; false at the end of the file.
  bool next_data_line() {
    for (;;) {
      skip_blanks();
      if (at_ == text_.size()) {
        return false;
      }
      if (text_[at_] == '%') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_[at_] != '\n') {
        return true;
      }
      at_ += at_ < text_.size();
    }
  }

  int choose(std::string_view what, std::span<const std::string_view> supported) {
    skip_blanks();
    const std::size_t start = at_;
    const std::string_view found = word();
    std::string list;
    for (std::size_t i = 0; i < supported.size(); ++i) {
      if (equal_ignoring_case(found, supported[i])) {
        return static_cast<int>(i);
      }
      list += (i ? ", " : "") + std::string(supported[i]);
    }
    fail(start, (found.empty() ? "the header ends before the " + std::string(what)
                               : "unsupported " + std::string(what) + " " + in_quotes(found)) +
                    "; supported: " + list);
  }

  // --- numbers

  static std::string_view without_plus(std::string_view text) {  // from_chars takes no '+'
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
      text.remove_prefix(1);
    }
    return text;
  }

  static std::errc convert_real(std::string_view text, double& number) {
    text = without_plus(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return end == text.data() + text.size() ? error : std::errc::invalid_argument;
  }

  static bool convert(std::string_view text, std::int64_t& number) {
    text = without_plus(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
  }

  std::int64_t integer(std::string_view what, std::int64_t minimum, std::int64_t maximum) {
    skip_blanks();
    const std::size_t start = at_;
    const std::string_view text = word();
    std::int64_t number = 0;
    if (text.empty()) {
      fail_missing("a " + std::string(what));
    }
    const bool converted = convert(text, number);
    if (!converted && text.find_first_not_of("+-0123456789") != std::string_view::npos) {
      fail(start, "expected a " + std::string(what) + ", found " + in_quotes(text));
    }
    if (!converted || number < minimum || number > maximum) {
      fail(start, std::string(what) + " " + in_quotes(text) + " is outside " + std::to_string(minimum) + " to " +
                      std::to_string(maximum));
    }
    return number;
  }

  // --- errors

  struct Place {
    long line, column;
  };

  Place place(std::size_t offset) const {
    const std::string_view before = text_.substr(0, offset);
    const std::size_t newline = before.rfind('\n');
    const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    return {static_cast<long>(std::count(before.begin(), before.end(), '\n')) + 1,
            static_cast<long>(offset - line_start) + 1};
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
    const Place where = place(offset);
    throw InputError(file_name_, where.line, where.column, message);
  }

  [[noreturn]] void fail_truncated() const {
    fail(at_, "the file ends after " + std::to_string(read_) + " of " + std::to_string(entries_) + " entries");
  }

  [[noreturn]] void fail_missing(const std::string& what) const {
    if (at_ == text_.size() && read_ >= 0) {
      fail_truncated();
    }
    fail(at_, "expected " + what + ", found the end of the " + (at_ == text_.size() ? "file" : "line"));
  }

  [[noreturn]] void fail_duplicate(const Entry& first, const Entry& second) const {
    fail(second.offset, "entry (" + std::to_string(second.row + 1) + ", " + std::to_string(second.column + 1) +
                            ") is already on line " + std::to_string(place(first.offset).line) +
                            (symmetric_ ? "; a symmetric file holds one triangle" : ""));
  }

  std::string_view text_;
  std::string_view file_name_;
  std::size_t at_ = 0;
  Field field_ = Field::real;
  bool symmetric_ = false;
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
