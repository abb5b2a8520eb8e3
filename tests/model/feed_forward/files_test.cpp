// SPDX-License-Identifier: Apache-2.0
#include "model/base/random.hpp"
#include "model/feed_forward/data/digits.hpp"
#include "model/feed_forward/data/radix_net.hpp"
#include "model/feed_forward/data/random_network.hpp"
#include "model/feed_forward/files/network_files.hpp"
#include "model/feed_forward/reference.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"
#include "tests/model/feed_forward/written.hpp"

#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace onchip;

namespace {

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string packed(bytes.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string with_crlf(const std::string& text) {
  std::string lines;
  for (const char c : text) {
    lines += c == '\n' ? "\r\n" : std::string(1, c);
  }
  return lines;
}

std::string layer_error(const std::string& text) {
  return error_of([&] { parse_layer_tsv(text, "l.tsv", 4, 3); });
}
std::string images_error(const std::string& text) {
  return error_of([&] { parse_images_tsv(text, "i.tsv", 4, 3); });
}

bool same_layers(const FeedForward& a, const FeedForward& b) {
  bool same = a.neurons == b.neurons && a.clip == b.clip;
  for (int l = 0; same && l < a.layers(); ++l) {
    same = a.layer(l) == b.layer(l);
  }
  return same;
}

FeedForward read_network_bytes(const std::string& bytes, const NetworkFile& file = {}) {
  return parse_network_safetensors(std::make_shared<const InputFile>(InMemory{bytes}), "net", file);
}

struct Written {
  std::string name;
  std::vector<std::uint64_t> shape;
};
// Tensors of zeros in this order.
std::string file_of(const std::vector<Written>& tensors) {
  std::string header;
  std::uint64_t end = 0;
  for (const auto& [name, shape] : tensors) {
    std::string sizes;
    std::uint64_t bytes = 4;
    for (const std::uint64_t size : shape) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
      bytes *= size;
    }
    header += (header.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"F32\",\"shape\":[" + sizes +
              "],\"data_offsets\":[" + std::to_string(end) + "," + std::to_string(end + bytes) + "]}";
    end += bytes;
  }
  header += "}";
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + std::string(end, '\0');
}
std::string network_error(const std::vector<Written>& tensors, const NetworkFile& file = {}) {
  const std::string bytes = file_of(tensors);
  return error_of([&] { read_network_bytes(bytes, file); });
}

RandomNetwork small_network() {
  RandomNetwork drawn;
  drawn.neurons = {30, 20, 25, 7};
  drawn.degrees = {DegreeLaw::uniform, 0, 9};
  drawn.values = {-1, 1};
  drawn.bias = {-0.5, 0.5};
  drawn.clip = kNoClip;
  return drawn;
}

}  // namespace

TEST_CASE("layers and images in the challenge's forms come back, with CR LF, compressed and in any order",
          "[feed_forward][fast]") {
  const SparseMatrix weights = random_network(small_network()).layer(0).weights;
  const std::string text = layer_tsv(weights);
  CHECK(parse_layer_tsv(text, "l.tsv", 20, 30) == weights);
  CHECK(parse_layer_tsv(with_crlf(text), "l.tsv", 20, 30) == weights);
  CHECK(parse_layer_tsv("\xef\xbb\xbf" + text, "l.tsv", 20, 30) == weights);
  CHECK(parse_layer_tsv("3\t2\t1\n1\t2\t0.5\n2\t1\t0\n", "l.tsv", 2, 3) ==
        SparseMatrix{2, 3, {0, 0, 2}, {0, 2}, {0.5F, 1}});

  const SparseMatrix official = radix_net(64, 3).layer(2).weights;
  const std::string binary = layer_bin(radix_net(64, 1).layer(0).weights) + layer_bin(official);
  CHECK(layers_of_bin(binary.size(), "neuron64.bin", 64) == 2);
  CHECK(parse_layer_bin(InputFile(InMemory{binary}), "neuron64.bin", 64, 1) == official);

  const IndexLists digits = to_lists(synthetic_digits(1024, 0, 5));
  std::string entries;
  add_images_bin(digits, [&](std::string_view piece) { entries += piece; });
  CHECK(parse_images_bin(entries, "i.bin", 1024, 5) == digits);
  CHECK(parse_images_tsv("2\t1\t0.5\n2\t4\t1\n", "i.tsv", 4, 3) == IndexLists{4, {0, 0, 2, 2}, {0, 3}, {0.5F, 1}});
}

TEST_CASE("lines of the challenge's files that are wrong are named", "[feed_forward][fast]") {
  CHECK(layer_error("1\t1\t0.5\n1\t2\t0.25\n") == "no error");
  CHECK(layer_error("") == "l.tsv:1:1: the file is empty");
  CHECK(layer_error("1\t1\t0.5\n1\t2\t0.2") == "l.tsv:2:8: the last line has no end; is the file truncated?");
  CHECK(layer_error("1\t1\t0.5\n1\t2\n") == "l.tsv:2:4: expected a value, found the end of the line");
  CHECK(layer_error("1\t1\t0.5\n\n") == "l.tsv:2:1: expected input, found the end of the line");
  CHECK(layer_error("1\t1\t0.5\n4\t1\t1\n") == "l.tsv:2:1: input '4' is outside 1 to 3");
  CHECK(layer_error("1\t5\t1\n") == "l.tsv:1:3: output '5' is outside 1 to 4");
  CHECK(layer_error("0\t1\t1\n") == "l.tsv:1:1: input '0' is outside 1 to 3");
  CHECK(says(layer_error("99999999999999999999\t1\t1\n"), "is outside 1 to 3"));
  CHECK(layer_error("1\tx\t1\n") == "l.tsv:1:3: expected output, found 'x'");
  CHECK(layer_error("1\t1\t1,5\n") == "l.tsv:1:5: expected a value, found '1,5'");
  CHECK(layer_error("1\t1\tnan\n") == "l.tsv:1:5: value 'nan' is not a finite number");
  CHECK(layer_error("1\t1\t1e39\n") == "l.tsv:1:5: value '1e39' is beyond the range of fp32");
  CHECK(layer_error("1\t1\t1e-60\n") == "no error");
  CHECK(layer_error("1\t1\t1\t2\n") == "l.tsv:1:7: expected the end of the line, found '2'");
  CHECK(layer_error("1\t1\t1\n2\t1\t1\n1\t1\t2\n") == "l.tsv:3:1: input 1, output 1 is already on line 1");
  CHECK(images_error("4\t1\t1\n") == "i.tsv:1:1: image '4' is outside 1 to 3");
  CHECK(images_error("1\t1\t1\n1\t1\t1\n") == "i.tsv:2:1: image 1, pixel 1 is already on line 1");
}

TEST_CASE("entries of the champion's binary files that are wrong are named", "[feed_forward][fast]") {
  const auto images = [](const std::vector<std::int32_t>& pixel, const std::vector<std::int32_t>& image,
                         const std::vector<float>& value) {
    return error_of([&] { parse_images_bin(bytes_of(pixel) + bytes_of(image) + bytes_of(value), "i.bin", 9, 2); });
  };
  CHECK(images({1, 2}, {1, 1}, {1, 1}) == "no error");
  CHECK(images({1, 10}, {1, 1}, {1, 1}) == "i.bin: entry 2: pixel 10 is outside 1 to 9");
  CHECK(images({1, 2}, {1, 0}, {1, 1}) == "i.bin: entry 2: image 0 is outside 1 to 2");
  CHECK(images({2, 2}, {1, 1}, {1, 1}) == "i.bin: entry 2: pixel 2, image 1 is already entry 1");
  CHECK(images({2, 3}, {1, 1}, {1, INFINITY}) == "i.bin: entry 2: the value is not a finite number");
  CHECK(says(images({}, {}, {}), "is the file truncated?"));
  const std::string bin = layer_bin(radix_net(32, 1).layer(0).weights);
  CHECK(error_of([&] { layers_of_bin(bin.size() - 1, "neuron32.bin", 32); }) ==
        "neuron32.bin: layers of 32 neurons take 12288 bytes each; found 12287 bytes; is the file truncated, or of "
        "another number of neurons?");
  CHECK(error_of([&] { parse_layer_bin(InputFile(InMemory{bin}), "neuron32.bin", 32, 1); }) ==
        "neuron32.bin: the file has 1 layers; found a request for layer 2");
}

TEST_CASE("a folder of the challenge's files is its network", "[feed_forward][fast]") {
  const Folder folder;
  const FeedForward network = radix_net(64, 11);
  for (int l = 0; l < network.layers(); ++l) {
    const std::string text = layer_tsv(network.layer(l).weights);
    folder.write("n64-l" + std::to_string(l + 1) + (l % 2 ? ".tsv.gz" : ".tsv"), l % 2 ? gzipped(text) : text);
  }
  folder.write("neuron64-l11-categories.tsv", "1\n");
  folder.write("sparse-images-64.tsv", "1\t1\t1\n3\t64\t1\n");
  CHECK(same_layers(open_network(folder.path()), network));
  CHECK(open_network(folder.path(), {0, {}, 5.0F}).clip == 5);
  CHECK(image_count(open_images(folder / "sparse-images-64.tsv", 64)) == 3);

  std::filesystem::remove(folder / "n64-l7.tsv");
  CHECK(error_of([&] { open_network(folder.path()); }) ==
        folder.path().string() + ": the file of layer 7 is missing; found layers up to 11");
  folder.write("n64-l7.tsv", "65\t1\t1\n");
  CHECK(error_of([&] { open_network(folder.path()).layer(6); }) ==
        (folder / "n64-l7.tsv").string() + ":1:1: input '65' is outside 1 to 64");
  folder.write("n64-l7.tsv.gz", "");
  CHECK(says(error_of([&] { open_network(folder.path()); }), "two files are of layer 7"));
}

TEST_CASE("the champion's binary network is read by its name", "[feed_forward][fast]") {
  const Folder folder;
  const FeedForward network = radix_net(64, 3);
  std::string bytes;
  for (int l = 0; l < network.layers(); ++l) {
    bytes += layer_bin(network.layer(l).weights);
  }
  folder.write("neuron64.bin", bytes);
  CHECK(same_layers(open_network(folder / "neuron64.bin"), network));
  folder.write("weights.bin.gz", gzipped(bytes));
  CHECK(same_layers(open_network(folder / "weights.bin.gz", {64, {}, {}}), network));
  CHECK(error_of([&] { open_network(folder / "weights.bin.gz"); }) ==
        (folder / "weights.bin.gz").string() +
            ": its name does not say how many neurons a layer has; give neurons=1024");
}

// 4e9 weights in 48 GB, of which only the last layer's are on disk: beyond 32 bits by bytes and by weights.
TEST_CASE("the last of 1920 layers of 65536 neurons is read from where it lies", "[feed_forward][slow]") {
  const Folder folder;
  const SparseLayer last = radix_net(65536, 1920).layer(1919);
  const std::string bytes = layer_bin(last.weights);
  const auto file = folder / "neuron65536.bin";
  folder.write("neuron65536.bin", "");
  std::filesystem::resize_file(file, bytes.size() * 1919);
  std::ofstream(file, std::ios::binary | std::ios::app) << bytes;
  const FeedForward network = open_network(file);
  CHECK(network.layers() == 1920);
  CHECK(network.layer(1919) == last);
  CHECK(error_of([&] { network.layer(1918); }) == file.string() + ": entry 4022337537: output 0 is outside 1 to 65536");
}

TEST_CASE("a network goes through safetensors and Matrix Market and back", "[feed_forward][fast]") {
  const Folder folder;
  const FeedForward network = random_network(small_network());
  folder.write("net.safetensors", safetensors(network));
  CHECK(same_layers(open_network(folder / "net.safetensors"), network));
  std::filesystem::create_directory(folder / "mtx");
  for (int l = 0; l < network.layers(); ++l) {
    const SparseLayer layer = network.layer(l);
    const std::string number = std::to_string(l + 1);
    folder.write("mtx/layer" + number + ".mtx", matrix_market(layer.weights));
    SparseMatrix bias{layer.weights.rows, 1, {0}, {}, layer.bias};
    for (int row = 0; row < bias.rows; ++row) {
      bias.column.push_back(0);
      bias.row_begin.push_back(row + 1);
    }
    folder.write("mtx/bias" + number + ".mtx", matrix_market(bias));
  }
  CHECK(same_layers(open_network(folder / "mtx"), network));
  std::filesystem::rename(folder / "mtx/layer2.mtx", folder / "mtx/layer4.mtx");
  CHECK(says(error_of([&] { open_network(folder / "mtx"); }), "layer 2 is missing; found layers up to 4"));
  std::filesystem::rename(folder / "mtx/layer1.mtx", folder / "mtx/layer2.mtx");
  std::filesystem::rename(folder / "mtx/layer4.mtx", folder / "mtx/layer1.mtx");
  CHECK(says(error_of([&] { open_network(folder / "mtx"); }), "bias1.mtx: the biases of layer 1 are [25, 1]"));
  std::filesystem::remove(folder / "mtx/bias1.mtx");
  std::filesystem::remove(folder / "mtx/bias2.mtx");
  CHECK(says(error_of([&] { open_network(folder / "mtx"); }),
             "layer2.mtx: layer 2 takes 30 inputs, but the layer before it has 25 outputs"));
  CHECK(says(error_of([&] { open_network(folder.path()); }), "the folder has no files of layers"));
  CHECK(says(error_of([&] { open_network(folder / "nothing"); }), "cannot read the file"));
}

TEST_CASE("matrices of a dense framework are layers in the order of the numbers in their names",
          "[feed_forward][fast]") {
  const auto file = [](const std::string& header, const std::vector<float>& data) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + bytes_of(data);
  };
  // The tenth takes what the second gives.
  const std::string bytes = file(R"({"10.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                 R"("2.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},)"
                                 R"("2.bias":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}})",
                                 {1, 2, 0, 3, 4, 0, -1, -2});
  const FeedForward network = read_network_bytes(bytes, {0, -0.5F, 6.0F});
  CHECK(network.neurons == std::vector{2, 2, 1});
  CHECK(network.clip == 6);
  CHECK(network.layer(0) == SparseLayer{{2, 2, {0, 1, 2}, {1, 0}, {3, 4}}, {-1, -2}});
  CHECK(network.layer(1) == SparseLayer{{1, 2, {0, 2}, {0, 1}, {1, 2}}, {-0.5F}});

  const std::string wrong = file(R"({"1.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                 R"("2.weight":{"dtype":"F32","shape":[1,3],"data_offsets":[8,20]}})",
                                 {1, 2, 3, 4, 5});
  CHECK(error_of([&] { read_network_bytes(wrong); }) ==
        "net: layer '2' takes 3 inputs, but '1' before it has 1 outputs");
  const std::string rows = file(R"({"a.shape":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                                R"("a.crow_indices":{"dtype":"I32","shape":[2],"data_offsets":[8,16]},)"
                                R"("a.col_indices":{"dtype":"I32","shape":[1],"data_offsets":[16,20]},)"
                                R"("a.values":{"dtype":"F32","shape":[1],"data_offsets":[20,24]}})",
                                {});
  const auto with = [&](const std::vector<std::int32_t>& integers) {
    return rows + bytes_of(integers) + bytes_of(std::vector<float>{1});
  };
  CHECK(read_network_bytes(with({1, 2, 0, 1, 1})).layer(0).weights.nnz() == 1);
  CHECK(error_of([&] {
          read_network_bytes(with({1, 2, 0, 1, 2})).layer(0);
        }) == "net: tensor 'a.col_indices' has the column 2; expected 0 to 1");
  CHECK(error_of([&] {
          read_network_bytes(with({1, 2, 0, 5, 1})).layer(0);
        }) == "net: layer 'a': the rows of a layer do not match its 1 weights");
  CHECK(error_of([&] {
          read_network_bytes(with({2, 2, 0, 1, 1})).layer(0);
        }) == "net: tensor 'a.crow_indices' has 2 elements; expected 3");
  CHECK(says(error_of([&] { read_network_bytes(with({-1, 2, 0, 1, 1})); }), "inputs or outputs"));
}

