// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <vector>

namespace onchip {

SharedLibrary::SharedLibrary(const char* variable, const std::string& soname) {
  const char* chosen = std::getenv(variable);
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  path_ = is_chosen ? chosen : soname;
  std::vector<std::string> places;
  const char* named = is_chosen ? nullptr : std::getenv("ONCHIP_CUDA_FOLDERS");
  std::istringstream folders(named == nullptr ? "" : named);
  for (std::string folder; std::getline(folders, folder, ':');) {
    places.push_back(folder + '/' + soname);
  }
  places.push_back(path_);
  if (!is_chosen) {
    places.push_back(ONCHIP_TOOLKIT_FOLDER "/" + soname);
  }
  std::string reason;
  for (const std::string& place : places) {
    handle_ = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle_ != nullptr) {
      return;
    }
    const char* words = dlerror();
    if (place == path_ && words != nullptr) {
      reason = words;
    }
  }
  if (!reason.starts_with(path_ + ": cannot open")) {
    refuse("cannot load " + path_ + ": " + reason);  // something that the library needs may be missing
  } else if (is_chosen) {
    refuse(path_ + ", named by " + variable + ", not found");
  } else {
    refuse(path_ + " is not installed where the dynamic linker looks; " + variable + " can name it");
  }
}

void SharedLibrary::refuse(const std::string& reason) {
  if (refusal_.empty()) {
    refusal_ = reason;
  }
}

void SharedLibrary::require() const {
  if (!refusal_.empty()) {
    throw LibraryRefusal(refusal_);
  }
}

void* SharedLibrary::find(const char* name) {
  void* function = handle_ == nullptr ? nullptr : dlsym(handle_, name);
  if (function == nullptr) {
    refuse(path_ + " has no function '" + name + "'");
  }
  return function;
}

}  // namespace onchip
