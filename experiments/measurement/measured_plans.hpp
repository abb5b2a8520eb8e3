// SPDX-License-Identifier: Apache-2.0
// The plans of one recurrent network that are measured: the one that is asked for or chosen, or the best of every
// family, libraries among them, interleaved.
#pragma once

#include "experiments/measurement/measurement.hpp"
#include "kernels/runtime/compiler.hpp"
#include "model/answer/constraint_words.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct PlansToMeasure {
  Configuration configuration;
  std::vector<RankedPlan> ranking;       // as predicted, the fastest first
  std::optional<RecurrentPlan> refused;  // by the compiler, which spills it, instead of the one plan
};
// By the compiler for the architecture. Throws InputError where the one plan does not fit.
PlansToMeasure plan_to_measure(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                               const std::string& architecture);
PlansToMeasure families_to_measure(const Chip& chip, const Configuration& configuration, const RowProfile& rows,
                                   const std::string& architecture, std::span<const std::string_view> without = {});

// All that measuring compiles.
std::vector<CompileRequest> compile_requests(const PlansToMeasure& plans, const std::string& architecture,
                                             const MeasureOptions& options);

// All that needs no GPU.
struct PreparedPlans {
  std::shared_ptr<const SparseMatrix> matrix;
  std::vector<Prepared> kernels;
};
PreparedPlans prepare_plans(const PlansToMeasure& plans, std::shared_ptr<const SparseMatrix> matrix,
                            const MeasureOptions& options);

// Beside each other: what was predicted and what was measured.
struct MeasuredPlan {
  std::string chip;  // that plans and predictions are of
  Configuration configuration;
  RankedPlan ranked;
  std::optional<RecurrentPlan> refused = {};
  std::int64_t nnz = 0;
  std::int64_t gather_wavefronts = 0;  // of the busiest SM
  double conflict_free_us = 0;         // reading the states of all non-zeros of an SM, the samples of the batch only
  Measurement measurement = {};        // of a kernel
  std::optional<Way> library = {};     // of a library's family: the fastest of its ways, or one that failed
  bool chosen = false, fastest = false;

  bool is_kernel() const { return !ranked.family.empty() && find_family(ranked.family).is_on_chip; }
  bool fits() const { return ranked.planned && ranked.planned->prediction.footprint.fits; }
  // Of a step: a kernel's in steady state, a library's whole sequence / steps. No samples where there is no time.
  Timing step_us() const;
  bool is_timed() const { return step_us().samples > 0; }
  bool has_run() const { return is_kernel() && measurement.registers > 0; }
  bool has_failed() const { return is_kernel() && fits() && !is_timed(); }
  std::string note() const;  // why there is no time; of a library's family that has one, nothing
  // What no kernel with this plan's exchange gets below; 0: was not asked for.
  double floor_us() const;
};

struct MeasuredPlans {
  std::vector<MeasuredPlan> plans;
  std::vector<Way> libraries;  // --baselines
};
MeasuredPlans measure_plans(const Chip& chip, const PlansToMeasure& plans, const PreparedPlans& prepared,
                            const MeasureOptions& options);

}  // namespace onchip
