// SPDX-License-Identifier: Apache-2.0
// What threads of a sparse recurrence finish goes to the outbox.
#pragma once

#include "kernels/persistent/memory.cuh"
#include "kernels/training/device/item.cuh"
#include "kernels/training/device/sparse_stage.cuh"

__device__ __forceinline__ u32 shared_base() { return static_cast<u32>(__cvta_generic_to_shared(shared_memory)); }

// Value `value` of an item's unit.
__device__ __forceinline__ void to_outbox(const Item& item, int value, u32 bits) {
  const int column = item.unit % kUnits * kUnitValues + value;
  const int index = (item.sample / kPlaneSamples * kUnitsPerSm + column) * kPlaneSamples + item.sample % kPlaneSamples;
  store_element_if(true, shared_base() + kOutboxAt + kElementBytes * index, bits);
}
__device__ __forceinline__ void publish(const Item& item, long long, int, u32 lower, u32 upper) {
  to_outbox(item, 0, lower & 0xffffu);
  to_outbox(item, 1, lower >> 16);
  to_outbox(item, 2, upper & 0xffffu);
  to_outbox(item, 3, upper >> 16);
}
__device__ __forceinline__ void publish_pair(const Item& item, long long, int, u32 bits, int = 0) { to_outbox(item, 0, bits); }
