// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace_file.hpp"

#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "sim/trace/accel_sim_trace.hpp"
#include "sim/trace/compact_trace.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace onchip {
namespace {

// Traces repeat themselves: they are kept as they are, and may unpack to more than weights.
constexpr std::uint64_t kMostTraceBytes = std::uint64_t{4} << 30;

class FileTrace : public TraceSource {
 public:
  explicit FileTrace(const std::filesystem::path& file)
      : file_(file, kMostTraceBytes),
        parsed_(is_compact_trace(file_.bytes()) ? parse_compact_trace(file_.bytes(), file.string())
                                                : parse_accel_sim_trace(file_.bytes(), file.string())) {}

  int blocks() const override { return parsed_->blocks(); }
  std::optional<BlockResources> resources() const override { return parsed_->resources(); }
  BlockTrace block(int index) const override { return parsed_->block(index); }
  const StepShape* step() const override { return parsed_->step(); }
  BlockTrace body(int index, int pass = 0) const override { return parsed_->body(index, pass); }

 private:
  InputFile file_;
  std::unique_ptr<TraceSource> parsed_;
};

constexpr std::string_view kKernel = "kernel";

// Its first line is a kernel's file, a copy between host and device, or a collective.
bool is_list(std::string_view text) {
  return std::ranges::any_of(std::array{kKernel, std::string_view("Memcpy"), std::string_view("nccl")},
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

// A kernel's file, which may have been compressed since the list was written.
std::filesystem::path beside(const std::filesystem::path& list, const std::string& name) {
  const std::filesystem::path plain = list.parent_path() / name;
  for (const char* ending : {"", ".xz", ".zst", ".gz"}) {
    if (is_there(plain.string() + ending)) {
      return plain.string() + ending;
    }
  }
  throw InputError(list.string() + ": a list of kernels: it names " + in_quotes(name) +
                   ", which is not beside it, compressed or not");
}

}  // namespace

std::unique_ptr<TraceSource> read_trace(const std::filesystem::path& file) {
  return std::make_unique<FileTrace>(file);
}

std::vector<std::filesystem::path> kernels_of(const std::filesystem::path& file) {
  InputFile list(file);
  if (!is_list(list.read(0, std::min<std::uint64_t>(16, list.size())))) {
    return {file};
  }
  std::istringstream lines{std::string(list.bytes())};
  std::vector<std::filesystem::path> kernels;
  for (std::string line; lines >> line;) {
    if (line.starts_with(kKernel)) {
      kernels.push_back(beside(file, line));
    }
  }
  if (kernels.empty()) {
    throw InputError(file.string() + ": a list of kernels that names none");
  }
  return kernels;
}

}  // namespace onchip
