// SPDX-License-Identifier: Apache-2.0
// Traces simulated against what an H100 counted and timed (experiments/recipes/access_patterns.py).
#include "model/base/table.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/trace/accel_sim_trace.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

using namespace onchip;

namespace {

CsvReader measured(const char* file) {
  return CsvReader(std::string(ONCHIP_SOURCE_DIR) + "/experiments/data/h100_sxm/" + file);
}

constexpr const char* kBase = "-shmem base_addr = 0x7f0000000000\n";

std::string block(const std::string& warps) {
  return "#BEGIN_TB\n" + warps + "#END_TB\n";
}

// One access, by the active ones of the 32 lanes.
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
  return "warp = 0\ninsts = 1\n" + line + " 0\n";
}

double cycles(const Chip& chip, int threads, int registers, int smem_bytes, int blocks) {
  std::string text = "-block dim = (" + std::to_string(threads) + ",1,1)\n-nregs = " + std::to_string(registers) +
                     "\n-shmem = " + std::to_string(smem_bytes) + '\n' + kBase;
  std::string warps;
  for (int warp = 0; warp < (threads + 31) / 32; ++warp) {
    warps += "warp = " + std::to_string(warp) + "\ninsts = 100\n";
    for (int i = 0; i < 100; ++i) {
      warps += "0100 ffffffff 1 R4 LDG.E 1 R4 4 1 0x7e0000000000 0 0\n";
    }
  }
  for (int i = 0; i < blocks; ++i) {
    text += block(warps);
  }
  return run_trace(chip, *parse_accel_sim_trace(text, "t"), {}, 1).cycles();
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
  const CsvReader rows = measured("access_patterns.csv");
  REQUIRE(rows.size() >= 440);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string opcode = opcodes.at(rows.text(i, "operation") + ' ' + rows.text(i, "width"));
    CAPTURE(i, opcode, rows.text(i, "pattern"), rows.text(i, "mask"));
    const std::string text = kBase + block(access(opcode, rows.text(i, "mask"), rows.text(i, "addresses")));
    const auto counted = count_accesses(chip, *parse_accel_sim_trace(text, "t"), 0).accesses;
    REQUIRE(counted.size() == 1);
    CHECK(std::abs(counted[0].cost.wavefronts - rows.number(i, "wavefronts")) < 0.01);
  }
}

// Of the 22 kernels one is up to 12 % off: 32 threads with 60 KB.
TEST_CASE("as many blocks share an SM as on an H100, and of 20 kernels take as long", "[fast]") {
  ChipFile file = find_chip("h100_sxm");
  set_chip_key(file, "sm.count=1");
  const CsvReader rows = measured("residency.csv");
  REQUIRE(rows.size() >= 8 * 20);
  constexpr double kLargest = 0.13;
  double alone = 0, alone_measured = 0, furthest = 0;
  int close = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto number = [&](const char* column) { return static_cast<int>(rows.number(i, column)); };
    const int threads = number("threads"), registers = number("registers"), smem_bytes = number("smem_bytes");
    CAPTURE(threads, registers, smem_bytes, number("blocks"));
    CHECK(occupancy(file.chip, {threads, registers, smem_bytes}).blocks_per_sm == number("resident"));
    const double simulated = cycles(file.chip, threads, registers, smem_bytes, number("blocks"));
    const double timed = rows.number(i, "cycles");
    if (number("blocks") == 1) {
      alone = simulated;
      alone_measured = timed;
    }
    const double off = std::abs(simulated / alone / (timed / alone_measured) - 1);
    CHECK(off < kLargest);
    furthest = number("blocks") == 1 ? off : std::max(furthest, off);
    if (number("blocks") == 8) {
      close += furthest < 0.1;
    }
  }
  CHECK(close >= 20);
}
