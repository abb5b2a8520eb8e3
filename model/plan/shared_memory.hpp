// SPDX-License-Identifier: Apache-2.0
// What stands where in a block's shared memory, from one list of regions: the model's bytes, the kernel's offsets
// (ONCHIP_AT_<REGION>) and the simulator's addresses. The regions: model/sparse/geometry.hpp, model/dense/geometry.hpp.
#pragma once

#include <array>
#include <cstdint>

namespace onchip {

constexpr std::int64_t whole_words(std::int64_t bytes) {  // of 16 bytes
  return (bytes + 15) / 16 * 16;
}

// `Region` is an enumeration whose last enumerator is `end`. Regions follow one another in its order.
template <typename Region>
class SharedMemory {
 public:
  static constexpr std::size_t kRegions = static_cast<std::size_t>(Region::end);

  // Appends the next region. All regions are added, in their order.
  constexpr void add(Region region, std::int64_t bytes, int alignment = 16) {
    begin_[index(region)] = (end_ + alignment - 1) / alignment * alignment;
    end_ = begin_[index(region)] + bytes;
  }
  constexpr std::int64_t at(Region region) const { return begin_[index(region)]; }  // its first byte
  constexpr std::int64_t bytes(Region region) const {  // with those before the next, which it is aligned by
    return (index(region) + 1 < kRegions ? begin_[index(region) + 1] : end_) - at(region);
  }
  constexpr std::int64_t bytes() const { return whole_words(end_); }  // of all regions

 private:
  static constexpr std::size_t index(Region region) { return static_cast<std::size_t>(region); }

  std::array<std::int64_t, kRegions> begin_{};
  std::int64_t end_ = 0;
};

}  // namespace onchip
