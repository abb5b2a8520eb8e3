// SPDX-License-Identifier: Apache-2.0
#include "experiments/measurement/capture.hpp"

#include "experiments/measurement/interpreted/interpret.hpp"
#include "kernels/recurrent/recurrence.hpp"

#include <array>
#include <span>

namespace onchip {
namespace {

constexpr std::array kOperations{Operation::shared_load, Operation::shared_store, Operation::async_copy};
constexpr int kLanes = 32;

WarpTrace decode(std::span<const std::uint32_t> of_warp, const CaptureSize& size) {
  const std::uint32_t count = of_warp[1];
  if (count >= static_cast<std::uint32_t>(size.accesses)) {
    throw CudaError("a warp has more than the " + std::to_string(size.accesses) + " accesses that there is room for");
  }
  WarpTrace trace;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto access = of_warp.subspan(2 + i * std::size_t{kAccessWords}, kAccessWords);
    Instruction instruction;
    instruction.operation = kOperations.at(access[0] >> 8);
    instruction.width = static_cast<std::uint8_t>(access[0] & 0xff);
    instruction.mask = access[1];
    std::vector<std::uint64_t> addresses;
    for (int lane = 0; lane < kLanes; ++lane) {
      if (access[1] >> lane & 1) {
        addresses.push_back(access[3 + lane]);
      }
    }
    trace.add(instruction, addresses);
    trace.clocks.push_back(access[2] - of_warp[2 + 2]);  // modulo 2^32, as the clock counts
  }
  return trace;
}

std::vector<BlockTrace> decode(std::span<const std::uint32_t> record, const Layout& layout) {
  const CaptureSize size = capture_size(network_of(layout), plan_of(layout));
  std::vector<BlockTrace> blocks(static_cast<std::size_t>(state_of(layout).blocks));
  const std::size_t warps = record.size() / size.words() / blocks.size();
  for (std::size_t i = 0; i < blocks.size() * warps; ++i) {
    blocks[i / warps].warps.push_back(decode(record.subspan(i * size.words(), size.words()), size));
  }
  return blocks;
}

constexpr int kSteps = kCapturedStep + 3;  // the captured one asks for the input of the step after the next

}  // namespace

std::vector<BlockTrace> capture_step(const Layout& layout) {
  PersistentKernel kernel(layout, {}, kSteps, Work::captured);
  const Stream stream;
  Sequences sequences;
  sequences.steps = kSteps;
  kernel.enqueue(stream.get(), sequences);
  stream.synchronize();
  kernel.check_status();
  return decode(kernel.record(), layout);
}

std::vector<BlockTrace> capture_interpreted_step(const Layout& layout) {
  InterpretedKernel kernel(layout, {}, kSteps, Work::captured);
  Sequences sequences;
  sequences.steps = kSteps;
  kernel.run(sequences);
  return decode(kernel.record(), layout);
}

}  // namespace onchip
