// SPDX-License-Identifier: Apache-2.0
// Kernels that stay loaded until the process ends, for all who share them.
#pragma once

#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"

#include <memory>

namespace onchip {

// Compiled, and loaded into the current device, at most once. Any thread may ask.
std::shared_ptr<const LoadedCubin> loaded_cubin(const CompileRequest& request);

}  // namespace onchip
