// SPDX-License-Identifier: Apache-2.0
// tests/experiments/simulation/access_patterns_test.cpp has what a GPU counts.
#include "sim/machine/banks.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace onchip;

namespace {

// Byte by byte: which bank words the lanes of each phase touch. Knows nothing of granules or sets.
BankCost oracle(const BankGeometry& geometry, const SharedAccess& access, std::vector<std::int64_t>& heat) {
  std::vector<std::pair<int, std::uint64_t>> lanes;  // lane, address
  for (int lane = 0, next = 0; lane < 32; ++lane) {
    if (access.mask >> lane & 1) {
      lanes.emplace_back(lane, access.addresses[next++]);
    }
  }
  int phase_lanes = 32;
  while (phase_lanes > 1 && phase_lanes * access.width > geometry.banks * geometry.bank_bytes) {
    phase_lanes /= 2;
  }
  const auto agree = [&](int apart) {
    std::map<int, std::set<std::uint64_t>> of_pair;
    for (const auto& [lane, address] : lanes) {
      of_pair[lane & ~apart].insert(address);
    }
    return std::all_of(of_pair.begin(), of_pair.end(), [](auto& pair) { return pair.second.size() == 1; });
  };
  if (phase_lanes < 32 && access.sharing == Sharing::words_and_phases && (agree(1) || agree(2))) {
    phase_lanes *= 2;
  }
  BankCost cost;
  for (int first = 0; first < 32; first += phase_lanes) {
    std::map<std::uint64_t, std::multiset<std::uint64_t>> words_of_bank;
    std::set<std::uint64_t> asked;  // as wide as an access, but at least a bank word
    int active = 0;
    for (const auto& [lane, address] : lanes) {
      if (lane < first || lane >= first + phase_lanes) {
        continue;
      }
      ++active;
      const bool is_new = asked.insert(address / std::max(access.width, geometry.bank_bytes)).second;
      std::set<std::uint64_t> words;
      for (std::uint64_t byte = address; byte < address + access.width; ++byte) {
        words.insert(byte / geometry.bank_bytes);
      }
      for (const std::uint64_t word : words) {
        if (is_new || access.sharing == Sharing::nothing) {
          words_of_bank[word % geometry.banks].insert(word);
        }
      }
    }
    std::size_t most = 0;
    for (const auto& [bank, words] : words_of_bank) {
      most = std::max(most, words.size());
      cost.words += static_cast<int>(words.size());
      heat[bank] += static_cast<std::int64_t>(words.size());
    }
    cost.wavefronts += static_cast<int>(most);
    cost.ideal += active > 0;
    cost.multicasts += access.sharing == Sharing::nothing ? 0 : active - static_cast<int>(asked.size());
  }
  return cost;
}

// Lane l asks for unit(l), of `width` bytes.
template <typename Unit>
std::vector<std::uint64_t> units(int width, Unit&& unit) {
  std::vector<std::uint64_t> addresses;
  for (int lane = 0; lane < 32; ++lane) {
    addresses.push_back(static_cast<std::uint64_t>(unit(lane) * width));
  }
  return addresses;
}

}  // namespace

TEST_CASE("the bank model agrees with byte-by-byte counting for random masks, widths, addresses and geometries",
          "[fast]") {
  std::mt19937 random(7);
  for (const BankGeometry geometry :
       {BankGeometry{32, 4}, {64, 4}, {32, 8}, {16, 4}, {128, 4}, {4, 4}, {32, 1}, {2, 8}, {1, 16}, {16, 64}}) {
    BankModel model(geometry);
    std::vector<std::int64_t> heat(geometry.banks), expected_heat(geometry.banks);
    for (int i = 0; i < 4000; ++i) {
      const int width = 1 << random() % 5;
      const std::uint32_t mask =
          i % 3 == 0 ? ~0u : static_cast<std::uint32_t>(i % 3 == 1 ? random() : random() & random() & random());
      const int reach = 1 << random() % 12;      // few units: multicasts; many: conflicts
      const int alike = 1 << random() % 5 >> 1;  // lanes i and i ^ alike that ask for the same; 0: none
      const auto sharing = static_cast<Sharing>(random() % 3);
      const std::uint64_t far = i % 5 == 0 ? 1 << 22 : 0;  // lanes whose addresses differ in high bits alone
      std::vector<std::uint64_t> addresses, of_lane;
      for (int lane = 0; lane < 32; ++lane) {
        const std::uint64_t unit = random() % reach + random() % 2 * far / width;
        of_lane.push_back(lane & alike ? of_lane[lane ^ alike] : unit * width);
        if (mask >> lane & 1) {
          addresses.push_back(of_lane.back());
        }
      }
      const SharedAccess access{addresses, mask, width, sharing};
      CAPTURE(geometry.banks, geometry.bank_bytes, width, mask, reach, alike, far, static_cast<int>(sharing));
      const BankCost expected = oracle(geometry, access, expected_heat);
      REQUIRE(model.count(access) == expected);
      REQUIRE(model.count(access, heat) == expected);
      REQUIRE(heat == expected_heat);
    }
  }
}

TEST_CASE("a granule asked for the first time is new however many accesses were counted before", "[fast]") {
  // 32 phases an access: more in all than the 16 bits in which the model numbers them.
  BankModel model({4, 4});
  for (int access = 0; access < 3000; ++access) {
    const auto addresses = units(16, [&](int lane) { return 32 * access + lane; });
    REQUIRE(model.count({addresses, ~0u, 16}).wavefronts == 32);
  }
}

TEST_CASE("chips whose banks the model cannot count are refused", "[fast]") {
  ChipFile file = find_chip("h200");
  REQUIRE(bank_geometry(file.chip).banks == 32);
  set_chip_key(file, "shared_memory.banks=48");
  REQUIRE_THROWS_AS(bank_geometry(file.chip), InputError);
  set_chip_key(file, "shared_memory.banks=2");
  REQUIRE_THROWS_AS(bank_geometry(file.chip), InputError);
}
