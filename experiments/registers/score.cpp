// SPDX-License-Identifier: Apache-2.0
#include "experiments/registers/score.hpp"

#include "experiments/registers/verbs.hpp"
#include "model/footprint.hpp"
#include "model/registers.hpp"

namespace onchip::registers {
namespace {

// Whether the table can speak for it.
bool has_keys(const Measured& m) {
  return register_keys(kMajors[m.architecture], m.shape.network, m.shape.plan).has_value();
}

}  // namespace

int score(const std::vector<std::string>& paths) {
  const std::vector<Measured> all = read_limits(paths);
  const auto working = [](const Measured& m) {
    return working_registers(chip_of(m.architecture), m.shape.network, m.shape.plan);
  };
  std::puts(kScoreHeader);
  for (std::size_t a = 0; a < kArchitectures.size(); ++a) {
    print_score(a, "vanilla in registers", all, has_keys, working);
    print_score(
        a, "other", all, [](const Measured& m) { return !has_keys(m); }, working);
  }
  return 0;
}

}  // namespace onchip::registers
