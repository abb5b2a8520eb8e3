// SPDX-License-Identifier: Apache-2.0
// What is done with any source of traces: its blocks simulated on the SMs of a chip, and its shared-memory accesses
// counted. The same for any number of threads.
#pragma once

#include "sim/machine/sm.hpp"

#include <vector>

namespace onchip {

// Block b runs on SM b mod SMs, of which each holds as many as fit together. Throws InputError if none fits.
struct TraceRun {
  int resident = 1;        // blocks on an SM
  std::vector<SmRun> sms;  // those with a block
  double cycles() const;   // of the SM that is done last
};
TraceRun run_trace(const Chip& chip, const TraceSource& source, const SmOptions& options, int threads);

// Every shared-memory instruction of a block: warp by warp, in order.
struct AccessCost {
  std::int32_t block = 0, warp = 0;
  std::uint32_t instruction = 0;
  Operation operation = Operation::shared_load;
  int width = 0, lanes = 0;
  BankCost cost;
  std::vector<std::uint64_t> addresses;  // of the active lanes
  std::vector<int> busiest;              // the banks that deliver more of its words than all others
};

// What a bank does: the words that it delivers, and the wavefronts beyond the ideal for which it is to blame: those of
// an access are shared out to the banks that deliver most of its words.
struct BankUse {
  std::int64_t words = 0;
  double extra_wavefronts = 0;
};
struct BlockAccesses {
  int block = 0;
  std::vector<AccessCost> accesses;
  std::vector<BankUse> banks;  // [banks]
};
BlockAccesses count_accesses(const Chip& chip, const TraceSource& source, int block);
// The accesses with most wavefronts beyond the ideal, one of those that touch the same addresses.
std::vector<AccessCost> worst_accesses(const BlockAccesses& of, std::size_t most);

struct BlockBanks {
  std::vector<BankCost> warp_loads, warp_stores, warp_copies;  // [warps]; atomics are loads
  std::int64_t load_instructions = 0, store_instructions = 0, copy_instructions = 0;
  std::vector<std::int64_t> heat;  // [banks] words delivered
};
std::vector<BlockBanks> count_banks(const Chip& chip, const TraceSource& source, int threads);

}  // namespace onchip
