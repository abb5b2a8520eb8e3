// SPDX-License-Identifier: Apache-2.0
// Integers and choices, as the host has them.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;

enum Precision { kFp16, kBf16, kFp32, kFp8 };
enum Cell { kRelu, kTanh, kLstm, kGru };
enum Storage { kPackedPair, kDense, kPackedDelta, kStructured24, kBitmap };
enum Exchange { kLamport, kAtomicBarrier, kCooperativeBarrier, kCluster, kBulkCopy };
