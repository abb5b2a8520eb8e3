// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/feed_forward/files/network_files.hpp"
#include "model/workload/files/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

using safetensors::Tensors;

constexpr std::string_view kShape = ".shape", kRows = ".crow_indices", kColumns = ".col_indices", kValues = ".values",
                           kBias = ".bias", kWeight = ".weight";

struct Layer {
  std::string name;    // of the layer, "layers.0"
  std::string tensor;  // of the matrix; "": compressed rows
  int outputs = 0, inputs = 0;
};

// "layers.9" before "layers.10"
bool numbers_ascend(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    if (is_digit(a[i]) && is_digit(b[k])) {
      const auto number = [&](std::string_view text, std::size_t& at) {
        std::size_t end = at;
        while (end < text.size() && is_digit(text[end])) {
          ++end;
        }
        std::string_view digits = text.substr(at, end - at);
        at = end;
        digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
        return std::pair{digits.size(), digits};
      };
      const auto of_a = number(a, i), of_b = number(b, k);
      if (of_a != of_b) {
        return of_a < of_b;
      }
    } else if (a[i] != b[k]) {
      return a[i] < b[k];
    } else {
      ++i;
      ++k;
    }
  }
  return a.size() - i != b.size() - k ? a.size() - i < b.size() - k : a < b;
}

class NetworkReader {
 public:
  NetworkReader(std::string_view bytes, std::string_view file_name, const NetworkFile& file)
      : file_(file_name), tensors_(safetensors::read_tensors(bytes, file_)), bias_(file.bias.value_or(0)) {
    for (const auto& [name, tensor] : tensors_) {
      if (name.ends_with(kRows)) {
        add_compressed(name.substr(0, name.size() - kRows.size()));
      } else if (tensor.dimensions == 2 && !is_mask(name)) {
        std::string layer = name;
        for (const std::string_view end : {safetensors::kOriginal, kWeight}) {
          layer.resize(layer.size() - (layer.ends_with(end) ? end.size() : 0));
        }
        layers_.push_back({layer, name, dimension(name, tensor.shape[0]), dimension(name, tensor.shape[1])});
      }
    }
    std::ranges::sort(layers_, [](const Layer& a, const Layer& b) { return numbers_ascend(a.name, b.name); });
    if (layers_.empty()) {
      throw InputError(file_ + ": the file holds no layer: no matrix, and no tensor that ends in '" +
                       std::string(kRows) + "'");
    }
    for (std::size_t l = 1; l < layers_.size(); ++l) {
      if (layers_[l].inputs != layers_[l - 1].outputs) {
        throw InputError(file_ + ": layer " + in_quotes(layers_[l].name) + " takes " +
                         std::to_string(layers_[l].inputs) + " inputs, but " + in_quotes(layers_[l - 1].name) +
                         " before it has " + std::to_string(layers_[l - 1].outputs) + " outputs");
      }
    }
  }

  std::vector<int> neurons() const {
    std::vector<int> neurons{layers_.front().inputs};
    for (const Layer& layer : layers_) {
      neurons.push_back(layer.outputs);
    }
    return neurons;
  }

  SparseLayer layer(int l) const {
    const Layer& of = layers_.at(static_cast<std::size_t>(l));
    SparseLayer layer{of.tensor.empty() ? compressed(of) : safetensors::read_matrix(tensors_, file_, {of.tensor}),
                      {bias_}};
    if (const auto bias = tensors_.find(of.name + std::string(kBias)); bias != tensors_.end()) {
      layer.bias = decode_values(bias->second, who(bias->first));
    }
    try {
      check(layer);
    } catch (const InputError& error) {
      throw InputError(file_ + ": layer " + in_quotes(of.name) + ": " + error.what());
    }
    return layer;
  }

 private:
  std::string who(std::string_view tensor) const { return file_ + ": tensor " + in_quotes(tensor); }
  bool is_mask(const std::string& name) const {
    return name.ends_with(safetensors::kMask) &&
           tensors_.contains(name.substr(0, name.size() - safetensors::kMask.size()) +
                             std::string(safetensors::kOriginal));
  }
  int dimension(std::string_view tensor, std::uint64_t size) const {
    if (size < 1 || size > kMaxDimension) {
      throw InputError(who(tensor) + " is of a layer with " + std::to_string(size) +
                       " inputs or outputs; expected 1 to " + std::to_string(kMaxDimension));
    }
    return static_cast<int>(size);
  }
  const Tensor& find(const std::string& name, std::uint64_t elements) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw InputError(file_ + ": no tensor " + in_quotes(name));
    }
    if (found->second.elements != elements) {
      throw InputError(who(name) + " has " + std::to_string(found->second.elements) + " elements; expected " +
                       std::to_string(elements));
    }
    return found->second;
  }
  std::vector<std::int64_t> integers(const std::string& name, std::uint64_t elements) const {
    const Tensor& tensor = find(name, elements);
    const bool is_wide = tensor.type == "I64";
    if (!is_wide && tensor.type != "I32") {
      throw InputError(who(name) + " has dtype " + in_quotes(tensor.type) + "; expected I32 or I64");
    }
    std::vector<std::int64_t> values(elements);
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (is_wide) {
        std::memcpy(&values[i], tensor.data + 8 * i, 8);
      } else {
        std::int32_t value;
        std::memcpy(&value, tensor.data + 4 * i, 4);
        values[i] = value;
      }
    }
    return values;
  }

  void add_compressed(const std::string& name) {
    const std::vector<std::int64_t> shape = integers(name + std::string(kShape), 2);
    layers_.push_back({name, "", dimension(name + std::string(kShape), static_cast<std::uint64_t>(shape[0])),
                       dimension(name + std::string(kShape), static_cast<std::uint64_t>(shape[1]))});
  }

  SparseMatrix compressed(const Layer& layer) const {
    SparseMatrix weights{layer.outputs, layer.inputs, {}, {}, {}};
    weights.row_begin = integers(layer.name + std::string(kRows), static_cast<std::uint64_t>(layer.outputs) + 1);
    const std::string columns_name = layer.name + std::string(kColumns),
                      values_name = layer.name + std::string(kValues);
    const auto values = tensors_.find(values_name);
    const std::uint64_t nnz = values == tensors_.end() ? 0 : values->second.elements;
    for (const std::int64_t column : integers(columns_name, nnz)) {
      if (column < 0 || column >= layer.inputs) {
        throw InputError(who(columns_name) + " has the column " + std::to_string(column) + "; expected 0 to " +
                         std::to_string(layer.inputs - 1));
      }
      weights.column.push_back(static_cast<std::int32_t>(column));
    }
    weights.value = decode_values(find(values_name, nnz), who(values_name));
    return weights;
  }

  std::string file_;
  Tensors tensors_;
  float bias_;
  std::vector<Layer> layers_;
};

}  // namespace

FeedForward parse_network_safetensors(std::string_view bytes, std::string_view file_name, const NetworkFile& file) {
  const auto reader = std::make_shared<const NetworkReader>(bytes, file_name, file);
  return {std::string(file_name), reader->neurons(), file.clip.value_or(kNoClip),
          [reader](int l) { return reader->layer(l); }};
}

}  // namespace onchip
