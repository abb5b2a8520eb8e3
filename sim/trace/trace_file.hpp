// SPDX-License-Identifier: Apache-2.0
// Traces in files, compressed or not (model/base/decompress.hpp): onchip's compact form or Accel-Sim's, told apart by
// their first bytes.
#pragma once

#include "sim/trace/trace.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace onchip {

// Throws InputError with the place of what is wrong.
std::unique_ptr<TraceSource> read_trace(const std::filesystem::path& file);

// The traces that a list of kernels as Accel-Sim's tracer writes it ("kernelslist.g") names, beside it, in its order;
// of a file that is no such list the file itself.
std::vector<std::filesystem::path> kernels_of(const std::filesystem::path& file);

}  // namespace onchip
