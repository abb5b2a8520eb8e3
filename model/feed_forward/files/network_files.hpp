// SPDX-License-Identifier: Apache-2.0
// Feed-forward networks in users' files:
//   FOLDER with n1024-l1.tsv, n1024-l2.tsv, ...   of the challenge; layers are read when they are asked for
//   FOLDER with NAME1.mtx, NAME2.mtx, ...         Matrix Market, [outputs, inputs]; bias1.mtx, ... beside them, or none
//   neuron1024.bin                                of the challenge's champion of 2020
//   NAME.safetensors                              either matrices of dense frameworks, X.weight with X.bias; or
//                                                 X.shape, X.crow_indices, X.col_indices, X.values and X.bias. In the
//                                                 order of the numbers in their names and of their widths; of those
//                                                 orders, in which the file has them, unless its writer sorted them
// each compressed by gzip, xz or zstd, or not. Throw InputError.
#pragma once

#include "model/feed_forward/files/challenge_files.hpp"
#include "model/feed_forward/network.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

namespace onchip {

struct NetworkFile {
  int neurons = 0;              // of the challenge's files; 0: as their names say
  std::optional<float> bias{};  // of all neurons, where the files have none; else the challenge's, or 0
  std::optional<float> clip{};  // else that of the challenge for its files, or none
  bool transpose = false;       // the file's matrices are [inputs, outputs]
  std::string_view order{};     // of the layers of a .safetensors file, by their names: "input+hidden"
};
FeedForward open_network(const std::filesystem::path& path, const NetworkFile& file = {});

// Every tensor has a part in it, or the file is refused with its name.
FeedForward parse_network_safetensors(std::shared_ptr<const InputFile> input, std::string_view file_name,
                                      const NetworkFile& file = {});

// sparse-images-1024.tsv or .bin of the challenge, or MNIST's images in IDX form, told apart by their names.
Inputs open_images(const std::filesystem::path& file, int neurons);

}  // namespace onchip
