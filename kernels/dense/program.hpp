// SPDX-License-Identifier: Apache-2.0
// The kernel of a dense plan (dense_persistent.cu): what it is compiled from and with, how it is launched, and what it
// reads beside the weights: nothing, for units and gates stand in their own order.
#pragma once

#include "kernels/persistent/family_kernel.hpp"
#include "model/dense/layout.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

CompileRequest compile_request(const DenseGeometry& geometry, const std::string& architecture, Work work);
CompileRequest compile_order_request(const DenseGeometry& geometry, const std::string& architecture);

LaunchShape launch_shape(const DenseGeometry& geometry);

// Which element of a state in L2 is a sample's of the unit at this place of the order.
std::int64_t state_element(const DenseGeometry& geometry, int place, int sample);

CaptureSize capture_size(const DenseGeometry& geometry);  // throws InputError

inline std::vector<std::uint32_t> gates_of_units(const DenseLayout&) {
  return {};
}
inline std::vector<float> scales_of_units(const DenseLayout&) {
  return {};
}

}  // namespace onchip
