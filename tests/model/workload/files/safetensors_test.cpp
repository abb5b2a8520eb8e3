// SPDX-License-Identifier: Apache-2.0
#include "model/base/error.hpp"
#include "model/workload/files/weights_file.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace onchip;

namespace {

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::string file_of(std::string_view header, std::string_view data) {
  return little_endian(header.size(), 8) + std::string(header) + std::string(data);
}

std::string f32(const std::vector<float>& values) {
  std::string text;
  for (const float value : values) {
    text += little_endian(std::bit_cast<std::uint32_t>(value), 4);
  }
  return text;
}

// {"w": 2 x 3 of fp32}
constexpr std::string_view kHeader = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
const SparseMatrix kMatrix{2, 3, {0, 2, 3}, {0, 2, 1}, {1.5F, -2, 1e-3F}};
const std::string kData = f32({1.5F, 0, -2, 0, 1e-3F, -0.0F});

SparseMatrix parse(std::string_view bytes, std::string_view tensor = "") {
  return parse_safetensors(bytes, "w.safetensors", {tensor});
}

// The message without the file's name.
std::string error_in(std::string_view bytes, std::string_view tensor = "") {
  constexpr std::string_view kFile = "w.safetensors: ";
  const std::string message = error_of([&] { parse(bytes, tensor); });
  return message.starts_with(kFile) ? message.substr(kFile.size()) : "without a file name: " + message;
}

std::string error_in_header(std::string_view header, std::string_view tensor = "") {
  return error_in(file_of(header, kData), tensor);
}

}  // namespace

TEST_CASE("a tensor written to a file reads back without its zeros", "[safetensors][fast]") {
  const Folder directory;
  const std::string file = directory.write("w.safetensors", file_of(kHeader, kData));
  CHECK(read_safetensors(file) == kMatrix);
  CHECK(read_weights(file, {"w"}) == kMatrix);
  const auto missing = directory / "v.safetensors";
  CHECK(error_of([&] { read_weights(missing); }) ==
        missing.string() + ": cannot read the file: No such file or directory");
  CHECK(error_of([&] { read_safetensors(directory.path()); }) ==
        directory.path().string() + ": cannot read the file: it is a directory");
}

TEST_CASE("every half that is finite and not zero reads back exactly", "[safetensors][fast]") {
  // All 65536 codes in one row; those of infinities and NaN replaced by zero.
  std::string data;
  for (std::uint32_t code = 0; code < 65536; ++code) {
    data += little_endian((code & 0x7c00) == 0x7c00 ? 0 : code, 2);
  }
  const SparseMatrix matrix =
      parse(file_of(R"({"w":{"dtype":"F16","shape":[1,65536],"data_offsets":[0,131072]}})", data));
  CHECK(matrix.nnz() == 65536 - 2 * 1024 - 2);
  bool exact = true;
  for (std::int64_t i = 0; i < matrix.nnz(); ++i) {
    const int code = matrix.column[i];
    const int exponent = code >> 10 & 31;
    const int fraction = code & 1023;
    const double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    exact &= matrix.value[i] == (code >> 15 ? -magnitude : magnitude);
  }
  CHECK(exact);
}

TEST_CASE("bf16 and doubles are read", "[safetensors][fast]") {
  CHECK(parse(file_of(R"({"w":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}})",
                      little_endian(0x3fc0, 2) + little_endian(0x8000, 2) + little_endian(0xc000, 2))) ==
        SparseMatrix{1, 3, {0, 2}, {0, 2}, {1.5F, -2}});
  const auto f64 = [](double value) { return little_endian(std::bit_cast<std::uint64_t>(value), 8); };
  // Too small for fp32 is a zero.
  CHECK(parse(file_of(R"({"w":{"dtype":"F64","shape":[3,1],"data_offsets":[0,24]}})",
                      f64(0.1) + f64(1e-60) + f64(-4))) == SparseMatrix{3, 1, {0, 1, 1, 2}, {0, 0}, {0.1F, -4}});
  CHECK(error_in(file_of(R"({"w":{"dtype":"F64","shape":[1,1],"data_offsets":[0,8]}})", f64(1e39))) ==
        "tensor 'w' holds a value beyond fp32 at [0, 0]");
}

