// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/remainder_records.hpp"

#include "model/feed_forward/structure/places.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace onchip {
namespace {

constexpr int kColumns = 4;  // of a tile, that a lane multiplies

// What one access reads.
struct Eight {
  std::vector<OutsideWeight> weights;
  std::array<int, kFreePlaces> of_class{};
  int wavefronts = 0;
};

// Classes with the most weights first: what they have too many of meets in the same eights.
std::vector<Eight> in_eights(std::span<const OutsideWeight> weights, std::size_t count) {
  std::array<std::vector<OutsideWeight>, kFreePlaces> classes;
  for (const OutsideWeight& weight : weights) {
    classes[weight.place % kFreePlaces].push_back(weight);
  }
  std::ranges::stable_sort(classes, std::greater<>(), [](const auto& of_class) { return of_class.size(); });
  std::vector<Eight> eights(count);
  for (const std::vector<OutsideWeight>& of_class : classes) {
    for (const OutsideWeight& weight : of_class) {
      const auto cls = weight.place % kFreePlaces;
      const auto cost = [&](const Eight& eight) {  // wavefronts more, then what it has
        return std::pair(eight.weights.size() == kFreePlaces ? kRecordWeights
                                                             : std::max(0, eight.of_class[cls] + 1 - eight.wavefronts),
                         eight.of_class[cls] * kFreePlaces + static_cast<int>(eight.weights.size()));
      };
      Eight& best = *std::ranges::min_element(eights, {}, cost);
      best.weights.push_back(weight);
      best.wavefronts = std::max(best.wavefronts, ++best.of_class[cls]);
    }
  }
  return eights;
}

// Where a slot's weight and row lie in a record.
struct SlotAt {
  explicit SlotAt(int slot)
      : member(slot % 8 / 2), half((slot / 16 * kColumns) + slot % 2 + slot % 16 / 8 * 2), tile(slot / 16) {}
  int member, half, tile;
  std::size_t weight() const { return 2 * static_cast<std::size_t>(member * 2 * kColumns + half); }
  std::size_t rows() const { return kRecordWeights * 2 + 4 * static_cast<std::size_t>(member); }
  static std::size_t place(int slot, int place_bytes) {
    return kRecordWeights * 2 + kRecordWeights / 2 + static_cast<std::size_t>(place_bytes) * slot;
  }
  int shift() const { return 8 * (half % kColumns) + 4 * (1 - tile); }
};

}  // namespace

std::vector<std::byte> remainder_records(std::span<const OutsideWeight> weights, int place_bytes) {
  const std::size_t count = (weights.size() + kRecordWeights - 1) / kRecordWeights,
                    bytes = remainder_record_bytes(place_bytes);
  const std::vector<Eight> eights = in_eights(weights, count * kRecordWeights / kFreePlaces);
  std::vector<std::byte> records(count * bytes);
  for (std::size_t e = 0; e < eights.size(); ++e) {
    std::byte* const record = records.data() + e / 4 * bytes;
    const std::vector<OutsideWeight>& of_eight = eights[e].weights;
    for (int i = 0; i < kFreePlaces; ++i) {
      const auto size = static_cast<int>(of_eight.size());
      const OutsideWeight weight =
          i < size ? of_eight[i] : OutsideWeight{size == 0 ? weights[0].place : of_eight[size > 1 ? i % 2 : 0].place};
      const int slot = static_cast<int>(e % 4) * kFreePlaces + i;
      const SlotAt at(slot);
      std::uint32_t rows;
      std::memcpy(&rows, record + at.rows(), sizeof(rows));
      rows |= static_cast<std::uint32_t>(weight.row) << at.shift();
      std::memcpy(record + at.rows(), &rows, sizeof(rows));
      std::memcpy(record + at.weight(), &weight.weight, sizeof(weight.weight));
      std::memcpy(record + SlotAt::place(slot, place_bytes), &weight.place, static_cast<std::size_t>(place_bytes));
    }
  }
  return records;
}

std::vector<OutsideWeight> read_remainder_record(const std::byte* record, int place_bytes) {
  std::vector<OutsideWeight> weights(kRecordWeights);
  for (int slot = 0; slot < kRecordWeights; ++slot) {
    const SlotAt at(slot);
    OutsideWeight& weight = weights[slot];
    std::uint32_t rows;
    std::memcpy(&rows, record + at.rows(), sizeof(rows));
    weight.row = static_cast<int>(rows >> at.shift() & 15);
    std::memcpy(&weight.weight, record + at.weight(), sizeof(weight.weight));
    std::memcpy(&weight.place, record + SlotAt::place(slot, place_bytes), static_cast<std::size_t>(place_bytes));
  }
  return weights;
}

}  // namespace onchip
