// SPDX-License-Identifier: Apache-2.0
// The instructions and addresses with which kernels/sparse/sparse_persistent.cu does one time step of a plan, generated
// from its layout, SM by SM:
//
//   stage   the state's 16-byte words from L2 to shared memory, as if each were there at the first poll
//   barrier
//   body    tile after tile: gather (gather_trace.hpp), fetch what the cell needs, reduce, finish (plan_trace.cpp);
//           barrier; publish; ask for the next input
//
// Where passes are pipelined (kernels/sparse/pipeline.cuh), producer warps stage and publish while others compute. Each
// pass has a body of its own: what the computing warps do for it, beside the fetching of as much of the state. In a
// whole step all passes are staged, then computed, then published, so that the addresses are there in an order that
// block barriers can express.
//
// Shared-memory addresses are exact; global ones count from the state that is read, so that the state which is written
// begins one state later. Which arithmetic stands between the loads, and how the compiler orders both, is read off
// machine code for sm_90 (list_schedule).
#pragma once

#include "model/families/layout.hpp"
#include "sim/machine/list_schedule.hpp"
#include "sim/sparse/warp_place.hpp"
#include "sim/trace/trace.hpp"

namespace onchip {

enum class Traced : std::uint8_t {
  whole,
  exchange_only,  // as the kernel does with ONCHIP_EXCHANGE_ONLY: no tiles
};

enum class Issued : std::uint8_t {
  as_compiled,  // in the order that the compiler finds fastest
  as_written,   // in the order of the kernel's source, as an instrumented kernel runs
};

// The layout of a plan that can be replayed. Throws InputError for one of another family.
SparseLayout replayable(Layout layout);

class PlanTrace : public TraceSource {
 public:
  static constexpr int kAllRegisters = 255;  // that a thread can have
  // `spare_registers`: of a thread, beside weights and working registers.
  explicit PlanTrace(SparseLayout layout, int spare_registers = kAllRegisters, Traced traced = Traced::whole,
                     Issued issued = Issued::as_compiled);

  int blocks() const override { return geometry().sms; }
  BlockTrace block(int sm) const override;
  const StepShape* step() const override { return &step_; }
  // What follows the barrier after staging: of one pass, if they are pipelined. The computing warps come first.
  BlockTrace body(int sm, int pass = 0) const override;

  int bodies() const { return geometry().pipelined_passes(); }       // of an SM and step
  std::int64_t body_words() const { return state_.all / bodies(); }  // of the state, that one body reads
  int published_words() const { return state_.outbox / bodies(); }   // of the state, that one body writes

  const SparseLayout& layout() const { return layout_; }
  const SparseGeometry& geometry() const { return layout_.geometry; }
  const StateWords& state() const { return state_; }

 private:
  template <typename Write>
  void add_warp(BlockTrace& block, Write&& write) const;
  template <typename Write>
  void add_computing_warps(BlockTrace& block, int sm, Write&& write) const;
  void add_producer_warps(BlockTrace& block, int sm) const;

  SparseLayout layout_;
  StateWords state_;
  KernelTables tables_;
  Traced traced_;
  CompilerView view_;
  StepShape step_;
};

}  // namespace onchip
