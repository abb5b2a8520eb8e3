// SPDX-License-Identifier: Apache-2.0
// The instructions and addresses with which kernels/sparse/sparse_persistent.cu does one time step of a plan, generated from
// its layout, SM by SM:
//
//   stage   the state's 16-byte words from L2 to shared memory, as if each were there at the first look
//   barrier
//   body    tile after tile: gather (gather_trace.hpp), fetch what the cell needs, reduce, finish (cell_trace.hpp);
//           barrier; emit; ask for the next input
//
// Where samples take turns (kernels/sparse/pipeline.cuh), exchange warps stage and emit while others compute. Each turn has a
// body of its own: what the computing warps do for one pass, beside the fetching of as much of the state. In a whole
// step all passes are staged, then computed, then emitted, so that the addresses are there in an order that block
// barriers can express.
//
// Shared-memory addresses are exact; global ones count from the state that is read, so that the state which is written
// begins one state later. Which arithmetic stands between the loads, and how the compiler orders both, is read off
// machine code for sm_90 (list_schedule).
#pragma once

#include "model/plan/layout.hpp"
#include "sim/sparse/kernel_map.hpp"
#include "sim/machine/list_schedule.hpp"
#include "sim/trace/trace.hpp"

namespace onchip {

enum class Traced : std::uint8_t {
  whole,
  exchange_only,  // as the kernel does with ONCHIP_EXCHANGE_ONLY: no tiles
};

enum class Issued : std::uint8_t {
  as_compiled,  // in the order that the compiler finds quickest
  as_written,   // in the order of the kernel's source, as an instrumented kernel runs
};

class PlanTrace : public TraceSource {
 public:
  static constexpr int kAllRegisters = 255;  // that a thread can have
  // `spare_registers`: of a thread, beside weights and working registers.
  explicit PlanTrace(Layout layout, int spare_registers = kAllRegisters, Traced traced = Traced::whole,
                     Issued issued = Issued::as_compiled);

  int blocks() const override { return layout_.plan.sms; }
  BlockTrace block(int sm) const override;
  // What follows the barrier after staging: of one turn. The computing warps come first.
  BlockTrace body(int sm, int turn = 0) const;

  int turns() const;                // passes that are exchanged one by one; 1 without exchange warps
  std::int64_t turn_words() const;  // 16-byte words of the state that one turn reads

  const Layout& layout() const { return layout_; }
  const KernelMap& map() const { return map_; }

 private:
  template <typename Write>
  void add_warp(BlockTrace& block, Write&& write) const;
  template <typename Write>
  void add_computing_warps(BlockTrace& block, int sm, Write&& write) const;
  void add_exchange_warps(BlockTrace& block, int sm) const;

  Layout layout_;
  KernelMap map_;
  KernelTables tables_;
  Traced traced_;
  CompilerView view_;
};

}  // namespace onchip
