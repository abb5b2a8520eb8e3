// SPDX-License-Identifier: Apache-2.0
#include "sim/exchange/cluster_exchange.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace onchip {
namespace {

constexpr double kWordBytes = 16;

// Words of one SM on their way to another.
struct Packet {
  double at;     // the receiver's port
  int from, to;  // SMs
  double bytes;
  bool operator<(const Packet& other) const {
    return std::tie(at, from, to) < std::tie(other.at, other.from, other.to);
  }
};

}  // namespace

ClusterArrivals exchange_in_cluster(const ClusterLink& link, const std::vector<std::vector<Emission>>& emissions,
                                    const std::vector<double>& ready) {
  const auto sms = static_cast<int>(emissions.size());
  ClusterArrivals result{ready, std::vector<double>(emissions.size(), 0.0)};
  std::vector<Packet> packets;
  for (int from = 0; from < sms; ++from) {
    std::vector<Emission> of_sm = emissions[static_cast<std::size_t>(from)];
    std::ranges::stable_sort(of_sm, {}, &Emission::cycle);
    double& sent = result.sent[static_cast<std::size_t>(from)];
    for (const Emission& emission : of_sm) {
      const double bytes = kWordBytes * emission.words;
      sent = std::max(sent, emission.cycle);
      for (int i = 0; i < sms; ++i) {
        // The next SM first, oneself last: no SM is everybody's first.
        sent += bytes / link.bytes_per_cycle;
        packets.push_back({sent + link.latency_cycles / 2, from, (from + 1 + i) % sms, bytes});
      }
    }
  }
  std::sort(packets.begin(), packets.end());
  std::vector<double> port_free(emissions.size(), 0.0);
  for (const Packet& packet : packets) {
    const auto to = static_cast<std::size_t>(packet.to);
    port_free[to] = std::max(port_free[to], packet.at) + packet.bytes / link.bytes_per_cycle;
    result.released[to] = std::max(result.released[to], port_free[to] + link.latency_cycles / 2);
  }
  return result;
}

ExchangeRun run_cluster_exchange(const ClusterLink& link, const std::vector<SmBody>& bodies,
                                 const ExchangeOptions& options) {
  std::vector<double> released(bodies.size(), 0.0);
  ExchangeRun run;
  double first = 0;
  for (int step = 0; step < options.warmup_steps + options.steps; ++step) {
    std::vector<std::vector<Emission>> emissions(bodies.size());
    std::vector<double> emitted(bodies.size());
    for (std::size_t sm = 0; sm < bodies.size(); ++sm) {
      emissions[sm] = bodies[sm].emissions;
      for (Emission& emission : emissions[sm]) {
        emission.cycle += released[sm];
      }
      emitted[sm] = released[sm] + bodies[sm].cycles;
    }
    std::vector<double> next(bodies.size(), *std::ranges::max_element(emitted));
    if (!options.free) {
      next = exchange_in_cluster(link, emissions, emitted).released;
    }
    if (step == options.warmup_steps) {
      first = mean(released);
      run.first_released = released;
      run.last_emitted = emitted;
      run.next_released = next;
    }
    released = std::move(next);
  }
  run.step_cycles = (mean(released) - first) / options.steps;
  return run;
}

}  // namespace onchip
