// SPDX-License-Identifier: Apache-2.0
// Whether the kernels of measured rows are those that today's source and compiler make. A row has two fingerprints
// (CompiledKernel, kernels/runtime/compiler.hpp): of the source, which a change of words changes, too, and of the
// machine code.
#pragma once

#include "experiments/measurement/manifest.hpp"
#include "model/families/plan.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct MeasuredKernel {
  Recurrent network;
  RecurrentPlan plan;                         // of a kernel, not of a library
  std::string fingerprint, code_fingerprint;  // the row's; the second is empty where none was recorded
};

enum class CodeAnswer : std::uint8_t {
  unchanged,       // the source's fingerprint is the row's; nothing was compiled
  same,            // compiled: the machine code is what ran, whatever the source's fingerprint
  differs,         // compiled: it is not
  recorded,        // compiled: the row has no code fingerprint, but its source's is today's, and so is its compiler
  unknown,         // the row has no code fingerprint, and its source's is not today's
  other_compiler,  // the row's is not the one here
  failed,          // there is no such kernel today
};
inline constexpr std::array<std::string_view, 7> kCodeAnswers{"unchanged", "same",           "differs", "recorded",
                                                              "unknown",   "other_compiler", "failed"};
inline std::string_view name(CodeAnswer answer) {
  return kCodeAnswers[static_cast<std::size_t>(answer)];
}

struct CodeComparison {
  CodeAnswer answer = CodeAnswer::failed;
  std::string fingerprint, code_fingerprint;  // today's; the second is empty where nothing was compiled
  std::string problem;                        // of those that failed
};

// In the order of the rows, on all cores; what several rows have in common is compiled once. `trusting`: rows that have
// both fingerprints, the first of them today's, are not compiled. `file`: of the rows, to say how far it is. Only in
// builds with CUDA.
std::vector<CodeComparison> compare_code(std::span<const MeasuredKernel> rows, const Manifest& manifest, bool trusting,
                                         const std::filesystem::path& file);

}  // namespace onchip
