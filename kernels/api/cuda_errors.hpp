// SPDX-License-Identifier: Apache-2.0
// Statuses of what kernels throw, in a build that has them.
#pragma once

#include "kernels/api/handles.hpp"
#ifdef ONCHIP_HAS_CUDA
#include "kernels/runtime/device.hpp"
#endif

#include <utility>

namespace onchip {

inline onchip_status status_of(const std::exception& problem) {
#ifdef ONCHIP_HAS_CUDA
  if (dynamic_cast<const CudaError*>(&problem) != nullptr) {
    return dynamic_cast<const DoesNotFit*>(&problem) != nullptr ? ONCHIP_DOES_NOT_FIT : ONCHIP_CUDA;
  }
#endif
  return internal_error(problem);
}

template <typename Action>
onchip_status guarded_cuda(onchip_error* error, Action&& action) noexcept {
  return guarded(error, std::forward<Action>(action), status_of);
}

}  // namespace onchip
