// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include "model/base/parallel.hpp"
#include "sim/machine/timeline.hpp"
#include "sim/machine/trace_run.hpp"
#include "tests/catch.hpp"
#include "tests/error_of.hpp"
#include "tests/sim/plans.hpp"

#include <numeric>
#include <stdexcept>

using namespace onchip;

namespace {

const ChipFile& h200() {
  static const ChipFile file = find_chip("h200");
  return file;
}

std::unique_ptr<TraceSource> make_trace(const Chip& chip, Cell cell = Cell::lstm, MaskKind kind = MaskKind::uniform,
                                        int producer_warps = 0) {
  const Recurrent network{cell, Precision::fp16, 320, producer_warps > 0 ? 16 : 4, 256, 0.2};
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, 0.2, 5, network.precision, kind);
  Constraints constraints;
  fix<&SparsePlan::producer_warps>(constraints, producer_warps);
  return plan_trace(chip, sparse_layout(network, sparse_plan(network, matrix, constraints), matrix));
}

}  // namespace

TEST_CASE("a step whose passes are pipelined is simulated: its parts, and what is left out", "[fast]") {
  const std::unique_ptr<TraceSource> trace = make_trace(h200().chip, Cell::lstm, MaskKind::uniform, 5);
  REQUIRE(trace->step()->passes > 1);
  const Simulation whole = simulate(h200().chip, *trace);
  CHECK_THAT(std::accumulate(whole.parts_us.begin(), whole.parts_us.end(), 0.0),
             Catch::Matchers::WithinRel(whole.step_us, 1e-9));
  SimulationOptions options;
  options.exchange = false;
  const double computing = simulate(h200().chip, *trace, options).step_us;
  CHECK(computing < 0.9 * whole.step_us);
  for (const double body : whole.body_us) {
    CHECK(body > 0.9 * computing);
    CHECK(body < 1.1 * computing);
  }
  options = {};
  options.sm.banks = false;
  CHECK(simulate(h200().chip, *trace, options).step_us < whole.step_us);
}

TEST_CASE("the parts of a step sum to it, and every part that is left out shows", "[fast]") {
  const std::unique_ptr<TraceSource> trace = make_trace(h200().chip, Cell::lstm, MaskKind::power_law);
  const Simulation whole = simulate(h200().chip, *trace);
  REQUIRE_THAT(std::accumulate(whole.parts_us.begin(), whole.parts_us.end(), 0.0),
               Catch::Matchers::WithinRel(whole.step_us, 1e-9));
  for (const double part : whole.parts_us) {
    REQUIRE(part >= 0);
  }
  REQUIRE(whole.low_us < whole.step_us);
  REQUIRE(whole.step_us < whole.high_us);
  const auto step_without = [&](auto&& change) {
    SimulationOptions options;
    change(options);
    return simulate(h200().chip, *trace, options);
  };
  REQUIRE(step_without([](auto& o) { o.exchange = false; }).step_us < 0.8 * whole.step_us);
  // The bodies: a step whose warps poll earlier, and in vain, may take longer.
  const auto body = [](const Simulation& s) { return std::accumulate(s.body_us.begin(), s.body_us.end(), 0.0); };
  REQUIRE(body(step_without([](auto& o) { o.sm.issue = false; })) < body(whole));
  REQUIRE(body(step_without([](auto& o) { o.sm.scoreboard = false; })) < body(whole));
  REQUIRE(body(step_without([](auto& o) { o.sm.banks = false; })) < body(whole));
  const Simulation level = step_without([](auto& o) { o.skew = false; });
  REQUIRE_THAT(body(level), Catch::Matchers::WithinRel(body(whole), 1e-9));
  const auto spread = [](const Simulation& s) {
    const auto [least, most] = std::minmax_element(s.body_us.begin(), s.body_us.end());
    return *most - *least;
  };
  REQUIRE(spread(whole) > 0.002);
  REQUIRE(spread(level) < 1e-9);
}

