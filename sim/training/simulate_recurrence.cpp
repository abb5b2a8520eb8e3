// SPDX-License-Identifier: Apache-2.0
#include "sim/training/simulate_recurrence.hpp"

#include "sim/machine/sm.hpp"

#include <algorithm>
#include <cstddef>

namespace onchip {
namespace {

// Cycles at the clock that tensor cores leave; L2 keeps its own. Words come from either half of it.
Chip at_tensor_clock(Chip chip) {
  chip.l2_latency_cycles.value = chip.tensor_clock_share * chip.exchange_round_trip_cycles;
  chip.clock_hz.value *= chip.tensor_clock_share;
  return chip;
}

// A store's way to L2 is that of the load which finds it, but for half a crossing to the other half
// (sim/exchange/exchange.hpp), and for what the exchange takes longer the more SMs take part.
ExchangeTimes times_on(const Chip& chip, const RecurrencePlan& plan, const RecurrenceShape& shape) {
  const double crossing = std::max(0.0, chip.signal_cycles - 1.5 * chip.l2_latency_cycles);
  const double bytes = 4.0 * (plan.split - 1) * plan.units * shape.samples;
  return {.state = chip.tensor_clock_share * (crossing / 2 + chip.exchange_per_sm_cycles * shape.blocks),
          .sums = chip.cluster_latency_cycles + chip.cluster_per_sm_cycles * plan.split - chip.lds_latency_cycles +
                  bytes / chip.cluster_bytes_per_cycle,
          .before_barrier = chip.tensor_clock_share * chip.before_barrier_cycles,
          .fence = chip.tensor_clock_share * chip.cost[Cost::bulk_fence_signals] * chip.signal_cycles};
}

}  // namespace

RecurrencePart RecurrenceRun::binding() const {
  return static_cast<RecurrencePart>(std::ranges::max_element(parts_us) - parts_us.begin());
}

RecurrenceRun simulate_recurrence(const Chip& chip, const TrainingSize& size, const RecurrencePlan& plan,
                                  bool is_backward, const SimulationOptions& simulation) {
  constexpr int kWarmUp = 2, kLeast = 4;
  const int counted = std::max(kLeast, plan.ahead / 2);  // a fence
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const Chip of_sm = at_tensor_clock(chip);
  const RecurrenceTrace trace =
      trace_recurrence(size, plan, is_backward, kWarmUp + counted, times_on(chip, plan, shape));
  const std::array<Published, 2> published{trace.states, trace.sums};
  SmOptions options = simulation.sm;
  options.events = true;
  if (simulation.exchange) {
    options.published = published;
  }
  options.l2_line_cycles = l2_line_cycles(chip);
  const SmRun run = run_sm(of_sm, trace.warp_groups, options);

  // From when the last word of a state is published to when that of a later one is.
  std::vector<std::int64_t> ends(static_cast<std::size_t>(kWarmUp + counted) + 1);
  for (const IssueEvent& store : run.global_stores) {
    const WarpTrace& warp = trace.warp_groups[store.warp / plan.warps].warps[store.warp % plan.warps];
    const std::uint64_t address = warp.addresses_of(warp.instructions[store.instruction]).front();
    if (trace.states.has(address)) {
      std::int64_t& end = ends[static_cast<std::size_t>(step_of_state(trace, plan, shape.sample_tiles, address))];
      end = std::max(end, store.cycle);
    }
  }
  const std::int64_t begin = ends[kWarmUp], end = ends.back();
  const double us = 1e6 / of_sm.clock_hz / counted;
  RecurrenceRun result;
  result.step_us = us * static_cast<double>(end - begin);
  result.polls_in_vain = static_cast<double>(run.polls_in_vain) / (kWarmUp + counted);
  std::vector<std::int64_t> last(trace.warp_groups.size(), begin);
  for (const IssueEvent& event : run.events) {
    const auto group = static_cast<std::size_t>(event.warp / plan.warps);
    if (event.warp % plan.warps == 0 && event.cycle > begin) {
      const std::int64_t until = std::min(event.cycle, end);
      const bool after_barrier =
          event.instruction > 0 && trace.parts[group][event.instruction - 1] == RecurrencePart::barrier;
      const RecurrencePart part = after_barrier ? RecurrencePart::barrier : trace.parts[group][event.instruction];
      result.parts_us[static_cast<std::size_t>(part)] +=
          us * static_cast<double>(until - last[group]) / plan.warp_groups;
      last[group] = until;
    }
  }
  for (const std::int64_t until : last) {  // of groups that would wait for the next state
    result.parts_us[static_cast<std::size_t>(RecurrencePart::exchange)] +=
        us * static_cast<double>(end - until) / plan.warp_groups;
  }
  return result;
}

}  // namespace onchip
