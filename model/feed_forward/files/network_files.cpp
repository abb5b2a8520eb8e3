// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/files/network_files.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/data/radix_net.hpp"
#include "model/workload/files/weights_file.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace onchip {
namespace {

// The number at the end of a name, and what stands before it; -1 where there is none.
std::pair<int, std::string_view> number_at_end(std::string_view name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;  // 0 for npos
  int number = -1;
  const auto [stop, error] = std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return {error == std::errc() ? number : -1, name.substr(0, digits)};
}

// Of "n1024-l7", "neuron1024" or "sparse-images-1024": the first number.
int first_number(std::string_view name) {
  const std::size_t begin = std::min(name.find_first_of("0123456789"), name.size());
  int number = 0;
  std::from_chars(name.data() + begin, name.data() + name.size(), number);
  return number;
}

int challenge_neurons(const std::filesystem::path& path, std::string_view name, const NetworkFile& file) {
  const int neurons = file.neurons > 0 ? file.neurons : first_number(name);
  if (neurons < 1 || neurons > kMaxDimension) {
    throw InputError(path.string() + ": its name does not say how many neurons a layer has; give neurons=1024");
  }
  return neurons;
}

void refuse_order(const std::filesystem::path& path, bool is_said, std::string_view what) {
  if (is_said) {
    throw InputError(path.string() + ": " + std::string(what) + " is not of these files, whose layers are numbered");
  }
}

FeedForward challenge_network(const std::filesystem::path& path, int neurons, int layers, const NetworkFile& file,
                              std::function<SparseMatrix(int)> weights) {
  refuse_order(path, file.transpose || !file.order.empty(), file.transpose ? "transpose" : "order");
  const float bias = file.bias.value_or(challenge_bias(neurons));
  return {path.string(), std::vector<int>(layers + 1, neurons), file.clip.value_or(kChallengeClip),
          [=, weights = std::move(weights)](int l) {
            return SparseLayer{weights(l), {bias}};
          }};
}

using Numbered = std::map<int, std::filesystem::path>;

// The files of layers 1, 2, ... or 0, 1, ...
std::vector<std::filesystem::path> in_order(const std::filesystem::path& folder, const Numbered& files) {
  std::vector<std::filesystem::path> ordered;
  int expected = files.begin()->first == 0 ? 0 : 1;
  for (const auto& [number, file] : files) {
    if (number != expected++) {
      throw InputError(folder.string() + ": the file of layer " + std::to_string(expected - 1) +
                       " is missing; found layers up to " + std::to_string(files.rbegin()->first));
    }
    ordered.push_back(file);
  }
  return ordered;
}

FeedForward matrix_market_network(const std::filesystem::path& folder, const Numbered& files, const Numbered& biases,
                                  const NetworkFile& file) {
  std::vector<SparseLayer> layers;
  refuse_order(folder, !file.order.empty(), "order");
  in_order(folder, files);
  for (const auto& [number, name] : biases) {
    if (!files.contains(number)) {
      throw InputError(name.string() + ": the folder has no layer " + std::to_string(number));
    }
  }
  for (const auto& [number, name] : files) {
    SparseLayer layer{read_weights(name, {.transpose = file.transpose}), {file.bias.value_or(0)}};
    if (const auto bias = biases.find(number); bias != biases.end()) {
      const SparseMatrix column = read_weights(bias->second);
      if (column.columns != 1 || column.rows != layer.weights.rows) {
        throw InputError(bias->second.string() + ": the biases of layer " + std::to_string(number) + " are [" +
                         std::to_string(layer.weights.rows) + ", 1]; found [" + std::to_string(column.rows) + ", " +
                         std::to_string(column.columns) + "]");
      }
      layer.bias = to_dense(column);
    }
    if (!layers.empty() && layers.back().weights.rows != layer.weights.columns) {
      throw InputError(name.string() + ": layer " + std::to_string(number) + " takes " +
                       std::to_string(layer.weights.columns) + " inputs, but the layer before it has " +
                       std::to_string(layers.back().weights.rows) + " outputs");
    }
    layers.push_back(std::move(layer));
  }
  return stored_network(folder.string(), std::move(layers), file.clip.value_or(kNoClip));
}

FeedForward open_folder(const std::filesystem::path& folder, const NetworkFile& file) {
  Numbered tsv, mtx, biases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto [stem, extension] = stem_and_extension(entry.path());
    const auto [number, before] = number_at_end(stem);
    Numbered* const kind = number < 0                                        ? nullptr
                           : extension == ".tsv" && before.ends_with("-l")   ? &tsv
                           : extension == ".mtx" && before.ends_with("bias") ? &biases
                           : extension == ".mtx"                             ? &mtx
                                                                             : nullptr;
    if (!kind && extension == ".mtx") {
      throw InputError(entry.path().string() + ": its name has no number that says which layer it is");
    }
    if (kind) {
      if (const auto [found, is_new] = kind->emplace(number, entry.path()); !is_new) {
        throw InputError(folder.string() + ": two files are of layer " + std::to_string(number) + ": " +
                         in_quotes(std::min(found->second, entry.path()).filename().string()) + " and " +
                         in_quotes(std::max(found->second, entry.path()).filename().string()));
      }
    }
  }
  if (tsv.empty() == mtx.empty()) {
    throw InputError(folder.string() + ": the folder has " + (tsv.empty() ? "no" : "both kinds of") +
                     " files of layers; expected n1024-l1.tsv, n1024-l2.tsv, ... or NAME1.mtx, NAME2.mtx, ...");
  }
  if (!mtx.empty()) {
    return matrix_market_network(folder, mtx, biases, file);
  }
  const std::vector<std::filesystem::path> ordered = in_order(folder, tsv);
  const int neurons = challenge_neurons(ordered.front(), ordered.front().filename().string(), file);
  return challenge_network(folder, neurons, static_cast<int>(ordered.size()), file, [=](int l) {
    InputFile input(ordered[l]);
    return parse_layer_tsv(input.bytes(), ordered[l].string(), neurons, neurons);
  });
}

}  // namespace

FeedForward open_network(const std::filesystem::path& path, const NetworkFile& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return open_folder(path, file);
  }
  const auto input = std::make_shared<const InputFile>(path);
  const auto [stem, extension] = stem_and_extension(path);
  if (extension == ".safetensors") {
    return parse_network_safetensors(input, path.string(), file);
  }
  if (extension == ".bin") {
    const int neurons = challenge_neurons(path, stem, file);
    return challenge_network(path, neurons, layers_of_bin(input->size(), path.string(), neurons), file,
                             [=](int l) { return parse_layer_bin(*input, path.string(), neurons, l); });
  }
  throw InputError(path.string() +
                   ": unknown kind of network; expected a folder of .tsv or .mtx files, or a name that ends in .bin or "
                   ".safetensors");
}

Inputs open_images(const std::filesystem::path& file, int neurons) {
  const auto [stem, extension] = stem_and_extension(file);
  if (extension != ".tsv" && extension != ".bin") {
    return read_mnist(file, neurons);
  }
  InputFile input(file);
  return extension == ".tsv" ? parse_images_tsv(input.bytes(), file.string(), neurons)
                             : parse_images_bin(input.bytes(), file.string(), neurons);
}

}  // namespace onchip
