// SPDX-License-Identifier: Apache-2.0
// A shared library that is loaded at run time, so that onchip starts and works where it is not installed.
#pragma once

#include "kernels/runtime/device.hpp"

#include <string>

namespace onchip {

// A library is not there, or does not do what it was asked for.
class LibraryRefusal : public CudaError {
 public:
  using CudaError::CudaError;
};

// Derive a struct with a member `decltype(&::function) function` for each function needed, and load each of them in its
// constructor. Never closed: such libraries keep threads and device state.
class SharedLibrary {
 public:
  // The library's path is the environment variable's value, else `soname`, which the dynamic linker searches for.
  SharedLibrary(const char* variable, const std::string& soname);

  void refuse(const std::string& reason);  // unless there is a reason already
  void require() const;                    // throws LibraryRefusal with the first reason

 protected:
  template <typename Function>
  void load(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name);  // nullptr, and a refusal, if there is no such function

  std::string path_;
  void* handle_ = nullptr;
  std::string refusal_;  // "": loaded
};

}  // namespace onchip
