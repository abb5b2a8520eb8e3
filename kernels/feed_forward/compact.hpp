// SPDX-License-Identifier: Apache-2.0
// The kernel that lists the images that are alive (feed_forward_compact.cu).
#pragma once

#include "kernels/feed_forward/device/compact_arguments.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/sources.hpp"

#include <string>

namespace onchip {

inline constexpr int kCompactThreads = 256;

inline CompileRequest compact_request(const std::string& architecture) {
  return {"feed_forward_compact", kFeedForwardCompactSource, architecture, {}};
}

}  // namespace onchip
