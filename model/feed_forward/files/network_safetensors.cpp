// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/feed_forward/files/network_files.hpp"
#include "model/workload/files/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace onchip {
namespace {

using safetensors::Tensors;

constexpr std::string_view kShape = ".shape", kRows = ".crow_indices", kColumns = ".col_indices", kValues = ".values";

// What a matrix is called behind its layer's name, and the bias beside it.
struct MatrixNames {
  std::string_view weight, bias;
};
constexpr std::array kMatrixNames{MatrixNames{".weight", ".bias"}, MatrixNames{".kernel", ".bias"},
                                  MatrixNames{"/kernel:0", "/bias:0"}, MatrixNames{"/kernel", "/bias"},
                                  MatrixNames{"", ".bias"}};

struct Layer {
  std::string name;    // of the layer, "layers.0"
  std::string tensor;  // of the matrix; "": compressed rows
  std::string bias;    // of the tensor, which need not be there
  int outputs = 0, inputs = 0;
  std::uint64_t begin = 0;  // of the matrix in the file
  std::string type;
};

struct Comparison {
  bool is_before = false, by_number = false;
};
// "layers.9" before "layers.10", by their numbers; "a" before "b", by their letters.
Comparison compare_names(std::string_view a, std::string_view b) {
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
        return {of_a < of_b, true};
      }
    } else if (a[i] != b[k]) {
      return {a[i] < b[k]};
    } else {
      ++i;
      ++k;
    }
  }
  return {a.size() - i != b.size() - k ? a.size() - i < b.size() - k : a < b};
}

bool fits_before(const Layer& a, const Layer& b) {
  return a.outputs == b.inputs;
}
// Whether each takes what the one before it gives, and the numbers in names ascend.
bool follow(const std::vector<Layer>& order) {
  return std::ranges::adjacent_find(order, [](const Layer& a, const Layer& b) {
           const Comparison names = compare_names(b.name, a.name);
           return !fits_before(a, b) || (names.by_number && names.is_before);
         }) == order.end();
}

// The orders of layers that follow each other, of layers that are sorted by their names: the first two, if there are as
// many. `is_known`: no others were left untried.
struct Orders {
  std::vector<std::vector<Layer>> found;
  bool is_known = true;
};
Orders find_orders(const std::vector<Layer>& layers) {
  constexpr std::size_t kMostUnnumbered = 1000;
  const auto by_number = [](const Layer& a, const Layer& b) { return compare_names(a.name, b.name).by_number; };
  if (std::ranges::adjacent_find(layers, std::not_fn(by_number)) == layers.end()) {
    return {std::vector<std::vector<Layer>>(follow(layers) ? 1 : 0, layers)};
  }
  Orders orders{{}, layers.size() <= kMostUnnumbered};
  int comparisons_left = 20'000'000;
  std::vector<Layer> order;
  std::vector<bool> is_placed(layers.size());
  const std::function<void()> place = [&] {
    if (order.size() == layers.size()) {
      orders.found.push_back(order);
    }
    for (std::size_t i = 0; i < layers.size() && orders.found.size() < 2 && orders.is_known; ++i) {
      bool waits = is_placed[i] || (!order.empty() && !fits_before(order.back(), layers[i]));
      for (std::size_t before = 0; before < i && !waits; ++before) {
        waits = !is_placed[before] && by_number(layers[before], layers[i]);
        orders.is_known = --comparisons_left > 0;
      }
      if (!waits) {
        is_placed[i] = true;
        order.push_back(layers[i]);
        place();
        order.pop_back();
        is_placed[i] = false;
      }
    }
  };
  place();
  return orders;
}

class NetworkReader {
 public:
  NetworkReader(std::shared_ptr<const InputFile> input, std::string_view file_name, const NetworkFile& file)
      : input_(std::move(input)),
        file_(file_name),
        tensors_(safetensors::read_tensors(*input_, file_)),
        bias_(file.bias.value_or(0)),
        transpose_(file.transpose) {
    for (const auto& [name, tensor] : tensors_) {
      if (name.ends_with(kRows)) {
        add_compressed(name.substr(0, name.size() - kRows.size()));
      } else if (tensor.dimensions == 2 && !is_mask(name)) {
        add_matrix(name, tensor);
      }
    }
    if (layers_.empty()) {
      throw InputError(file_ + ": the file holds no layer: no matrix, and no tensor that ends in '" +
                       std::string(kRows) + "'");
    }
    refuse_unused();
    std::ranges::sort(layers_, [](const Layer& a, const Layer& b) { return compare_names(a.name, b.name).is_before; });
    layers_ = file.order.empty() ? in_order() : in_order(file.order);
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
    try {
      check(layer);
      if (transpose_) {
        layer.weights = transposed(layer.weights);
      }
      if (const auto bias = tensors_.find(of.bias); bias != tensors_.end()) {
        layer.bias = decode_values(bias->second, who(bias->first));
        check(layer);
      }
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
    const std::string data = tensor.data();
    std::vector<std::int64_t> values(elements);
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (is_wide) {
        std::memcpy(&values[i], data.data() + 8 * i, 8);
      } else {
        std::int32_t value;
        std::memcpy(&value, data.data() + 4 * i, 4);
        values[i] = value;
      }
    }
    return values;
  }

