// SPDX-License-Identifier: Apache-2.0
// The instructions and addresses with which kernels/dense/dense_persistent.cu does one time step of a plan, generated
// from its layout, SM by SM:
//
//   poll      the state's words of a warp's first two groups of spans, from L2 into registers: in the whole step as if
//             each were there at the first poll, in the exchange before the body
//   multiply  group after group; the next one is asked for once the one before has been looked at; tiles in shared
//             memory are loaded ahead of their products
//   combine   what the items need; the warps' sums to shared memory; barrier; a thread adds what an item needs
//   finish    the cell, the word of the next state; barrier; the input of the step after the next
//
// Warps do not wait for one another before they multiply, here for the last of their SM. Shared-memory addresses are
// exact. Words of the state are of 4 bytes, two units of a sample; global addresses count from the state that is read.
#pragma once

#include "model/dense/layout.hpp"
#include "sim/machine/list_schedule.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/trace/trace.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

class DenseTrace : public TraceSource {
 public:
  // Throws InputError for a plan whose SMs exchange the state inside a cluster.
  explicit DenseTrace(DenseLayout layout);

  int blocks() const override { return layout_.geometry.blocks; }
  BlockTrace block(int sm) const override;
  const StepShape* step() const override { return &step_; }
  // From when the warps have their first two groups.
  BlockTrace body(int sm, int pass = 0) const override;

  const DenseLayout& layout() const { return layout_; }
  // Bitmap: the byte of shared memory where a lane's words begin, [sms, warps, 32 lanes].
  const std::vector<std::uint32_t>& begins() const { return begins_; }

 private:
  BlockTrace write(int sm, bool polls) const;

  DenseLayout layout_;
  std::vector<std::uint32_t> begins_;
  StepShape step_;
};

}  // namespace onchip