TEST_CASE("metadata, spaces, other tensors and keys of other tools do not matter", "[safetensors][fast]") {
  CHECK(parse(file_of(R"( {"__metadata__":{"format":"pt","dtype":"x"},
      "bias":{"shape":[2],"data_offsets":[24,40],"dtype":"I64"},
      "scale":{"dtype":"F4_NEW","shape":[],"data_offsets":[40,41]},
      "none":{"dtype":"F32","shape":[0,3,9],"data_offsets":[24,24]},
      "w":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]}}    )",
                      kData + std::string(17, 'x'))) == kMatrix);
  CHECK(parse(file_of(R"({"__metadata__":null,"w":{"dtype":"F32","strides":[3,{"a":[1]}],"shape":[2,3],"b":null,
      "data_offsets":[0,24],"of":{"dtype":"F16"}}})",
                      kData)) == kMatrix);
}

TEST_CASE("bytes that are no tensor's are refused, as by the format's own reader", "[safetensors][fast]") {
  CHECK(error_in(file_of(kHeader, kData + "12")) == "2 bytes after the last tensor are no tensor's");
  CHECK(error_in(file_of(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}})", "1234" + kData)) ==
        "4 bytes before tensor 'w' are no tensor's");
  CHECK(error_in(file_of(std::string(kHeader) + std::string(3, '\0'), kData)) ==
        "its header holds a NUL byte; the format pads it with spaces");
}

TEST_CASE("a pruned weight is read with its mask", "[safetensors][fast]") {
  const std::string mask = "\1" + std::string(2, '\0') + std::string(3, '\1');
  const std::string bytes = file_of(R"({"l.weight_hh_mask":{"dtype":"BOOL","shape":[2,3],"data_offsets":[24,30]},
      "l.weight_hh_orig":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
      "l.weight_ih":{"dtype":"F32","shape":[1,1],"data_offsets":[30,34]}})",
                                    kData + mask + f32({1}));
  const SparseMatrix masked{2, 3, {0, 1, 2}, {0, 1}, {1.5F, 1e-3F}};
  for (const char* name : {"", "l.weight_hh_orig", "l.weight_hh"}) {
    CAPTURE(name);
    CHECK(parse(bytes, name) == masked);
  }
  CHECK(error_in(file_of(R"({"w_mask":{"dtype":"BOOL","shape":[3,2],"data_offsets":[24,30]},
      "w_orig":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                         kData + mask)) == "tensor 'w_orig' has shape [2, 3], its mask [3, 2]");
}

TEST_CASE("quantised weights are read with their scale", "[safetensors][fast]") {
  const std::string eighths = "\x02\xff" + std::string(1, '\0') + "\x10";  // 2, -1, 0, 16
  CHECK(parse(file_of(R"({"w":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},
      "w_scale":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                      eighths + f32({0.5F, 2}))) == SparseMatrix{2, 2, {0, 2, 3}, {0, 1, 1}, {1, -0.5F, 32}});
  CHECK(parse(file_of(R"({"w":{"dtype":"F8_E4M3","shape":[1,2],"data_offsets":[0,2]},
      "w_scale":{"dtype":"F32","shape":[],"data_offsets":[2,6]}})",
                      "\x38\xc0" + f32({4}))) == SparseMatrix{1, 2, {0, 2}, {0, 1}, {4, -8}});  // 1 and -2
  CHECK(error_in(file_of(R"({"w":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},
      "w_scale":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
                         eighths + f32({1, 1, 1}))) == "tensor 'w' has 3 scales; expected one, or one of each row");
}

TEST_CASE("one of several tensors is chosen by its name", "[safetensors][fast]") {
  const std::string two = R"({"cell.weight_hr":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]},
      "cell.weight_ih":{"dtype":"F32","shape":[1,3],"data_offsets":[12,24]},
      "cell.bias":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}})";
  const std::string bytes = file_of(two, kData + f32({0, 0, 0}));
  CHECK(parse(bytes, "cell.weight_hr") == SparseMatrix{1, 3, {0, 2}, {0, 2}, {1.5F, -2}});
  CHECK(parse(bytes, "cell.weight_ih") == SparseMatrix{1, 3, {0, 1}, {1}, {1e-3F}});
  CHECK(error_in(bytes) ==
        "the file holds 2 2-D tensors that can be recurrent weights; name one of them: 'cell.weight_hr', "
        "'cell.weight_ih'");
  CHECK(error_in(bytes, "cell.weight_h") ==
        "no tensor 'cell.weight_h'; did you mean 'cell.weight_hr'?; 2-D tensors: 'cell.weight_hr', 'cell.weight_ih'");
  CHECK(error_in(bytes, "cell.bias") == "tensor 'cell.bias' has shape [3]; expected two dimensions");
}

