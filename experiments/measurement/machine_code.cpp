// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/machine_code.hpp"

#include "experiments/command/progress.hpp"
#include "experiments/measurement/compilation.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <map>
#include <optional>

namespace onchip {
namespace {

// Whether the row's kernel must be compiled; else its answer.
std::optional<CodeAnswer> answer_of_source(const MeasuredKernel& row, const Manifest& manifest, bool trusting,
                                           const std::string& fingerprint) {
  const bool has_source = fingerprint == row.fingerprint, has_code = !row.code_fingerprint.empty();
  if (has_source && has_code && trusting) {
    return CodeAnswer::unchanged;
  }
  if (manifest.compiler != compiler_version()) {
    return CodeAnswer::other_compiler;
  }
  return has_source || has_code ? std::nullopt : std::optional(CodeAnswer::unknown);
}

}  // namespace

std::vector<CodeComparison> compare_code(std::span<const MeasuredKernel> rows, const Manifest& manifest, bool trusting,
                                         const std::filesystem::path& file) {
  std::vector<CodeComparison> comparisons(rows.size());
  std::vector<std::optional<CompileRequest>> requests(rows.size());
  parallel_for(static_cast<int>(rows.size()), all_cores(), [&](int i) {
    const MeasuredKernel& row = rows[i];
    CodeComparison& comparison = comparisons[i];
    try {
      CompileRequest request = compile_request(row.network, row.plan, manifest.architecture);
      comparison.fingerprint = fingerprint(request);
      if (const auto answer = answer_of_source(row, manifest, trusting, comparison.fingerprint)) {
        comparison.answer = *answer;
      } else {
        requests[i] = std::move(request);
      }
    } catch (const InputError& error) {
      comparison.problem = error.what();
    }
  });
  std::map<std::string, std::size_t> places;  // by the fingerprints of sources
  std::vector<CompileRequest> distinct;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (requests[i] && places.try_emplace(comparisons[i].fingerprint, distinct.size()).second) {
      distinct.push_back(*requests[i]);
    }
  }
  Progress progress;
  const std::vector<CompileOutcome> compiled = compile_all(distinct, [&](std::size_t done) {
    progress.show(file.filename().string() + ": compiling " + std::to_string(done) + " of " +
                  std::to_string(distinct.size()));
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!requests[i]) {
      continue;
    }
    CodeComparison& comparison = comparisons[i];
    const CompileOutcome& outcome = compiled[places.at(comparison.fingerprint)];
    comparison.code_fingerprint = outcome.kernel.code_fingerprint;
    comparison.problem = outcome.problem;
    comparison.answer = !outcome.problem.empty()                                  ? CodeAnswer::failed
                        : rows[i].code_fingerprint.empty()                        ? CodeAnswer::recorded
                        : rows[i].code_fingerprint == comparison.code_fingerprint ? CodeAnswer::same
                                                                                  : CodeAnswer::differs;
  }
  return comparisons;
}

}  // namespace onchip
