// SPDX-License-Identifier: Apache-2.0
// The kernel of a sparse plan (sparse_persistent.cu): what it is compiled from and with, how it is launched, and what
// it reads beside the weights.
#pragma once

#include "kernels/persistent/family_kernel.hpp"
#include "model/sparse/layout/layout.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

// What gather.cuh is compiled with.
void define_gather(Defines& defines, const SparseGeometry& geometry);

// Throws InputError for what the architecture does not have.
CompileRequest compile_request(const SparseGeometry& geometry, const std::string& architecture, Work work);
CompileRequest compile_order_request(const SparseGeometry& geometry, const std::string& architecture);

LaunchShape launch_shape(const SparseGeometry& geometry);

// Which element of a state in L2 is a sample's of the unit at this place of the order.
std::int64_t state_element(const SparseGeometry& geometry, int place, int sample);

CaptureSize capture_size(const SparseGeometry& geometry);  // throws InputError for plans that cannot be captured

// [state units], as kernels/sparse/cell.cuh wants them: for each gate the place of its row in the unit, for each
// place its gate.
std::vector<std::uint32_t> gates_of_units(const SparseLayout& layout);
// fp8: the scale of each row, [state units, gates], in the order of each unit's rows; else zeros.
std::vector<float> scales_of_units(const SparseLayout& layout);

}  // namespace onchip
