// SPDX-License-Identifier: Apache-2.0
// What gzip, xz and zstd compress.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace onchip {

// "gzip", "xz" or "zstd" by the first bytes; "" for anything else.
std::string_view compression_of(std::string_view bytes);

// The bytes that `packed` stands for: itself if nothing compressed it. Throws InputError for a stream that is cut off
// or broken, or holds more than `most_bytes`. `file_name` is for messages.
std::string decompress(std::string_view packed, std::string_view file_name, std::size_t most_bytes);

}  // namespace onchip