TEST_CASE("long lists of tensors are cut", "[safetensors][fast]") {
  std::string header = "{";
  for (int i = 10; i < 30; ++i) {
    header +=
        (i == 10 ? "\"w" : ",\"w") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0,1],"data_offsets":[0,0]})";
  }
  CHECK(error_in(file_of(header + "}", "")) ==
        "the file holds 20 2-D tensors that can be recurrent weights; name one of them: 'w10', 'w11', 'w12', 'w13', "
        "'w14', 'w15', 'w16', 'w17', "
        "'w18', 'w19' and 10 more");
}

TEST_CASE("files without a usable matrix say so", "[safetensors][fast]") {
  CHECK(error_in(file_of("{}", "")) == "the file holds no 2-D tensor");
  CHECK(error_in(file_of("{}", ""), "w") == "no tensor 'w'; the file holds no 2-D tensor");
  CHECK(error_in_header(R"({"b":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}})") ==
        "the file holds no 2-D tensor");
  CHECK(error_in_header(R"({"b":{"dtype":"F32","shape":[2,1,3],"data_offsets":[0,24]}})", "b") ==
        "tensor 'b' has shape [2, 1, ...]; expected two dimensions");
  CHECK(error_in_header(R"({"w":{"dtype":"I64","shape":[1,3],"data_offsets":[0,24]}})") ==
        "tensor 'w' has dtype 'I64'; expected one of F16, BF16, F32, F64, BOOL, I8 and F8_E4M3");
  CHECK(error_in_header(R"({"w":{"dtype":"f32","shape":[2,3],"data_offsets":[0,24]}})") ==
        "tensor 'w' has dtype 'f32'; expected one of F16, BF16, F32, F64, BOOL, I8 and F8_E4M3");
  CHECK(error_in(file_of(R"({"w":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})", "")) ==
        "tensor 'w' has shape [0, 3]; expected 1 to " + std::to_string(kMaxDimension) + " rows and columns");
  const std::string columns = std::to_string(kMaxDimension + 1);
  const std::string bytes = std::to_string(2 * (kMaxDimension + 1));
  CHECK(error_in(file_of(R"({"w":{"dtype":"F16","shape":[1,)" + columns + R"(],"data_offsets":[0,)" + bytes + "]}}",
                         std::string(2 * (kMaxDimension + 1), '\0'))) ==
        "tensor 'w' has shape [1, " + columns + "]; expected 1 to " + std::to_string(kMaxDimension) +
            " rows and columns");
}

TEST_CASE("a file that ends early is refused", "[safetensors][fast]") {
  CHECK(error_in("") == "not a safetensors file: it has 0 bytes, fewer than the 8 of the header's length");
  CHECK(error_in("abc") == "not a safetensors file: it has 3 bytes, fewer than the 8 of the header's length");
  CHECK(error_in(little_endian(40'000'000'000, 8) + "{}") ==
        "not a safetensors file, or a truncated one: its header claims 40000000000 bytes, but 2 follow");
  CHECK(error_in(std::string(8, '\xff')) ==
        "not a safetensors file, or a truncated one: its header claims 18446744073709551615 bytes, but 0 follow");
  CHECK(error_in(file_of(kHeader, kData.substr(1))) ==
        "tensor 'w' has offsets 0 to 24, but the file holds 23 bytes of data; is it truncated?");
  const std::string whole = file_of(kHeader, kData);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse(std::string_view(whole).substr(0, size)), InputError);
  }
}

TEST_CASE("a header longer than the format allows is refused", "[safetensors][fast]") {
  const std::string bytes = little_endian(100'000'001, 8) + std::string(100'000'001, ' ');
  CHECK(error_in(bytes) == "its header claims 100000001 bytes; the format's limit is 100000000");
}

