// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/trace_run.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <bit>

namespace onchip {

double TraceRun::cycles() const {
  return sms.empty() ? 0 : static_cast<double>(std::ranges::max(sms, {}, &SmRun::cycles).cycles);
}

TraceRun run_trace(const Chip& chip, const TraceSource& source, const SmOptions& options, int threads) {
  TraceRun result;
  if (const auto resources = source.resources()) {
    result.resident = occupancy(chip, *resources).blocks_per_sm;
    if (result.resident == 0) {
      throw InputError("no block fits on an SM of " + chip.name + ": it has " + std::to_string(resources->threads) +
                       " threads of " + std::to_string(resources->registers_per_thread) + " registers and " +
                       std::to_string(resources->smem_bytes) + " bytes of shared memory");
    }
  }
  const int sms = std::min(static_cast<int>(chip.sm_count), source.blocks());
  result.sms.resize(static_cast<std::size_t>(sms));
  parallel_for(sms, threads, [&](int sm) {
    const BlockSupply decoded = [&](int i) { return std::make_shared<const BlockTrace>(source.block(sm + i * sms)); };
    const int blocks = (source.blocks() - sm + sms - 1) / sms;
    result.sms[static_cast<std::size_t>(sm)] = run_sm(chip, blocks, result.resident, decoded, options);
  });
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
                         banks.count(shared_access(warp, instruction))});
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
    to.warp_copies.resize(trace.warps.size());
    to.heat.resize(static_cast<std::size_t>(geometry.banks));
    for (std::size_t w = 0; w < trace.warps.size(); ++w) {
      for (const Instruction& instruction : trace.warps[w].instructions) {
        if (!is_shared_access(instruction.operation)) {
          continue;
        }
        const bool stores = instruction.operation == Operation::shared_store;
        const bool copies = instruction.operation == Operation::async_copy;
        (stores   ? to.warp_stores
         : copies ? to.warp_copies
                  : to.warp_loads)[w] += banks.count(shared_access(trace.warps[w], instruction), to.heat);
        ++(stores ? to.store_instructions : copies ? to.copy_instructions : to.load_instructions);
      }
    }
  });
  return result;
}

}  // namespace onchip
