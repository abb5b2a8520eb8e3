// SPDX-License-Identifier: Apache-2.0
// The current device as a chip that the model knows.
#pragma once

#include "model/chip/chip.hpp"

namespace onchip {

// The shipped chip of that name, or else one that is alike, with the device's own SMs, shared memory and L2. Throws
// CudaError where there is no device.
Chip device_chip();

// The shipped chip of that name with its numbers as they are in its file. Throws CudaError where there is no device,
// and InputError where no chip has its name.
ChipFile device_chip_file();

}  // namespace onchip
