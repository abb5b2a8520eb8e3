// SPDX-License-Identifier: Apache-2.0
#include "model/step_time.hpp"

#include "model/exchange_time.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

constexpr int kWarp = 32;

// ---- instructions, by pipe
// ------------------------------------------------------------------------------------------- What the compiler makes
// of gather() and reduce() in kernels/sparse_persistent.cu, read off its machine code.

struct Instructions {
  double integer = 0;     // LOP3, SHF, PRMT, SEL
  double half2 = 0;       // HFMA2
  double conversion = 0;  // HADD2.F32: half to float
  double fp32 = 0;        // FFMA, FADD
  double load = 0;        // LDS, SHFL

  friend Instructions operator+(const Instructions& a, const Instructions& b) {
    return {a.integer + b.integer, a.half2 + b.half2, a.conversion + b.conversion, a.fp32 + b.fp32, a.load + b.load};
  }
  friend Instructions operator*(double factor, const Instructions& i) {
    return {factor * i.integer, factor * i.half2, factor * i.conversion, factor * i.fp32, factor * i.load};
  }
};

Instructions per_slot(const Network& network, const Plan& plan) {
  const double batch = plan.batch_padded;
  Instructions count;
  count.load = planes(network, plan);
  const bool packed = plan.storage == Storage::packed_pair;
  if (packed && !plan.unpacked) {
    count.integer += index_shift(network, plan) > 0 ? 3 : 2;  // mask the index, scale it, add the base
  }
  if (network.precision == Precision::fp32) {
    count.fp32 += batch;
  } else if (plan.promote_every > 1) {
    if (!packed || !plan.unpacked) {
      count.integer += 1;  // the value into both halves
    }
    count.half2 += std::max(1.0, batch / 2);
  } else {
    // The state to fp32: conversions for fp16, shifts and masks for bf16; the value too unless it is kept so.
    const double conversions = batch + (packed && plan.unpacked ? 0 : 1);
    (network.precision == Precision::fp16 ? count.conversion : count.integer) += conversions;
    count.fp32 += batch;
  }
  return count;
}

// One promotion of a lane's fp16 sums to fp32.
Instructions promotion(const Network& network, const Plan& plan) {
  const double batch = plan.promote_every > 1 && network.precision == Precision::fp16 ? plan.batch_padded : 0;
  return {0, 0, batch, batch, 0};
}

// The reduction of one row: stages, one after another, in which a lane gives half of its samples away while it has more
// than one.
struct Reduction {
  int stages = 0;
  Instructions count;
};
Reduction reduction(const Plan& plan) {
  Reduction result;
  int held = plan.batch_padded;
  for (int mask = 1; mask < plan.lanes_per_row; mask *= 2) {
    const bool halving = held > 1;
    held = std::max(1, held / 2);
    result.count.load += held;
    result.count.fp32 += held;
    result.count.integer += halving ? 2.0 * held : 0;  // what to keep, what to give
    ++result.stages;
  }
  return result;
}

// Cycles of a partition's issue port and pipes for `count`: the slowest of them.
double partition_cycles(const Chip& chip, const Instructions& count) {
  const double all = count.integer + count.half2 + count.conversion + count.fp32 + count.load;
  return std::max({all, count.integer * chip.integer_issue_cycles,
                   count.half2 * chip.half2_issue_cycles + count.conversion * chip.conversion_issue_cycles,
                   count.fp32 * chip.fp32_issue_cycles});
}

// Expected largest of k standard normal variables, for the bank sets of the three access widths.
double normal_maximum(int k) {
  return k >= 32 ? 2.07 : k >= 16 ? 1.77 : 1.42;
}

// Expected largest bucket when k balls fall on k buckets: conflicts of columns at random.
double random_maximum(int k) {
  return k >= 32 ? 3.54 : k >= 16 ? 3.07 : 2.59;
}

}  // namespace

ExpectedWavefronts expected_wavefronts(const Network& network, const Plan& plan) {
  const int stride = plane_unit_bytes(network, plan);
  const int sets = 128 / std::max(4, stride);  // bank sets, and lanes per phase
  const double phases_per_slot = static_cast<double>(kWarp) / sets;
  const double copies = planes(network, plan);
  const double warps = static_cast<double>(plan.groups()) * plan.lanes_per_row / kWarp;
  ExpectedWavefronts result;
  const double mean_length = network.density * network.hidden;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const double ideal = warps * plan.slots[r] * phases_per_slot * copies;
    result.ideal += ideal;
    if (plan.storage == Storage::dense) {
      result.expected += ideal;
      continue;
    }
    // The rows that share a phase, and the phases in which their elements must go.
    const int rows = std::max(1, sets / plan.lanes_per_row);
    const double phases = plan.slots[r] * std::max(1, plan.lanes_per_row / sets);
    const double filled = std::min(1.0, mean_length * rows / (phases * sets));
    double factor = 1;
    if (plan.order == RowOrder::bank_aware) {
      // The fullest bank set of these rows needs at least as many wavefronts as it has elements.
      const double mean = mean_length * rows / sets;
      const double deviation = std::sqrt(mean * (1 - network.density));
      const double fullest = mean + normal_maximum(sets) * deviation;
      const double spread = 0.5 * deviation / phases;  // of the fullest set, over rows
      const double load = fullest / phases;
      // E[max(1, load + noise)], smooth around load = 1.
      factor =
          spread > 0 ? 1 + spread * std::log1p(std::exp(std::min(30.0, (load - 1) / spread))) : std::max(1.0, load);
    } else {
      factor = 1 + filled * (random_maximum(sets) - 1);
    }
    result.expected += ideal * factor;
  }
  return result;
}

