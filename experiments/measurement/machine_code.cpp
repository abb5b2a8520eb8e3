// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/machine_code.hpp"

#include "kernels/recurrent/program.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"

#include <map>
#include <mutex>
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
                                         const std::function<void(std::size_t done, std::size_t all)>& progress) {
  const int threads = all_cores();
  const auto at = [](auto&& list, int i) -> auto& {
    return list[static_cast<std::size_t>(i)];
  };
  std::vector<CodeComparison> comparisons(rows.size());
  std::vector<std::optional<CompileRequest>> requests(rows.size());
  parallel_for(static_cast<int>(rows.size()), threads, [&](int i) {
    const MeasuredKernel& row = at(rows, i);
    CodeComparison& comparison = at(comparisons, i);
    try {
      CompileRequest request = compile_request(row.network, row.plan, manifest.architecture);
      comparison.fingerprint = fingerprint(request);
      if (const auto answer = answer_of_source(row, manifest, trusting, comparison.fingerprint)) {
        comparison.answer = *answer;
      } else {
        at(requests, i) = std::move(request);
      }
    } catch (const InputError& error) {
      comparison.problem = error.what();
    }
  });

  struct Compiled {
    std::string code_fingerprint, problem;
  };
  std::map<std::string, Compiled> kernels;  // by the fingerprints of their sources
  std::vector<std::pair<const CompileRequest*, Compiled*>> distinct;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (requests[i]) {
      const auto [place, is_new] = kernels.try_emplace(comparisons[i].fingerprint);
      if (is_new) {
        distinct.emplace_back(&*requests[i], &place->second);
      }
    }
  }
  std::mutex mutex;
  std::size_t done = 0;
  parallel_for(static_cast<int>(distinct.size()), threads, [&](int i) {
    const auto [request, compiled] = at(distinct, i);
    try {
      compiled->code_fingerprint = compile(*request).code_fingerprint;
    } catch (const std::exception& error) {
      compiled->problem = error.what();
    }
    const std::scoped_lock lock(mutex);
    progress(++done, distinct.size());
  });

  for (std::size_t i = 0; i < rows.size(); ++i) {
    CodeComparison& comparison = comparisons[i];
    if (!requests[i]) {
      continue;
    }
    const Compiled& compiled = kernels.at(comparison.fingerprint);
    comparison.code_fingerprint = compiled.code_fingerprint;
    comparison.problem = compiled.problem;
    comparison.answer = !compiled.problem.empty()                               ? CodeAnswer::failed
                        : rows[i].code_fingerprint.empty()                      ? CodeAnswer::recorded
                        : rows[i].code_fingerprint == compiled.code_fingerprint ? CodeAnswer::same
                                                                                : CodeAnswer::differs;
  }
  return comparisons;
}

}  // namespace onchip
