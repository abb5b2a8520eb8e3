// SPDX-License-Identifier: Apache-2.0
// Traces simulated against what an H100 counted (experiments/recipes/access_patterns.py).
#include "experiments/command/table.hpp"
#include "sim/trace/accel_sim_trace.hpp"
#include "sim/trace/trace_run.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

using namespace onchip;

namespace {

constexpr const char* kBase = "-shmem base_addr = 0x7f0000000000\n";

// A trace of one access, by the active ones of the 32 lanes.
std::string access(const std::string& opcode, const std::string& mask, const std::string& lane_addresses) {
  const auto active = std::stoul(mask, nullptr, 16);
  std::string line = "0100 " + mask + " 0 " + opcode + " 1 R2 4 0";
  std::istringstream addresses(lane_addresses);
  std::uint64_t address = 0;
  for (int lane = 0; addresses >> address; ++lane) {
    if (active >> lane & 1) {
      char text[24];
      std::snprintf(text, sizeof text, " 0x%llx", static_cast<unsigned long long>(0x7f0000000000 + address));
      line += text;
    }
  }
  return std::string(kBase) + "#BEGIN_TB\nwarp = 0\ninsts = 1\n" + line + " 0\n#END_TB\n";
}

}  // namespace

TEST_CASE("accesses to shared memory take the wavefronts that an H100 counts, to the last one", "[fast]") {
  const std::map<std::string, std::string> opcodes{{"lds 4", "LDS"},
                                                   {"lds 8", "LDS.64"},
                                                   {"lds 16", "LDS.128"},
                                                   {"sts 4", "STS"},
                                                   {"sts 8", "STS.64"},
                                                   {"sts 16", "STS.128"},
                                                   {"ldsm_x1 16", "LDSM.16.M88"},
                                                   {"ldsm_x2 16", "LDSM.16.M88.2"},
                                                   {"ldsm_x4 16", "LDSM.16.M88.4"},
                                                   {"atoms_add 4", "ATOMS.ADD"},
                                                   {"ldgsts 4", "LDGSTS.E"},
                                                   {"ldgsts 8", "LDGSTS.E.64"},
                                                   {"ldgsts 16", "LDGSTS.E.128"}};
  const Chip chip = find_chip("h100_sxm").chip;
  const CsvReader rows(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h100_sxm/access_patterns.csv");
  REQUIRE(rows.size() >= 440);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string opcode = opcodes.at(rows.text(i, "operation") + ' ' + rows.text(i, "width"));
    CAPTURE(i, opcode, rows.text(i, "pattern"), rows.text(i, "mask"));
    const std::string text = access(opcode, rows.text(i, "mask"), rows.text(i, "addresses"));
    const auto counted = count_accesses(chip, *parse_accel_sim_trace(text, "t"), 0);
    REQUIRE(counted.size() == 1);
    CHECK(std::abs(counted[0].cost.wavefronts - rows.number(i, "wavefronts")) < 0.01);
  }
}
