// SPDX-License-Identifier: Apache-2.0
// Of a conditional node of a CUDA graph, the body that runs: of so many rows the smallest that has them all, where each
// has `unit` more than the one before it.

#include "kernels/training/device/arguments.hpp"

extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);  // the driver's

extern "C" __global__ void choose(const onchip::GraphChoice choice) {
  cudaGraphSetConditional(choice.handle, static_cast<unsigned>((*choice.rows - 1) / choice.unit));
}
