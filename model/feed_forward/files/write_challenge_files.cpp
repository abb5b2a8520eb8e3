// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/feed_forward/files/challenge_files.hpp"

#include <charconv>
#include <cstdio>
#include <string>

namespace onchip {
namespace {

// Hands on what is written in pieces of 64 KiB.
class Writer {
 public:
  explicit Writer(const Sink& sink) : sink_(sink) {}
  void number(std::int64_t value, char end) {
    char text[24];
    const auto written = std::to_chars(text, text + sizeof text, value);
    add({text, written.ptr});
    add({&end, 1});
  }
  template <typename T>
  void binary(T value) {
    add({reinterpret_cast<const char*>(&value), sizeof value});
  }
  void add(std::string_view piece) {
    piece_ += piece;
    if (piece_.size() >= kPiece) {
      flush();
    }
  }
  void flush() {
    sink_(piece_);
    piece_.clear();
  }

 private:
  static constexpr std::size_t kPiece = 1 << 16;
  const Sink& sink_;
  std::string piece_;
};

template <typename Take>
void for_each_entry(const SparseMatrix& weights, Take&& take) {
  for (int row = 0; row < weights.rows; ++row) {
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      take(row, weights.column[i], weights.value[i]);
    }
  }
}

// As many digits as tell every fp32 apart, but no fewer than the published files have: "6.250000e-02".
std::string value_text(float value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.6e", static_cast<double>(value));
  float back = 0;
  std::from_chars(text, text + length, back);
  if (back == value) {
    return {text, static_cast<std::size_t>(length)};
  }
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.8e", static_cast<double>(value)))};
}

}  // namespace

void write_layer_tsv(const SparseMatrix& weights, const Sink& sink) {
  Writer writer(sink);
  float last = 0;
  std::string text;
  for_each_entry(weights, [&](int output, int input, float value) {
    writer.number(std::int64_t{input} + 1, '\t');
    writer.number(std::int64_t{output} + 1, '\t');
    if (text.empty() || value != last) {
      last = value;
      text = value_text(value) + '\n';
    }
    writer.add(text);
  });
  writer.flush();
}

void write_images_tsv(const Inputs& inputs, const Sink& sink) {
  Writer writer(sink);
  for (int image = 0; image < image_count(inputs); ++image) {
    for_each_feature(inputs, image, [&](int neuron, float value) {
      writer.number(std::int64_t{image} + 1, '\t');
      writer.number(std::int64_t{neuron} + 1, '\t');
      writer.add(value == 1 ? "1" : value_text(value));
      writer.add("\n");
    });
  }
  writer.flush();
}

void write_categories(const std::vector<int>& categories, const Sink& sink) {
  Writer writer(sink);
  for (const int image : categories) {
    writer.number(std::int64_t{image} + 1, '\n');
  }
  writer.flush();
}

void write_layer_bin(const SparseMatrix& weights, const Sink& sink) {
  if (weights.nnz() != std::int64_t{32} * weights.rows || weights.rows != weights.columns) {
    throw InputError("the champion's binary form holds 32 weights per neuron; this layer has " +
                     std::to_string(weights.nnz()) + " of " + std::to_string(weights.rows) + " neurons");
  }
  Writer writer(sink);
  for_each_entry(weights, [&](int output, int, float) { writer.binary(std::int32_t{output} + 1); });
  for_each_entry(weights, [&](int, int input, float) { writer.binary(std::int32_t{input} + 1); });
  for_each_entry(weights, [&](int, int, float value) { writer.binary(value); });
  writer.flush();
}

void write_images_bin(const Inputs& inputs, const Sink& sink) {
  Writer writer(sink);
  const auto all = [&](auto&& take) {
    for (int image = 0; image < image_count(inputs); ++image) {
      for_each_feature(inputs, image, [&](int neuron, float value) { take(image, neuron, value); });
    }
  };
  all([&](int, int neuron, float) { writer.binary(std::int32_t{neuron} + 1); });
  all([&](int image, int, float) { writer.binary(std::int32_t{image} + 1); });
  all([&](int, int, float value) { writer.binary(value); });
  writer.flush();
}

}  // namespace onchip
