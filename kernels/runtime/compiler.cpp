// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/compiler.hpp"

#include "kernels/runtime/cubin.hpp"
#include "kernels/runtime/cubin_cache.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/library.hpp"
#include "kernels/runtime/significant_text.hpp"
#include "model/base/error.hpp"
#include "model/base/number.hpp"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace onchip {

namespace {

#define ONCHIP_NVRTC_FUNCTIONS(X) \
  X(nvrtcCompileProgram)          \
  X(nvrtcCreateProgram)           \
  X(nvrtcDestroyProgram)          \
  X(nvrtcGetCUBIN)                \
  X(nvrtcGetCUBINSize)            \
  X(nvrtcGetErrorString)          \
  X(nvrtcGetNumSupportedArchs)    \
  X(nvrtcGetPTX)                  \
  X(nvrtcGetPTXSize)              \
  X(nvrtcGetProgramLog)           \
  X(nvrtcGetProgramLogSize)       \
  X(nvrtcGetSupportedArchs)       \
  X(nvrtcVersion)

struct Nvrtc : SharedLibrary {
  ONCHIP_NVRTC_FUNCTIONS(ONCHIP_DECLARE)

  Nvrtc() : SharedLibrary("ONCHIP_NVRTC", "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000)) {
    ONCHIP_NVRTC_FUNCTIONS(ONCHIP_LOAD)
  }
};

using NvrtcCalls = LibraryCalls<Nvrtc, NVRTC_SUCCESS, &Nvrtc::nvrtcGetErrorString>;
#define ONCHIP_NVRTC_CALL(function, ...) NvrtcCalls::check(NvrtcCalls::library().function(__VA_ARGS__), #function)

// ---- what ptxas says ------------------------------------------------------------------------------------------------

// The integer that stands before `label` in `line`, or 0.
int number_before(std::string_view line, std::string_view label) {
  const std::size_t end = line.find(label);
  const std::string_view before = line.substr(0, end == std::string_view::npos ? 0 : end);
  return number_in<int>(before.substr(before.find_last_not_of("0123456789") + 1)).value_or(0);
}

// ptxas -v prints for each function, entries and the device functions that were not inlined:
//   ptxas info    : Compiling entry function 'NAME' for 'sm_90'            (entries only)
//   ptxas info    : Function properties for NAME
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 168 registers, used 1 barriers                    (entries only)
// Device functions may be called by any entry, so their spills count as the kernel's own. If no entry has the
// kernel's name, the worst of all entries stands for it.
ResourceReport parse_report(std::string_view log, std::string_view kernel) {
  struct Entry {
    std::string name;
    ResourceReport resources;
  };
  std::vector<Entry> entries;
  ResourceReport callees;
  ResourceReport* properties_of = nullptr;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    const std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    constexpr std::string_view kEntry = "Compiling entry function '", kProperties = "Function properties for ";
    if (const std::size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      entries.push_back({std::string(rest.substr(0, rest.find('\''))), {}});
    } else if (const std::size_t place = line.find(kProperties); place != std::string_view::npos) {
      std::string_view name = line.substr(place + kProperties.size());
      name = name.substr(0, name.find_first_of(" \t\r"));
      properties_of = !entries.empty() && entries.back().name == name ? &entries.back().resources : &callees;
    } else if (line.find("bytes stack frame") != std::string_view::npos && properties_of != nullptr) {
      properties_of->stack_bytes = std::max(properties_of->stack_bytes, number_before(line, " bytes stack frame"));
      properties_of->spill_bytes +=
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    } else if (line.find(" registers") != std::string_view::npos && line.find("Used ") != std::string_view::npos &&
               !entries.empty()) {
      ResourceReport& entry = entries.back().resources;
      entry.registers = number_before(line, " registers");
      entry.stack_bytes = std::max(entry.stack_bytes, number_before(line, " bytes cumulative stack size"));
    }
  }
  const bool named = std::ranges::any_of(entries, [&](const Entry& entry) { return entry.name == kernel; });
  ResourceReport worst;
  for (const Entry& entry : entries) {
    if (!named || entry.name == kernel) {
      worst.registers = std::max(worst.registers, entry.resources.registers);
      worst.spill_bytes = std::max(worst.spill_bytes, entry.resources.spill_bytes);
      worst.stack_bytes = std::max(worst.stack_bytes, entry.resources.stack_bytes);
    }
  }
  worst.spill_bytes += callees.spill_bytes;
  worst.stack_bytes = std::max(worst.stack_bytes, callees.stack_bytes);
  if (worst.registers == 0) {
    throw CudaError("the compiler reported no registers for '" + std::string(kernel) + "':\n" + std::string(log));
  }
  return worst;
}

