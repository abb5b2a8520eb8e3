// SPDX-License-Identifier: Apache-2.0
// What onchip simulate writes beside its answer: the step as a trace (--record), a timeline (--timeline), every access
// to shared memory (--accesses).
#pragma once

#include "experiments/command/options.hpp"
#include "sim/simulate.hpp"

namespace onchip {

// --sm, or else 0. Throws InputError if the source has no such SM, or block.
int sm_of(const Options& options, const TraceSource& source);

// Those that are asked for. `step`: null if the source's blocks do not exchange anything.
void write_files(const Options& options, const Chip& chip, const TraceSource& source, const Simulation* step,
                 const SmOptions& sm_options);

}  // namespace onchip
