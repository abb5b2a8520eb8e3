// SPDX-License-Identifier: Apache-2.0
#include "model/base/shipped.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

namespace onchip {
namespace {

namespace fs = std::filesystem;

// The program or the shared library that holds this code; empty if the system does not say.
fs::path own_file() {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr;
  // A program that the shell found in PATH has no path there.
  const bool has_path = known && std::string_view(info.dli_fname).find('/') != std::string_view::npos;
  std::error_code unknown;
  return fs::canonical(has_path ? info.dli_fname : "/proc/self/exe", unknown);
}

}  // namespace

ShippedFolder shipped_folder(const char* name, const char* variable, const char* of_sources) {
  if (const char* chosen = std::getenv(variable); chosen && *chosen) {
    return {chosen, true};
  }
  // Only from where an installation puts programs and libraries: above a build folder anybody may have put files.
  std::error_code absent;
  const fs::path folder_of_own = own_file().parent_path();
  const std::string own = folder_of_own.string();
  for (const std::string within : {"/" ONCHIP_BINDIR, "/" ONCHIP_LIBDIR}) {
    if (!own.ends_with(within) || fs::exists(folder_of_own / "CMakeCache.txt", absent)) {
      continue;
    }
    if (fs::path folder = own.substr(0, own.size() - within.size()) + "/share/onchip/" + name;
        fs::is_directory(folder, absent)) {
      return {std::move(folder), false};
    }
  }
  return {of_sources, false};
}

ShippedFolder chips_folder() {
  return shipped_folder("chips", "ONCHIP_CHIPS", ONCHIP_CHIPS_DIR);
}

}  // namespace onchip