TEST_CASE("the body of a step that is longer than the instruction cache takes longer", "[fast]") {
  const auto body = [](Cell cell, const char* cache, bool fetch) {
    ChipFile file = h200();
    set_chip_key(file, cache);
    set_chip_key(file, "timing.instruction_supply=6");
    SimulationOptions options;
    options.sm.fetch = fetch;
    const Simulation s = simulate(file.chip, *make_trace(file.chip, cell), options);
    return std::accumulate(s.body_us.begin(), s.body_us.end(), 0.0);
  };
  for (const Cell cell : {Cell::relu, Cell::lstm}) {
    const double fits = body(cell, "timing.instruction_cache=1 MiB", true);
    CHECK(body(cell, "timing.instruction_cache=1 KiB", false) == fits);
    CHECK(body(cell, "timing.instruction_cache=1 KiB", true) > 1.1 * fits);
  }
}

TEST_CASE("a simulation is the same with any number of threads", "[fast]") {
  const bool is_pipelined = GENERATE(false, true);
  const auto trace = make_trace(h200().chip, Cell::gru, MaskKind::uniform, is_pipelined ? 5 : 0);
  const Simulation one = simulate(h200().chip, *trace);
  for (const int threads : {2, 3, 16}) {
    SimulationOptions options;
    options.threads = threads;
    const Simulation several = simulate(h200().chip, *trace, options);
    REQUIRE(several.step_us == one.step_us);
    REQUIRE(several.parts_us == one.parts_us);
    REQUIRE(several.body_us == one.body_us);
    REQUIRE(several.wait_us == one.wait_us);
    if (!is_pipelined) {
      const TraceRun in_one = run_trace(h200().chip, *trace, {}, 1),
                     in_several = run_trace(h200().chip, *trace, {}, threads);
      REQUIRE(std::ranges::equal(in_one.sms, in_several.sms, {}, &SmRun::warp_end, &SmRun::warp_end));
    }
  }
}

TEST_CASE("more banks, wider banks and faster wavefronts make no body slower", "[fast]") {
  const std::unique_ptr<TraceSource> trace = make_trace(h200().chip, Cell::relu);
  const auto body = [&](const char* change) {
    ChipFile file = h200();
    set_chip_key(file, change);
    const Simulation simulation = simulate(file.chip, *trace);
    return std::accumulate(simulation.body_us.begin(), simulation.body_us.end(), 0.0);
  };
  const double base = body("shared_memory.banks=32");
  REQUIRE(body("shared_memory.banks=64") < base);
  REQUIRE(body("shared_memory.bank_width=8 B") < base);
  REQUIRE(body("timing.lds_wavefront=0.5") < base);
  REQUIRE(body("timing.load_store_queue=16") <= 1.02 * base);
}

TEST_CASE("what fails in several threads is reported once, the first of all", "[fast]") {
  const auto fail = [](int i) {
    if (i % 7 == 3) {
      throw std::runtime_error(std::to_string(i));
    }
  };
  for (const int threads : {1, 4}) {
    REQUIRE(error_of<std::runtime_error>([&] { parallel_for(50, threads, fail); }) == "3");
  }
}

TEST_CASE("a timeline has every issued instruction in some span, and no span before the one it follows", "[fast]") {
  const std::unique_ptr<TraceSource> trace = make_trace(h200().chip);
  const BlockTrace block = trace->body(0);
  SmOptions options;
  options.events = true;
  const SmRun run = run_sm(h200().chip, {&block, 1}, options);
  const std::vector<TimelineSpan> spans = warp_spans(block, run, 0, 1.0);
  std::vector<double> end(block.warps.size(), 0.0);
  for (const TimelineSpan& span : spans) {
    REQUIRE(span.us > 0);
    REQUIRE(span.begin_us >= end[static_cast<std::size_t>(span.thread)]);
    end[static_cast<std::size_t>(span.thread)] = span.begin_us + span.us;
  }
  for (std::size_t w = 0; w < end.size(); ++w) {
    REQUIRE_THAT(end[w], Catch::Matchers::WithinAbs(static_cast<double>(run.warp_end[w]), 1e-9));
  }
  const std::string json = to_chrome_trace({{"a \"block\"\n"}, {"warp"}, spans});
  REQUIRE(says((json), R"("name":"a \"block\"\u000a")"));
  REQUIRE(json.ends_with("}\n]}\n"));
}
