// SPDX-License-Identifier: Apache-2.0
// Choices, in the order of the host's (kernels/recurrent/program.cpp compares them).
#pragma once

#include "kernels/runtime/integers.cuh"

enum Precision { kFp16, kBf16, kFp32, kFp8 };
enum Cell { kRelu, kTanh, kLstm, kGru };
enum Storage { kPackedPair, kDense, kPackedDelta, kStructured24, kBitmap };
enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier, kCluster, kBulkCopy };
