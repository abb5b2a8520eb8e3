// SPDX-License-Identifier: Apache-2.0
#include "model/base/decompress.hpp"

#include "model/base/error.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

namespace onchip {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kChunk = std::size_t{1} << 16;
constexpr std::uint64_t kDecoderBytes = std::uint64_t{256} << 20;  // of xz: enough for what its level 9 writes
constexpr int kWindowLog = 27;                                     // of zstd: what its command takes unasked

struct Packing {
  std::string_view name, magic;
};
constexpr std::array kPackings{Packing{"gzip", "\x1f\x8b"sv}, Packing{"xz", "\3757zXZ\0"sv},
                               Packing{"zstd", "\x28\xb5\x2f\xfd"sv}};

enum class Step : std::uint8_t { more, end, broken };

// Each takes bytes from the front of `in`, writes to `out` from `done` on, and says how far it came. After an end the
// next stream of the file may begin.
class Gzip {
 public:
  Gzip() {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Gzip() { inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Step step(std::string_view& in, std::string& out, std::size_t& done) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), kAtOnce));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream_.avail_out = static_cast<uInt>(std::min(out.size() - done, kAtOnce));
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(static_cast<std::size_t>(reinterpret_cast<const char*>(stream_.next_in) - in.data()));
    done = static_cast<std::size_t>(reinterpret_cast<const char*>(stream_.next_out) - out.data());
    if (result == Z_STREAM_END) {
      inflateReset(&stream_);
      return Step::end;
    }
    return result == Z_OK || result == Z_BUF_ERROR ? Step::more : Step::broken;
  }

 private:
  static constexpr std::size_t kAtOnce = std::numeric_limits<uInt>::max();
  z_stream stream_{};
};

class Xz {
 public:
  Xz() { begin(); }
  ~Xz() { lzma_end(&stream_); }
  Xz(const Xz&) = delete;
  Xz& operator=(const Xz&) = delete;

  Step step(std::string_view& in, std::string& out, std::size_t& done) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<std::uint8_t*>(out.data() + done);
    stream_.avail_out = out.size() - done;
    const lzma_ret result = lzma_code(&stream_, LZMA_RUN);
    in.remove_prefix(in.size() - stream_.avail_in);
    done = out.size() - stream_.avail_out;
    if (result == LZMA_STREAM_END) {
      begin();
      return Step::end;
    }
    return result == LZMA_OK || result == LZMA_BUF_ERROR ? Step::more : Step::broken;
  }

 private:
  void begin() {
    if (lzma_stream_decoder(&stream_, kDecoderBytes, 0) != LZMA_OK) {
      throw std::bad_alloc();
    }
  }
  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Zstd {
 public:
  Zstd() : stream_(ZSTD_createDStream()) {
    if (!stream_) {
      throw std::bad_alloc();
    }
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~Zstd() { ZSTD_freeDStream(stream_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Step step(std::string_view& in, std::string& out, std::size_t& done) {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), done};
    const std::size_t left = ZSTD_decompressStream(stream_, &to, &from);
    in.remove_prefix(from.pos);
    done = to.pos;
    return ZSTD_isError(left) ? Step::broken : left == 0 ? Step::end : Step::more;
  }

 private:
  ZSTD_DStream* stream_;
};

template <typename Decoder>
std::string unpack(std::string_view packed, std::string_view file_name, const Packing& packing,
                   std::size_t most_bytes) {
  const auto fail = [&](const std::string& problem) {
    throw InputError(std::string(file_name) + ": compressed by " + std::string(packing.name) + ", but " + problem);
  };
  Decoder decoder;
  std::string out;
  std::size_t done = 0;
  for (std::string_view in = packed;;) {
    if (done == out.size()) {
      // One byte beyond the most would tell that there are more.
      out.resize(std::min(std::max(kChunk, 2 * done), most_bytes + 1));
    }
    const std::size_t left = in.size(), had = done;
    const Step step = decoder.step(in, out, done);
    if (done > most_bytes) {
      fail("it holds more than " + std::to_string(most_bytes) + " bytes: unpack it first");
    }
    if (step == Step::broken) {
      fail("its byte " + std::to_string(packed.size() - in.size()) + " or one before is broken: pack it again");
    }
    if (step == Step::end && in.empty()) {
      break;
    }
    if (left == in.size() && had == done) {
      fail("it ends too early: the file is cut off");
    }
  }
  out.resize(done);
  return out;
}

}  // namespace

std::string_view compression_of(std::string_view bytes) {
  const auto found =
      std::ranges::find_if(kPackings, [&](const Packing& packing) { return bytes.starts_with(packing.magic); });
  return found == kPackings.end() ? "" : found->name;
}

std::string decompress(std::string_view packed, std::string_view file_name, std::size_t most_bytes) {
  const std::string_view name = compression_of(packed);
  return name == "gzip"   ? unpack<Gzip>(packed, file_name, kPackings[0], most_bytes)
         : name == "xz"   ? unpack<Xz>(packed, file_name, kPackings[1], most_bytes)
         : name == "zstd" ? unpack<Zstd>(packed, file_name, kPackings[2], most_bytes)
                          : std::string(packed);
}

}  // namespace onchip
