// SPDX-License-Identifier: Apache-2.0
#include "sim/machine/trace_run.hpp"

#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

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

BlockAccesses count_accesses(const Chip& chip, const TraceSource& source, int block) {
  const BankGeometry geometry = bank_geometry(chip);
  BankModel banks(geometry);
  const BlockTrace trace = source.block(block);
  BlockAccesses result{block, {}, std::vector<BankUse>(static_cast<std::size_t>(geometry.banks))};
  std::vector<std::int64_t> words(result.banks.size());
  for (std::size_t w = 0; w < trace.warps.size(); ++w) {
    const WarpTrace& warp = trace.warps[w];
    for (std::size_t i = 0; i < warp.instructions.size(); ++i) {
      const Instruction& instruction = warp.instructions[i];
      if (!is_shared_access(instruction.operation)) {
        continue;
      }
      std::ranges::fill(words, 0);
      const auto addresses = warp.addresses_of(instruction);
      AccessCost access{block,
                        static_cast<std::int32_t>(w),
                        static_cast<std::uint32_t>(i),
                        instruction.operation,
                        instruction.width,
                        std::popcount(instruction.mask),
                        banks.count(shared_access(warp, instruction), words),
                        {addresses.begin(), addresses.end()},
                        {}};
      const std::int64_t most = std::ranges::max(words);
      for (std::size_t bank = 0; bank < words.size(); ++bank) {
        result.banks[bank].words += words[bank];
        if (words[bank] == most && most > 0) {
          access.busiest.push_back(static_cast<int>(bank));
        }
      }
      for (const int bank : access.busiest) {
        result.banks[static_cast<std::size_t>(bank)].extra_wavefronts +=
            static_cast<double>(access.cost.wavefronts - access.cost.ideal) /
            static_cast<double>(access.busiest.size());
      }
      result.accesses.push_back(std::move(access));
    }
  }
  return result;
}

std::vector<AccessCost> worst_accesses(const BlockAccesses& of, std::size_t most) {
  const auto extra = [](const AccessCost& access) { return access.cost.wavefronts - access.cost.ideal; };
  std::vector<AccessCost> worst = of.accesses;
  std::erase_if(worst, [&](const AccessCost& access) { return extra(access) == 0; });
  std::ranges::stable_sort(worst, std::ranges::greater(), extra);
  std::set<std::vector<std::uint64_t>> seen;
  std::erase_if(worst,
                [&](const AccessCost& access) { return seen.size() >= most || !seen.insert(access.addresses).second; });
  return worst;
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
