// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange/exchange_bench.hpp"

#include "model/exchange/state.hpp"
#include "sim/machine/sm.hpp"
#include "sim/machine/warp_writer.hpp"

namespace onchip {
namespace {

constexpr int kWordBytes = 16;

// What follows the barrier after staging, of an SM whose outbox lies behind the state in shared memory. Global
// addresses count from the first word that it emits.
WarpTrace body(const ExchangeBench& bench, int warp) {
  const int words = bench.state_bytes / kWordBytes, own = words / bench.sms;
  const bool emits = kWarpLanes * warp < own;
  WarpWriter out{CompilerView{}};
  const auto word = [&](std::int64_t first) {
    return [=](int lane) {
      const int i = kWarpLanes * warp + lane;
      return i < own ? first + std::int64_t{kWordBytes} * i : -1;
    };
  };
  // Whether the clock is to be read, and whether this was the last step.
  out.integers(3);
  out.branch();
  out.converge();
  out.branch();
  for (int i = 0; i < 4; ++i) {
    out.operate(Operation::other);
  }
  const int read = emits ? out.load(kWordBytes, kNoRegister, word(std::int64_t{kWordBytes} * own)) : kNoRegister;
  out.barrier();
  out.branch();
  if (emits) {
    const int emitted = out.load(kWordBytes, kNoRegister, word(bench.state_bytes));
    int changed = kNoRegister;
    for (int i = 0; i < 24; ++i) {  // a multiplication and a mask for each element, all before the stores
      changed = out.operate(Operation::integer, read + i % 4);
    }
    out.flush();
    out.access(Operation::global_store, kWordBytes, kNoRegister, emitted, word(0));
    out.access(Operation::global_store, kWordBytes, kNoRegister, kNoRegister, word(bench.state_bytes));
    out.access(Operation::shared_store, kWordBytes, kNoRegister, changed, word(bench.state_bytes));
  }
  out.converge();
  out.fill(kLoopInstructions);
  out.branch();
  return out.take();
}

}  // namespace

double simulate_exchange_bench(const Chip& chip, const ExchangeBench& bench, const ExchangeOptions& options) {
  const int words = bench.state_bytes / kWordBytes, own = words / bench.sms;
  BlockTrace block;
  for (int warp = 0; warp < bench.threads / kWarpLanes; ++warp) {
    block.warps.push_back(body(bench, warp));
  }
  const SmRun run = run_sm(chip, {&block, 1});
  const int line_words = line_words_for(own);
  std::vector<SmBody> bodies(static_cast<std::size_t>(bench.sms));
  for (std::size_t sm = 0; sm < bodies.size(); ++sm) {
    for (const std::int64_t end : run.warp_end) {
      bodies[sm].warp_end.push_back(static_cast<double>(end));
    }
    for (const IssueEvent& store : run.global_stores) {
      const WarpTrace& warp = block.warps[store.warp];
      for (const std::uint64_t address : warp.addresses_of(warp.instructions[store.instruction])) {
        if (const auto word = static_cast<int>(address / kWordBytes); word < own) {
          add_emission(bodies[sm], line_words, static_cast<int>(sm) * own + word, static_cast<double>(store.cycle));
        }
      }
    }
  }
  const ExchangeShape shape{.state_words = words,
                            .threads = bench.threads,
                            .loads_in_flight = bench.loads_in_flight,
                            .poll_delay = bench.poll_delay,
                            .line_words = line_words};
  return run_exchange(chip, shape, bodies, options).step_cycles;
}

}  // namespace onchip
