// SPDX-License-Identifier: Apache-2.0
// Numbers that feed-forward kernels, their prices and their layouts have in common.
#pragma once

namespace onchip {

constexpr int kSettlesEach = 4;    // layers: after these it is looked whether a tile of images has settled
constexpr int kRemainderRing = 4;  // records of the remainder that a warp has in shared memory or on their way

constexpr unsigned kLinearLayer = 1U << 31;  // beside the number of its items

}  // namespace onchip
