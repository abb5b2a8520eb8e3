// SPDX-License-Identifier: Apache-2.0
// What a run launches.
#include "kernels/recurrent/program.hpp"
#include "model/families/planner.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace onchip {
namespace {

// Lines of four words are half empty: with what lies between them the first network's state is larger than shared
// memory.
TEST_CASE("no kernel asks for more shared memory than a block may have", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const Recurrent network = GENERATE(Recurrent{Cell::lstm, Precision::fp32, 453, 64, 1, 0.2},
                                     Recurrent{Cell::relu, Precision::fp16, 2304, 4, 1, 0.1},
                                     Recurrent{Cell::gru, Precision::bf16, 512, 16, 1, 0.1});
  Constraints constraints;
  constraints.family = SparsePlan::kName;
  PlannedNetwork planned = choose_plan(chip, network, RowProfile::uniform(network), constraints);
  REQUIRE(planned.prediction.footprint.fits);
  std::get<SparsePlan>(planned.plan).line_words = GENERATE(4, 8);
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, network.density, 1, network.precision);
  const RecurrenceProgram program =
      make_uncompiled_program(make_layout(network, planned.plan, matrix), {}, chip.architecture);
  const KernelProgram of_one_step = program.kernels_and_arrays(1);
  const std::vector<std::size_t> offsets = array_offsets(of_one_step);
  std::vector<std::byte> workspace(offsets.back()), output(16);
  std::vector<std::byte*> places;
  for (const std::size_t offset : offsets) {
    places.push_back(workspace.data() + offset);
  }
  Sequences sequences;
  sequences.steps = 1;
  sequences.initial = output.data();
  sequences.output = output.data();
  sequences.final_state = output.data();
  std::set<std::string> launched;
  std::size_t most_shared = 0;
  for (const ProgramNode& node : program.nodes(places, 1, sequences)) {
    if (node.kernel >= 0) {
      launched.insert(of_one_step.kernels[static_cast<std::size_t>(node.kernel)].entry);
      most_shared = std::max(most_shared, node.shared_bytes);
    }
  }
  CAPTURE(describe(network), to_string(planned.plan));
  CHECK(launched.contains(std::string(program.shape.kernel)));
  CHECK(launched.contains("from_state_order"));
  CHECK(static_cast<double>(most_shared) <= chip.smem_bytes_per_block);
}

}  // namespace
}  // namespace onchip
