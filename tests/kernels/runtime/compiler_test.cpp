// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/compiler.hpp"

#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/cubin_cache.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/sources.hpp"
#include "model/sparse/family.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/kernels/runtime/small_kernels.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace onchip {
namespace {

namespace fs = std::filesystem;

// 64 values that live at once in at most 32 registers: 2048 threads share 64 Ki registers.
constexpr std::string_view kSpillingSource = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* in, float* out) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 64; ++j) sum += v[j] * v[(i * 7 + j) % 64];
    out[i * 1024 + threadIdx.x] = sum;
  }
}
)";

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Error>
std::string compile_error(const CompileRequest& request) {
  return error_of<Error>([&] { compile(request); });
}

TEST_CASE("sparse_persistent compiles without a spill on every architecture") {
  const TemporaryCache cache;
  const std::string architecture = GENERATE("sm_80", "sm_90", "sm_100", "sm_120");
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32);
  const Recurrent network = awkward_network(precision);
  const SparsePlan plan = shape_sparse_plan(network, RowProfile::uniform(network), Storage::packed_pair, /*sms=*/100,
                                            /*lanes_per_row=*/16, /*rows_per_group=*/2);
  CAPTURE(architecture, info(precision).name, to_string(plan));
  const CompiledKernel kernel = compile(compile_request(network, plan, architecture));
  REQUIRE(kernel.cubin.size() > 500);
  CHECK(std::string(kernel.cubin.data(), 4) == "\177ELF");
  CHECK_FALSE(kernel.cached);
  CHECK(kernel.fingerprint.size() == 16);
  CHECK(kernel.fingerprint.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(kernel.resources.spill_bytes == 0);
  CHECK(kernel.resources.registers > geometry(network, plan).register_words);
  CHECK(kernel.resources.registers <= 255);
}

TEST_CASE("kernels that write down their clocks, their accesses, or leave out the gathers compile") {
  const TemporaryCache cache;
  const Recurrent network = awkward_network(Precision::fp16);
  const SparsePlan plan = shape_sparse_plan(network, RowProfile::uniform(network), Storage::packed_pair, /*sms=*/100,
                                            /*lanes_per_row=*/16, /*rows_per_group=*/2);
  for (const Work work : {Work::exchange_only, Work::clocked, Work::captured}) {
    CHECK_FALSE(compile(compile_request(network, plan, "sm_90", work)).cubin.empty());
  }
}

TEST_CASE("spilled registers are reported") {
  const TemporaryCache cache;
  for (int pass = 0; pass < 2; ++pass) {  // compiled, and from the cache
    const CompiledKernel kernel = compile({"spilling", kSpillingSource, "sm_90", {}});
    CHECK(kernel.cached == (pass == 1));
    CHECK(kernel.resources.registers == 32);
    CHECK(kernel.resources.spill_bytes >= 2 * 4 * 32);  // at least 32 values do not fit; each is stored and loaded
    CHECK(kernel.resources.stack_bytes >= 4 * 32);
  }
}

// An array that is indexed at run time lies in memory.
constexpr std::string_view kCarefulSource = R"(
extern "C" __global__ void careful(const int* in, int* out) {
#ifdef ONCHIP_CAREFUL
  *out = in[0];
#else
  int v[8] = {};
  for (int i = 0; i < 64; ++i) v[in[i] & 7] += i;
  *out = v[in[64] & 7];
#endif
}
)";

TEST_CASE("where a kernel's values are in memory its source's careful way is tried, under the same fingerprint") {
  const TemporaryCache cache;
  CompileRequest request{"careful", kCarefulSource, "sm_90", {}};
  const CompiledKernel without = compile(request);
  request.careful_define = "ONCHIP_CAREFUL";
  const CompiledKernel with = compile(request);
  CHECK_FALSE(with.cached);
  CHECK(without.resources.stack_bytes > 0);
  CHECK(with.resources.stack_bytes == 0);
  CHECK(with.fingerprint == without.fingerprint);
  CHECK(with.code_fingerprint != without.code_fingerprint);  // of what is returned
  CHECK(compile(request).code_fingerprint == with.code_fingerprint);
  CHECK(with.careful_options.back() == "-DONCHIP_CAREFUL");
  CHECK(compile(request).careful_options == with.careful_options);  // from the cache, too
  request = tiny("sm_90");
  const CompiledKernel kept = compile(request);
  request.careful_define = "ONCHIP_TINY=2";  // not tried
  CHECK(compile(request).cubin == kept.cubin);
  CHECK(compile(request).careful_options.empty());
}

