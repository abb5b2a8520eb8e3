// SPDX-License-Identifier: Apache-2.0
#include "model/base/decompress.hpp"

#include "tests/catch.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

std::string gzip(const std::string& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string xz(const std::string& plain) {
  std::string packed(lzma_stream_buffer_bound(plain.size()), '\0');
  std::size_t size = 0;
  REQUIRE(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(plain.data()),
                                  plain.size(), reinterpret_cast<std::uint8_t*>(packed.data()), &size,
                                  packed.size()) == LZMA_OK);
  packed.resize(size);
  return packed;
}

std::string zstd(const std::string& plain) {
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 3));
  return packed;
}

const std::vector<std::pair<std::string, std::string (*)(const std::string&)>> kPackers{
    {"gzip", gzip}, {"xz", xz}, {"zstd", zstd}};

std::string random_text(std::size_t size) {
  std::mt19937 random(3);
  std::string text(size, '\0');
  for (char& c : text) {
    c = "0123456789abcdef\n"[random() % 17];
  }
  return text;
}

std::string error_of(const std::string& packed, std::size_t most = kMostUnpackedBytes) {
  try {
    decompress(packed, "m.mtx.gz", most);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what gzip, xz and zstd compressed is unpacked, also several streams one after another", "[fast]") {
  for (const auto& [name, pack] : kPackers) {
    CAPTURE(name);
    for (const std::size_t size : {0u, 1u, 65536u, 300001u}) {
      const std::string plain = random_text(size), packed = pack(plain);
      REQUIRE(compression_of(packed) == name);
      REQUIRE(decompress(packed, "f") == plain);
      REQUIRE(decompress(packed + pack("and more"), "f") == plain + "and more");
    }
  }
  REQUIRE(compression_of("%%MatrixMarket") == "");
  REQUIRE(decompress("%%MatrixMarket", "f") == "%%MatrixMarket");
}

TEST_CASE("a compressed stream that is cut off, broken or followed by something else is one clear error", "[fast]") {
  const std::string plain = random_text(2000);
  for (const auto& [name, pack] : kPackers) {
    const std::string packed = pack(plain);
    for (std::size_t size = 6; size < packed.size(); ++size) {
      CAPTURE(name, size);
      REQUIRE(error_of(packed.substr(0, size)) ==
              "m.mtx.gz: compressed by " + name + ", but it ends too early: the file is cut off");
    }
    std::string broken = packed;
    broken[packed.size() / 2] = static_cast<char>(broken[packed.size() / 2] ^ 0x55);
    REQUIRE((name == "zstd" || error_of(broken).find("is broken") != std::string::npos));  // zstd had no checksum
    REQUIRE(error_of(packed + "and more, but of another kind").find("is broken") != std::string::npos);
  }
}

TEST_CASE("a small file that unpacks to a huge one is refused at the limit", "[fast]") {
  const std::string zeros(1 << 24, '\0');
  for (const auto& [name, pack] : kPackers) {
    CAPTURE(name);
    const std::string packed = pack(zeros);
    REQUIRE(packed.size() < 20000);
    REQUIRE(error_of(packed, zeros.size()).empty());
    REQUIRE(error_of(packed, zeros.size() - 1) ==
            "m.mtx.gz: compressed by " + name + ", but it holds more than 16777215 bytes: unpack it first");
    REQUIRE(error_of(packed, 100000).find("more than 100000 bytes") != std::string::npos);
  }
}

TEST_CASE("an input file is its bytes, compressed or not", "[fast]") {
  for (const std::string& bytes : {std::string("plain"), gzip("plain"), xz("plain"), zstd("plain")}) {
    const std::string path = "input_file_test." + std::to_string(bytes.size());
    std::ofstream(path, std::ios::binary) << bytes;
    REQUIRE(InputFile(path).bytes() == "plain");
    std::remove(path.c_str());
  }
}
