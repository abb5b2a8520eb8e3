// SPDX-License-Identifier: Apache-2.0
#include "model/plan/instructions.hpp"

#include <algorithm>
#include <cmath>

namespace onchip {
namespace {

double plane_samples(const Network& network, const Plan& plan) {
  return static_cast<double>(plan.batch_padded) / planes(network, plan);
}

double loads_in_registers(const Network& network, const Plan& plan) {
  return static_cast<double>(plan.slots_total()) / rows_per_load(network, plan);
}

// What the loops over a row's tail unroll: chunks at once, half as many, ..., one, and one that is streamed.
double unrolled_slots_of_row(const Network& network, const Plan& plan) {
  const double chunks = 2 * plan.chunks_in_flight - 1 + (plan.ring_chunks > 0 ? 1 : 0);
  return chunks * chunk_slots(network, plan);
}
double unrolled_tail_slots(const Network& network, const Plan& plan) {
  return plan.rows_with_tail() * unrolled_slots_of_row(network, plan);
}

double sparse_step_instructions(const Network& network, const Plan& plan) {
  // Fitted to machine code: what a lane does for one of its outputs, a pass over a tile, a 16-byte word that a thread
  // polls, the tail of a row and its streamed part, and the rest.
  constexpr double kOutput = 17, kGatedOutput = 50, kPass = 20, kWord = 12, kTail = 72, kStreamed = 55, kRest = 50;
  constexpr double kPiecesOfOutput = 20;
  const double slot = per_slot(network, plan).all(), load = per_load(network, plan).all();
  double promotions = 0;  // of a plane
  for (int r = 0; r < plan.all_rows(); ++r) {
    promotions += std::ceil(static_cast<double>(plan.slots_of(r)) / plan.promote_every);
  }
  const double in_registers = plan.slots_total() * slot + loads_in_registers(network, plan) * load +
                              promotions * promotion(network, plan).all();
  const double passes = passes_over_tiles(network, plan);
  const double output = info(network.cell).gates > 1 ? kGatedOutput : kOutput;
  const double finish =
      reduction(network, plan, plan.tile_rows).count.all() + output * lane_outputs(network, plan) + kPass;
  const double rows = static_cast<double>(plan.rows_with_tail()) * planes(network, plan) / plan.pass_planes;
  const double tails = rows * (kTail + (plan.ring_chunks > 0 ? kStreamed : 0));
  double pieces = 0;  // beside their slots: reduced, stored, and added to the outputs
  if (plan.pieces > 0) {
    pieces = planes(network, plan) / plan.pass_planes * (reduction(network, plan, plan.pieces).count.all() + kPass) +
             passes * lane_outputs(network, plan) * kPiecesOfOutput;
  }
  const bool fetches = plan.exchange_warps == 0;  // else other warps do
  const double words = fetches ? std::ceil(static_cast<double>(exchange_bytes(network, plan)) / 16 / plan.threads) : 0;
  return planes(network, plan) * (in_registers + unrolled_tail_slots(network, plan) * (slot + load)) + passes * finish +
         tails + pieces + kWord * words + kRest;
}

double dense_step_instructions(const Network& network, const Plan& plan) {
  // Fitted to machine code: of a product, a 16-byte word of the state, a tile of sums, and of the rest.
  constexpr double kProduct = 1.2, kWord = 15, kSums = 13, kRest = 150;
  const double samples = sample_tiles(network, plan);
  const double products = warp_tiles(network, plan) * samples;
  const double words = warp_spans(network, plan) * samples;
  const double sums = row_tiles(network, plan) * samples;
  return kProduct * products + plan.shared_tiles * per_shared_tile(plan).all() + kWord * words + kSums * sums + kRest;
}

}  // namespace

bool sums_in_half(const Network& network, const Plan& plan) {
  return state_type(network.precision) == Precision::fp16 && plan.promote_every > 1;
}

Instructions per_slot(const Network& network, const Plan& plan) {
  Instructions count;
  if (plan.storage == Storage::packed_pair) {
    count.integer += index_shift(network, plan) > 0 ? 2 : 1;  // mask the index, scale it
  } else if (plan.storage == Storage::packed_delta) {
    count.integer += 2;  // take the byte with its sign, scale and add it
  }
  if (network.precision == Precision::fp8) {
    count.integer += 1.5;  // two shifts and a mask for two values
  }
  return count + per_product(network, plan);
}

Instructions per_product(const Network& network, const Plan& plan) {
  const double samples = plane_samples(network, plan);
  Instructions count;
  if (network.precision == Precision::fp32) {
    count.fp32 += samples;
  } else if (sums_in_half(network, plan)) {
    count.half2 += std::max(1.0, samples / 2);
  } else {
    // The value to fp32: a conversion for fp16, a shift or a mask for bf16.
    (network.precision == Precision::bf16 ? count.integer : count.conversion) += 1;
    count.fp32 += samples;
  }
  return count;
}

Instructions per_load(const Network& network, const Plan& plan) {
  Instructions count{.load = 1};
  if (network.precision != Precision::fp32 && !sums_in_half(network, plan)) {
    (network.precision == Precision::bf16 ? count.integer : count.conversion) += plane_samples(network, plan);
  }
  return count;
}

int rows_per_load(const Network& network, const Plan& plan) {
  const bool shares = plan.storage == Storage::dense && !plan.has_tail();
  return shares ? std::min(tile_height(network, plan), plan.rows_per_group) : 1;
}

double state_loads(const Network& network, const Plan& plan) {
  return loads_in_registers(network, plan) + mean_slots(network, plan) - plan.slots_total();
}

Instructions promotion(const Network& network, const Plan& plan) {
  const double samples = sums_in_half(network, plan) ? plane_samples(network, plan) : 0;
  return {0, 0, samples, samples, 0};
}

Reduction reduction(const Network& network, const Plan& plan, int rows) {
  Reduction result;
  double held = rows * plan.pass_planes * plane_samples(network, plan);
  for (int mask = 1; mask < plan.lanes_per_row; mask *= 2) {
    const bool halving = held > 1;
    held = std::max(1.0, held / 2);
    result.count.load += held;
    result.count.fp32 += held;
    result.count.integer += halving ? 2.0 * held : 0;  // what to keep, what to give
    ++result.stages;
  }
  return result;
}

Instructions per_shared_tile(const Plan& plan) {
  if (plan.storage != Storage::bitmap) {
    return {.load = 1};
  }
  // Of each word a LOP3, which tells whether it is there, a LEA, for the next one's address, and a LDS; and a CS2R,
  // which makes two of them zero.
  constexpr double kWords = 4;
  return {.integer = 2 * kWords, .fp32 = kWords / 2, .load = kWords};
}

double passes_over_tiles(const Network& network, const Plan& plan) {
  return static_cast<double>(tiles(network, plan)) * planes(network, plan) / plan.pass_planes;
}

double lane_outputs(const Network& network, const Plan& plan) {
  return std::max(1.0, plan.tile_rows * plan.pass_planes * plane_samples(network, plan) / plan.lanes_per_row);
}

double step_instructions(const Network& network, const Plan& plan) {
  return plan.family == Family::dense_persistent ? dense_step_instructions(network, plan)
                                                 : sparse_step_instructions(network, plan);
}

double cached_instructions(const Network& network, const Plan& plan) {
  constexpr double kExchangeLoops = 300;  // about, in machine code for sm_90
  return step_instructions(network, plan) + (plan.exchange_warps > 0 ? kExchangeLoops : 0);
}

double tail_loop_instructions(const Network& network, const Plan& plan) {
  const double of_slot = per_slot(network, plan).all() + per_load(network, plan).all();
  return plan.has_tail() ? unrolled_slots_of_row(network, plan) * plan.pass_planes * of_slot : 0;
}

double instruction_supply_cycles(const Chip& chip, double loop_instructions) {
  const double bytes = kInstructionBytes * loop_instructions;
  if (bytes <= chip.instruction_cache_bytes) {
    return 0;
  }
  return bytes <= chip.sm_instruction_cache_bytes ? chip.instruction_supply_cycles : chip.sm_instruction_supply_cycles;
}

}  // namespace onchip