TEST_CASE("of several kernels the named one is reported, else the worst") {
  const TemporaryCache cache;
  const std::string source =
      std::string(kSpillingSource) + "extern \"C\" __global__ void small(float* out) { out[threadIdx.x] = 1; }\n";
  const auto spilled = [&](const char* name) { return compile({name, source, "sm_90", {}}).resources.spill_bytes; };
  CHECK(spilled("small") == 0);
  CHECK(spilled("spilling") > 0);
  CHECK(spilled("file") == spilled("spilling"));
}

TEST_CASE("the second compilation comes from the cache and is the same") {
  const TemporaryCache cache;
  const CompiledKernel first = compile(tiny("sm_90"));
  const CompiledKernel second = compile(tiny("sm_90"));
  CHECK_FALSE(first.cached);
  CHECK(second.cached);
  CHECK(second.cubin == first.cubin);
  CHECK(second.fingerprint == first.fingerprint);
  CHECK(second.code_fingerprint == first.code_fingerprint);
  CHECK(second.resources.registers == first.resources.registers);
  CHECK(second.resources.spill_bytes == first.resources.spill_bytes);
  CHECK(second.resources.stack_bytes == first.resources.stack_bytes);
  CHECK(cache.files().size() == 1);  // no temporary file is left
}

TEST_CASE("constants, architecture and source each make another kernel, a comment does not") {
  const TemporaryCache cache;
  const std::string source = std::string(kTinySource) + "__device__ int more;\n";
  const std::vector<CompileRequest> requests{
      tiny("sm_90"), tiny("sm_90", 2), tiny("sm_80"), {"tiny", source, "sm_90", {"ONCHIP_TINY=1"}}};
  std::vector<std::string> fingerprints;
  for (const CompileRequest& request : requests) {
    const CompiledKernel kernel = compile(request);
    CHECK_FALSE(kernel.cached);
    CHECK(std::count(fingerprints.begin(), fingerprints.end(), kernel.fingerprint) == 0);
    fingerprints.push_back(kernel.fingerprint);
  }
  CHECK(cache.files().size() == requests.size());
  // A comment more makes none.
  const std::string commented = "// Tiny.\n" + std::string(kTinySource);
  const CompiledKernel kernel = compile({"tiny", commented, "sm_90", tiny("sm_90").defines});
  CHECK(kernel.cached);
  CHECK(kernel.fingerprint == fingerprints.front());
}

TEST_CASE("a damaged cache file is a miss and is replaced") {
  const TemporaryCache cache;
  const CompiledKernel first = compile(tiny("sm_90"));
  REQUIRE(cache.files().size() == 1);
  const fs::path file = cache.files()[0];
  const std::string whole = read(file);

  std::vector<std::string> damaged{"", "onchip cache 1\n", std::string(100000, '\n'), std::string(1000, '\0'),
                                   whole + "x"};
  for (std::size_t i = 1; i <= 16; ++i) {
    const std::size_t place = whole.size() * i / 17;
    damaged.push_back(whole.substr(0, place));
    damaged.push_back(whole);
    damaged.back()[place] = static_cast<char>(damaged.back()[place] ^ 1);
  }
  for (const std::string& bytes : damaged) {
    CAPTURE(bytes.size());
    write(file, bytes);
    const CompiledKernel again = compile(tiny("sm_90"));
    CHECK_FALSE(again.cached);
    CHECK(again.cubin == first.cubin);
    CHECK(read(file) == whole);
  }
  CHECK(compile(tiny("sm_90")).cached);
}

