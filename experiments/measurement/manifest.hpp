// SPDX-License-Identifier: Apache-2.0
// What a data file was measured with: a JSON file beside it (X.csv -> X.manifest.json), so that the rows themselves
// hold no time, host or path.
#pragma once

#include "model/chip/chip.hpp"

#include <filesystem>
#include <string>

namespace onchip {

struct Manifest {
  std::string gpu;           // "NVIDIA H200"
  std::string architecture;  // "sm_90"
  std::string driver, runtime, compiler;
  int sm_count = 0;
  double clock_mhz = 0;  // highest SM clock
  std::string date;      // "2025-11-21", UTC
};

std::filesystem::path manifest_path(const std::filesystem::path& data);

Manifest current_manifest();  // throws CudaError without a device; only in builds with CUDA

// The chip of this GPU, by its name, unless another is asked for, of which a line on stderr says so; with the changes
// of
// --set. Without a GPU as read_chip(): what measures says that there is none. Only in builds with CUDA; throws
// InputError for a GPU that has no chip file.
class Options;
ChipFile read_measured_chip(const Options& options);

std::string to_json_text(const Manifest& manifest);

// Throws InputError.
Manifest read_manifest(const std::filesystem::path& file);

}  // namespace onchip
