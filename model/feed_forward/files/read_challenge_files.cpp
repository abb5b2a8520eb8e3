// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/files/challenge_files.hpp"
#include "model/workload/files/text_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace onchip {
namespace {

// Whether there is another line. Every line ends, so that a file that is cut off within a number is found.
bool has_line(const TextReader& reader) {
  if (reader.is_at_end()) {
    if (reader.at() == 0) {
      reader.fail(0, "the file is empty");
    }
    return false;
  }
  if (reader.text().find('\n', reader.at()) == std::string_view::npos) {
    reader.fail(reader.text().size(), "the last line has no end; is the file truncated?");
  }
  return true;
}

// From 0.
int next_number(TextReader& reader, const std::string& what, int most) {
  return static_cast<int>(reader.integer(what, what, 1, most)) - 1;
}

struct Columns {
  std::string_view first, second;
  int most_first, most_second;
};

// Lines of first, second and value; the second is the row if so asked.
SparseMatrix parse_entries(std::string_view text, std::string_view file, const Columns& columns, bool second_is_row,
                           int rows) {
  TextReader reader(text, file);
  std::vector<Entry> entries;
  entries.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  while (has_line(reader)) {
    const int first = next_number(reader, std::string(columns.first), columns.most_first);
    const int second = next_number(reader, std::string(columns.second), columns.most_second);
    const float value = reader.value();
    entries.push_back({second_is_row ? second : first, second_is_row ? first : second, value, entries.size()});
    reader.end_line();
  }
  const auto twice = [&](const Entry& before, const Entry& again) {
    throw InputError(file, static_cast<long>(again.where) + 1, 1,
                     std::string(columns.first) + " " + std::to_string((second_is_row ? again.column : again.row) + 1) +
                         ", " + std::string(columns.second) + " " +
                         std::to_string((second_is_row ? again.row : again.column) + 1) + " is already on line " +
                         std::to_string(before.where + 1));
  };
  rows = rows == 0 ? 1 + std::ranges::max_element(entries, {}, &Entry::row)->row : rows;
  return matrix_of(rows, second_is_row ? columns.most_first : columns.most_second, std::move(entries), twice);
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
  std::vector<Entry> entries;
  entries.reserve(arrays.count);
  for (std::size_t i = 0; i < arrays.count; ++i) {
    entries.push_back({index(row_array, i), index(1 - row_array, i), arrays.at<float>(2, i), i});
    if (!std::isfinite(entries.back().value)) {
      throw InputError(entry(i) + "the value is not a finite number");
    }
  }
  const auto twice = [&](const Entry& before, const Entry& again) {
    throw InputError(entry(again.where) + std::string(columns.first) + " " + std::to_string(index(0, again.where) + 1) +
                     ", " + std::string(columns.second) + " " + std::to_string(index(1, again.where) + 1) +
                     " is already entry " + std::to_string(first_entry + before.where + 1));
  };
  rows = rows == 0 ? 1 + std::ranges::max_element(entries, {}, &Entry::row)->row : rows;
  return matrix_of(rows, row_array == 0 ? columns.most_second : columns.most_first, std::move(entries), twice);
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

int layers_of_bin(std::uint64_t bytes, std::string_view file_name, int neurons) {
  const std::uint64_t layer = weights_of_bin(neurons) * kEntryBytes;
  if (bytes == 0 || bytes % layer != 0 || bytes / layer > std::numeric_limits<int>::max()) {
    throw InputError(std::string(file_name) + ": layers of " + std::to_string(neurons) + " neurons take " +
                     std::to_string(layer) + " bytes each; found " + std::to_string(bytes) +
                     " bytes; is the file truncated, or of another number of neurons?");
  }
  return static_cast<int>(bytes / layer);
}

SparseMatrix parse_layer_bin(const InputFile& input, std::string_view file_name, int neurons, int layer) {
  if (const int layers = layers_of_bin(input.size(), file_name, neurons); layer < 0 || layer >= layers) {
    throw InputError(std::string(file_name) + ": the file has " + std::to_string(layers) +
                     " layers; found a request for layer " + std::to_string(layer + 1));
  }
  const std::size_t count = weights_of_bin(neurons), first = count * static_cast<std::size_t>(layer);
  const std::string bytes = input.read(first * kEntryBytes, count * kEntryBytes);
  return parse_arrays({bytes, count}, file_name, {"output", "input", neurons, neurons}, 0, neurons, first);
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