  void add(Layer layer, std::uint64_t outputs, std::uint64_t inputs, std::initializer_list<std::string> tensors) {
    const auto dimension = [&](std::uint64_t size) {
      if (size < 1 || size > kMaxDimension) {
        throw InputError(who(*tensors.begin()) + " is of a layer with " + std::to_string(size) +
                         " inputs or outputs; expected 1 to " + std::to_string(kMaxDimension));
      }
      return static_cast<int>(size);
    };
    layer.outputs = dimension(outputs);
    layer.inputs = dimension(inputs);
    if (transpose_) {
      std::swap(layer.outputs, layer.inputs);
    }
    used_.insert(tensors);
    used_.insert(layer.bias);
    layers_.push_back(std::move(layer));
  }
  void add_compressed(const std::string& name) {
    const auto part = [&](std::string_view what) { return name + std::string(what); };
    const std::vector<std::int64_t> shape = integers(part(kShape), 2);
    const Tensor& rows = tensors_.find(part(kRows))->second;
    add({name, "", part(".bias"), 0, 0, rows.begin, rows.type}, static_cast<std::uint64_t>(shape[0]),
        static_cast<std::uint64_t>(shape[1]), {part(kShape), part(kRows), part(kColumns), part(kValues)});
  }
  void add_matrix(const std::string& name, const Tensor& tensor) {
    std::string_view layer = name;
    layer.remove_suffix(layer.ends_with(safetensors::kOriginal) ? safetensors::kOriginal.size() : 0);
    const auto words =
        std::ranges::find_if(kMatrixNames, [&](const MatrixNames& of) { return layer.ends_with(of.weight); });
    const std::string plain(layer);
    layer.remove_suffix(words->weight.size());
    add({std::string(layer), name, std::string(layer) + std::string(words->bias), 0, 0, tensor.begin, tensor.type},
        tensor.shape[0], tensor.shape[1],
        {name, plain + std::string(safetensors::kMask), safetensors::is_quantised(tensor) ? name + "_scale" : name});
  }

  // What is neither a layer's nor empty changes what the network computes.
  void refuse_unused() const {
    for (const auto& [name, tensor] : tensors_) {
      if (used_.contains(name) || tensor.elements == 0) {
        continue;
      }
      const std::string of(name.substr(0, name.rfind('.')));
      const auto weight = tensors_.find(of + ".weight");
      const Tensor& main = weight == tensors_.end() ? tensor : weight->second;
      std::string before;
      for (const Layer& layer : layers_) {
        if (static_cast<std::uint64_t>(layer.outputs) == main.elements) {
          before += (before.empty() ? " (" : ", ") + in_quotes(layer.name);
        }
      }
      throw InputError(who(name) + " of shape " + shape_text(tensor) +
                       " is no layer's, and the network is another without it; " +
                       (main.dimensions > 2
                            ? "it seems to be of a convolution: save the matrix that it is, [outputs, inputs], instead"
                        : weight != tensors_.end() || tensors_.contains(of + ".running_mean")
                            ? "it seems to be of a normalisation or an activation: fold a batch normalisation into the "
                              "weights and the "
                              "bias of the layer before it" +
                                  (before.empty() ? "" : before + ")") + ", and save the file without it"
                            : "save the file without it, if it has no part in it"));
    }
  }

