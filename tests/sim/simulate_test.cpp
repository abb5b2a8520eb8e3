// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include "model/base/parallel.hpp"
#include "model/plan/planner.hpp"
#include "sim/exchange/exchange.hpp"
#include "sim/exchange/exchange_bench.hpp"
#include "sim/trace/timeline.hpp"
#include "sim/trace/trace_run.hpp"
#include "tests/catch.hpp"

#include <numeric>
#include <stdexcept>

using namespace onchip;

namespace {

const ChipFile& h200() {
  static const ChipFile file = find_chip("h200");
  return file;
}

PlanTrace make_trace(const Chip& chip, Cell cell = Cell::lstm, MaskKind kind = MaskKind::uniform,
                     int exchange_warps = 0) {
  Network network;
  network.cell = cell;
  network.hidden = 320;
  network.batch = exchange_warps > 0 ? 16 : 4;
  network.density = 0.2;
  const SparseMatrix matrix = generate_mask(network.rows(), network.hidden, 0.2, 5, network.precision, kind);
  PlanWishes wishes;
  wishes.family = Family::sparse_persistent;
  wishes.exchange_warps = exchange_warps;
  const Plan plan = choose_plan(h200().chip, network, RowProfile::from_matrix(matrix), wishes).plan;
  return plan_trace(chip, make_layout(network, plan, matrix));
}

// A chip on which an exchange can be followed by hand.
Chip exchange_chip() {
  ChipFile file = h200();
  for (const char* change : {"exchange.signal=600", "exchange.l2_latency=300", "exchange.l2_latency_spread=0",
                             "exchange.look=60", "exchange.look_per_word=30", "exchange.before_barrier=40",
                             "exchange.l2_line=2", "exchange.bytes_per_cycle_per_sm=128 B/cycle",
                             "timing.block_barrier=10", "timing.block_barrier_per_warp=2", "timing.lds_wavefront=1"}) {
    set_chip_key(file, change);
  }
  return file.chip;
}

constexpr double kBeginsWord = 6;  // cycles that a warp takes to begin a round of one word per thread

// Its words leave, and its warps have begun their first round, after so many cycles.
SmBody body(int first_word, int words, double cycles, int warps = 1) {
  const double end = cycles - kBeginsWord;
  return {cycles, {{first_word, words, cycles}}, std::vector<double>(static_cast<std::size_t>(warps), end)};
}

}  // namespace

TEST_CASE("an exchange between two SMs takes what its parts take", "[fast]") {
  // A crossing takes 600 - 1.5 * 300 = 150, and both SMs are far from the line's home. Emitted at 50, SM 0's words are
  // there at 275. Its first look leaves at 51 and is at its half's slice at 201; the copy that it asks for is made at
  // 277, behind the words. Those of SM 1, released 2 cycles later, come at 279. So the look is in vain; back at 502, in
  // the SM one cycle later, looked at for 90; the next one is at the slice at 744, finds the copy stale, and has a new
  // one made at 819: complete, there at 894, back at 1044, in the SM at 1045, looked at until 1135, stored until 1139,
  // at the barrier 40 later, through it after 2 + 10.
  const Chip chip = exchange_chip();
  const ExchangeRun run = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 50)});
  REQUIRE_THAT(run.step_cycles, Catch::Matchers::WithinAbs(1191, 1e-6));
  REQUIRE_THAT(run.polls, Catch::Matchers::WithinAbs(2, 1e-9));
}

TEST_CASE("bulk copies are there so many cycles after the last SM's words, whatever the warps look at", "[fast]") {
  ExchangeShape shape{8, 32, 1};
  shape.bulk_cycles = 500;
  const auto in_turn = [](double first, double second) {
    std::vector<SmBody> bodies{body(0, 4, first), body(4, 4, second)};
    for (SmBody& b : bodies) {
      b.computing = b.cycles;
    }
    return bodies;
  };
  // Two turns of 100 cycles: each waits for its own copy, while the other computes.
  TurnsRun run = run_turns(exchange_chip(), shape, {in_turn(100, 80), in_turn(100, 100)});
  CHECK_THAT(run.step_cycles, Catch::Matchers::WithinAbs(600, 1e-6));
  CHECK(run.polls == 0);
  // Where computing takes longer than that, nobody waits.
  run = run_turns(exchange_chip(), shape, {in_turn(1000, 1000), in_turn(1000, 1000)});
  CHECK_THAT(run.step_cycles, Catch::Matchers::WithinAbs(2000, 1e-6));
}

