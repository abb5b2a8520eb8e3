// SPDX-License-Identifier: Apache-2.0
// Where the sparse persistent kernel has what in shared memory, behind the state and the outbox (exchange.cuh).
#pragma once

#include "kernels/persistent/launch.cuh"
#include "kernels/sparse/gather.cuh"
#include "kernels/sparse/shape.cuh"

constexpr bool kExchangeOnly = ONCHIP_EXCHANGE_ONLY;  // no products: what the exchange of the state alone takes

// Where a thread has many words of the state or many tiles, the compiler would keep all their addresses from step to step,
// in more registers than there are. They are then computed in every step, which costs some cycles of the critical path.
constexpr bool kManyAddresses = kStateWords > kThreads * kLoadsInFlight || kPlanes > 2 || kTiles > 2;

// Where the regions of shared memory begin, from the model's map (SparseRegion of model/sparse/geometry.hpp).
constexpr int kInputAt = ONCHIP_AT_INPUT;            // [2][kBatch][kUnitsPerSm][kGates], this step's and the next's
constexpr int kCarryAt = ONCHIP_AT_CARRY;            // float [kUnitsPerSm][kBatchPadded]
constexpr int kLengthsAt = ONCHIP_AT_LENGTHS;        // int [kBatchPadded]
constexpr int kGatesAt = ONCHIP_AT_GATES;            // u32 [kUnitsPerSm], see cell.cuh
constexpr int kBiasAt = ONCHIP_AT_BIAS;              // GRU: float [kUnitsPerSm]
constexpr int kScaleAt = ONCHIP_AT_SCALES;           // fp8: float [kUnitsPerSm][kGates]
constexpr int kOverflowAt = ONCHIP_AT_OVERFLOW;      // int [kOverflowInts]
constexpr int kSplitSumsAt = ONCHIP_AT_SPLIT_SUMS;   // see row_splits.cuh
constexpr int kSplitTableAt = ONCHIP_AT_SPLIT_TABLE;
constexpr int kFetchedAt = ONCHIP_AT_BARRIERS;       // mbarriers, see pipeline.cuh
constexpr int kChunksAt = ONCHIP_AT_CHUNKS;          // [ONCHIP_SHARED_CHUNKS][kChunkBytes]
constexpr int kRingAt = ONCHIP_AT_RING;              // [kWarps][kRingChunks][kChunkBytes]
static_assert(kInputAt - kOutboxAt == 16 * kOutboxWords && kCarryAt - kInputAt == 2 * kInputBytes &&
                  kRingAt - kChunksAt == ONCHIP_SHARED_CHUNKS * kChunkBytes &&
                  ONCHIP_SHARED_BYTES == kRingAt + kWarps * kRingChunks * kChunkBytes,
              "the plan and the kernel count the same shared memory");
