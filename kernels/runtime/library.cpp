// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

namespace onchip {

SharedLibrary::SharedLibrary(const char* variable, const std::string& soname) {
  const char* chosen = std::getenv(variable);
  const bool is_chosen = chosen != nullptr && *chosen != '\0';
  path_ = is_chosen ? chosen : soname;
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const char* words = handle_ == nullptr ? dlerror() : nullptr;
  const std::string reason = words == nullptr ? "" : words;
  if (!is_chosen) {
    const char* named = std::getenv("ONCHIP_CUDA_FOLDERS");
    std::istringstream folders(std::string(named == nullptr ? "" : named) + ":" ONCHIP_TOOLKIT_FOLDER);
    for (std::string folder; handle_ == nullptr && std::getline(folders, folder, ':');) {
      if (!folder.empty()) {
        handle_ = dlopen((folder + "/" + soname).c_str(), RTLD_NOW | RTLD_GLOBAL);
      }
    }
  }
  if (handle_ != nullptr) {
    return;
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