TEST_CASE("words of several rounds are looked for one round after another", "[fast]") {
  // The words of the second round are there when it begins: 6 cycles to begin it, one look, of which the third line is
  // the last that is at home in the other half: 3 until it is sent, 150 + 150 to the slice and back, 150 for the copy,
  // 1 into the SM; 90 to look at the words, 4 to store them.
  const Chip chip = exchange_chip();
  ExchangeShape shape{64, 32, 1};
  SmBody all{50, {}, {50}};
  for (int line = 0; line < 8; ++line) {
    all.emissions.push_back({8 * line, 8, 50});
  }
  const double one_round =
      run_exchange(chip, {32, 32, 1}, {SmBody{50, {all.emissions.begin(), all.emissions.begin() + 4}, {50}}})
          .step_cycles;
  const double two_rounds = run_exchange(chip, shape, {all}).step_cycles;
  REQUIRE_THAT(two_rounds - one_round,
               Catch::Matchers::WithinAbs(kBeginsWord + 3 + 150 + 150 + 150 + 1 + 90 + 4, 1e-6));
  shape.loads_in_flight = 2;
  REQUIRE(run_exchange(chip, shape, {all}).step_cycles < two_rounds - 300);
}

TEST_CASE("a wait before the first look that was not needed costs its cycles, and a pass of its loop", "[fast]") {
  // Everything is there long before the looks.
  const auto step = [](int first_look) {
    const ExchangeShape shape{.state_words = 8, .threads = 32, .loads_in_flight = 1, .first_look = first_look};
    SmBody long_ago = body(0, 8, 2000);
    long_ago.emissions.front().cycle = 50;
    return run_exchange(exchange_chip(), shape, {long_ago}).step_cycles;
  };
  REQUIRE_THAT(step(300) - step(200), Catch::Matchers::WithinAbs(100, 1e-6));
  REQUIRE(step(200) - step(0) > 200);
  REQUIRE(step(200) - step(0) < 250);
}

TEST_CASE("a look that comes too early costs more than one that waits", "[fast]") {
  // Many SMs: the first look at a line leaves a copy without its words, for which a new one has to be fetched.
  const Chip chip = h200().chip;
  const auto step = [&](int first_look) {
    constexpr int kSms = 128, kWordsPerSm = 4, kWarps = 16;
    std::vector<SmBody> bodies;
    for (int sm = 0; sm < kSms; ++sm) {
      bodies.push_back({80, {{kWordsPerSm * sm, kWordsPerSm, 80}}, std::vector<double>(kWarps, 60)});
    }
    return run_exchange(chip, {kSms * kWordsPerSm, 32 * kWarps, 1, first_look}, bodies).step_cycles;
  };
  REQUIRE(step(300) < step(0) - 100);
}

TEST_CASE("the simulated microbenchmark takes about what was measured", "[fast]") {
  // cycles of microbench.csv; one round, several, few SMs.
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {19008, 132, 512, 3}), Catch::Matchers::WithinRel(1796.0, 0.25));
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {38016, 132, 256, 4}), Catch::Matchers::WithinRel(2777.0, 0.25));
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {8448, 33, 128, 5}), Catch::Matchers::WithinRel(1266.0, 0.25));
}

TEST_CASE("everybody waits for the SM that is late", "[fast]") {
  const Chip chip = exchange_chip();
  const double even = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 50)}).step_cycles;
  const ExchangeRun late = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 2050)});
  REQUIRE(late.step_cycles > even + 1600);  // part of the wait hides behind the look's own time
  REQUIRE(late.step_cycles < even + 2400);
  REQUIRE(late.polls > 4);  // on average: one looks again and again
  ExchangeOptions free;
  free.free = true;
  REQUIRE_THAT(run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 2050)}, free).step_cycles,
               Catch::Matchers::WithinAbs(2050, 1e-6));
}

TEST_CASE("where samples take turns, a step waits for no exchange that is shorter than the other turns", "[fast]") {
  const Chip chip = exchange_chip();
  const auto step = [&](double computing, bool free) {
    std::vector<SmBody> turn{body(0, 4, computing), body(4, 4, computing)};
    for (SmBody& of_sm : turn) {
      of_sm.computing = computing;
      of_sm.warp_end = {computing};
    }
    ExchangeOptions options;
    options.free = free;
    return run_turns(chip, {8, 32, 1}, {turn, turn}, options);
  };
  CHECK_THAT(step(300, true).step_cycles, Catch::Matchers::WithinAbs(600, 1e-6));
  CHECK_THAT(step(3000, false).step_cycles, Catch::Matchers::WithinAbs(6000, 1e-6));
  // An exchange of two SMs takes 1141 cycles beside its body (above). The words of the second turn are there when the
  // warps that have fetched the first look for them.
  const TurnsRun run = step(50, false);
  CHECK(run.step_cycles > 1141);
  CHECK(run.step_cycles < 2 * 1141);
  REQUIRE(run.begun.size() == 2);
  for (int turn = 0; turn < 2; ++turn) {
    for (int sm = 0; sm < 2; ++sm) {
      CHECK(run.emitted[turn][sm] == run.begun[turn][sm] + 50);
      CHECK(run.released[turn][sm] > run.emitted[turn][sm]);
    }
  }
  CHECK(run.begun[1][0] >= run.begun[0][0] + 50);
  CHECK(run.released[1][0] > run.released[0][0]);
  CHECK(run.polls >= 2);
}

