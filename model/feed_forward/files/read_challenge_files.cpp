// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/feed_forward/files/challenge_files.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace onchip {
namespace {

struct Entries {
  std::vector<std::int32_t> row, column;  // from 0
  std::vector<float> value;

  std::size_t size() const { return row.size(); }
  void reserve(std::size_t entries) {
    row.reserve(entries);
    column.reserve(entries);
    value.reserve(entries);
  }
};

// Calls twice(row, column, first, second) for two entries of one place, which must throw. Zeros are dropped.
template <typename Twice>
SparseMatrix compress(Entries entries, int rows, int columns, Twice&& twice) {
  SparseMatrix matrix{rows, columns, std::vector<std::int64_t>(static_cast<std::size_t>(rows) + 1), {}, {}};
  const auto before = [&](std::size_t a, std::size_t b) {
    return entries.row[a] != entries.row[b]         ? entries.row[a] < entries.row[b]
           : entries.column[a] != entries.column[b] ? entries.column[a] < entries.column[b]
                                                    : a < b;
  };
  bool is_sorted = true;
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries.row[i] == entries.row[i - 1] && entries.column[i] == entries.column[i - 1]) {
      twice(entries.row[i], entries.column[i], i - 1, i);
    }
    is_sorted &= before(i - 1, i);
  }
  for (const std::int32_t row : entries.row) {
    ++matrix.row_begin[row + 1];
  }
  std::partial_sum(matrix.row_begin.begin(), matrix.row_begin.end(), matrix.row_begin.begin());
  if (is_sorted) {
    matrix.column = std::move(entries.column);
    matrix.value = std::move(entries.value);
  } else {
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, before);
    matrix.column.reserve(order.size());
    matrix.value.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && entries.row[order[i]] == entries.row[order[i - 1]] &&
          entries.column[order[i]] == entries.column[order[i - 1]]) {
        twice(entries.row[order[i]], entries.column[order[i]], order[i - 1], order[i]);
      }
      matrix.column.push_back(entries.column[order[i]]);
      matrix.value.push_back(entries.value[order[i]]);
    }
  }
  if (std::ranges::find(matrix.value, 0.0F) != matrix.value.end()) {
    drop_zeros(matrix);
  }
  return matrix;
}