TEST_CASE("what is no file in the cache is a miss, and does not wait") {
  const TemporaryCache cache;
  compile(tiny("sm_90"));
  const fs::path file = cache.files()[0];
  for (const bool is_folder : {true, false}) {
    fs::remove_all(file);
    REQUIRE((is_folder ? fs::create_directories(file / "below") : ::mkfifo(file.c_str(), 0600) == 0));
    for (int pass = 0; pass < 2; ++pass) {
      CHECK_FALSE(compile(tiny("sm_90")).cached);
    }
  }
}

TEST_CASE("the cache keeps to its size: what was used least recently goes, and what killed writers left") {
  const TemporaryCache cache;
  const auto add = [&](const std::string& name, std::uintmax_t bytes, int hours_ago) {
    cache.folder().write(name, "");
    fs::resize_file(cache.folder() / name, bytes);  // no block of it is on the disk
    fs::last_write_time(cache.folder() / name, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  };
  const std::uintmax_t tenth = kMostCachedBytes / 10;
  add("old.tmp", tenth, 2);
  add("new.tmp", tenth, 0);
  add("others", 20 * tenth, 9);
  for (int i = 0; i < 9; ++i) {
    add(std::to_string(i) + (i % 2 == 0 ? ".cubin" : ".plan"), tenth, 9 - i);
  }
  touch(cache.folder() / "0.cubin");
  make_room(cache.folder().path(), 2 * tenth);
  std::set<std::string> left;
  for (const fs::path& file : cache.files()) {
    left.insert(file.filename().string());
  }
  CHECK(left == std::set<std::string>{"0.cubin", "3.plan", "4.cubin", "5.plan", "6.cubin", "7.plan", "8.cubin",
                                      "new.tmp", "others"});
  compile(tiny("sm_90"));
  const std::vector<fs::path> files = cache.files();
  const fs::path kernel =
      *std::ranges::find(files, std::size_t{16}, [](const fs::path& file) { return file.stem().string().size(); });
  fs::last_write_time(kernel, fs::file_time_type::clock::now() - std::chrono::hours(9));
  REQUIRE(compile(tiny("sm_90")).cached);
  CHECK(fs::file_time_type::clock::now() - fs::last_write_time(kernel) < std::chrono::hours(1));
}

TEST_CASE("the cache file of another kernel is a miss, whatever it is called") {
  const TemporaryCache cache;
  compile(tiny("sm_90", 1));
  const fs::path first = cache.files()[0];
  const CompiledKernel second = compile(tiny("sm_90", 2));
  for (const fs::path& file : cache.files()) {
    if (file != first) {
      fs::copy_file(first, file, fs::copy_options::overwrite_existing);
    }
  }
  const CompiledKernel again = compile(tiny("sm_90", 2));
  CHECK_FALSE(again.cached);
  CHECK(again.cubin == second.cubin);
}

TEST_CASE("a cache that cannot be written is no error") {
  const TemporaryCache cache("file/below");  // a directory below a file: not even root can make it
  cache.folder().write("file", "in the way");
  for (int pass = 0; pass < 2; ++pass) {
    const CompiledKernel kernel = compile(tiny("sm_90"));
    CHECK_FALSE(kernel.cached);
    CHECK(kernel.cubin.size() > 500);
  }
}

TEST_CASE("the cache lies where the environment says") {
  const char* const names[] = {"ONCHIP_CACHE", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::pair<bool, std::string>> saved;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    saved.emplace_back(value != nullptr, value == nullptr ? "" : value);
  }
  setenv("ONCHIP_CACHE", "/a", 1);
  setenv("XDG_CACHE_HOME", "/b", 1);
  setenv("HOME", "/c", 1);
  CHECK(cache_directory() == "/a");
  setenv("ONCHIP_CACHE", "", 1);
  CHECK(cache_directory() == "/b/onchip");
  unsetenv("ONCHIP_CACHE");
  CHECK(cache_directory() == "/b/onchip");
  unsetenv("XDG_CACHE_HOME");
  CHECK(cache_directory() == "/c/.cache/onchip");
  unsetenv("HOME");
  CHECK(cache_directory().empty());
  CHECK_FALSE(compile(tiny("sm_90")).cached);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    saved[i].first ? setenv(names[i], saved[i].second.c_str(), 1) : unsetenv(names[i]);
  }
}