TEST_CASE("exchange warps that have less of the SM to themselves take longer", "[fast]") {
  const Chip chip = exchange_chip();
  ExchangeShape shape{8, 32, 1, 900};  // the first look finds all words
  const std::vector<SmBody> bodies{body(0, 4, 50), body(4, 4, 50)};
  const double alone = run_exchange(chip, shape, bodies).step_cycles;
  shape.issue_slowdown = 2;
  const double issuing = run_exchange(chip, shape, bodies).step_cycles;
  CHECK_THAT(issuing, Catch::Matchers::WithinAbs(alone + kBeginsWord + 90, 1e-6));  // and the look
  shape.store_slowdown = 2;
  CHECK_THAT(run_exchange(chip, shape, bodies).step_cycles, Catch::Matchers::WithinAbs(issuing + 4, 1e-6));
}

TEST_CASE("a step whose samples take turns is simulated: parts, threads and what is left out", "[fast]") {
  const PlanTrace trace = make_trace(h200().chip, Cell::lstm, MaskKind::uniform, 5);
  REQUIRE(trace.turns() > 1);
  const Simulation whole = simulate(h200().chip, trace);
  CHECK_THAT(std::accumulate(whole.parts_us.begin(), whole.parts_us.end(), 0.0),
             Catch::Matchers::WithinRel(whole.step_us, 1e-9));
  SimulationOptions options;
  options.threads = 3;
  CHECK(simulate(h200().chip, trace, options).step_us == whole.step_us);
  CHECK(simulate(h200().chip, trace, options).wait_us == whole.wait_us);
  options.exchange = false;
  const double computing = simulate(h200().chip, trace, options).step_us;
  CHECK(computing < 0.9 * whole.step_us);
  for (const double body : whole.body_us) {
    CHECK(body > 0.9 * computing);
    CHECK(body < 1.1 * computing);
  }
  options = {};
  options.sm.banks = false;
  CHECK(simulate(h200().chip, trace, options).step_us < whole.step_us);
}

TEST_CASE("the parts of a step sum to it, and every part that is left out shows", "[fast]") {
  const PlanTrace trace = make_trace(h200().chip, Cell::lstm, MaskKind::power_law);
  const Simulation whole = simulate(h200().chip, trace);
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
    return simulate(h200().chip, trace, options);
  };
  REQUIRE(step_without([](auto& o) { o.exchange = false; }).step_us < 0.8 * whole.step_us);
  // The bodies: a step whose warps look earlier, and in vain, may take longer.
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
    const Simulation s = simulate(file.chip, make_trace(file.chip, cell), options);
    return std::accumulate(s.body_us.begin(), s.body_us.end(), 0.0);
  };
  for (const Cell cell : {Cell::relu, Cell::lstm}) {
    const double fits = body(cell, "timing.instruction_cache=1 MiB", true);
    CHECK(body(cell, "timing.instruction_cache=1 KiB", false) == fits);
    CHECK(body(cell, "timing.instruction_cache=1 KiB", true) > 1.1 * fits);
  }
}

TEST_CASE("a simulation is the same with any number of threads", "[fast]") {
  const PlanTrace trace = make_trace(h200().chip, Cell::gru);
  const Simulation one = simulate(h200().chip, trace);
  for (const int threads : {2, 3, 16}) {
    SimulationOptions options;
    options.threads = threads;
    const Simulation several = simulate(h200().chip, trace, options);
    REQUIRE(several.step_us == one.step_us);
    REQUIRE(several.parts_us == one.parts_us);
    REQUIRE(several.body_us == one.body_us);
    REQUIRE(several.wait_us == one.wait_us);
    REQUIRE(run_trace(h200().chip, trace, {}, threads).sm_cycles == run_trace(h200().chip, trace, {}, 1).sm_cycles);
  }
}

TEST_CASE("more banks, wider banks and faster wavefronts make no body slower", "[fast]") {
  const PlanTrace trace = make_trace(h200().chip, Cell::relu);
  const auto body = [&](const char* change) {
    ChipFile file = h200();
    set_chip_key(file, change);
    const Simulation simulation = simulate(file.chip, trace);
    return std::accumulate(simulation.body_us.begin(), simulation.body_us.end(), 0.0);
  };
  const double base = body("shared_memory.banks=32");
  REQUIRE(body("shared_memory.banks=64") < base);
  REQUIRE(body("shared_memory.bank_width=8 B") < base);
  REQUIRE(body("timing.lds_wavefront=0.5") < base);
  REQUIRE(body("timing.load_store_queue=16") <= 1.02 * base);
}

TEST_CASE("what fails in several threads is reported once, the first of all", "[fast]") {
  const auto fail = [](int threads) -> std::string {
    try {
      parallel_for(50, threads, [](int i) {
        if (i % 7 == 3) {
          throw std::runtime_error(std::to_string(i));
        }
      });
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  REQUIRE(fail(1) == "3");
  REQUIRE(fail(4) == "3");
}

TEST_CASE("a timeline has every issued instruction in some span, and no span before the one it follows", "[fast]") {
  const PlanTrace trace = make_trace(h200().chip);
  const BlockTrace block = trace.body(0);
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
  REQUIRE((json).find(R"("name":"a \"block\"\u000a")") != std::string::npos);
  REQUIRE(json.ends_with("}\n]}\n"));
}