// ---- NVRTC ----------------------------------------------------------------------------------------------------------

class Program {
 public:
  Program(const CompileRequest& request) {
    const std::string source(request.source), file = std::string(request.name) + ".cu";
    ONCHIP_NVRTC_CALL(nvrtcCreateProgram, &program_, source.c_str(), file.c_str(), 0, nullptr, nullptr);
  }
  ~Program() { nvrtc_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcProgram get() const { return program_; }
  // What NVRTC has of it, as two of its functions say it; texts without what follows their end.
  template <typename Container>
  Container get(nvrtcResult (*size_of)(nvrtcProgram, std::size_t*), nvrtcResult (*copy)(nvrtcProgram, char*)) const {
    std::size_t size = 0;
    NvrtcCalls::check(size_of(program_, &size), "a size of NVRTC's");
    Container bytes(size, '\0');
    NvrtcCalls::check(copy(program_, bytes.data()), "what NVRTC has compiled");
    if constexpr (std::is_same_v<Container, std::string>) {
      bytes.erase(std::min(bytes.find('\0'), bytes.size()));
    }
    return bytes;
  }
  std::string log() const { return get<std::string>(nvrtc_.nvrtcGetProgramLogSize, nvrtc_.nvrtcGetProgramLog); }
  std::string ptx() const { return get<std::string>(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX); }
  std::vector<char> cubin() const { return get<std::vector<char>>(nvrtc_.nvrtcGetCUBINSize, nvrtc_.nvrtcGetCUBIN); }

 private:
  const Nvrtc& nvrtc_ = NvrtcCalls::library();
  nvrtcProgram program_ = nullptr;
};

// Leaves the result in `program`; returns the log.
std::string run_program(Program& program, const CompileRequest& request, const std::vector<std::string>& options) {
  std::vector<const char*> arguments;
  for (const std::string& option : options) {
    arguments.push_back(option.c_str());
  }
  const nvrtcResult status =
      NvrtcCalls::library().nvrtcCompileProgram(program.get(), static_cast<int>(arguments.size()), arguments.data());
  std::string log = program.log();
  if (status != NVRTC_SUCCESS) {
    throw CudaError("'" + std::string(request.name) + "' does not compile for " + request.architecture + " (" +
                    NvrtcCalls::library().nvrtcGetErrorString(status) + "):\n" + log);
  }
  return log;
}

CacheEntry run_compiler(const CompileRequest& request, const std::vector<std::string>& options) {
  Program program(request);
  const std::string log = run_program(program, request, options);
  return {program.cubin(), parse_report(log, request.name)};
}

// Besides the plain names there are feature-specific ones: sm_90a, sm_100a, sm_100f.
void check_architecture(const std::string& architecture) {
  const std::vector<std::string> known = available_architectures();
  const int number = architecture_number(architecture);
  std::string plain = architecture;
  if ((plain.ends_with('a') && number >= 90) || (plain.ends_with('f') && number >= 100)) {
    plain.pop_back();
  }
  if (std::ranges::find(known, plain) != known.end()) {
    return;
  }
  std::string hint = "; " + compiler_version() + " knows " + known.front() + " to " + known.back();
  if (number >= 0) {
    const auto distance = [&](const std::string& name) { return std::abs(architecture_number(name) - number); };
    hint = "; did you mean '" + *std::ranges::min_element(known, {}, distance) + "'?";
  }
  throw InputError("unknown architecture '" + architecture + "'" + hint);
}

// "13.0.88" of "// Cuda compilation tools, release 13.0, V13.0.88", as every PTX says; or empty.
std::string version_in_ptx() {
  const CompileRequest nothing{"version", "", {}, {}};
  Program program(nothing);
  std::string ptx;
  try {
    run_program(program, nothing, {});
    ptx = program.ptx();
  } catch (const CudaError&) {
    return {};
  }
  const std::size_t line = ptx.find("Cuda compilation tools"), place = ptx.find(", V", line);
  if (line == std::string::npos || place == std::string::npos) {
    return {};
  }
  const std::size_t begin = place + 3;
  return ptx.substr(begin, ptx.find_first_not_of("0123456789.", begin) - begin);
}

std::string find_version() {
  int major = 0, minor = 0;
  ONCHIP_NVRTC_CALL(nvrtcVersion, &major, &minor);
  std::string version = std::to_string(major) + "." + std::to_string(minor);
  // The name of the shared library often has the update as well: libnvrtc.so.13.0.88.
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(NvrtcCalls::library().nvrtcVersion), &library) != 0 &&
      library.dli_fname != nullptr) {
    std::error_code error;
    const std::string file = std::filesystem::canonical(library.dli_fname, error).filename().string();
    const std::size_t place = file.find(".so." + version + ".");
    if (!error && place != std::string::npos) {
      return "NVRTC " + file.substr(place + 4);
    }
  }
  if (const std::string longer = version_in_ptx(); longer.starts_with(version + '.')) {
    version = longer;
  }
  return "NVRTC " + version;
}

