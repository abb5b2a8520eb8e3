// SPDX-License-Identifier: Apache-2.0
// Scores of MLP attention and their gradients (mlp_attention.cu): launches, in the caller's memory and on its streams.
// One kernel source for every size.
#pragma once

#include "kernels/attention/arguments.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/kernel_program.hpp"
#include "model/base/precision.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

enum class AttentionPass { forward, backward };

// The kernels that nodes of attention_nodes() launch, in the order of their numbers. fp16, bf16 or fp32.
std::vector<ProgramKernel> attention_kernels(Precision precision, const std::string& architecture);

// `a`: sizes and pointers, `v_gradient` with or without the others; how work is shared follows from the sizes. Throws
// InputError for more blocks than a launch has. `least_blocks`: of forward, whose tiles become smaller for them; two
// for each SM of an H200.
std::vector<ProgramNode> attention_nodes(AttentionArguments a, Precision precision, AttentionPass pass,
                                         std::int64_t least_blocks = 264);

// Of AttentionArguments::partials, of which backward needs so many bytes.
std::size_t attention_workspace_bytes(const AttentionArguments& sizes);

// Compiles and loads at the first use of a device and a type; the kernels stay loaded until the process ends. Waits for
// nothing and allocates nothing: it may be captured in a graph.
void enqueue_attention(const AttentionArguments& a, Precision precision, AttentionPass pass, cudaStream_t stream);

}  // namespace onchip
