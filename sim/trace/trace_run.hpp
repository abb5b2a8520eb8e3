// SPDX-License-Identifier: Apache-2.0
// What is done with any source of traces: its blocks simulated on the SMs of a chip, and its shared-memory accesses
// counted. The same for any number of threads.
#pragma once

#include "sim/machine/sm.hpp"

#include <memory>
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
};
std::vector<AccessCost> count_accesses(const Chip& chip, const TraceSource& source, int block);

struct BlockBanks {
  std::vector<BankCost> warp_loads, warp_stores, warp_copies;  // [warps]; atomics are loads
  std::int64_t load_instructions = 0, store_instructions = 0, copy_instructions = 0;
  std::vector<std::int64_t> heat;  // [banks] words delivered
};
std::vector<BlockBanks> count_banks(const Chip& chip, const TraceSource& source, int threads);

}  // namespace onchip
