// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of feed-forward networks and their images: every input goes to all. Only InputError
// may come out, its message is one line, and what is read is well formed.
//   tests/fuzz/run build-asan network
#include "model/base/error.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/files/network_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace onchip;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

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

template <typename Read>
void run(Read&& read) {
  try {
    read();
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    require(!message.empty() && message.size() < 4096);
    require(std::all_of(message.begin(), message.end(), [](char c) { return c >= 0x20 && c < 0x7f; }));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  run([&] { require_valid(parse_layer_tsv(bytes, "fuzz.tsv", 40, 30)); });
  run([&] { require_valid(Inputs(parse_images_tsv(bytes, "fuzz.tsv", 30))); });
  run([&] { require_valid(Inputs(parse_images_bin(bytes, "fuzz.bin", 30))); });
  run([&] { parse_categories(bytes, "fuzz.tsv"); });
  run([&] { require_valid(Inputs(parse_mnist(bytes, "fuzz.idx", 1024))); });
  run([&] {
    for (int l = layers_of_bin(bytes, "fuzz.bin", 1); l > 0; --l) {
      require_valid(parse_layer_bin(bytes, "fuzz.bin", 1, l - 1));
    }
  });
  run([&] {
    const FeedForward network = parse_network_safetensors(bytes, "fuzz.safetensors");
    for (int l = 0; l < network.layers(); ++l) {
      const SparseLayer layer = network.layer(l);
      require(layer.weights.rows == network.outputs(l) && layer.weights.columns == network.inputs(l));
      require_valid(layer.weights);
    }
  });
  return 0;
}
