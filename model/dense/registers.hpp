// SPDX-License-Identifier: Apache-2.0
// Working registers of the dense persistent kernel: what a thread needs beside its weights and their metadata.
#pragma once

#include "model/chip/chip.hpp"
#include "model/dense/geometry.hpp"

namespace onchip {

int working_registers(const Chip& chip, const DenseGeometry& geometry);

// The most registers of a thread with which a block fits on an SM.
int registers_available(const Chip& chip, const DensePlan& plan);

}  // namespace onchip