std::vector<std::string> with_defines(std::vector<std::string> options, const CompileRequest& request) {
  for (const std::string& define : request.defines) {
    options.push_back("-D" + define);
  }
  return options;
}

std::vector<std::string> compile_options(const CompileRequest& request) {
  return with_defines({"--gpu-architecture=" + request.architecture, "--std=c++17", "--ptxas-options=-v",
                       "--no-cache"},  // NVRTC's own has results without the report
                      request);
}

// What is added to these: nothing, then, one after the other, where a kernel spills.
std::vector<std::vector<std::string>> careful_attempts(const CompileRequest& request) {
  std::vector<std::vector<std::string>> attempts{{}};
  for (const std::string_view option : kCarefulOptions) {
    attempts.push_back({"--ptxas-options=" + std::string(option)});
  }
  if (!request.careful_define.empty()) {
    attempts.push_back({attempts[1].front(), "-D" + request.careful_define});
  }
  return attempts;
}

// Everything but the compiler, and what is tried where a kernel spills, that determines the cubin.
std::string describe(const CompileRequest& request) {
  std::string text = std::string(request.name) + '\0';
  for (const std::string& option : compile_options(request)) {
    text += option + '\0';
  }
  return text.append(significant_text(request.source, request.defines));
}

// Empty where there is no cache.
std::filesystem::path cached_at(std::string_view key, std::string_view extension) {
  const std::filesystem::path directory = cache_directory();
  return directory.empty() ? directory : directory / hash_text(key).append(extension);
}

}  // namespace

std::string fingerprint(const CompileRequest& request) {
  return hash_text(describe(request));
}

