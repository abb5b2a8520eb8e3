// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/list_schedule.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

using namespace onchip;

TEST_CASE("a schedule has every instruction once, values before their users, barriers in place", "[fast]") {
  std::mt19937 random(9);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Instruction> block;
    for (auto i = random() % 120; i > 0; --i) {
      Instruction instruction;
      instruction.operation = static_cast<Operation>(random() % kOperationNames.size());
      instruction.destination = static_cast<std::uint8_t>(random() % 40);
      instruction.sources[0] = static_cast<std::uint8_t>(random() % 40);
      instruction.sources[1] = static_cast<std::uint8_t>(random() % 40);
      block.push_back(instruction);
    }
    CompilerView view;
    view.loads_ahead = 1 + static_cast<int>(random() % 12);
    view.window = 1 + static_cast<int>(random() % 100);
    view.addresses_first = static_cast<int>(random() % 16);
    const std::vector<std::uint32_t> order = list_schedule(block, view);
    REQUIRE(order.size() == block.size());
    std::vector<std::size_t> position(block.size(), block.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      REQUIRE(position[order[at]] == block.size());
      position[order[at]] = at;
    }
    std::map<int, std::size_t> writer;
    for (std::size_t i = 0; i < block.size(); ++i) {
      for (const Register source : block[i].sources) {
        if (writer.contains(source)) {
          REQUIRE(position[writer.at(source)] < position[i]);
        }
      }
      writer[block[i].destination] = i;
      if (block[i].operation == Operation::barrier) {
        REQUIRE(std::all_of(position.begin(), position.begin() + static_cast<std::ptrdiff_t>(i),
                            [&](std::size_t p) { return p < position[i]; }));
      }
    }
  }
}

TEST_CASE("the addresses that a schedule has first come before its first load, as far as there are any", "[fast]") {
  std::vector<Instruction> block;
  constexpr int kLoads = 9;
  for (int i = 0; i < kLoads; ++i) {  // an address, and the load from there
    Instruction address, load;
    address.operation = Operation::integer;
    address.destination = static_cast<std::uint8_t>(2 * i);
    load.operation = Operation::shared_load;
    load.sources[0] = address.destination;
    load.destination = static_cast<std::uint8_t>(2 * i + 1);
    block.push_back(address);
    block.push_back(load);
  }
  for (const int first : {0, 1, 5, kLoads, kLoads + 3}) {
    const std::vector<std::uint32_t> order = list_schedule(block, {.addresses_first = first});
    const auto load =
        std::ranges::find_if(order, [&](std::uint32_t i) { return block[i].operation == Operation::shared_load; });
    REQUIRE(load - order.begin() >= std::min(first, kLoads));
    REQUIRE((first < kLoads || load - order.begin() == kLoads));
  }
}
