// SPDX-License-Identifier: Apache-2.0
#include "sim/simulate.hpp"

#include "model/error.hpp"
#include "model/parallel.hpp"
#include "model/registers.hpp"
#include "model/step_time.hpp"
#include "sim/exchange.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace onchip {
namespace {

constexpr std::uint64_t kWordBytes = 16;

// Up to two words of a thread have their address from before the first look. More are addressed anew in every look, in
// the registers that the weights leave: a comparison whose predicate guards an addition, whose carry goes into the
// upper half of the address, of which the load is made. Where in shared memory a word goes is a constant beside its
// thread's, or where the state lies in planes a comparison, for more than two a division.
ExchangeShape exchange_shape(const KernelMap& map, const Plan& plan) {
  constexpr int kMostKept = 2, kAddress = 4;
  const bool keeps = plan.loads_in_flight <= kMostKept || map.state_words <= std::int64_t{kMostKept} * plan.threads;
  const int placing = map.planes == 1 ? 0 : map.planes == 2 ? 4 : 8;
  return {map.state_words,      plan.threads, plan.loads_in_flight, plan.first_look, plan.line_words,
          keeps ? 0 : kAddress, placing};
}

// Which words of the next state each store hands out; those that empty a later state's place are none.
void add_emissions(SmBody& body, const BlockTrace& block, const SmRun& run, std::int64_t state_words, int line_words) {
  const std::uint64_t begin = kWordBytes * static_cast<std::uint64_t>(state_words);
  for (const IssueEvent& store : run.global_stores) {
    const WarpTrace& warp = block.warps[store.warp];
    for (const std::uint64_t address : warp.addresses_of(warp.instructions[store.instruction])) {
      if (address < begin || address >= 2 * begin) {
        continue;
      }
      add_emission(body, line_words, static_cast<std::int32_t>((address - begin) / kWordBytes),
                   static_cast<double>(store.cycle));
    }
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
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
  }
}

std::vector<SmBody> run_bodies(const Chip& chip, const PlanTrace& trace, const SimulationOptions& options,
                               std::vector<SmRun>& runs) {
  std::vector<SmBody> bodies(static_cast<std::size_t>(trace.blocks()));
  runs.resize(bodies.size());
  parallel_for(trace.blocks(), options.threads, [&](int sm) {
    const BlockTrace block = trace.body(sm);
    runs[sm] = run_sm(chip, {&block, 1}, options.sm);
    for (const std::int64_t end : runs[sm].warp_end) {
      bodies[sm].warp_end.push_back(static_cast<double>(end));
    }
    add_emissions(bodies[sm], block, runs[sm], trace.map().state_words, trace.layout().plan.line_words);
  });
  if (!options.skew) {
    level(bodies);
  }
  return bodies;
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

PlanTrace plan_trace(const Chip& chip, Layout layout, Traced traced) {
  if (layout.plan.exchange_warps > 0) {
    throw InputError("the simulator does not replay exchange warps: see --exchange-warps 0");
  }
  if (layout.plan.family != Family::sparse_persistent) {
    throw InputError("the simulator replays sparse_persistent plans, not those of " +
                     std::string(name(layout.plan.family)));
  }
  const int spare = registers_available(chip, layout.plan) - register_words(layout.network, layout.plan) -
                    working_registers(chip, layout.network, layout.plan);
  return PlanTrace(std::move(layout), spare, traced);
}

Simulation simulate(const Chip& chip, const PlanTrace& trace, const SimulationOptions& options) {
  const Plan& plan = trace.layout().plan;
  Simulation result;
  const std::vector<SmBody> bodies = run_bodies(chip, trace, options, result.sms);

  const ExchangeShape shape = exchange_shape(trace.map(), plan);
  ExchangeOptions exchange_options;
  exchange_options.free = !options.exchange;
  const ExchangeRun exchange = run_exchange(chip, shape, bodies, exchange_options);

  const double us_per_cycle = 1e6 / chip.clock_hz;
  result.step_us = exchange.step_cycles * us_per_cycle;
  result.polls = exchange.polls;
  for (std::size_t sm = 0; sm < bodies.size(); ++sm) {
    result.body_us.push_back(bodies[sm].cycles * us_per_cycle);
    result.wait_us.push_back((exchange.next_released[sm] - exchange.last_emitted[sm]) * us_per_cycle);
  }
  const double body = mean(result.body_us);
  const double latest = *std::max_element(exchange.last_emitted.begin(), exchange.last_emitted.end());
  const double skew = (latest - mean(exchange.last_emitted)) * us_per_cycle;
  charge_body(result, body);
  result.parts_us[static_cast<int>(StepPart::skew)] = skew;
  result.parts_us[static_cast<int>(StepPart::exchange)] = result.step_us - body - skew;
  const double exchanging = result.parts_us[static_cast<int>(StepPart::exchange)];
  const double half_width = half_interval_us(chip, exchanging, result.step_us);
  result.low_us = result.step_us - half_width;
  result.high_us = result.step_us + half_width;
  result.floor_us = predict(chip, trace.layout().network, plan).floor_us;
  return result;
}

}  // namespace onchip
