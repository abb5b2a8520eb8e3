// SPDX-License-Identifier: Apache-2.0
#include "model/base/decompress.hpp"
#include "model/base/input_file.hpp"

#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/folder.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <functional>
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

std::string unpack_error(const std::string& packed, std::size_t most = std::size_t{1} << 30) {
  return error_of([&] { decompress(packed, "m.mtx.gz", most); });
}

}  // namespace

TEST_CASE("what gzip, xz and zstd compressed is unpacked, also several streams one after another", "[fast]") {
  for (const auto& [name, pack] : kPackers) {
    CAPTURE(name);
    for (const std::size_t size : {0u, 1u, 65536u, 300001u}) {
      const std::string plain = random_text(size), packed = pack(plain);
      REQUIRE(compression_of(packed) == name);
      REQUIRE(decompress(packed, "f", 1 << 24) == plain);
      REQUIRE(decompress(packed + pack("and more"), "f", 1 << 24) == plain + "and more");
    }
  }
  REQUIRE(compression_of("%%MatrixMarket") == "");
  REQUIRE(decompress("%%MatrixMarket", "f", 100) == "%%MatrixMarket");
}

TEST_CASE("a compressed stream that is cut off, broken or followed by something else is one clear error", "[fast]") {
  const std::string plain = random_text(2000);
  for (const auto& [name, pack] : kPackers) {
    const std::string packed = pack(plain);
    for (std::size_t size = 6; size < packed.size(); ++size) {
      CAPTURE(name, size);
      REQUIRE(unpack_error(packed.substr(0, size)) ==
              "m.mtx.gz: compressed by " + name + ", but it ends too early: the file is cut off");
    }
    std::string broken = packed;
    broken[packed.size() / 2] = static_cast<char>(broken[packed.size() / 2] ^ 0x55);
    REQUIRE((name == "zstd" || says(unpack_error(broken), "is broken")));  // zstd had no checksum
    REQUIRE(says(unpack_error(packed + "and more, but of another kind"), "is broken"));
  }
}

TEST_CASE("a small file that unpacks to a huge one is refused at the limit", "[fast]") {
  const std::string zeros(1 << 24, '\0');
  for (const auto& [name, pack] : kPackers) {
    CAPTURE(name);
    const std::string packed = pack(zeros);
    REQUIRE(packed.size() < 20000);
    REQUIRE(unpack_error(packed, zeros.size()) == "no error");
    REQUIRE(unpack_error(packed, zeros.size() - 1) ==
            "m.mtx.gz: compressed by " + name + ", but it holds more than 16777215 bytes: unpack it first");
    REQUIRE(says(unpack_error(packed, 100000), "more than 100000 bytes"));
  }
}

TEST_CASE("an input file is its bytes, compressed or not", "[fast]") {
  for (const std::string& bytes : {std::string("plain"), gzip("plain"), xz("plain"), zstd("plain")}) {
    const Folder folder;
    REQUIRE(InputFile(folder.write("file", bytes)).bytes() == "plain");
  }
}

TEST_CASE("a file that becomes shorter is an error, and so is a small one that unpacks to a huge one", "[fast]") {
  const Folder folder;
  const std::string name = folder.write("file", std::string(100000, 'x'));
  const InputFile part(name);
  InputFile whole(name);
  REQUIRE(part.read(99999, 1) == "x");
  std::filesystem::resize_file(name, 5);
  REQUIRE(part.read(0, 5) == "xxxxx");
  for (const auto& read : {std::function([&] { part.read(50000, 10); }), std::function([&] { whole.bytes(); })}) {
    REQUIRE(error_of(read) == name + ": cannot read the file: it became shorter while it was read");
  }
  const std::string packed = zstd(std::string(most_unpacked_bytes(0) + (1 << 23), '\0'));
  REQUIRE(says(error_of([&] { InputFile input(folder.write("w.mtx.zst", packed)); }), "bytes: unpack it first"));
}

TEST_CASE("words are quoted as they are where they are printable text", "[fast]") {
  for (const char* word : {"plain", "größe", "重み", "😀", "a b"}) {
    REQUIRE(in_quotes(word) == "'" + std::string(word) + "'");
  }
  // A control, half a character, an overlong one, a surrogate, a turn of direction, what no Unicode has.
  for (const auto& [word, quoted] : {std::pair("\x1b[2J", "\\x1b[2J"),
                                     {"gr\xc3", "gr\\xc3"},
                                     {"\xc0\xaf", "\\xc0\\xaf"},
                                     {"\xc2\x9b", "\\xc2\\x9b"},
                                     {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                                     {"\u202e", "\\xe2\\x80\\xae"},
                                     {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"}}) {
    REQUIRE(in_quotes(word) == "'" + std::string(quoted) + "'");
  }
  REQUIRE(in_quotes(std::string(63, 'a') + "ß and more") == "'" + std::string(63, 'a') + "ß...'");
}
