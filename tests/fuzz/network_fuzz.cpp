// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of feed-forward networks and their images: every input goes to all. Only InputError
// may come out, its message is one line, and what is read is well formed.
//   tests/fuzz/run build-asan network
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_files.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace {

using namespace onchip;

void require_valid(const SparseMatrix& weights) {
  try {
    check(SparseLayer{weights, {0}});
  } catch (const InputError&) {
    std::abort();
  }
}

void require_valid(const Inputs& inputs) {
  try {
    check(inputs, neuron_count(inputs));
  } catch (const InputError&) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  run_reader([&] { require_valid(parse_layer_tsv(bytes, "fuzz.tsv", 40, 30)); });
  run_reader([&] { require_valid(Inputs(parse_images_tsv(bytes, "fuzz.tsv", 30))); });
  run_reader([&] { require_valid(Inputs(parse_images_bin(bytes, "fuzz.bin", 30))); });
  run_reader([&] { require_valid(Inputs(parse_mnist(bytes, "fuzz.idx", 1024))); });
  run_reader([&] {
    const InputFile file(InMemory{bytes});
    for (int l = layers_of_bin(file.size(), "fuzz.bin", 1); l > 0; --l) {
      require_valid(parse_layer_bin(file, "fuzz.bin", 1, l - 1));
    }
  });
  run_reader([&] {
    const FeedForward network =
        parse_network_safetensors(std::make_shared<const InputFile>(InMemory{bytes}), "fuzz.safetensors");
    for (int l = 0; l < network.layers(); ++l) {
      const SparseLayer layer = network.layer(l);
      require(layer.weights.rows == network.outputs(l) && layer.weights.columns == network.inputs(l));
      require_valid(layer.weights);
    }
  });
  return 0;
}
