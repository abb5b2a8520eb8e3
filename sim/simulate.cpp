// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include "model/base/parallel.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/sparse/registers.hpp"
#include "sim/dense/dense_trace.hpp"
#include "sim/exchange/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace onchip {
namespace {

ExchangeShape exchange_shape(const Chip& chip, const StepShape& step) {
  const auto whole = [](std::int64_t value) { return static_cast<int>(value); };
  ExchangeShape shape;
  shape.state_words = step.body_words();
  shape.word_bytes = whole(step.word_bytes);
  shape.threads = whole(step.fetching_threads);
  shape.loads_in_flight = whole(step.loads_in_flight);
  shape.poll_delay = whole(step.poll_delay);
  shape.line_words = whole(step.line_words);
  shape.address_instructions = whole(step.address_instructions);
  shape.placing_instructions = whole(step.placing_instructions);
  shape.polled_words = step.polled_words;
  shape.warp_words = step.warp_words;
  shape.group_words = step.group_words;
  shape.group_sms = whole(step.group_sms);
  if (step.is_bulk_copied != 0) {
    const ExchangeCycles cycles = bulk_exchange_cycles(
        chip, static_cast<double>(step.word_bytes) * static_cast<double>(shape.state_words), whole(step.threads));
    shape.bulk_cycles = cycles.latency + cycles.copying;
  }
  return shape;
}

// Where tensor cores are busy, the clock is slower.
double clock_ratio(const Chip& chip, const SmRun& run) {
  return run.issued[static_cast<int>(Operation::tensor)] > 0 ? 1 / chip.tensor_clock_share : 1;
}

// Which words of the next state each store publishes; those that empty a later state's place are none.
void add_emissions(SmBody& body, const BlockTrace& block, const SmRun& run, const StepShape& step, double slower) {
  const auto word_bytes = static_cast<std::uint64_t>(step.word_bytes);
  const std::uint64_t begin = word_bytes * static_cast<std::uint64_t>(step.state_words);
  for_each_stored(block, run, [&](std::uint64_t address, double cycle) {
    if (address >= begin && address < 2 * begin) {
      add_emission(body, static_cast<int>(step.line_words), static_cast<std::int32_t>((address - begin) / word_bytes),
                   slower * cycle);
    }
  });
}

// All SMs as long as the mean: emissions and ends move with their SM's.
void level(std::vector<SmBody>& bodies) {
  double sum = 0;
  for (const SmBody& body : bodies) {
    sum += body.cycles;
  }
  const double to = sum / static_cast<double>(bodies.size());
  for (SmBody& body : bodies) {
    const double by = to - body.cycles;
    body.cycles = to;
    for (Emission& emission : body.emissions) {
      emission.cycle += by;
    }
    for (double& end : body.warp_end) {
      end += by;
    }
    body.computing += by;
  }
}

// One of the pipelined passes of an SM: the computing warps end, one more hears of it, loads what they have computed,
// and publishes it, a word per lane at a time.
void add_pass(SmBody& body, const Chip& chip, const StepShape& step, int sm, const SmRun& run) {
  const auto threads = static_cast<int>(step.threads), fetching = static_cast<int>(step.fetching_threads);
  const auto last = *std::max_element(run.warp_end.begin(), run.warp_end.begin() + threads / kWarpLanes);
  const double computed = static_cast<double>(last);
  const double load = chip.lds_latency_cycles + 3 * chip.lds_latency_per_word_cycles;
  const std::int64_t planes = step.body_words() / step.plane_words;
  double at = computed + block_barrier_cycles(chip, threads + kWarpLanes);
  for (std::int64_t word = 0; word < planes * step.outbox_plane_words; ++word) {
    at += word % kWarpLanes == 0 ? load : 0;
    const std::int64_t to = word / step.outbox_plane_words * step.plane_words + sm * step.outbox_plane_words +
                            word % step.outbox_plane_words;
    add_emission(body, static_cast<int>(step.line_words), static_cast<std::int32_t>(to), at);
  }
  body.computing = computed + block_barrier_cycles(chip, threads);
  body.warp_end.assign(static_cast<std::size_t>(fetching / kWarpLanes),
                       computed + block_barrier_cycles(chip, threads + fetching));
}

// Of one pass, if they are pipelined.
std::vector<SmBody> run_bodies(const Chip& chip, const TraceSource& trace, const SimulationOptions& options, int pass,
                               std::vector<SmRun>& runs) {
  std::vector<SmBody> bodies(static_cast<std::size_t>(trace.blocks()));
  runs.resize(bodies.size());
  const StepShape& step = *trace.step();
  // Words of the state that bodies ask for come from either half of L2, as those that are polled.
  Chip of_bodies = chip;
  SmOptions of_sm = options.sm;
  if (step.polled_words > 0) {
    of_sm.l2_line_cycles = l2_line_cycles(chip);
    of_bodies.l2_latency_cycles = chip.exchange_round_trip_cycles;
  }
  parallel_for(trace.blocks(), options.threads, [&](int sm) {
    const BlockTrace block = trace.body(sm, pass);
    const SmRun run = run_sm(of_bodies, {&block, 1}, of_sm);
    if (step.is_pipelined != 0) {
      add_pass(bodies[sm], chip, step, sm, run);
    } else {
      const double slower = clock_ratio(chip, run);
      for (const std::int64_t end : run.warp_end) {
        bodies[sm].warp_end.push_back(slower * static_cast<double>(end));
      }
      add_emissions(bodies[sm], block, run, step, slower);
      bodies[sm].computing = bodies[sm].cycles;
    }
    runs[sm] += run;
  });
  if (!options.skew) {
    level(bodies);
  }
  return bodies;
}

// How much longer than alone a producer warp takes for what it issues: it has what the warps that compute leave, of
// the issue slots and of the load/store unit, for as much of the time as they compute.
void slow_down(ExchangeShape& shape, const Chip& chip, const std::vector<SmRun>& runs, double computing) {
  double cycles = 0, issued = 0, served = 0;
  for (const SmRun& run : runs) {
    cycles += static_cast<double>(run.cycles);
    issued += static_cast<double>(std::accumulate(run.issued.begin(), run.issued.end(), std::int64_t{0}));
    served += run.causes[static_cast<int>(Cause::shared_memory)];
  }
  constexpr double kMost = 0.9;
  const auto slowdown = [&](double busy) { return 1 / (1 - computing * std::min(kMost, busy / cycles)); };
  shape.issue_slowdown = slowdown(issued / chip.partitions);
  shape.store_slowdown = slowdown(served);
}

// The steps of all SMs, however they exchange. `busy`: cycles for which each computes in a step. Beside producer warps:
// the slower those are, the less of the time the others compute.
ExchangeRun run_steps(const Chip& chip, const StepShape& step, const std::vector<std::vector<SmBody>>& bodies,
                      const std::vector<double>& busy, const std::vector<SmRun>& runs, bool free) {
  constexpr int kRounds = 3;
  ExchangeOptions options;
  options.free = free;
  ExchangeShape shape = exchange_shape(chip, step);
  if (step.is_pipelined == 0) {
    return run_exchange(chip, shape, bodies.front(), options);
  }
  ExchangeRun run;
  for (int round = 0; round < kRounds; ++round) {
    run = run_pipelined(chip, shape, bodies, options);
    slow_down(shape, chip, runs, std::min(1.0, mean(busy) / run.step_cycles));
  }
  return run;
}

// The body's share of each cause, as if the causes of what follows the last emission were those of the whole.
void charge_body(Simulation& result, double body_us) {
  Causes causes{};
  double total = 0;
  for (const SmRun& run : result.sms) {
    for (std::size_t i = 0; i < causes.size(); ++i) {
      causes[i] += run.causes[i];
      total += run.causes[i];
    }
  }
  for (std::size_t i = 0; i < causes.size(); ++i) {
    result.parts_us[i] = total > 0 ? body_us * causes[i] / total : 0;
  }
}

}  // namespace

