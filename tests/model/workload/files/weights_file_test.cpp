// SPDX-License-Identifier: Apache-2.0
// Files of other kinds than Matrix Market and one .safetensors file: NumPy's, checkpoints of several files, compressed
// ones, transposed ones.
#include "model/workload/files/weights_file.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace onchip;

namespace {

const SparseMatrix kMatrix{2, 3, {0, 2, 3}, {0, 2, 1}, {1.5F, -2, 4}};

std::string bytes_of(const auto& values) {
  std::string bytes(values.size() * sizeof values[0], '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
const std::string kRows = bytes_of(std::vector<float>{1.5F, 0, -2, 0, 4, 0});
const std::string kColumns = bytes_of(std::vector<float>{1.5F, 0, 0, 4, -2, 0});

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  const std::string length = std::string(1, static_cast<char>(header.size())) + std::string(version == 1 ? 1 : 3, '\0');
  return std::string("\x93NUMPY") + version + std::string(1, '\0') + length + header + data;
}
std::string npy_header(const std::string& type, const std::string& order, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }  \n";
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

}  // namespace

TEST_CASE("NumPy arrays of every version, order and type are read", "[weights_file][fast]") {
  const auto read = [](const std::string& bytes) { return parse_npy(bytes, "w.npy"); };
  for (const char version : {'\1', '\2', '\3'}) {
    CHECK(read(npy(npy_header("<f4", "False", "(2, 3)"), kRows, version)) == kMatrix);
    CHECK(read(npy(npy_header("<f4", "True", "(2, 3)"), kColumns, version)) == kMatrix);
  }
  CHECK(read(npy(npy_header("<f8", "False", "(2, 3)"), bytes_of(std::vector<double>{1.5, 0, -2, 0, 4, 0}))) == kMatrix);
  CHECK(read(npy(npy_header("<f2", "False", "(1, 2)"), std::string("\0\0\0\x3e", 4))) ==
        SparseMatrix{1, 2, {0, 1}, {1}, {1.5F}});
  CHECK(read(npy(npy_header("|i1", "False", "(1, 2)"), std::string("\0\xfd", 2))) ==
        SparseMatrix{1, 2, {0, 1}, {1}, {-3}});
  const auto error = [&](const std::string& bytes) { return error_of([&] { read(bytes); }); };
  CHECK(error("\x93NUMPX") == "w.npy: not a NumPy file of version 1 to 3");
  CHECK(error(npy("{}", "")) == "w.npy: its header has no 'descr'");
  CHECK(error(npy(npy_header(">f4", "False", "(2, 3)"), kRows)) ==
        "w.npy: its values are '>f4'; expected '<f2', '<f4', '<f8', '|i1' or '|b1'");
  CHECK(error(npy(npy_header("<f4", "False", "(2, 3, 4)"), kRows)) ==
        "w.npy: its shape is '(2, 3, 4)', which the 24 bytes of data are not; is the file truncated?");
  CHECK(error(npy(npy_header("<f4", "False", "(2, 3, 1)"), kRows)) ==
        "w.npy: the array has shape [2, 3, ...]; expected two dimensions");
  for (const char* shape : {"(2, 4)", "(4294967296, 4294967296)", "(0, 3)"}) {
    CHECK(error(npy(npy_header("<f4", "False", shape), kRows)) ==
          "w.npy: its shape is '" + std::string(shape) +
              "', which the 24 bytes of data are not; is the file truncated?");
  }
  const std::string whole = npy(npy_header("<f4", "True", "(2, 3)"), kColumns);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_THROWS_AS(read(whole.substr(0, size)), InputError);
  }
}

TEST_CASE("the shard that has the tensor is found by the index of a checkpoint", "[weights_file][fast]") {
  const Folder directory;
  directory.write("a.safetensors", safetensors(R"({"l.weight_hh":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
      "l.weight_ih":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})",
                                               kRows));
  // The second shard is not there, as where only a part was downloaded.
  const std::string index = directory.write(
      "model.safetensors.index.json",
      R"({"metadata":{},"weight_map":{"l.weight_hh":"a.safetensors","l.weight_ih":"a.safetensors","fc":"b.safetensors"}})");
  CHECK(read_weights(index) == kMatrix);
  CHECK(read_weights(index, {"l.weight_hh"}) == kMatrix);
  CHECK(says(error_of([&] { read_weights(index, {"fc"}); }), "b.safetensors: cannot read the file"));
  for (const char* bad : {"[]", "{", R"({"weight_map":[]})", R"({"weight_map":{"w":1}})"}) {
    CHECK(says(error_of([&] { read_weights(directory.write("bad.json", bad)); }), "expected the index"));
  }
}