TEST_CASE("layers run in the only order that their sizes and numbers allow, whatever their names",
          "[feed_forward][fast]") {
  Random random{1, 2};
  for (int trial = 0; trial < 200; ++trial) {
    const auto layers = 2 + random.below(6);
    std::vector<Written> tensors;
    std::vector<int> neurons{static_cast<int>(random.below(9)) + 1};
    for (std::uint64_t l = 0; l < layers; ++l) {  // sizes that all differ
      neurons.push_back(neurons.back() + 1 + static_cast<int>(random.below(4)));
      tensors.push_back(
          {std::string(1, static_cast<char>('a' + random.below(26))) + "x" + std::string(l + 1, 'y') + ".weight",
           {static_cast<std::uint64_t>(neurons[l + 1]), static_cast<std::uint64_t>(neurons[l])}});
    }
    shuffle(tensors, random);
    CHECK(read_network_bytes(file_of(tensors)).neurons == neurons);
    for (Written& tensor : tensors) {
      std::swap(tensor.shape[0], tensor.shape[1]);
    }
    std::ranges::reverse(neurons);  // which fits, too, without a bias that says otherwise
    CHECK(read_network_bytes(file_of(tensors)).neurons == neurons);
  }
  // An autoencoder, whose halves fit in either order: numbers within each, and where the file has them.
  const std::vector<Written> coder{{"encoder.0.weight", {4, 9}},
                                   {"encoder.2.weight", {2, 4}},
                                   {"decoder.0.weight", {4, 2}},
                                   {"decoder.2.weight", {9, 4}}};
  CHECK(read_network_bytes(file_of(coder)).neurons == std::vector{9, 4, 2, 4, 9});
  const std::vector<Written> sorted{coder[2], coder[3], coder[0], coder[1]};
  const std::string unclear = network_error(sorted);
  CHECK(says(unclear, "net: its layers fit in more than one order"));
  CHECK(says(unclear, "order=decoder.0+decoder.2+encoder.0+encoder.2"));
  CHECK(read_network_bytes(file_of(sorted), {.order = "encoder.0+encoder.2+decoder.0+decoder.2"}).neurons ==
        std::vector{9, 4, 2, 4, 9});
  CHECK(network_error(sorted, {.order = "encoder.0+encoder.3"}) ==
        "net: order: expected each layer once, still decoder.0+decoder.2+encoder.2; found 'encoder.3'");
  CHECK(says(network_error(coder, {.order = "encoder.0+decoder.0+encoder.2+decoder.2"}),
             "layer 'decoder.0' takes 2 inputs"));
  CHECK(read_network_bytes(file_of({{"input.weight", {3, 3}}, {"hidden.weight", {3, 3}}})).neurons ==
        std::vector{3, 3, 3});
  CHECK(says(network_error({{"hidden.weight", {3, 3}}, {"input.weight", {3, 3}}}), "more than one order"));
}

