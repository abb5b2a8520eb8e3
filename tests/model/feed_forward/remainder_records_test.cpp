// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/structure/remainder_records.hpp"

#include "model/base/random.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <vector>

namespace onchip {
namespace {

using Key = std::tuple<std::uint32_t, int, int>;

std::multiset<Key> keys(const std::vector<OutsideWeight>& weights) {
  std::multiset<Key> all;
  for (const OutsideWeight& weight : weights) {
    if (weight.weight != 0) {
      all.emplace(weight.place, weight.row, weight.weight);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("records hold the weights of a block, as free of conflicts as their places allow", "[fast]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::uint64_t next = 0;
    const auto draw = [&](std::uint64_t below) { return static_cast<int>(splitmix64(seed, next++) % below); };
    const int place_bytes = seed % 2 == 0 ? 2 : 4;
    std::vector<OutsideWeight> weights(static_cast<std::size_t>(draw(120)));
    std::array<int, 8> of_class{};
    for (OutsideWeight& weight : weights) {
      weight = {static_cast<std::uint32_t>(draw(seed % 2 == 0 ? 0x8000 : 1 << 20)), draw(16),
                static_cast<std::uint16_t>(1 + draw(0x7bff))};
      ++of_class[weight.place % 8];
    }
    const std::vector<std::byte> records = remainder_records(weights, place_bytes);
    const std::size_t bytes = remainder_record_bytes(place_bytes), count = (weights.size() + 31) / 32;
    REQUIRE(records.size() == count * bytes);
    std::vector<OutsideWeight> read;
    int wavefronts = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<OutsideWeight> of_record = read_remainder_record(records.data() + i * bytes, place_bytes);
      REQUIRE(of_record.size() == 32);
      read.insert(read.end(), of_record.begin(), of_record.end());
      for (std::size_t first = 0; first < 32; first += 8) {
        std::array<std::set<std::uint32_t>, 8> banks;
        for (std::size_t k = first; k < first + 8; ++k) {
          banks[of_record[k].place % 8].insert(of_record[k].place);
          // A place that is read anyway, as all are; a column without a weight adds no wavefront.
          CHECK((of_record[k].weight != 0 || std::ranges::any_of(weights, [&](const OutsideWeight& weight) {
                   return weight.place == of_record[k].place;
                 })));
        }
        wavefronts +=
            static_cast<int>(std::ranges::max(banks, {}, [](const auto& bank) { return bank.size(); }).size());
      }
    }
    CHECK(keys(read) == keys(weights));
    int too_many = 0;  // of all classes: more than a wavefront of each access
    for (const int entries : of_class) {
      too_many += std::max(0, entries - static_cast<int>(4 * count));
    }
    CHECK(wavefronts <= static_cast<int>(4 * count) + too_many);
  }
  CHECK(remainder_records({}, 2).empty());
}

}  // namespace onchip
