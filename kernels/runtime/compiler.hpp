// SPDX-License-Identifier: Apache-2.0
// Kernels are specialised at run time: NVRTC compiles an embedded source with a plan's constants into a cubin, on any
// machine. Cubins are cached on disk under a hash of everything that determines them (source, options, architecture,
// compiler version); the whole key is kept in the file and compared, so a collision or a torn file is a miss.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

// What ptxas reports of a kernel.
struct ResourceReport {
  int registers = 0;
  int spill_bytes = 0;  // stores plus loads
  int stack_bytes = 0;

  // Values on the stack are no spills to the compiler, but as slow.
  bool spills() const { return spill_bytes > 0 || stack_bytes > 0; }
  // About how many more would be enough, were each of them stored and loaded once; 0 where nothing spills.
  int lacking_registers() const { return spills() ? std::max({1, stack_bytes / 4, spill_bytes / 8}) : 0; }
};

struct CompiledKernel {
  std::vector<char> cubin;
  ResourceReport resources;
  std::string
      fingerprint;  // of what matters of the source (significant_text.hpp), options, architecture: 16 hex digits
  // Of the machine code (significant_code(), cubin.hpp) and its registers: the same as long as the compiler is and
  // makes the same of the source, whatever its words.
  std::string code_fingerprint;
  // What the compiler was given beyond the request, because the kernel spills without (kCarefulOptions).
  std::vector<std::string> careful_options;
  bool cached = false;
};

// What a kernel is compiled with: "ONCHIP_NAME=VALUE".
using Defines = std::vector<std::string>;

// `name` as a plan, a network or a region of memory has it: "lanes_per_row".
inline std::string define_name(std::string_view name) {
  std::string upper = "ONCHIP_";
  for (const char c : name) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return upper;
}

inline void define(Defines& defines, std::string_view name, std::int64_t value) {
  defines.push_back(define_name(name) + "=" + std::to_string(value));
}

struct CompileRequest {
  std::string_view name;  // of the kernel and its source: "sparse_persistent"
  std::string_view source;
  std::string architecture;         // "sm_90"
  Defines defines;                  // "ONCHIP_HIDDEN=2304"
  std::string careful_define = {};  // "ONCHIP_NAME": the source's own way to take fewer registers, or empty
  bool may_be_careful = true;       // false: who asks takes another plan where the kernel spills
};

// What ptxas is given, one after the other, where a kernel does not keep everything in registers without. Of 36 such
// kernels of validation.csv (experiments/data) the first keeps it in 29, the second in 2 more, -O1 in all. But at -O1
// it asks for loads 1 to 19 instructions before their first use, at the median of each of seven kernels for sm_90,
// where the first keeps 36 to 40 between, and partitions with one or two warps wait for most of them: compiled at -O1,
// as they all were, those 36 took 9 % longer on an H200 than the model says on average, and up to 35 %. After them
// comes the request's careful_define with the first of them: last, because kernels that were timed have not needed it.
// None of this is in a fingerprint.
inline constexpr std::array<std::string_view, 3> kCarefulOptions{"--register-usage-level=0",
                                                                 "--register-usage-level=10", "-O1"};

// What compile() would put into CompiledKernel::fingerprint, without compiling.
std::string fingerprint(const CompileRequest& request);

// Throws InputError for an architecture the compiler does not know, CudaError with the compiler's log otherwise.
CompiledKernel compile(const CompileRequest& request);

// The PTX that the compiler makes of the request on the way to its cubin: for compute_90 where the architecture is
// sm_90. Cached as they are. Throws as compile() does.
std::string compile_ptx(const CompileRequest& request);

// $ONCHIP_CACHE, else $XDG_CACHE_HOME/onchip, else ~/.cache/onchip, else empty: no cache. A cache that cannot be
// written is no error.
std::filesystem::path cache_directory();

// "NVRTC 13.0.88": the library's name has the update number, else what it writes into PTX.
std::string compiler_version();

// 90 of "sm_90" and of "sm_90a", -1 of what has no number.
int architecture_number(std::string_view architecture);

// What the compiler can compile for, ascending: "sm_75", "sm_80", ...
std::vector<std::string> available_architectures();

}  // namespace onchip