TEST_CASE("every tensor of a network has a part in it, or the file is refused with its name", "[feed_forward][fast]") {
  const std::vector<Written> layers{{"fc1.weight", {4, 6}}, {"fc1.bias", {4}}, {"fc2.weight", {1, 4}}};
  REQUIRE(network_error(layers) == "no error");
  const auto with = [&](std::vector<Written> more) {
    more.insert(more.begin(), layers.begin(), layers.end());
    return network_error(more);
  };
  CHECK(
      with({{"norm.weight", {4}}, {"norm.bias", {4}}}) ==
      "net: tensor 'norm.bias' of shape [4] is no layer's, and the network is another without it; it seems to be of a "
      "normalisation or an activation: fold a batch normalisation into the weights and the bias of the layer before it "
      "('fc1'), and save the file without it");
  CHECK(says(with({{"bn.running_mean", {4}}}), "'bn.running_mean' of shape [4] is no layer's"));
  CHECK(says(with({{"conv.weight", {8, 3, 3, 3}}, {"conv.bias", {8}}}), "it seems to be of a convolution"));
  CHECK(says(with({{"step", {}}}), "tensor 'step' of shape [] is no layer's"));
  CHECK(with({{"empty", {0}}}) == "no error");
  // As Keras saves it.
  const std::vector<Written> keras{{"dense/kernel:0", {6, 4}}, {"dense/bias:0", {4}}, {"dense_1/kernel:0", {4, 1}}};
  CHECK(says(network_error(keras), "net: its layers seem to lie as [inputs, outputs], as Keras saves them"));
  CHECK(read_network_bytes(file_of(keras), {.transpose = true}).neurons == std::vector{6, 4, 1});
  CHECK(says(network_error(layers, {.transpose = true}), "seem to lie as [outputs, inputs]: leave --transpose"));
  const FeedForward network = random_network(small_network());
  std::vector<SparseLayer> turned;
  for (int l = network.layers() - 1; l >= 0; --l) {  // which fit as they lie
    turned.push_back({transposed(network.layer(l).weights), {0}});
  }
  const std::string bytes = safetensors(stored_network("turned", turned, kNoClip));
  const FeedForward back = read_network_bytes(bytes, {.transpose = true, .order = "layers.2+layers.1+layers.0"});
  for (int l = 0; l < back.layers(); ++l) {
    CHECK(back.layer(l).weights == network.layer(l).weights);
  }
}