TEST_CASE("threads that compile at the same time get the same kernels") {
  const TemporaryCache cache;
  std::vector<CompiledKernel> kernels(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    threads.emplace_back([&, i] { kernels[i] = compile(tiny("sm_90", static_cast<int>(i % 2))); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 2; i < kernels.size(); ++i) {
    CHECK(kernels[i].cubin == kernels[i % 2].cubin);
  }
  CHECK(cache.files().size() == 2);
}

TEST_CASE("the compiler's version has its update number, whatever the library's file is called", "[fast]") {
  const std::string version = compiler_version();
  CAPTURE(version);
  CHECK(version.starts_with("NVRTC "));
  CHECK(std::count(version.begin(), version.end(), '.') == 2);
  CHECK(version.back() >= '0');
  CHECK(version.back() <= '9');
}

TEST_CASE("an unknown architecture is named with the nearest known one") {
  const TemporaryCache cache;
  CHECK(compile_error<InputError>(tiny("sm_95")) == "unknown architecture 'sm_95'; did you mean 'sm_90'?");
  CHECK(compile_error<InputError>(tiny("sm_70")) == "unknown architecture 'sm_70'; did you mean 'sm_75'?");
  CHECK(compile_error<InputError>(tiny("90")) == "unknown architecture '90'; did you mean 'sm_90'?");
  CHECK(compile_error<InputError>(tiny("sm_80a")) == "unknown architecture 'sm_80a'; did you mean 'sm_80'?");
  CHECK(compile_error<InputError>(tiny("sm_90 -G")) == "unknown architecture 'sm_90 -G'; did you mean 'sm_90'?");
  const std::vector<std::string> known = available_architectures();
  CHECK(compile_error<InputError>(tiny("hopper")) ==
        "unknown architecture 'hopper'; " + compiler_version() + " knows " + known.front() + " to " + known.back());
  CHECK(cache.files().empty());
}

TEST_CASE("an error in a source carries the compiler's words") {
  const TemporaryCache cache;
  const std::string error = compile_error<CudaError>({"broken", "\nint f() { return undefined_name; }\n", "sm_90", {}});
  CHECK(error.starts_with("'broken' does not compile for sm_90 (NVRTC_ERROR_COMPILATION):\n"));
  CHECK(says(error, "broken.cu(2): error: identifier \"undefined_name\" is undefined"));
  CHECK(cache.files().empty());
}

// A file's lines, without those of the preprocessor that only includes need.
std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  REQUIRE(stream);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && !line.starts_with("#include") && !line.starts_with("#pragma once")) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST_CASE("an embedded source has each line of its file and of the files that it includes, once and in order") {
  const auto [name, embedded, includes] =
      GENERATE(std::tuple{"sparse/sparse_persistent.cu", kSparsePersistentSource, 10},
               std::tuple{"recurrent/state_order.cu", kStateOrderSource, 5},
               std::tuple{"feed_forward/device/feed_forward_blocks.cu", kFeedForwardBlocksSource, 6});
  const fs::path root = ONCHIP_SOURCE_DIR;
  std::set<fs::path> found;
  std::vector<fs::path> open{root / "kernels" / name};
  while (!open.empty()) {
    const fs::path file = open.back();
    open.pop_back();
    if (!found.insert(file).second) {
      continue;
    }
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
      const std::string include = "#include \"";
      if (line.starts_with(include)) {
        open.push_back(root / line.substr(include.size(), line.rfind('"') - include.size()));
      }
    }
    std::size_t at = 0;
    for (const std::string& line : lines_of(file)) {
      at = embedded.find(line + "\n", at);
      CAPTURE(file.string(), line);
      REQUIRE(at != std::string_view::npos);
    }
    const std::string own = "\n" + lines_of(file)[1] + "\n";  // behind the license: what the file is
    CHECK(!says(embedded.substr(embedded.find(own) + 1), own));
  }
  CHECK(found.size() > static_cast<std::size_t>(includes));
  CHECK(!says(embedded, "#include"));
}

}  // namespace
}  // namespace onchip