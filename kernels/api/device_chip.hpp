// SPDX-License-Identifier: Apache-2.0
// The model's chip of the GPU that is there: for questions that name none.
#pragma once

#include "model/chip/chip.hpp"

namespace onchip {

// The shipped chip of the current device's name, or one of its architecture, with the device's own SMs and shared
// memory. Throws CudaError if there is no device.
Chip device_chip();

}  // namespace onchip
