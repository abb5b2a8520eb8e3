// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/loaded_cubin.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace onchip {

std::shared_ptr<const LoadedCubin> loaded_cubin(const CompileRequest& request) {
  // Never destroyed: graphs may still run, and CUDA may be gone before.
  static std::mutex& mutex = *new std::mutex;
  static auto& cubins = *new std::map<std::pair<int, std::string>, std::shared_ptr<const LoadedCubin>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const LoadedCubin>& cubin = cubins[{current_device(), fingerprint(request)}];
  if (!cubin) {
    cubin = std::make_shared<const LoadedCubin>(compile(request).cubin);
  }
  return cubin;
}

}  // namespace onchip
