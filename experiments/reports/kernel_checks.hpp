// SPDX-License-Identifier: Apache-2.0
// What onchip measure asks of a plan's kernel beside its times: whether it compiles, computes the right results on the
// CPU, and touches the addresses that the simulator generates. Each writes its answer and returns the exit status.
#pragma once

#include "experiments/command/options.hpp"
#include "experiments/command/output.hpp"
#include "experiments/measurement/measurement.hpp"

#include <string>

namespace onchip {

// For --arch, or else the chip's own architecture. Throws InputError for far more weights than a thread can hold.
int compile_only(const Options& options, const ChipFile& chip, const Configuration& configuration, Output& output);

// Some steps of the kernel's PTX, executed on the CPU, against the reference.
int interpret_network(const ChipFile& chip, const Configuration& configuration, const MeasureOptions& options,
                      Output& output);

// The accesses to shared memory of one step, as the kernel writes them down, into the file `path`.
int capture_network(const ChipFile& chip, const Configuration& configuration, const std::string& path, bool interpreted,
                    Output& output);

}  // namespace onchip
