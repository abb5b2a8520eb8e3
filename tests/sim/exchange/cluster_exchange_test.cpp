// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange/cluster_exchange.hpp"

#include "tests/catch.hpp"

#include <algorithm>

using namespace onchip;

namespace {

constexpr ClusterLink kLink{200, 16};  // a word of 16 bytes per cycle

// Each SM emits `words` words at `cycle`, and has done nothing else.
std::vector<SmBody> bodies(int sms, int words, double cycle) {
  std::vector<SmBody> result(static_cast<std::size_t>(sms));
  for (int sm = 0; sm < sms; ++sm) {
    result[static_cast<std::size_t>(sm)] = {cycle, {{sm * words, words, cycle}}, {cycle}};
  }
  return result;
}

}  // namespace

TEST_CASE("one word between two SMs takes the latency and its transfers", "[fast]") {
  const auto arrivals = exchange_in_cluster(kLink, {{{0, 1, 10}}, {}}, {10, 0});
  // Sent to the other by 11, to itself by 12; a cycle through the port there.
  CHECK(arrivals.sent[0] == 12);
  CHECK(arrivals.released[0] == 12 + 200 + 1);
  CHECK(arrivals.released[1] == 11 + 200 + 1);
}

TEST_CASE("an SM receives all of the state at its port's bandwidth", "[fast]") {
  for (const int sms : {2, 4, 8, 16}) {
    for (const int words : {1, 7, 64}) {
      CAPTURE(sms, words);
      std::vector<std::vector<Emission>> emissions;
      for (int sm = 0; sm < sms; ++sm) {
        emissions.push_back({{sm * words, words, 0}});
      }
      const auto arrivals = exchange_in_cluster(kLink, emissions, std::vector<double>(emissions.size(), 0));
      const double state = sms * words;  // cycles of a port
      for (const double released : arrivals.released) {
        CHECK(released >= kLink.latency_cycles + state);
        CHECK(released <= kLink.latency_cycles + 2 * state);
      }
      CHECK(std::ranges::all_of(arrivals.sent, [&](double sent) { return sent == state; }));
    }
  }
}

TEST_CASE("everybody waits for the SM that stores last, and no SM goes on before it is ready", "[fast]") {
  const auto arrivals = exchange_in_cluster(kLink, {{{0, 1, 0}}, {{1, 1, 1000}}, {{2, 1, 0}}}, {0, 1000, 5000});
  CHECK(arrivals.released[0] > 1200);
  CHECK(arrivals.released[0] < 1210);
  CHECK(arrivals.released[1] > 1200);
  CHECK(arrivals.released[2] == 5000);
}

TEST_CASE("more latency or less bandwidth never makes a step shorter", "[fast]") {
  double before = 0;
  for (const double latency : {0.0, 100.0, 500.0}) {
    const double cycles = run_cluster_exchange({latency, 16}, bodies(8, 16, 50)).step_cycles;
    CHECK(cycles >= before);
    before = cycles;
  }
  for (const double bytes_per_cycle : {16.0, 8.0, 1.0}) {
    const double cycles = run_cluster_exchange({500, bytes_per_cycle}, bodies(8, 16, 50)).step_cycles;
    CHECK(cycles >= before);
    before = cycles;
  }
}

TEST_CASE("a steady step is a body and an exchange, and a free exchange leaves the longest body", "[fast]") {
  const auto run = run_cluster_exchange(kLink, bodies(4, 1, 300));
  CHECK(run.step_cycles >= 300 + 200 + 4);
  CHECK(run.step_cycles <= 300 + 200 + 8);
  auto uneven = bodies(4, 1, 300);
  uneven[2].cycles = 450;
  ExchangeOptions free;
  free.free = true;
  CHECK(run_cluster_exchange(kLink, uneven, free).step_cycles == 450);
}
