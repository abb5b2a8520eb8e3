// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan_text.hpp"
#include "sim/training/simulate_recurrence.hpp"

#include "tests/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

using namespace onchip;

namespace {

struct RecurrenceCase {
  TrainingSize size;
  bool is_backward;
  RecurrencePlan plan;
  LayerRole role = {};
  int sources() const { return plan.layers > 1 ? 2 : 1; }                            // states that its warps multiply
  int values() const { return !is_backward ? 1 : size.cell == Cell::lstm ? 4 : 3; }  // of a unit, published
};

// Both cells and passes, warp groups, sub-batches, clusters, tiles in shared memory, samples and spans that leave gaps;
// layers of stacks, threads without items, items side by side.
std::vector<RecurrenceCase> every_case() {
  const auto size = [](Cell cell, int hidden, int batch) {
    return TrainingSize{.input = hidden, .hidden = hidden, .batch = batch, .steps = 8, .cell = cell};
  };
  return {{size(Cell::lstm, 128, 24), false, changed(RecurrencePlan{}, "batch_groups=2 sub_batches=1 warps=4")},
          {size(Cell::gru, 96, 26), false,
           changed(RecurrencePlan{}, "sub_batches=2 warps=4 shared_tiles=3 warp_groups=2 ahead=8")},
          {size(Cell::lstm, 256, 32), true,
           changed(RecurrencePlan{}, "sub_batches=4 warps=4 split=2 shared_tiles=5 warp_groups=2 ahead=4")},
          {size(Cell::gru, 160, 20), true,
           changed(RecurrencePlan{}, "sub_batches=1 warps=8 units=32 loads_in_flight=12 poll_delay=160")},
          {size(Cell::lstm, 96, 5), true, changed(RecurrencePlan{}, "warps=16")},
          {size(Cell::lstm, 160, 9),
           false,
           changed(RecurrencePlan{}, "warps=8 layers=3 units=24 loads_in_flight=4"),
           {.keeps = false, .is_last = false}},
          {size(Cell::gru, 160, 20),
           false,
           changed(RecurrencePlan{}, "sub_batches=2 warps=4 shared_tiles=3 warp_groups=2 layers=2 interleaved=1"),
           {.keeps = false, .is_first = false}},
          {size(Cell::lstm, 96, 16),
           false,
           changed(RecurrencePlan{}, "warps=4 units=24 loads_in_flight=4 interleaved=1"),
           {.keeps = false}}};
}

RecurrenceTrace trace_of(const RecurrenceCase& of, int steps) {
  return trace_recurrence(of.size, of.plan, of.is_backward, steps, {}, of.role);
}

template <typename Use>
void for_each_access(const RecurrenceTrace& trace, Use&& use) {
  for (const BlockTrace& block : trace.warp_groups) {
    for (const WarpTrace& warp : block.warps) {
      for (const Instruction& instruction : warp.instructions) {
        if (has_addresses(instruction.operation)) {
          for (const std::uint64_t address : warp.addresses_of(instruction)) {
            use(instruction, address);
          }
        }
      }
    }
  }
}

bool is_shared(Operation operation) {
  return operation == Operation::shared_load || operation == Operation::shared_store;
}

}  // namespace

TEST_CASE("warps of a training recurrence multiply all their tiles in every sub-batch", "[fast]") {
  constexpr int kSteps = 3;
  for (const RecurrenceCase& of : every_case()) {
    CAPTURE(fields_text(of.plan), of.size.hidden, of.is_backward);
    const RecurrenceShape shape = recurrence_shape(of.size, of.plan, of.is_backward);
    const RecurrenceTrace trace = trace_of(of, kSteps);
    REQUIRE(std::ssize(trace.warp_groups) == of.plan.warp_groups);
    for (const BlockTrace& block : trace.warp_groups) {
      REQUIRE(std::ssize(block.warps) == of.plan.warps);
      for (const WarpTrace& warp : block.warps) {
        const auto products = std::ranges::count(warp.instructions, Operation::tensor, &Instruction::operation);
        CHECK(products == kSteps * of.plan.sub_batches / of.plan.warp_groups * shape.tiles * shape.sample_tiles);
      }
    }
  }
}

