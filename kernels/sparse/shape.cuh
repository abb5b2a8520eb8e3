// SPDX-License-Identifier: Apache-2.0
// The shape of the sparse persistent kernel: its state in shared memory and the outbox behind it.
#pragma once

#include "kernels/sparse/planes.cuh"

constexpr int kLoadsInFlight = ONCHIP_LOADS_IN_FLIGHT;  // 16-byte words a thread polls at once
constexpr int kZeroUnits = ONCHIP_ZERO_UNITS;           // units after the state that stay zero: what padding slots read

constexpr int kPlaneBytes = (kStateUnits + kZeroUnits) * kPlaneUnitBytes;  // in shared memory
constexpr int kStateBytes = kPlanes * kPlaneBytes;
constexpr int kOutboxPlaneWords = kUnitsPerSm * kPlaneUnitBytes / 16;
constexpr int kOutboxWords = kPlanes * kOutboxPlaneWords;
constexpr int kOutboxAt = ONCHIP_AT_OUTBOX;  // in shared memory: [kPlanes][kUnitsPerSm][kPlaneSamples]
static_assert(kOutboxAt == kStateBytes, "the outbox follows the state and its zero units");
