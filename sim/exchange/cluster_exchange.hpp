// SPDX-License-Identifier: Apache-2.0
// The exchange of a state between the SMs of one cluster: every SM stores its words into the shared memory of all of
// them, its own included, and goes on when all words of the state have come to it, which a transaction barrier counts.
//
//   send      the words of an SM leave one after another, each to all SMs in turn, through a port of so many bytes per
//   cycle arrive    half a latency later, through the port of the receiver, as wide, in the order in which they come go
//   on     half a latency after the last word of the state has come
//
// So a word that meets nobody takes a latency from the store to being used and two transfers, and an SM is as late as
// what it waits for. The SM's own words go the same way: what counts arrivals is one unit.
#pragma once

#include "sim/exchange/exchange.hpp"

#include <vector>

namespace onchip {

struct ClusterLink {
  double latency_cycles = 0;   // from storing a word to having waited for it on another SM
  double bytes_per_cycle = 1;  // that each SM sends, and receives
};

struct ClusterArrivals {
  std::vector<double> released;  // [SMs]: when each has all words
  std::vector<double> sent;      // [SMs]: when its last word has left it
};

// One exchange. `emissions` of each SM, in cycles on a common clock; every SM waits for the words of all, and none goes
// on before it begins to wait (`ready`, [SMs]).
ClusterArrivals exchange_in_cluster(const ClusterLink& link, const std::vector<std::vector<Emission>>& emissions,
                                    const std::vector<double>& ready);

// Step after step, like run_exchange(): each SM's body takes the same time in every step, from when it was released.
ExchangeRun run_cluster_exchange(const ClusterLink& link, const std::vector<SmBody>& bodies,
                                 const ExchangeOptions& options = {});

}  // namespace onchip
