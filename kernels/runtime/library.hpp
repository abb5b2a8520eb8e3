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

// Derive a struct with a member for each function needed, and load each of them in its constructor, by a list
// X(function)... that ONCHIP_DECLARE and ONCHIP_LOAD are applied to. Never closed: such libraries keep threads and
// device state.
#define ONCHIP_DECLARE(function) decltype(&::function) function = nullptr;
#define ONCHIP_LOAD(function) load(function, #function);
class SharedLibrary {
 public:
  // The library's path is the environment variable's value; else it is in a folder of ONCHIP_CUDA_FOLDERS (separated by
  // ":"; the Python package names those that pip has filled), or where the dynamic linker searches for `soname`, or in
  // the CUDA toolkit that this was built with.
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

// Its calls. kSuccess: the status of those that did what they should; kWords: the function that says what another
// means.
template <typename Library, auto kSuccess, auto kWords>
struct LibraryCalls {
  // Loads it when it is first asked for; throws LibraryRefusal where it is not.
  static const Library& library() {
    static const Library library;
    library.require();
    return library;
  }
  static void check(decltype(kSuccess) status, const char* function) {
    if (status != kSuccess) {
      throw LibraryRefusal(std::string(function) + ": " + (library().*kWords)(status));
    }
  }

  // A handle or descriptor that destroys itself.
  template <typename T, auto kCreate, auto kDestroy>
  class Object {
   public:
    template <typename... Arguments>
    explicit Object(Arguments... arguments) {
      check((library().*kCreate)(&value_, arguments...), "no object of the library could be made");
    }
    ~Object() { (library().*kDestroy)(value_); }
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    T get() const { return value_; }

   private:
    T value_ = nullptr;
  };
};

}  // namespace onchip