// Lines of numbers. Every line ends, so that a file that is cut off within a number is found.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file) : text_(text), file_(file) {
    if (text.starts_with("\xef\xbb\xbf")) {  // the byte order mark that some editors put before UTF-8
      at_ = 3;
    }
  }

  std::size_t count() const { return static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n')); }
  bool next() {
    ++line_;
    start_ = at_;
    if (at_ == text_.size()) {
      if (line_ == 1) {
        fail(at_, "the file is empty");
      }
      return false;
    }
    const void* const end = std::memchr(text_.data() + at_, '\n', text_.size() - at_);
    if (!end) {
      fail(text_.size(), "the last line has no end; is the file truncated?");
    }
    end_ = static_cast<std::size_t>(static_cast<const char*>(end) - text_.data());
    return true;
  }
  int integer(std::string_view what, int least, int most) {
    const std::string_view word = next_word(what);
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (stop != word.data() + word.size() || error == std::errc::invalid_argument) {
      fail(word_at_, "expected " + std::string(what) + ", found " + in_quotes(word));
    }
    if (error != std::errc() || number < least || number > most) {
      fail(word_at_, std::string(what) + " " + in_quotes(word) + " is outside " + std::to_string(least) + " to " +
                         std::to_string(most));
    }
    return static_cast<int>(number);
  }
  float value() {
    const std::string_view word = next_word("a value");
    float number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc::result_out_of_range) {  // of fp32, at either end
      const double wide = std::strtod(std::string(word).c_str(), nullptr);
      if (std::abs(wide) > 1) {
        fail(word_at_, "value " + in_quotes(word) + " is beyond the range of fp32");
      }
      return 0;
    }
    if (stop != word.data() + word.size() || error != std::errc()) {
      fail(word_at_, "expected a value, found " + in_quotes(word));
    }
    if (!std::isfinite(number)) {
      fail(word_at_, "value " + in_quotes(word) + " is not a finite number");
    }
    return number;
  }
  void end_line() {
    skip_blanks();
    if (at_ < end_) {
      const std::size_t from = at_;
      fail(from, "expected the end of the line, found " + in_quotes(word()));
    }
    at_ = end_ + 1;
  }
  [[noreturn]] void fail_line(std::string_view message) const { fail(start_, message); }

 private:
  void skip_blanks() {
    while (at_ < end_ && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  std::string_view word() {
    skip_blanks();
    word_at_ = at_;
    while (at_ < end_ && text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r') {
      ++at_;
    }
    return text_.substr(word_at_, at_ - word_at_);
  }
  std::string_view next_word(std::string_view what) {
    const std::string_view found = word();
    if (found.empty()) {
      fail(at_, "expected " + std::string(what) + ", found the end of the line");
    }
    return found;
  }
  [[noreturn]] void fail(std::size_t at, std::string_view message) const {
    throw InputError(file_, line_, static_cast<long>(at - start_) + 1, message);
  }

  std::string_view text_, file_;
  std::size_t at_ = 0, start_ = 0, end_ = 0, word_at_ = 0;
  long line_ = 0;
};

struct Columns {
  std::string_view first, second;
  int most_first, most_second;
};

// Lines of first, second and value; the second is the row if so asked.
SparseMatrix parse_entries(std::string_view text, std::string_view file, const Columns& columns, bool second_is_row,
                           int rows) {
  Lines lines(text, file);
  Entries entries;
  entries.reserve(lines.count());
  while (lines.next()) {
    const int first = lines.integer(columns.first, 1, columns.most_first) - 1;
    const int second = lines.integer(columns.second, 1, columns.most_second) - 1;
    entries.row.push_back(second_is_row ? second : first);
    entries.column.push_back(second_is_row ? first : second);
    entries.value.push_back(lines.value());
    lines.end_line();
  }
  if (rows == 0) {
    rows = 1 + *std::ranges::max_element(entries.row);
  }
  const auto twice = [&](int row, int column, std::size_t before, std::size_t again) {
    throw InputError(file, static_cast<long>(again) + 1, 1,
                     std::string(columns.first) + " " + std::to_string((second_is_row ? column : row) + 1) + ", " +
                         std::string(columns.second) + " " + std::to_string((second_is_row ? row : column) + 1) +
                         " is already on line " + std::to_string(before + 1));
  };
  return compress(std::move(entries), rows, second_is_row ? columns.most_first : columns.most_second, twice);
}

IndexLists lists_of(SparseMatrix matrix) {
  IndexLists lists{matrix.columns, std::move(matrix.row_begin), std::move(matrix.column), std::move(matrix.value)};
  if (std::ranges::all_of(lists.value, [](float value) { return value == 1; })) {
    lists.value = {};
  }
  return lists;
}

// Three arrays of `count` numbers, from `bytes` on.
struct Arrays {
  std::string_view bytes;
  std::size_t count;
  template <typename T>
  T at(int array, std::size_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + (static_cast<std::size_t>(array) * count + i) * sizeof value, sizeof value);
    return value;
  }
};
constexpr std::size_t kEntryBytes = 12;