TEST_CASE("offsets that do not fit the shape or the file are refused", "[safetensors][fast]") {
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}})") ==
        "tensor 'w' has offsets 24 to 0, which run backwards");
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})") ==
        "tensor 'w' of shape [2, 3] and dtype 'F32' takes 24 bytes, but its offsets are 0 to 20");
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}})") ==
        "tensor 'w' has offsets 4 to 28, but the file holds 24 bytes of data; is it truncated?");
  CHECK(error_in_header(
            R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[18446744073709551591,18446744073709551615]}})") ==
        "tensor 'w' has offsets 18446744073709551591 to 18446744073709551615, but the file holds 24 bytes of data; is "
        "it truncated?");
  // 2^32 * 2^32 elements and 2^62 * 4 bytes are both 0 modulo 2^64.
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})") ==
        "tensor 'w' has a shape of more than 2^64 bytes");
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[4611686018427387904,1],"data_offsets":[0,0]}})") ==
        "tensor 'w' has a shape of more than 2^64 bytes");
  CHECK(error_in_header(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[8,24]},
                            "w":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}})") ==
        "tensors 'w' and 'a' overlap");
}

TEST_CASE("headers that are not the format's are refused", "[safetensors][fast]") {
  for (const char* header : {"", R"({"w":)", "{} {}", "{\"\xff\":1}", "[]", "7"}) {
    CAPTURE(header);
    CHECK(error_in_header(header) == "its header is no JSON object");
  }
  const auto lacks = [](const std::string& keys, const std::string& key, const std::string& expected) {
    CAPTURE(keys, key);
    CHECK(error_in_header("{\"w\":" + keys + "}") == "tensor 'w' has no '" + key + "', " + expected);
  };
  for (const char* keys : {"7", "[]", "\"F32\"", "null", R"({"dtype":null})", R"({"dtype":["F32"]})",
                           R"({"shapes":[2,3]})", R"({"shape":[2,3],"data_offsets":[0,24]})"}) {
    lacks(keys, "dtype", "a string");
  }
  for (const char* shape : {"6", "[\"6\"]", "[-1]", "[2.0,3]", "[18446744073709551616]", "[true]", "[[2,3]]", "{}"}) {
    lacks(R"({"dtype":"F32","data_offsets":[0,24],"shape":)" + std::string(shape) + "}", "shape",
          "a list of whole numbers");
  }
  for (const char* offsets : {"24", "[0]", "[0,1,2]", "[0,-24]"}) {
    lacks(R"({"dtype":"F32","shape":[2,3],"data_offsets":)" + std::string(offsets) + "}", "data_offsets",
          "two whole numbers");
  }
  lacks(R"({"dtype":"F32","data_offsets":[0,24]})", "shape", "a list of whole numbers");
  lacks(R"({"dtype":"F32","shape":[2,3]})", "data_offsets", "two whole numbers");
}

TEST_CASE("names and keys that occur twice are refused", "[safetensors][fast]") {
  CHECK(error_in_header(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"w":{}})") ==
        "the key 'w' is there twice");
  CHECK(error_in_header(R"({"w":{"dtype":"F32","dtype":"F32"}})") == "the key 'dtype' is there twice");
  CHECK(error_in_header(R"({"__metadata__":{},"__metadata__":{}})") == "the key '__metadata__' is there twice");
}

TEST_CASE("deeply nested headers are refused at once", "[safetensors][fast]") {
  const std::string deep = "more than 100 brackets within each other";
  CHECK(error_in_header(std::string(10'000'000, '[')) == deep);
  std::string bomb;
  for (int i = 0; i < 1'000'000; ++i) {
    bomb += R"({"shape":)";
  }
  CHECK(error_in_header(bomb) == deep);
  CHECK(error_in_header(R"({"w":{"shape":)" + std::string(1'000'000, '[')) == deep);
}