  // Whether there can be an order, and biases are of the layers' outputs.
  bool can_be(const std::vector<Layer>& layers) const {
    const Orders orders = find_orders(layers);
    return (!orders.found.empty() || !orders.is_known) && std::ranges::all_of(layers, [&](const Layer& layer) {
             const auto bias = tensors_.find(layer.bias);
             return bias == tensors_.end() || bias->second.elements == 1 ||
                    bias->second.elements == static_cast<std::uint64_t>(layer.outputs);
           });
  }
  std::vector<Layer> in_order() const {
    std::vector<Layer> turned = layers_, written = layers_;
    std::ranges::for_each(turned, [](Layer& layer) { std::swap(layer.outputs, layer.inputs); });
    if (!can_be(layers_) && can_be(turned)) {
      throw InputError(file_ + ": its layers seem to lie as " +
                       (transpose_ ? "[outputs, inputs]: leave --transpose, transpose=yes, out"
                                   : "[inputs, outputs], as Keras saves them: read them by --transpose, or "
                                     "transpose=yes behind the file's name"));
    }
    const Orders orders = find_orders(layers_);
    if (orders.is_known && orders.found.size() < 2) {
      if (orders.found.empty()) {
        refuse_widths(layers_);
      }
      return orders.found.front();
    }
    // Writers that sort tensors by type and name leave an order that says nothing.
    std::ranges::sort(written, {}, &Layer::begin);
    const auto is_sorted = [](const Layer& a, const Layer& b) { return a.type != b.type || a.name < b.name; };
    if (std::ranges::adjacent_find(written, std::not_fn(is_sorted)) == written.end() || !follow(written)) {
      throw InputError(file_ +
                       ": its layers fit in more than one order, and no numbers in their names say which; say it " +
                       "by order=" + names_of(layers_) + " behind the file's name, or number the names");
    }
    return written;
  }
  // As it is asked for: "input+hidden+output".
  std::vector<Layer> in_order(std::string_view order) const {
    std::vector<Layer> ordered, left = layers_;
    while (!left.empty() || !order.empty()) {
      const std::string_view name = order.substr(0, order.find('+'));
      const auto layer = std::ranges::find(left, name, &Layer::name);
      if (layer == left.end()) {
        throw InputError(file_ + ": order: expected each layer once, still " + names_of(left) + "; found " +
                         in_quotes(name));
      }
      ordered.push_back(*layer);
      left.erase(layer);
      order.remove_prefix(std::min(name.size() + 1, order.size()));
    }
    refuse_widths(ordered);
    return ordered;
  }
  static std::string names_of(const std::vector<Layer>& layers) {
    std::string names;
    for (const Layer& layer : layers) {
      names += (names.empty() ? "" : "+") + layer.name;
    }
    return one_line(names, 200) + (names.size() > 200 ? "..." : "");
  }
  void refuse_widths(const std::vector<Layer>& layers) const {
    const auto other = std::ranges::adjacent_find(layers, std::not_fn(fits_before));
    if (other != layers.end()) {
      throw InputError(file_ + ": layer " + in_quotes(other[1].name) + " takes " + std::to_string(other[1].inputs) +
                       " inputs, but " + in_quotes(other->name) + " before it has " + std::to_string(other->outputs) +
                       " outputs");
    }
  }

  SparseMatrix compressed(const Layer& layer) const {
    SparseMatrix weights{layer.outputs, layer.inputs, {}, {}, {}};
    if (transpose_) {  // as it lies
      std::swap(weights.rows, weights.columns);
    }
    weights.row_begin = integers(layer.name + std::string(kRows), static_cast<std::uint64_t>(weights.rows) + 1);
    const std::string columns_name = layer.name + std::string(kColumns),
                      values_name = layer.name + std::string(kValues);
    const auto values = tensors_.find(values_name);
    const std::uint64_t nnz = values == tensors_.end() ? 0 : values->second.elements;
    for (const std::int64_t column : integers(columns_name, nnz)) {
      if (column < 0 || column >= weights.columns) {
        throw InputError(who(columns_name) + " has the column " + std::to_string(column) + "; expected 0 to " +
                         std::to_string(weights.columns - 1));
      }
      weights.column.push_back(static_cast<std::int32_t>(column));
    }
    weights.value = decode_values(find(values_name, nnz), who(values_name));
    return weights;
  }

  std::shared_ptr<const InputFile> input_;
  std::string file_;
  Tensors tensors_;
  float bias_;
  bool transpose_;
  std::set<std::string, std::less<>> used_;  // tensors
  std::vector<Layer> layers_;
};

}  // namespace

FeedForward parse_network_safetensors(std::shared_ptr<const InputFile> input, std::string_view file_name,
                                      const NetworkFile& file) {
  const auto reader = std::make_shared<const NetworkReader>(std::move(input), file_name, file);
  return {std::string(file_name), reader->neurons(), file.clip.value_or(kNoClip),
          [reader](int l) { return reader->layer(l); }};
}

}  // namespace onchip