// `row` and `column`: which array has them.
SparseMatrix parse_arrays(const Arrays& arrays, std::string_view file, const Columns& columns, int row_array, int rows,
                          std::size_t first_entry) {
  const auto entry = [&](std::size_t i) {
    return std::string(file) + ": entry " + std::to_string(first_entry + i + 1) + ": ";
  };
  const auto index = [&](int array, std::size_t i) {
    const auto number = arrays.at<std::int32_t>(array, i);
    const int most = array == 0 ? columns.most_first : columns.most_second;
    if (number < 1 || number > most) {
      throw InputError(entry(i) + std::string(array == 0 ? columns.first : columns.second) + " " +
                       std::to_string(number) + " is outside 1 to " + std::to_string(most));
    }
    return number - 1;
  };
  Entries entries;
  entries.reserve(arrays.count);
  for (std::size_t i = 0; i < arrays.count; ++i) {
    entries.row.push_back(index(row_array, i));
    entries.column.push_back(index(1 - row_array, i));
    entries.value.push_back(arrays.at<float>(2, i));
    if (!std::isfinite(entries.value.back())) {
      throw InputError(entry(i) + "the value is not a finite number");
    }
  }
  if (rows == 0) {
    rows = entries.row.empty() ? 0 : 1 + *std::ranges::max_element(entries.row);
  }
  return compress(std::move(entries), rows, row_array == 0 ? columns.most_second : columns.most_first,
                  [&](int, int, std::size_t before, std::size_t again) {
                    throw InputError(entry(again) + std::string(columns.first) + " " +
                                     std::to_string(index(0, again) + 1) + ", " + std::string(columns.second) + " " +
                                     std::to_string(index(1, again) + 1) + " is already entry " +
                                     std::to_string(first_entry + before + 1));
                  });
}

std::size_t weights_of_bin(int neurons) {
  return std::size_t{32} * static_cast<std::size_t>(neurons);
}

}  // namespace

SparseMatrix parse_layer_tsv(std::string_view text, std::string_view file_name, int outputs, int inputs) {
  return parse_entries(text, file_name, {"input", "output", inputs, outputs}, true, outputs);
}

IndexLists parse_images_tsv(std::string_view text, std::string_view file_name, int neurons, int images) {
  return lists_of(
      parse_entries(text, file_name, {"image", "pixel", images == 0 ? kMostImages : images, neurons}, false, images));
}

std::vector<int> parse_categories(std::string_view text, std::string_view file_name, int images) {
  std::vector<int> categories;
  if (text.empty()) {  // no image has survived
    return categories;
  }
  Lines lines(text, file_name);
  while (lines.next()) {
    const int image = lines.integer("an image", 1, images) - 1;
    if (!categories.empty() && image <= categories.back()) {
      lines.fail_line("image " + std::to_string(image + 1) + " comes after " + std::to_string(categories.back() + 1) +
                      "; expected each once, ascending");
    }
    categories.push_back(image);
    lines.end_line();
  }
  return categories;
}

int layers_of_bin(std::string_view bytes, std::string_view file_name, int neurons) {
  const std::size_t layer = weights_of_bin(neurons) * kEntryBytes;
  if (bytes.empty() || bytes.size() % layer != 0 || bytes.size() / layer > std::numeric_limits<int>::max()) {
    throw InputError(std::string(file_name) + ": layers of " + std::to_string(neurons) + " neurons take " +
                     std::to_string(layer) + " bytes each; found " + std::to_string(bytes.size()) +
                     " bytes; is the file truncated, or of another number of neurons?");
  }
  return static_cast<int>(bytes.size() / layer);
}

SparseMatrix parse_layer_bin(std::string_view bytes, std::string_view file_name, int neurons, int layer) {
  if (const int layers = layers_of_bin(bytes, file_name, neurons); layer < 0 || layer >= layers) {
    throw InputError(std::string(file_name) + ": the file has " + std::to_string(layers) +
                     " layers; found a request for layer " + std::to_string(layer + 1));
  }
  const std::size_t count = weights_of_bin(neurons), first = count * static_cast<std::size_t>(layer);
  return parse_arrays({bytes.substr(first * kEntryBytes, count * kEntryBytes), count}, file_name,
                      {"output", "input", neurons, neurons}, 0, neurons, first);
}

IndexLists parse_images_bin(std::string_view bytes, std::string_view file_name, int neurons, int images) {
  if (bytes.empty() || bytes.size() % kEntryBytes != 0) {
    throw InputError(std::string(file_name) + ": each pixel takes 12 bytes; found " + std::to_string(bytes.size()) +
                     " bytes; is the file truncated?");
  }
  return lists_of(parse_arrays({bytes, bytes.size() / kEntryBytes}, file_name,
                               {"pixel", "image", neurons, images == 0 ? kMostImages : images}, 1, images, 0));
}

}  // namespace onchip
