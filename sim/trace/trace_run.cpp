// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace_run.hpp"

#include "model/base/parallel.hpp"

#include <algorithm>
#include <bit>

namespace onchip {

double TraceRun::cycles() const {
  return sm_cycles.empty() ? 0 : *std::max_element(sm_cycles.begin(), sm_cycles.end());
}

TraceRun run_trace(const Chip& chip, const TraceSource& source, const SmOptions& options, int threads) {
  TraceRun result;
  result.blocks.resize(static_cast<std::size_t>(source.blocks()));
  parallel_for(source.blocks(), threads, [&](int b) {
    const BlockTrace block = source.block(b);
    result.blocks[static_cast<std::size_t>(b)] = run_sm(chip, {&block, 1}, options);
  });
  const auto sms = std::min(static_cast<std::size_t>(chip.sm_count), result.blocks.size());
  result.sm_cycles.resize(sms);
  for (std::size_t b = 0; b < result.blocks.size(); ++b) {
    result.sm_cycles[b % sms] += static_cast<double>(result.blocks[b].cycles);
  }
  return result;
}

std::vector<AccessCost> count_accesses(const Chip& chip, const TraceSource& source, int block) {
  BankModel banks(bank_geometry(chip));
  const BlockTrace trace = source.block(block);
  std::vector<AccessCost> costs;
  for (std::size_t w = 0; w < trace.warps.size(); ++w) {
    const WarpTrace& warp = trace.warps[w];
    for (std::size_t i = 0; i < warp.instructions.size(); ++i) {
      const Instruction& instruction = warp.instructions[i];
      if (is_shared_access(instruction.operation)) {
        costs.push_back({block, static_cast<std::int32_t>(w), static_cast<std::uint32_t>(i), instruction.operation,
                         instruction.width, std::popcount(instruction.mask),
                         banks.count({warp.addresses_of(instruction), instruction.mask, instruction.width})});
      }
    }
  }
  return costs;
}

std::vector<BlockBanks> count_banks(const Chip& chip, const TraceSource& source, int threads) {
  const BankGeometry geometry = bank_geometry(chip);
  std::vector<BlockBanks> result(static_cast<std::size_t>(source.blocks()));
  parallel_for(source.blocks(), threads, [&](int b) {
    BankModel banks(geometry);
    BlockBanks& to = result[static_cast<std::size_t>(b)];
    const BlockTrace trace = source.block(b);
    to.warp_loads.resize(trace.warps.size());
    to.warp_stores.resize(trace.warps.size());
    to.heat.resize(static_cast<std::size_t>(geometry.banks));
    for (std::size_t w = 0; w < trace.warps.size(); ++w) {
      for (const Instruction& instruction : trace.warps[w].instructions) {
        if (!is_shared_access(instruction.operation)) {
          continue;
        }
        const SharedAccess access{trace.warps[w].addresses_of(instruction), instruction.mask, instruction.width};
        const bool loads = instruction.operation == Operation::shared_load;
        (loads ? to.warp_loads : to.warp_stores)[w] += banks.count(access, to.heat);
        ++(loads ? to.load_instructions : to.store_instructions);
      }
    }
  });
  return result;
}

}  // namespace onchip