Prediction predict(const Chip& chip, const Network& network, const Plan& plan) {
  Prediction result;
  result.footprint = footprint(chip, network, plan);
  const double us_per_cycle = 1e6 / chip.clock_hz;
  const auto part = [&](Part p) -> double& { return result.parts_us[static_cast<int>(p)]; };

  const Exchange exchange{static_cast<double>(exchange_bytes(network, plan)), plan.sms, plan.threads,
                          plan.loads_in_flight};
  const ExchangeCycles exchanging = exchange_cycles(chip, exchange);
  part(Part::exchange) = exchanging.latency * us_per_cycle;
  part(Part::staging) = exchanging.copying * us_per_cycle;

  // Row after row, all warps alike: gather, then reduce. While the gathers of a row last, the SM's load unit serves
  // wavefronts, the schedulers issue, and each warp's chain of dependent multiply-adds runs: the slowest counts.
  const double wavefronts = expected_wavefronts(network, plan).expected * chip.lds_wavefront_cycles;
  const Instructions slot = per_slot(network, plan);
  const double slots = plan.slots_total();
  const double warps_per_partition = std::ceil(plan.warps() / chip.partitions);
  const double loads = plan.warps() * slots * slot.load * chip.lds_instruction_cycles;
  double promotions = 0;  // but for each row's last, after its gathers
  for (int r = 0; r < plan.rows_per_group; ++r) {
    promotions += (plan.slots[r] - 1) / plan.promote_every;
  }
  const Instructions promote = promotion(network, plan);
  const double issue = warps_per_partition * partition_cycles(chip, slots * slot + promotions * promote);
  // Sums in half precision start anew with every promotion, so that only the fp32 sums form one chain.
  const double chain = slots / plan.promote_every * chip.arithmetic_latency_cycles +
                       (plan.promote_every > 1 ? plan.promote_every * chip.half2_latency_cycles : 0);
  const double gather = std::max(wavefronts, loads);
  // Every row but one waits once more for its first load; the exchange has the other.
  const double turnaround = (plan.rows_per_group - 1) * chip.lds_latency_cycles;
  part(Part::gather) = gather * us_per_cycle;
  part(Part::arithmetic) = (std::max({0.0, issue - gather, chain - gather}) + turnaround) * us_per_cycle;

  const Reduction reduce = reduction(plan);
  const double reducing = std::max({reduce.stages * chip.shuffle_latency_cycles,
                                    warps_per_partition * partition_cycles(chip, reduce.count + promote),
                                    plan.warps() * reduce.count.load * chip.lds_instruction_cycles});
  part(Part::reduction) = plan.rows_per_group * reducing * us_per_cycle;
  part(Part::activation) = info(network.cell).transcendentals * chip.tanh_latency_cycles * us_per_cycle;

  for (std::size_t i = 0; i < result.parts_us.size(); ++i) {
    result.step_us += result.parts_us[i];
    if (result.parts_us[i] > result.parts_us[static_cast<int>(result.binding)]) {
      result.binding = static_cast<Part>(i);
    }
  }
  // The floor: the state over as many SMs, in one round, and its gathers without a conflict or a padded slot.
  const double state = static_cast<double>(network.hidden) * network.batch * info(network.precision).bytes;
  const ExchangeCycles least = exchange_cycles(chip, {state, plan.sms, plan.threads, 1 << 20});
  const double row_bytes = plan.storage == Storage::dense ? state : network.density * state;
  const double reads = network.rows() * row_bytes / (plan.sms * chip.smem_banks * chip.smem_bank_bytes);
  result.floor_us = (least.latency + least.copying + reads) * us_per_cycle;

  // Uncertainty: of the exchange as a whole (how far its microbenchmark scatters around the formula), and of the work
  // inside the SM.
  const double exchange_us = part(Part::exchange) + part(Part::staging);
  const double half_width =
      std::hypot(exchange_us * chip.exchange_scatter, (result.step_us - exchange_us) * chip.gather_scatter);
  result.low_us = result.step_us - half_width;
  result.high_us = result.step_us + half_width;
  return result;
}

}  // namespace onchip
