// SPDX-License-Identifier: Apache-2.0
// The kernel that lists the images that are alive (feed_forward_compact.cu).
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"

#include <cstdint>
#include <string>

namespace onchip {

inline constexpr int kCompactThreads = 256;

// As the kernel has them.
struct CompactArguments {
  const std::uint32_t *count, *ids;
  std::uint32_t *alive, *next_count, *next_rows, *next_ids, *categories;
};

inline CompileRequest compact_request(const std::string& architecture) {
  return {"feed_forward_compact", kFeedForwardCompactSource, architecture, {}};
}

}  // namespace onchip
