// SPDX-License-Identifier: Apache-2.0
#include "model/workload/files/weights_file.hpp"

#include "model/base/input_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace onchip {
namespace {

// Files that hold one matrix without a name.
struct Kind {
  std::string_view extension;
  SparseMatrix (*parse)(std::string_view bytes, std::string_view file_name);
};
constexpr std::array kKinds{Kind{".mtx", parse_matrix_market}, Kind{".smtx", parse_smtx}, Kind{".npy", parse_npy}};

[[noreturn]] void refuse(const std::filesystem::path& file, std::string_view bytes, std::string_view extension) {
  const std::string name = file.string();
  if (extension == ".npz") {
    throw InputError(name + ": an archive of NumPy arrays; save the recurrent weights alone, by numpy.save");
  }
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("\x80")) {  // a zip file or a pickle
    throw InputError(name +
                     ": a PyTorch checkpoint; save it as safetensors: python3 -c \"import torch, "
                     "safetensors.torch as s; s.save_file(torch.load('" +
                     file.filename().string() + "', map_location='cpu'), '" + file.stem().string() +
                     ".safetensors')\"");
  }
  throw InputError(name +
                   ": unknown kind of weights file; expected a name that ends in .mtx, .smtx, .npy, "
                   ".safetensors or .safetensors.index.json");
}

SparseMatrix read_as_it_lies(const std::filesystem::path& file, const TensorChoice& choice) {
  const std::string extension = stem_and_extension(file).second;
  if (extension == ".json" || extension == ".safetensors") {
    return read_safetensors(file, choice);
  }
  InputFile input(file);
  const auto kind = std::ranges::find(kKinds, extension, &Kind::extension);
  if (kind == kKinds.end()) {
    refuse(file, input.read(0, std::min<std::uint64_t>(4, input.size())), extension);
  }
  if (!choice.tensor.empty()) {
    throw InputError(file.string() + ": the file holds one matrix without a name; found a request for " +
                     in_quotes(choice.tensor));
  }
  return kind->parse(input.bytes(), file.string());
}

}  // namespace

std::pair<std::string, std::string> stem_and_extension(const std::filesystem::path& file) {
  std::filesystem::path name = file.filename();
  const auto extension = [&] {
    std::string last = name.extension().string();
    std::ranges::transform(last, last.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return last;
  };
  if (const std::string last = extension(); last == ".gz" || last == ".xz" || last == ".zst") {
    name = name.stem();
  }
  return {name.stem().string(), extension()};
}

SparseMatrix read_weights(const std::filesystem::path& file, const TensorChoice& choice) {
  SparseMatrix matrix = read_as_it_lies(file, choice);
  return choice.transpose ? transposed(matrix) : matrix;
}

}  // namespace onchip
