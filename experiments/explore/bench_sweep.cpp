// SPDX-License-Identifier: Apache-2.0
// Rows of sweeps per second and core, writing included, along each kind of axis.
#include "model/base/clocks.hpp"
#include "model/explore/row.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace onchip;

struct Kind {
  const char* what;
  bool has_plan;
  const char* rows;
  std::vector<const char*> axes;
};

void bench(const Kind& one, std::ofstream& file) {
  constexpr double kSeconds = 2;
  constexpr std::size_t kBlock = 1 << 20;
  SweepSpec spec;
  spec.rows = one.rows;
  if (one.has_plan) {
    spec.fix("plan",
             "sparse_persistent packed_pair bank_aware lamport sms=128 threads=288 lanes_per_row=16 slots=18 "
             "loads_in_flight=4 poll_delay=120 promote_every=8");
  }
  for (const char* axis : one.axes) {
    spec.add_axis(axis);
  }
  if (!spec.varies("hidden")) {
    spec.fix("hidden", "2304");
  }
  if (!spec.varies("density")) {
    spec.fix("density", "10%");
  }
  finish(spec);
  RowComputer computer(spec, RowFormat::csv);
  std::string text;
  std::uint64_t rows = 0;
  const double begin = processor_seconds();
  double seconds = 0;
  for (; rows < spec.size() && seconds < kSeconds; ++rows) {
    computer.compute(rows);
    computer.append_to(text);
    if (text.size() > kBlock) {
      file.write(text.data(), static_cast<std::streamsize>(text.size()));
      text.clear();
    }
    if (!one.has_plan || rows % 64 == 0) {
      seconds = processor_seconds() - begin;
    }
  }
  seconds = processor_seconds() - begin;
  std::printf("%-58s %10.0f rows a second and core\n", one.what, static_cast<double>(rows) / seconds);
}

}  // namespace

int main() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "bench_sweep.csv";
  try {
    std::ofstream file(path, std::ios::binary);
    for (const Kind& one : {
             Kind{"given plan: clock of the chip", true, "exact", {"sm.count=132:163:1", "sm.clock=1GHz:2GHz:10kHz"}},
             Kind{"given plan: batch", true, "exact", {"sm.clock=1GHz:2GHz:10kHz", "batch=1:32:1"}},
             Kind{"given plan: size, rows as expected", true, "expected", {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
             Kind{"given plan: density, rows as expected",
                  true,
                  "expected",
                  {"hidden=2048,2304", "density=1%:10%:0.001%"}},
             Kind{"given plan: density, rows of generated masks",
                  true,
                  "exact",
                  {"hidden=2048,2304", "density=1%:10%:0.001%"}},
             Kind{"planner: clock of the chip", false, "exact", {"sm.count=100:163:1", "sm.clock=1GHz:2GHz:10kHz"}},
             Kind{"planner: size, rows as expected", false, "expected", {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
             Kind{"planner: size, rows of generated masks",
                  false,
                  "exact",
                  {"density=1%:10%:0.1%", "hidden=500:2304:4"}},
         }) {
      bench(one, file);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_sweep: %s\n", error.what());
    return 2;
  }
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return 0;
}
