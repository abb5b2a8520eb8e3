// SPDX-License-Identifier: Apache-2.0
// Recurrent networks by the dense recurrence of trainings (training_recurrence.cu), whose forward pass keeps nothing
// here. It reads its input and writes its states where the caller has them, so that nothing is translated but rows of
// gates (rows.cuh).
#pragma once

#include "kernels/persistent/family_kernel.hpp"
#include "kernels/recurrent/program.hpp"
#include "model/training/recurrence_layout.hpp"

namespace onchip {

// As those of the other families (kernels/dense/program.hpp). There is no other work than the whole.
CompileRequest compile_request(const RecurrenceGeometry& geometry, const std::string& architecture, Work work);
CompileRequest compile_order_request(const RecurrenceGeometry& geometry, const std::string& architecture);
LaunchShape launch_shape(const RecurrenceGeometry& geometry);
CaptureSize capture_size(const RecurrenceGeometry& geometry);

// Bytes of the array of states: the ring, and behind it h of all steps of a launch, where nobody wants it.
std::int64_t states_bytes(const RecurrenceGeometry& geometry, std::int64_t steps);

// As RecurrenceProgram's.
std::vector<ProgramNode> pipelined_nodes(const RecurrenceGeometry& geometry, ArrayPlaces at,
                                         std::int64_t steps_per_launch, const Sequences& sequences);
std::vector<ProgramNode> pipelined_recurrence(const RecurrenceGeometry& geometry, ArrayPlaces at,
                                              std::int64_t steps_per_launch, std::int64_t steps);

}  // namespace onchip