static_assert(std::equal(kCauseNames.begin(), kCauseNames.end(), kStepPartNames.begin()), "causes are the first parts");

StepPart Simulation::binding() const {
  return static_cast<StepPart>(std::max_element(parts_us.begin(), parts_us.end()) - parts_us.begin());
}

bool is_replayed(const RecurrentPlan& plan) {
  const auto* const dense = std::get_if<DensePlan>(&plan);
  return std::holds_alternative<SparsePlan>(plan) || (dense && dense->exchange != ExchangeProtocol::cluster);
}

std::unique_ptr<TraceSource> plan_trace(const Chip& chip, Layout layout) {
  if (auto* const dense = std::get_if<DenseLayout>(&layout)) {
    return std::make_unique<DenseTrace>(std::move(*dense));
  }
  SparseLayout sparse = replayable(std::move(layout));  // no library has a layout
  const SparseGeometry& geometry = sparse.geometry;
  const int spare = registers_available(chip, geometry) - geometry.register_words - working_registers(chip, geometry);
  return std::make_unique<PlanTrace>(std::move(sparse), spare);
}

Simulation simulate(const Chip& chip, const TraceSource& trace, const SimulationOptions& options) {
  Simulation result;
  std::vector<std::vector<SmBody>> bodies;
  std::vector<double> busy(static_cast<std::size_t>(trace.blocks()));
  for (int pass = 0; pass < trace.step()->passes; ++pass) {
    bodies.push_back(run_bodies(chip, trace, options, pass, result.sms));
    std::ranges::transform(busy, bodies.back(), busy.begin(), std::plus(), {}, &SmBody::computing);
  }
  const ExchangeRun steps = run_steps(chip, *trace.step(), bodies, busy, result.sms, !options.exchange);

  const double us_per_cycle = 1e6 / chip.clock_hz;
  result.step_us = steps.step_cycles * us_per_cycle;
  result.polls = steps.polls;
  result.body_us.resize(result.sms.size());
  const double begin = *std::min_element(steps.begun.front().begin(), steps.begun.front().end());
  for (std::size_t pass = 0; pass < bodies.size(); ++pass) {
    PassBodies& of_pass = result.passes.emplace_back();
    for (std::size_t sm = 0; sm < result.sms.size(); ++sm) {
      of_pass.begin_us.push_back((steps.begun[pass][sm] - begin) * us_per_cycle);
      of_pass.body_us.push_back(bodies[pass][sm].computing * us_per_cycle);
      result.body_us[sm] += of_pass.body_us.back();
    }
  }
  const std::vector<double>& emitted = steps.emitted.back();
  for (std::size_t sm = 0; sm < busy.size(); ++sm) {
    const double cycles = trace.step()->is_pipelined != 0 ? std::max(0.0, steps.step_cycles - busy[sm])
                                                          : steps.released.front()[sm] - emitted[sm];
    result.wait_us.push_back(cycles * us_per_cycle);
  }
  const double body = mean(result.body_us);
  const double latest = std::ranges::max(emitted);
  // An SM that is behind holds up no other that still computes another pass.
  const double waiting = std::max(0.0, result.step_us - body);
  const double skew = std::min(waiting, (latest - mean(emitted)) * us_per_cycle);
  charge_body(result, std::min(body, result.step_us));
  result.parts_us[static_cast<int>(StepPart::skew)] = skew;
  result.parts_us[static_cast<int>(StepPart::exchange)] = waiting - skew;
  const double exchanging = result.parts_us[static_cast<int>(StepPart::exchange)];
  const double half_width = half_interval_us(chip, exchanging, result.step_us);
  result.low_us = result.step_us - half_width;
  result.high_us = result.step_us + half_width;
  return result;
}

}  // namespace onchip
