// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/capture_difference.hpp"

#include "sim/sparse/plan_trace.hpp"
#include "tests/catch.hpp"
#include "tests/sim/plans.hpp"

#include <algorithm>
#include <utility>

using namespace onchip;

namespace {

BlockTrace generated(Issued issued) {
  const Recurrent network{Cell::gru, Precision::fp16, 96, 2, 16, 0.3};
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 1, network.precision);
  return PlanTrace(sparse_layout(network, sparse_plan(network, matrix), matrix), PlanTrace::kAllRegisters,
                   Traced::whole, issued)
      .block(1);
}

std::size_t first_access(const WarpTrace& warp) {
  std::size_t i = 0;
  while (!is_shared_access(warp.instructions[i].operation)) {
    ++i;
  }
  return i;
}

}  // namespace

TEST_CASE("a stream has no difference from itself, whatever else is in it", "[fast]") {
  const BlockTrace block = generated(Issued::as_written);
  BlockTrace accesses;
  for (const WarpTrace& warp : block.warps) {
    WarpTrace& only = accesses.warps.emplace_back();
    for (const Instruction& instruction : warp.instructions) {
      if (is_shared_access(instruction.operation) || instruction.operation == Operation::async_copy) {
        only.add(instruction, warp.addresses_of(instruction));
      }
    }
  }
  CHECK_FALSE(first_difference(block, block));
  CHECK_FALSE(first_difference(block, accesses));
}

TEST_CASE("another address, lane, width or order of accesses is a difference, and said where", "[fast]") {
  const BlockTrace block = generated(Issued::as_written);
  const std::size_t at = first_access(block.warps[0]);
  const Instruction& access = block.warps[0].instructions[at];

  BlockTrace other = block;
  other.warps[0].addresses[access.first_address + 1] += 4;
  const auto address = first_difference(block, other);
  REQUIRE(address);
  CHECK(address->find("warp 0, access 0: ") == 0);
  CHECK(address->find("active lane 1 at ") != std::string::npos);

  other = block;
  other.warps[0].instructions[at].width = 1;
  CHECK(first_difference(block, other));

  other = block;
  other.warps[0].instructions[at].operation = Operation::integer;  // an access less
  CHECK(first_difference(block, other));

  other = block;
  other.warps.pop_back();
  CHECK(first_difference(block, other));

  other = block;
  std::vector<Instruction>& instructions = other.warps[0].instructions;
  const auto next = std::find_if(instructions.begin() + static_cast<std::ptrdiff_t>(at) + 1, instructions.end(),
                                 [](const Instruction& i) { return is_shared_access(i.operation); });
  std::swap(instructions[at], *next);
  const auto order = first_difference(block, other);
  CHECK((order && order->find("captured") != std::string::npos));
}
