// SPDX-License-Identifier: Apache-2.0
#include "sim/dense/dense_trace.hpp"

#include "sim/machine/trace_run.hpp"
#include "sim/simulate.hpp"
#include "sim/trace/compact_trace.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/plans.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

using namespace onchip;

namespace {

// All kinds of plans that are replayed.
std::vector<DenseCase> every_case() {
  std::vector<DenseCase> cases;
  for (const DenseShape& shape : kEveryDenseKind) {
    cases.push_back(dense_case(shape));
  }
  for (const DenseShape& shape : kEveryBatchGroup) {
    if (shape.exchange != ExchangeProtocol::cluster) {
      cases.push_back(dense_case(shape));
    }
  }
  return cases;
}

DenseTrace trace_of(const DenseCase& c) {
  return DenseTrace(make_layout(c.geometry(), c.matrix));
}

template <typename Use>
void for_each_address(const TraceSource& trace, Use&& use) {
  for (int sm = 0; sm < trace.blocks(); ++sm) {
    for (const WarpTrace& warp : trace.block(sm).warps) {
      for (const Instruction& instruction : warp.instructions) {
        for (const std::uint64_t address : warp.addresses_of(instruction)) {
          use(sm, instruction, static_cast<std::int64_t>(address));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("dense plans load their tiles with the wavefronts of the layout, and store sums without conflicts",
          "[fast]") {
  const Chip chip = find_chip("h200").chip;
  for (const DenseCase& c : every_case()) {
    CAPTURE(c.text());
    const DenseTrace trace = trace_of(c);
    const auto partials = c.geometry().memory.at(DenseRegion::partials);
    const auto items = c.geometry().memory.at(DenseRegion::items);
    std::int64_t of_tiles = 0;
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      for (const AccessCost& access : count_accesses(chip, trace, sm).accesses) {
        const auto at = static_cast<std::int64_t>(access.addresses.front());
        of_tiles += at < partials ? access.cost.wavefronts : 0;
        if (at >= partials && at < items && access.operation == Operation::shared_store) {
          CHECK(access.cost.wavefronts == access.cost.ideal);
        }
      }
    }
    CHECK(of_tiles == c.plan.batch_groups * gather_wavefronts(trace.layout()).total);
  }
}

TEST_CASE("dense plans publish every word of the state once, and read what was stored", "[fast]") {
  for (const DenseCase& c : every_case()) {
    CAPTURE(c.text());
    const DenseGeometry geometry = c.geometry();
    const DenseTrace trace = trace_of(c);
    const StepShape& step = *trace.step();
    const std::int64_t state = step.word_bytes * step.state_words;
    const auto partials = geometry.memory.at(DenseRegion::partials), items = geometry.memory.at(DenseRegion::items);
    std::map<std::int64_t, int> published, polled;
    std::set<std::pair<int, std::int64_t>> stored, read;
    for_each_address(trace, [&](int sm, const Instruction& instruction, std::int64_t at) {
      if (is_shared_access(instruction.operation)) {
        CHECK(at + instruction.width <= geometry.shared_bytes());
        auto& to = instruction.operation == Operation::shared_store ? stored : read;
        for (int byte = 0; at >= partials && at < items && byte < instruction.width; byte += 4) {
          to.emplace(sm, at + byte);
        }
      } else if (instruction.operation == Operation::global_store && at < 2 * state) {
        CHECK(at >= state);
        ++published[at - state];
      } else if (instruction.operation == Operation::global_load) {
        CHECK(at + instruction.width <= state);
        polled[at] += 1;
      }
    });
    const std::size_t words = static_cast<std::size_t>(geometry.state_units) * c.network.batch / 2;
    CHECK(published.size() == words);
    CHECK(std::ranges::all_of(published, [](const auto& word) { return word.second == 1; }));
    CHECK(std::ranges::includes(stored, read));
    // Of each SM that shares a state every word, once; words of spans that reach beyond the last unit with them.
    CHECK(std::ranges::all_of(polled, [&](const auto& word) { return word.second == geometry.sms; }));
    for (const auto& [at, times] : published) {
      CHECK(polled.contains(at / 16 * 16));
    }
  }
}

TEST_CASE("a simulated dense step is the sum of its parts, and the same from its own trace", "[fast]") {
  const Chip chip = find_chip("h200").chip;
  for (const DenseCase& c : every_case()) {
    CAPTURE(c.text());
    const DenseTrace trace = trace_of(c);
    const Simulation whole = simulate(chip, trace);
    CHECK_THAT(std::accumulate(whole.parts_us.begin(), whole.parts_us.end(), 0.0),
               Catch::Matchers::WithinRel(whole.step_us, 1e-9));
    CHECK((whole.step_us > 0.2 && whole.step_us < 3));
    std::string file = compact_trace_header(trace.blocks(), trace.resources(), trace.step());
    for (int sm = 0; sm < trace.blocks(); ++sm) {
      file += encode_block(trace, sm);
    }
    CHECK(simulate(chip, *parse_compact_trace(file, "t.trace")).step_us == whole.step_us);
    SimulationOptions options;
    options.exchange = false;
    CHECK(simulate(chip, trace, options).step_us < whole.step_us);
  }
}
