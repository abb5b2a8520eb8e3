// SPDX-License-Identifier: Apache-2.0
// What the model says of the shapes that were compiled (register_limits.csv, register_table.csv), without compiling
// them anew.
#include "experiments/table.hpp"
#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/registers.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace onchip {
namespace {

constexpr int kClose = 8;  // words

struct Count {
  int all = 0, close = 0, too_few = 0;
};

struct Counts {
  Count measured, others;  // by the table; by the formula alone
};

// Of relu and tanh networks in registers where they are `keyed`, else of all others.
Counts count(const char* name, bool keyed) {
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/" + name);
  const Chip chips[] = {find_chip("a100").chip, find_chip("h200").chip, find_chip("b200").chip};
  Counts counts;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Network network;
    network.cell = parse_cell(rows.text(row, "cell"));
    network.precision = parse_precision(rows.text(row, "precision"));
    network.hidden = static_cast<int>(rows.number(row, "hidden"));
    network.batch = static_cast<int>(rows.number(row, "batch"));
    Plan plan = parse_plan(rows.text(row, "plan"));
    std::fill_n(plan.slots.begin(), plan.rows_per_group, bundle(network, plan).slots);
    const int number = std::stoi(rows.text(row, "architecture").substr(3));
    Chip chip = chips[number < 90 ? 0 : number < 100 ? 1 : 2];
    chip.compute_capability_major.value = number / 10;
    const int words = static_cast<int>(rows.number(row, "words"));
    if (words == 0 || register_keys(number / 10, network, plan).has_value() != keyed) {
      continue;
    }
    const int allowed = static_cast<int>(rows.number(row, "registers")) - working_registers(chip, network, plan);
    Count& one = measured_registers(number / 10, network, plan) ? counts.measured : counts.others;
    ++one.all;
    one.too_few += allowed >= rows.number(row, "spilling_words");
    one.close += allowed + kClose >= rows.number(row, "spilling_words") - 1;
  }
  return counts;
}

TEST_CASE("the register model allows nothing that spilled when it was compiled", "[fast]") {
  for (const char* name : {"register_limits.csv", "register_table.csv"}) {
    for (const bool keyed : {true, false}) {
      const Counts counts = count(name, keyed);
      INFO(name);
      CHECK(counts.measured.too_few == 0);
      CHECK(counts.others.too_few == 0);
    }
  }
}

// Few are not: of several planes multiplied together, where one need is taken for plans that differ by more.
TEST_CASE("the register table has what was measured within 8 words", "[fast]") {
  const Counts table = count("register_table.csv", true), random = count("register_limits.csv", true);
  CHECK(table.measured.all > 1500);
  CHECK(table.others.all == 0);
  CHECK(1000 * (table.measured.all - table.measured.close) <= 5 * table.measured.all);
  CHECK(random.measured.close >= random.measured.all - 5);
}

TEST_CASE("the register formula is within 8 words in two of three shapes that the table is not for", "[fast]") {
  const Counts counts = count("register_limits.csv", false);
  CHECK(counts.others.all > 400);
  CHECK(3 * counts.others.close >= 2 * counts.others.all);
}

}  // namespace
}  // namespace onchip
