// SPDX-License-Identifier: Apache-2.0
// Kernels that compile in no time, and a cache of their own for them.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/workload/recurrent.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

inline constexpr std::string_view kTinySource = R"(
extern "C" __global__ void tiny(int* out) { out[threadIdx.x] = blockIdx.x + ONCHIP_TINY; }
)";

// A directory that is the cache for as long as this lives.
class TemporaryCache {
 public:
  explicit TemporaryCache(const std::string& below = "") {
    static int count = 0;
    root_ = std::filesystem::temp_directory_path() /
            ("onchip_cache_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(root_);
    setenv("ONCHIP_CACHE", (root_ / below).c_str(), 1);
  }
  ~TemporaryCache() {
    unsetenv("ONCHIP_CACHE");
    std::filesystem::remove_all(root_);
  }
  const std::filesystem::path& root() const { return root_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      found.push_back(entry.path());
    }
    return found;
  }

 private:
  std::filesystem::path root_;
};

inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline CompileRequest tiny(const std::string& architecture, int constant = 1) {
  return {"tiny", kTinySource, architecture, {"ONCHIP_TINY=" + std::to_string(constant)}};
}

// 1151 units, batch 3: nothing is a round number.
inline Recurrent awkward_network(Precision precision) {
  Recurrent network;
  network.cell = Cell::tanh;
  network.precision = precision;
  network.hidden = 1151;
  network.batch = 3;
  network.density = 0.1;
  return network;
}

}  // namespace onchip
