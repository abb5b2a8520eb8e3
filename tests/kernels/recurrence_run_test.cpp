// SPDX-License-Identifier: Apache-2.0
// What a run launches, on a device that only takes notes.
#include "kernels/recurrent/recurrence_run.hpp"

#include "kernels/recurrent/program.hpp"
#include "model/families/planner.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace onchip {
namespace {

struct Notes {
  std::set<Entry> launched;
  std::size_t most_shared = 0;

  void fill(void*, int, std::size_t) {}
  void upload(void*, const void*, std::size_t) {}
  void copy(void*, const void*, std::size_t) {}
  template <typename A>
  void launch(Entry entry, int, int, std::size_t shared_bytes, bool, const A&) {
    launched.insert(entry);
    most_shared = std::max(most_shared, shared_bytes);
  }
};

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
  const Program program = make_uncompiled_program(make_layout(network, planned.plan, matrix), {});
  const ScratchPlaces scratch = scratch_places(program, 1);
  std::vector<std::byte> workspace(scratch.bytes), output(16);
  Sequences sequences;
  sequences.steps = 1;
  sequences.initial = output.data();
  sequences.output = output.data();
  sequences.final_state = output.data();
  Notes notes;
  RecurrenceRun<Notes>(notes, program, scratch, workspace.data()).enqueue(sequences);
  CAPTURE(describe(network), to_string(planned.plan));
  CHECK(notes.launched.contains(Entry::recurrence));
  CHECK(notes.launched.contains(Entry::from_state_order));
  CHECK(static_cast<double>(notes.most_shared) <= chip.smem_bytes_per_block);
}

}  // namespace
}  // namespace onchip