TEST_CASE("every layer and direction of a checkpoint is found, in their order", "[safetensors][fast]") {
  const Folder folder;
  std::vector<std::string> encoder, all{"decoder.weight_hh_l0"};
  std::string header = R"({"decoder.weight_hh_l0":{"dtype":"F32","shape":[8,2],"data_offsets":[0,64]})";
  std::uint64_t at = 64;
  const int layers = 12;
  for (int layer = 0; layer < layers; ++layer) {
    for (const char* direction : {"", "_reverse"}) {
      for (const char* of : {"weight_hh", "weight_ih"}) {
        const std::string name = "encoder.rnn." + std::string(of) + "_l" + std::to_string(layer) + direction;
        header += ",\"" + name + R"(":{"dtype":"F32","shape":[8,2],"data_offsets":[)" + std::to_string(at) + "," +
                  std::to_string(at + 64) + "]}";
        at += 64;
        if (name.find("weight_hh") != std::string::npos) {
          encoder.push_back(name);
          all.push_back(name);
        }
      }
    }
  }
  const std::string file = folder.write("w.safetensors", file_of(header + "}", std::string(at, '\x3f')));
  CHECK(recurrent_tensors(file, {}) == all);
  CHECK(recurrent_tensors(file, {.tensor = "encoder.rnn", .gates = 4}) == encoder);
  CHECK(recurrent_tensors(file, {.tensor = encoder[3]}) == std::vector{encoder[3]});
  CHECK(recurrent_tensors(file, {.tensor = "decoder"}) == std::vector<std::string>{"decoder.weight_hh_l0"});
  CHECK(read_weights(file, {.tensor = "decoder"}).rows == 8);
  CHECK(error_of([&] {
          read_weights(file, {.tensor = "encoder.rnn"});
        }).starts_with(file + ": the file holds 24 2-D tensors that can be recurrent weights; name one of them: "));
  CHECK(error_of([&] { recurrent_tensors(file, {.tensor = "encode"}); }).starts_with(file + ": no tensor 'encode'"));
}

TEST_CASE("NaN and infinities are refused with their place", "[safetensors][fast]") {
  const auto with = [](float value) { return file_of(kHeader, f32({0, 1, 2, 3, value, 5})); };
  CHECK(error_in(with(std::numeric_limits<float>::quiet_NaN())) == "tensor 'w' holds NaN at [1, 1]");
  CHECK(error_in(with(-std::numeric_limits<float>::infinity())) == "tensor 'w' holds an infinity at [1, 1]");
  CHECK(error_in(file_of(R"({"w":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]}})", little_endian(0xfc00, 2))) ==
        "tensor 'w' holds an infinity at [0, 0]");
  CHECK(error_in(file_of(R"({"w":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}})", little_endian(0x7f81, 2))) ==
        "tensor 'w' holds NaN at [0, 0]");
}

TEST_CASE("a vector is read as it is, zeros included, and nothing else is taken for one", "[safetensors][fast]") {
  const std::string file = file_of(R"({"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},
                                       "h":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},
                                       "i":{"dtype":"I16","shape":[1],"data_offsets":[20,22]},
                                       "w":{"dtype":"F16","shape":[1,1],"data_offsets":[22,24]}})",
                                   f32({1, 0, -2.5F, 0}) + little_endian(0xc0003c00, 4) + little_endian(0, 4));
  const Folder folder;
  const std::string name = folder.write("w.safetensors", file);
  const auto read = [&](std::string_view tensor) { return read_safetensors_vector(name, tensor); };
  CHECK(read("b") == std::vector<float>{1, 0, -2.5F, 0});
  CHECK(read("h") == std::vector<float>{1, -2});
  const auto error = [&](std::string_view tensor) { return error_of([&] { read(tensor); }); };
  CHECK(error("w") == name + ": tensor 'w' has shape [1, 1]; expected one dimension");
  CHECK(error("i") == name + ": tensor 'i' has dtype 'I16'; expected one of F16, BF16, F32, F64, BOOL, I8 and F8_E4M3");
  CHECK(error("") == name + ": no tensor ''");
  const std::string bad = file_of(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                  f32({1, std::numeric_limits<float>::infinity()}));
  CHECK(error_of([&] { read_safetensors_vector(folder.write("bad", bad), "b"); }) ==
        (folder / "bad").string() + ": tensor 'b' holds an infinity at [1]");
}

TEST_CASE("names are quoted on one line", "[safetensors][fast]") {
  CHECK(error_in_header(R"({"a\nb\u0000\u001b":7})") == "tensor 'a\\x0ab\\x00\\x1b' has no 'dtype', a string");
  CHECK(error_in_header("{\"w\u007f\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", "w") ==
        "no tensor 'w'; did you mean 'w\\x7f'?; 2-D tensors: 'w\\x7f'");
  CHECK(error_in_header("{\"wä\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", "w") ==
        "no tensor 'w'; 2-D tensors: 'wä'");
}
