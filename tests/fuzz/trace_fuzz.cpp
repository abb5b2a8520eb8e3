// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of traces: every input goes to all, unpacked if it is compressed. Only InputError
// may come out, its message is one line, and what is read can be simulated.
//   tests/fuzz/run build-asan trace
#include "model/base/decompress.hpp"
#include "model/base/error.hpp"
#include "sim/machine/trace_run.hpp"
#include "sim/simulate.hpp"
#include "sim/trace/accel_sim_trace.hpp"
#include "sim/trace/compact_trace.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

constexpr int kMostSms = 4, kMostStateWords = 1024;  // larger steps take long

const onchip::Chip& chip() {
  static const onchip::Chip h200 = onchip::find_chip("h200").chip;
  return h200;
}

void check(const onchip::TraceSource& source) {
  for (int b = 0; b < std::min(4, source.blocks()); ++b) {
    const onchip::BlockTrace block = source.block(b);
    std::size_t instructions = 0;
    for (const onchip::WarpTrace& warp : block.warps) {
      instructions += warp.instructions.size();
      require(warp.clocks.empty() || warp.clocks.size() == warp.instructions.size());
    }
    const onchip::SmRun result = onchip::run_sm(chip(), {&block, 1});
    std::int64_t issued = 0;
    for (const std::int64_t count : result.issued) {
      issued += count;
    }
    require(issued == static_cast<std::int64_t>(instructions));
  }
  onchip::run_trace(chip(), source, {}, 1);
  onchip::count_banks(chip(), source, 1);
  const onchip::StepShape* const step = source.step();
  if (step && source.blocks() <= kMostSms && step->passes <= kMostSms && step->state_words <= kMostStateWords) {
    require(onchip::simulate(chip(), source).step_us >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string unpacked;
  run_reader([&] {
    unpacked = onchip::decompress(bytes, "fuzz.traceg.xz", 1 << 20);
    check(*onchip::parse_accel_sim_trace(unpacked, "fuzz.traceg.xz"));
  });
  run_reader([&] { check(*onchip::parse_compact_trace(bytes, "fuzz.trace")); });
  return 0;
}