CompiledKernel compile(const CompileRequest& request) {
  check_architecture(request.architecture);
  const std::vector<std::string> options = compile_options(request);
  std::string key = compiler_version() + '\0' + describe(request);
  const std::vector<std::vector<std::string>> attempts = careful_attempts(request);
  for (const std::vector<std::string>& attempt : attempts) {
    for (const std::string& option : attempt) {
      key.append("\0", 1).append(option);
    }
  }
  if (!request.careful_define.empty()) {
    std::vector<std::string> defines = request.defines;
    defines.push_back(request.careful_define);
    key.append("\0", 1).append(significant_text(request.source, defines));
  }
  if (!request.may_be_careful) {
    key.append("\0", 1).append("as it is");
  }

  CompiledKernel kernel;
  kernel.fingerprint = fingerprint(request);
  const std::filesystem::path path = cached_at(key, ".cubin");
  std::optional<CacheEntry> entry = path.empty() ? std::nullopt : load_cubin(path, key);
  kernel.cached = entry.has_value();
  if (!entry) {
    entry = run_compiler(request, options);
    // The optimiser moves loads ahead, now and then by more registers than there are; these ways it does so less.
    const auto in_memory = [](const CacheEntry& made) {
      return made.resources.spill_bytes + made.resources.stack_bytes;
    };
    for (std::size_t attempt = 1; request.may_be_careful && attempt < attempts.size() && in_memory(*entry) > 0;
         ++attempt) {
      std::vector<std::string> careful = options;
      careful.insert(careful.end(), attempts[attempt].begin(), attempts[attempt].end());
      try {
        if (CacheEntry again = run_compiler(request, careful); in_memory(again) < in_memory(*entry)) {
          entry = std::move(again);
          entry->attempt = attempt;
        }
      } catch (const CudaError&) {
        // Not every version of the compiler knows every option; what it has made without is there.
      }
    }
    if (!path.empty()) {
      store_cubin(path, key, *entry);
    }
  }
  kernel.cubin = std::move(entry->cubin);
  kernel.resources = entry->resources;
  kernel.careful_options = attempts.at(entry->attempt);
  kernel.code_fingerprint =
      hash_text(std::to_string(kernel.resources.registers) + '\n' + significant_code(kernel.cubin));
  return kernel;
}

std::string compile_ptx(const CompileRequest& request) {
  check_architecture(request.architecture);
  const std::string key = "PTX" + ('\0' + compiler_version()) + '\0' + describe(request);
  const std::filesystem::path path = cached_at(key, ".ptx");
  std::optional<std::string> ptx = path.empty() ? std::nullopt : load_cached(path, key);
  if (!ptx) {
    Program program(request);
    run_program(program, request,
                with_defines({"--gpu-architecture=compute_" + request.architecture.substr(3), "--std=c++17"}, request));
    ptx = program.ptx();
    if (!path.empty()) {
      store_cached(path, key, *ptx);
    }
  }
  return *std::move(ptx);
}

std::filesystem::path cache_directory() {
  using Path = std::filesystem::path;
  for (const auto& [variable, below] :
       {std::pair{"ONCHIP_CACHE", Path()}, {"XDG_CACHE_HOME", "onchip"}, {"HOME", Path(".cache") / "onchip"}}) {
    if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0') {
      return below.empty() ? value : value / below;
    }
  }
  return {};
}

std::string compiler_version() {
  static const std::string version = find_version();
  return version;
}

int architecture_number(std::string_view architecture) {
  int number = -1;
  const std::size_t first = architecture.find_first_of("0123456789");
  if (first != std::string_view::npos) {
    std::from_chars(architecture.data() + first, architecture.data() + architecture.size(), number);
  }
  return number;
}

std::vector<std::string> available_architectures() {
  int count = 0;
  ONCHIP_NVRTC_CALL(nvrtcGetNumSupportedArchs, &count);
  std::vector<int> numbers(static_cast<std::size_t>(count));
  ONCHIP_NVRTC_CALL(nvrtcGetSupportedArchs, numbers.data());
  std::vector<std::string> names;
  for (const int number : numbers) {
    names.push_back("sm_" + std::to_string(number));
  }
  return names;
}

}  // namespace onchip
