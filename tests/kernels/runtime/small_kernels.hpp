// SPDX-License-Identifier: Apache-2.0
// Kernels that compile in no time, and a cache of their own for them.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "model/workload/recurrent.hpp"
#include "tests/folder.hpp"

#include <cstdlib>
#include <filesystem>
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
  explicit TemporaryCache(const std::string& below = "") { setenv("ONCHIP_CACHE", (folder_ / below).c_str(), 1); }
  ~TemporaryCache() { unsetenv("ONCHIP_CACHE"); }
  const Folder& folder() const { return folder_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      found.push_back(entry.path());
    }
    return found;
  }

 private:
  Folder folder_;
};

inline CompileRequest tiny(const std::string& architecture, int constant = 1) {
  return {"tiny", kTinySource, architecture, {"ONCHIP_TINY=" + std::to_string(constant)}};
}

// 1151 units, batch 3: nothing is a round number.
inline Recurrent awkward_network(Precision precision) {
  return {.cell = Cell::tanh, .precision = precision, .hidden = 1151, .batch = 3, .density = 0.1};
}

}  // namespace onchip
