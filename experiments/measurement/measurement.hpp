// SPDX-License-Identifier: Apache-2.0
// Plans on the real GPU: checked against the double-precision reference, then timed (kernels/runtime/timing.hpp), alone
// or interleaved with libraries.
#pragma once

#include "experiments/measurement/configuration.hpp"
#include "kernels/baselines/baseline.hpp"
#include "kernels/recurrent/recurrence.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/families/layout.hpp"
#include "model/workload/step_errors.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace onchip {

// Where the time of a step goes, by a clock at each of its points (kernels/recurrent/recurrence.hpp).
// Cycles from the mark before to each of kStepMarks (the first: from the last of the step before), over steps and SMs.
struct StepClocks {
  std::array<double, kStepMarks.size()> mean{};     // over the warps
  std::array<double, kStepMarks.size()> slowest{};  // of the slowest warp of an SM
};

struct Measurement {
  int registers = 0;             // per thread, as compiled
  std::string fingerprint;       // of the kernel that ran: of its source
  std::string code_fingerprint;  // and of its machine code
  double relative_error = 0;     // of the first check_steps steps, see model/workload/step_errors.hpp
  double tolerance = 0;
  bool correct = false;
  Timing step_us;                    // steady state: (time of 2 T steps - time of T steps) / T
  Timing exchange_us;                // the same plan's exchange without its gathers and cells, if asked for
  Timing sequence_us;                // one whole launch of network.steps steps, ring set-up included
  std::optional<StepClocks> clocks;  // if asked for
  std::string failure;               // why there is no time of a step: its results are wrong, or what went wrong
};

struct MeasureOptions {
  int check_steps = 12;
  TimingOptions timing;
  std::uint64_t seed = 1;  // of input and initial state
  bool floor = false;      // also time the exchange alone, interleaved with the kernel
  bool clocks = false;     // and see where the time of a step goes
  bool baselines = false;  // and, interleaved with it, all that libraries offer
  bool checks = true;      // a feed-forward network's results
  std::function<void(const std::string&)> say = [](const std::string&) {};  // what is being done
};

// What a measurement needs of the host, which takes as long as the measurement itself: no GPU, any thread.
struct Prepared {
  std::shared_ptr<const SparseMatrix> matrix;
  Layout layout;
  std::vector<float> initial, initial_cell;  // [batch, hidden]
  std::vector<float> input;                  // [check_steps, batch, gates, hidden], fresh random numbers
  int check_steps = 0;
};
// Uniform in [-bound, bound), rounded as the kernel will see it; the same on every machine.
std::vector<float> random_values(std::size_t count, Precision precision, std::uint64_t seed, double bound = 1);

// Throws InputError with the reason if the plan does not fit.
void require_fit(const PlannedNetwork& planned);

// Throws InputError for a sequence that the device's memory cannot hold.
Prepared prepare(const Recurrent& network, const RecurrentPlan& plan, std::shared_ptr<const SparseMatrix> matrix,
                 const MeasureOptions& options);

// The same for several plans of one network, whose input is drawn once.
std::vector<Prepared> prepare_all(const Recurrent& network, std::span<const RecurrentPlan> plans,
                                  std::shared_ptr<const SparseMatrix> matrix, const MeasureOptions& options);

// `elements`: [check_steps, batch, hidden] as the kernel stores them.
Correctness check_elements(const Prepared& prepared, std::span<const std::byte> elements);

// The layout's kernel executed on the CPU (interpret.hpp), checked as measure() does; nothing is timed.
struct Interpretation {
  Correctness correctness;
  std::uint64_t lane_instructions = 0;  // of one thread each
};
Interpretation interpret(const Prepared& prepared, const MeasureOptions& options);

// Kernels on the current device, and libraries that compute the same, all interleaved. Every output is poisoned first.
// A wrong result is reported, not timed; so is what does not compile, or spills.
struct MeasuredNetwork {
  std::vector<Measurement> kernels;  // as many as were given
  std::vector<Way> libraries;        // us of a step, as whole sequence / steps
};
MeasuredNetwork measure(const Recurrent& network, const SparseMatrix& matrix, std::span<const Prepared> kernels,
                        const std::vector<BaselineCandidate>& libraries, const MeasureOptions& options);

}  // namespace onchip