TEST_CASE("a pruned weight is found with its mask in another shard", "[weights_file][fast]") {
  const Folder directory;
  directory.write("a.safetensors", safetensors(R"({"w_orig":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                                               bytes_of(std::vector<float>{1.5F, 7, -2, 7, 4, 7})));
  directory.write("b.safetensors",
                  safetensors(R"({"w_mask":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", kRows));
  const std::string index =
      directory.write("i.json", R"({"weight_map":{"w_orig":"a.safetensors","w_mask":"b.safetensors"}})");
  CHECK(read_weights(index, {"w"}) == kMatrix);
}

TEST_CASE("weights are read transposed on request, and of one direction as they are", "[weights_file][fast]") {
  CHECK(transposed(transposed(kMatrix)) == kMatrix);
  const Folder directory;
  const std::string file = directory.write("w.npy", npy(npy_header("<f4", "False", "(3, 2)"), kColumns));
  CHECK(read_weights(file, {.transpose = true}) == kMatrix);
  CHECK(parse_safetensors(safetensors(R"({"R":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})", kRows),
                          "w.safetensors") == kMatrix);
  CHECK(parse_npy(npy(npy_header("<f4", "False", "(1, 2, 3)"), kRows), "w.npy") == kMatrix);
  CHECK(parse_npy(npy(npy_header("<f4", "True", "(1, 2, 3)"), kColumns), "w.npy") == kMatrix);
}

TEST_CASE("the only tensor that has the shape of recurrent weights needs no name", "[weights_file][fast]") {
  const std::string data(4 * (4 + 3 + 2 + 4), '\0');
  const std::string file = safetensors(R"({"embedding":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},
                      "kernel":{"dtype":"F32","shape":[4,1],"data_offsets":[36,52]},
                      "projection":{"dtype":"F32","shape":[1,3],"data_offsets":[16,28]},
                      "head":{"dtype":"F32","shape":[2,1],"data_offsets":[28,36]}})",
                                       data);
  const auto rows = [&](const TensorChoice& choice) { return parse_safetensors(file, "w.safetensors", choice).rows; };
  CHECK(rows({.gates = 4}) == 4);
  CHECK(rows({.gates = 1}) == 2);
  CHECK(rows({.transpose = true, .gates = 3}) == 1);
  CHECK(says(error_of([&] { rows({}); }), "name one of them"));
}

TEST_CASE("checkpoints of PyTorch and archives of NumPy say how to save what is read", "[weights_file][fast]") {
  const Folder directory;
  for (const char* bytes : {"PK\x03\x04...", "\x80\x02}q"}) {
    const std::string file = directory.write("model.bin", bytes);
    CHECK(error_of([&] { read_weights(file); }) ==
          file +
              ": a PyTorch checkpoint; save it as safetensors: python3 -c \"import torch, safetensors.torch as s; "
              "s.save_file(torch.load('model.bin', map_location='cpu'), 'model.safetensors')\"");
  }
  CHECK(says(error_of([&] { read_weights(directory.write("w.npz", "PK\x03\x04")); }), "numpy.save"));
}

TEST_CASE("compressed weights are read as what they hold", "[weights_file][fast]") {
  // "%%MatrixMarket matrix coordinate real general\n1 2 1\n1 2 4\n", by gzip
  constexpr std::string_view kGzip =
      "1f8b08000000000002035355f54d2c29caacf04d2cca4e2d51c805731492f3f38b5232f3124b52158a52137314d253f3"
      "528b1273b80c158c140cc1a4091700d49d6b0f3a000000";
  const auto hex = [](std::string_view digits) {
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
    }
    return bytes;
  };
  const Folder directory;
  const std::string file = directory.write("W.MTX.GZ", hex(kGzip));
  CHECK(read_weights(file) == SparseMatrix{1, 2, {0, 1}, {1}, {4}});
}
