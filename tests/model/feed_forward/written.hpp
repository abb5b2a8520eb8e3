// SPDX-License-Identifier: Apache-2.0
// Networks and images in the forms of files that the model reads (model/feed_forward/files).
#pragma once

#include "model/feed_forward/inputs.hpp"
#include "model/feed_forward/network.hpp"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// As many digits as tell every fp32 apart, but no fewer than the published files have: "6.250000e-02".
inline std::string value_text(float value) {
  char text[32];
  int length = std::snprintf(text, sizeof text, "%.6e", static_cast<double>(value));
  float back = 0;
  std::from_chars(text, text + length, back);
  if (back != value) {
    length = std::snprintf(text, sizeof text, "%.8e", static_cast<double>(value));
  }
  return {text, static_cast<std::size_t>(length)};
}

template <typename Take>
void for_each_weight(const SparseMatrix& weights, Take&& take) {
  for (int row = 0; row < weights.rows; ++row) {
    for (std::int64_t i = weights.row_begin[row]; i < weights.row_begin[row + 1]; ++i) {
      take(row + 1, weights.column[i] + 1, weights.value[i]);
    }
  }
}

// ---- the challenge's forms, and the binary one of its champion ------------------------------------------------------

inline std::string layer_tsv(const SparseMatrix& weights) {
  std::string text;
  for_each_weight(weights, [&](int output, int input, float value) {
    text += std::to_string(input) + '\t' + std::to_string(output) + '\t' + value_text(value) + '\n';
  });
  return text;
}

inline std::string layer_bin(const SparseMatrix& weights) {
  std::vector<std::int32_t> outputs, inputs;
  for_each_weight(weights, [&](int output, int input, float) {
    outputs.push_back(output);
    inputs.push_back(input);
  });
  return bytes_of(outputs) + bytes_of(inputs) + bytes_of(weights.value);
}

// Calls add() with the pieces of the file.
template <typename Add>
void add_images_bin(const Inputs& inputs, Add&& add) {
  const auto all = [&](auto&& number_of) {
    for (int image = 0; image < image_count(inputs); ++image) {
      std::vector<decltype(number_of(0, 0, 0.0F))> numbers;
      for_each_feature(inputs, image,
                       [&](int neuron, float value) { numbers.push_back(number_of(image, neuron, value)); });
      add(bytes_of(numbers));
    }
  };
  all([](int, int neuron, float) { return std::int32_t{neuron + 1}; });
  all([](int image, int, float) { return std::int32_t{image + 1}; });
  all([](int, int, float value) { return value; });
}

inline std::string categories_text(const std::vector<int>& categories) {
  std::string text;
  for (const int image : categories) {
    text += std::to_string(image + 1) + '\n';
  }
  return text;
}

// ---- forms of others ------------------------------------------------------------------------------------------------

inline std::string matrix_market(const SparseMatrix& weights) {
  std::string text = "%%MatrixMarket matrix coordinate real general\n" + std::to_string(weights.rows) + " " +
                     std::to_string(weights.columns) + " " + std::to_string(weights.nnz()) + "\n";
  for_each_weight(weights, [&](int row, int column, float value) {
    text += std::to_string(row) + " " + std::to_string(column) + " " + value_text(value) + "\n";
  });
  return text;
}

// Layers are "layers.0", "layers.1", ...
inline std::string safetensors(const FeedForward& network) {
  std::string header, data;
  const auto add = [&](int l, std::string_view name, std::string_view type, const auto& values) {
    const std::string bytes = bytes_of(values);
    header += (header.empty() ? "{\"layers." : ",\"layers.") + std::to_string(l) + std::string(name) +
              "\":{\"dtype\":\"" + std::string(type) + "\",\"shape\":[" + std::to_string(values.size()) +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," + std::to_string(data.size() + bytes.size()) +
              "]}";
    data += bytes;
  };
  for (int l = 0; l < network.layers(); ++l) {
    const SparseLayer layer = network.layer(l);
    add(l, ".shape", "I64", std::vector<std::int64_t>{layer.weights.rows, layer.weights.columns});
    add(l, ".crow_indices", "I64", layer.weights.row_begin);
    add(l, ".col_indices", "I32", layer.weights.column);
    add(l, ".values", "F32", layer.weights.value);
    add(l, ".bias", "F32", layer.bias);
  }
  header += "}";
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

}  // namespace onchip
