// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange/exchange.hpp"

#include "model/chip/chip.hpp"
#include "tests/catch.hpp"

using namespace onchip;

namespace {

const ChipFile& h200() {
  static const ChipFile file = find_chip("h200");
  return file;
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
  // there at 275. Its first poll leaves at 51 and is at its half's slice at 201; the copy that it asks for is made at
  // 277, behind the words. Those of SM 1, released 2 cycles later, come at 279. So the poll is in vain; back at 502, in
  // the SM one cycle later, looked at for 90; the next one is at the slice at 744, finds the copy stale, and has a new
  // one made at 819: complete, there at 894, back at 1044, in the SM at 1045, looked at until 1135, stored until 1139,
  // at the barrier 40 later, through it after 2 + 10.
  const Chip chip = exchange_chip();
  const ExchangeRun run = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 50)});
  REQUIRE_THAT(run.step_cycles, Catch::Matchers::WithinAbs(1191, 1e-6));
  REQUIRE_THAT(run.polls, Catch::Matchers::WithinAbs(2, 1e-9));
}

TEST_CASE("bulk copies are there so many cycles after the last SM's words, whatever the warps poll", "[fast]") {
  ExchangeShape shape{8, 32, 1};
  shape.bulk_cycles = 500;
  const auto pass = [](double first, double second) {
    std::vector<SmBody> bodies{body(0, 4, first), body(4, 4, second)};
    for (SmBody& b : bodies) {
      b.computing = b.cycles;
    }
    return bodies;
  };
  // Two passes of 100 cycles: each waits for its own copy, while the other computes.
  ExchangeRun run = run_pipelined(exchange_chip(), shape, {pass(100, 80), pass(100, 100)});
  CHECK_THAT(run.step_cycles, Catch::Matchers::WithinAbs(600, 1e-6));
  CHECK(run.polls == 0);
  // Where computing takes longer than that, nobody waits.
  run = run_pipelined(exchange_chip(), shape, {pass(1000, 1000), pass(1000, 1000)});
  CHECK_THAT(run.step_cycles, Catch::Matchers::WithinAbs(2000, 1e-6));
}

TEST_CASE("words of several rounds are polled one round after another", "[fast]") {
  // The words of the second round are there when it begins: 6 cycles to begin it, one poll, of which the third line is
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

TEST_CASE("a wait before the first poll that was not needed costs its cycles, and a pass of its loop", "[fast]") {
  // Everything is there long before the polls.
  const auto step = [](int poll_delay) {
    const ExchangeShape shape{.state_words = 8, .threads = 32, .loads_in_flight = 1, .poll_delay = poll_delay};
    SmBody long_ago = body(0, 8, 2000);
    long_ago.emissions.front().cycle = 50;
    return run_exchange(exchange_chip(), shape, {long_ago}).step_cycles;
  };
  REQUIRE_THAT(step(300) - step(200), Catch::Matchers::WithinAbs(100, 1e-6));
  REQUIRE(step(200) - step(0) > 200);
  REQUIRE(step(200) - step(0) < 250);
}

TEST_CASE("a poll that comes too early costs more than one that waits", "[fast]") {
  // Many SMs: the first poll of a line leaves a copy without its words, for which a new one has to be fetched.
  const Chip chip = h200().chip;
  const auto step = [&](int poll_delay) {
    constexpr int kSms = 128, kWordsPerSm = 4, kWarps = 16;
    std::vector<SmBody> bodies;
    for (int sm = 0; sm < kSms; ++sm) {
      bodies.push_back({80, {{kWordsPerSm * sm, kWordsPerSm, 80}}, std::vector<double>(kWarps, 60)});
    }
    return run_exchange(chip, {kSms * kWordsPerSm, 32 * kWarps, 1, poll_delay}, bodies).step_cycles;
  };
  REQUIRE(step(300) < step(0) - 100);
}

TEST_CASE("regression: the simulated microbenchmark takes about what was measured", "[fast]") {
  // cycles of microbench.csv; one round, several, few SMs.
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {19008, 132, 512, 3}), Catch::Matchers::WithinRel(1796.0, 0.25));
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {38016, 132, 256, 4}), Catch::Matchers::WithinRel(2777.0, 0.25));
  REQUIRE_THAT(simulate_exchange_bench(h200().chip, {8448, 33, 128, 5}), Catch::Matchers::WithinRel(1266.0, 0.25));
}

TEST_CASE("everybody waits for the SM that is late", "[fast]") {
  const Chip chip = exchange_chip();
  const double even = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 50)}).step_cycles;
  const ExchangeRun late = run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 2050)});
  REQUIRE(late.step_cycles > even + 1600);  // part of the wait hides behind the poll's own time
  REQUIRE(late.step_cycles < even + 2400);
  REQUIRE(late.polls > 4);  // on average: one polls again and again
  ExchangeOptions free;
  free.free = true;
  REQUIRE_THAT(run_exchange(chip, {8, 32, 1}, {body(0, 4, 50), body(4, 4, 2050)}, free).step_cycles,
               Catch::Matchers::WithinAbs(2050, 1e-6));
}

TEST_CASE("where passes are pipelined, a step waits for no exchange that is shorter than the other passes", "[fast]") {
  const Chip chip = exchange_chip();
  const auto step = [&](double computing, bool free) {
    std::vector<SmBody> pass{body(0, 4, computing), body(4, 4, computing)};
    for (SmBody& of_sm : pass) {
      of_sm.computing = computing;
      of_sm.warp_end = {computing};
    }
    ExchangeOptions options;
    options.free = free;
    return run_pipelined(chip, {8, 32, 1}, {pass, pass}, options);
  };
  CHECK_THAT(step(300, true).step_cycles, Catch::Matchers::WithinAbs(600, 1e-6));
  CHECK_THAT(step(3000, false).step_cycles, Catch::Matchers::WithinAbs(6000, 1e-6));
  // An exchange of two SMs takes 1141 cycles beside its body (above). The words of the second pass are there when the
  // warps that have fetched the first poll them.
  const ExchangeRun run = step(50, false);
  CHECK(run.step_cycles > 1141);
  CHECK(run.step_cycles < 2 * 1141);
  REQUIRE(run.begun.size() == 2);
  for (int pass = 0; pass < 2; ++pass) {
    for (int sm = 0; sm < 2; ++sm) {
      CHECK(run.emitted[pass][sm] == run.begun[pass][sm] + 50);
      CHECK(run.released[pass][sm] > run.emitted[pass][sm]);
    }
  }
  CHECK(run.begun[1][0] >= run.begun[0][0] + 50);
  CHECK(run.released[1][0] > run.released[0][0]);
  CHECK(run.polls >= 2);
}

TEST_CASE("producer warps that have less of the SM to themselves take longer", "[fast]") {
  const Chip chip = exchange_chip();
  ExchangeShape shape{8, 32, 1, 900};  // the first poll finds all words
  const std::vector<SmBody> bodies{body(0, 4, 50), body(4, 4, 50)};
  const double alone = run_exchange(chip, shape, bodies).step_cycles;
  shape.issue_slowdown = 2;
  const double issuing = run_exchange(chip, shape, bodies).step_cycles;
  CHECK_THAT(issuing, Catch::Matchers::WithinAbs(alone + kBeginsWord + 90, 1e-6));  // and the poll
  shape.store_slowdown = 2;
  CHECK_THAT(run_exchange(chip, shape, bodies).step_cycles, Catch::Matchers::WithinAbs(issuing + 4, 1e-6));
}