TEST_CASE("an SM of a recurrence polls each word of its states once, and publishes its own once", "[fast]") {
  constexpr int kSteps = 3;
  for (const RecurrenceCase& of : every_case()) {
    CAPTURE(fields_text(of.plan), of.size.hidden, of.is_backward);
    const RecurrenceShape shape = recurrence_shape(of.size, of.plan, of.is_backward);
    const RecurrenceTrace trace = trace_of(of, kSteps);
    std::map<std::uint64_t, std::int64_t> polled, published;  // bytes, by sub-batch's state of eight samples
    std::map<std::uint64_t, int> polled_at, published_at;     // how often
    for_each_access(trace, [&](const Instruction& instruction, std::uint64_t address) {
      if (!trace.states.has(address)) {
        return;
      }
      const bool is_load = instruction.operation == Operation::global_load;
      (is_load ? polled : published)[(address - trace.states.begin) / trace.states.part_bytes] += instruction.width;
      ++(is_load ? polled_at : published_at)[address];
    });
    const auto are_all = [](const auto& times, int count) {
      return std::ranges::all_of(times, [&](const auto& one) { return one.second == count; });
    };
    CHECK(are_all(polled_at, of.sources()));
    CHECK(are_all(published_at, 1));
    // Of the first step nobody publishes; behind the last one every warp group asks for a sub-batch.
    const int parts = of.plan.sub_batches * shape.sample_tiles;
    CHECK(std::ssize(polled) == kSteps * parts + of.plan.warp_groups * shape.sample_tiles);
    CHECK(std::ssize(published) == kSteps * parts);
    CHECK(published.begin()->first == static_cast<std::uint64_t>(parts));
    for (const auto& [part, bytes] : polled) {
      const int samples = std::min(8, shape.samples - 8 * static_cast<int>(part % shape.sample_tiles));
      CHECK(bytes == std::int64_t{64} * of.sources() * shape.spans * samples);
      if (published.contains(part)) {
        CHECK(published[part] == std::int64_t{2} * of.values() * of.plan.units * samples);
      }
    }
  }
}

TEST_CASE("accesses of a training recurrence lie in the shared memory of its plan", "[fast]") {
  for (const RecurrenceCase& of : every_case()) {
    CAPTURE(fields_text(of.plan), of.size.hidden, of.is_backward);
    const RecurrenceShape shape = recurrence_shape(of.size, of.plan, of.is_backward);
    const RecurrenceTrace trace = trace_of(of, 2);
    std::int64_t outside = 0, sent = 0;
    for_each_access(trace, [&](const Instruction& instruction, std::uint64_t address) {
      if (is_shared(instruction.operation)) {
        const bool is_sum = trace.sums.has(address);
        sent += is_sum && instruction.operation == Operation::shared_store ? 1 : 0;
        outside += !is_sum && address + instruction.width > shape.shared_bytes ? 1 : 0;
      }
    });
    CHECK(outside == 0);
    CHECK(sent == std::int64_t{2} * of.plan.sub_batches * (of.plan.split - 1) * of.plan.units * shape.samples);
  }
}

TEST_CASE("the parts of a simulated recurrence are its step, and without polls in vain it is shorter", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  double saved_us = 0;
  for (const RecurrenceCase& of : every_case()) {
    CAPTURE(fields_text(of.plan), of.size.hidden, of.is_backward);
    const RecurrenceRun run = simulate_recurrence(chip, of.size, of.plan, of.is_backward, {}, of.role);
    const RecurrenceShape shape = recurrence_shape(of.size, of.plan, of.is_backward);
    CHECK(run.state_bytes == Approx(64.0 * of.sources() * shape.spans * shape.samples * of.plan.sub_batches));
    CHECK(run.published_bytes == Approx(2.0 * of.values() * of.plan.units * shape.samples * of.plan.sub_batches));
    CHECK(run.l2_bytes > run.state_bytes + run.published_bytes);
    CHECK(run.shared_wavefronts > 0);
    CHECK_THAT(std::accumulate(run.parts_us.begin(), run.parts_us.end(), 0.0),
               Catch::Matchers::WithinRel(run.step_us, 1e-9));
    CHECK((run.parts_us[static_cast<std::size_t>(RecurrencePart::split)] > 0) == (of.plan.split > 1));
    SimulationOptions free;
    free.exchange = false;
    const RecurrenceRun alone = simulate_recurrence(chip, of.size, of.plan, of.is_backward, free, of.role);
    CHECK(alone.step_us <= run.step_us);
    CHECK(alone.polls_in_vain == 0);
    saved_us += run.step_us - alone.step_us;
  }
  CHECK(saved_us > 0.1);
}

TEST_CASE("layers of a stack move the same states, the first reads its input's products and the last leaves its output",
          "[fast]") {
  const Chip chip = find_chip("h200").chip;
  const TrainingSize size{.input = 512, .hidden = 512, .batch = 4, .steps = 64};
  const RecurrencePlan plan = changed(RecurrencePlan{}, "units=16 warps=8 layers=4");
  const auto run = [&](bool is_first, bool is_last) {
    return simulate_recurrence(chip, size, plan, false, {}, {.keeps = false, .is_first = is_first, .is_last = is_last});
  };
  const RecurrenceRun first = run(true, false), between = run(false, false), last = run(false, true);
  const double items = 16 * 4, steps = 10, looks = 2;  // of the steps that are simulated, two look at the layer above
  CHECK(between.state_bytes == Approx(2 * 4 * 512 * 2));  // the own state and that of the layer below
  CHECK(first.state_bytes == between.state_bytes);
  CHECK(last.state_bytes == between.state_bytes);
  CHECK(first.l2_bytes - between.l2_bytes >= 4 * 2 * items);
  CHECK(last.l2_bytes - between.l2_bytes == Approx(2 * items - 4 * 32 * looks / steps));
  CHECK(first.shared_wavefronts == last.shared_wavefronts);
  CHECK(first.step_us == Approx(last.step_us).epsilon(0.15));
  // With the input's weights beside its own, a layer takes longer.
  CHECK(simulate_recurrence(chip, size, changed(plan, "layers=1"), false, {}, {.keeps = false}).step_us < last.step_us);
}
