// SPDX-License-Identifier: Apache-2.0
// The instructions and addresses with which kernels/sparse_persistent.cu does one time step of a plan, generated from
// its layout, SM by SM:
//
//   stage   the state's 16-byte words from L2 to shared memory, as if each were there at the first look
//   barrier
//   body    tile after tile: gather (gather_trace.hpp), fetch what the cell needs, reduce, finish (cell_trace.hpp);
//           barrier; emit; ask for the next input
//
// Shared-memory addresses are exact; global ones count from the state that is read, so that the state which is written
// begins one state later. Which arithmetic stands between the loads, and how the compiler orders both, is read off
// machine code for sm_90 (list_schedule).
#pragma once

#include "model/layout.hpp"
#include "sim/kernel_map.hpp"
#include "sim/list_schedule.hpp"
#include "sim/trace.hpp"

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
  // What follows the barrier after staging.
  BlockTrace body(int sm) const;

  const Layout& layout() const { return layout_; }
  const KernelMap& map() const { return map_; }

 private:
  BlockTrace trace(int sm, bool staging) const;

  Layout layout_;
  KernelMap map_;
  KernelTables tables_;
  Traced traced_;
  CompilerView view_;
};

}  // namespace onchip
