// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace onchip {

int Plan::slots_total() const {
  return std::accumulate(slots.begin(), slots.begin() + rows_per_group, pieces * piece_slots);
}

int unit_bytes(const Network& network, const Plan& plan) {
  return plan.batch_padded * info(network.precision).bytes;
}

int plane_unit_bytes(const Network& network, const Plan& plan) {
  return std::min(plan.load_bytes, unit_bytes(network, plan));
}

int planes(const Network& network, const Plan& plan) {
  return unit_bytes(network, plan) / plane_unit_bytes(network, plan);
}

int units_per_sm(const Network& network, const Plan& plan) {
  const int units = (network.hidden + plan.sms - 1) / plan.sms;
  if (plan.family == Family::dense_persistent) {
    return (units + 1) / 2 * 2;  // two neighbours of a sample make a word
  }
  // Whole 16-byte words of every plane, and of the input whole 4-byte words.
  const int whole_words = std::max(16 / plane_unit_bytes(network, plan), 4 / info(network.precision).bytes);
  return (units + whole_words - 1) / whole_words * whole_words;
}

int state_units(const Network& network, const Plan& plan) {
  return plan.sms * units_per_sm(network, plan);
}

int zero_units(const Network& network, const Plan& plan) {
  // At least one in every bank; of a dense row whole chunks reach beyond the state.
  const int beyond = plan.storage == Storage::dense ? chunk_slots(network, plan) * plan.lanes_per_row : 0;
  return std::max({32, 128 / plane_unit_bytes(network, plan), beyond});
}

int index_shift(const Network& network, const Plan& plan) {
  const int stride = plane_unit_bytes(network, plan);
  const std::int64_t reach = static_cast<std::int64_t>(state_units(network, plan) + zero_units(network, plan)) * stride;
  return reach <= 65536 ? 0 : std::countr_zero(static_cast<unsigned>(stride));
}

std::int64_t exchange_bytes(const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {  // the samples of the batch alone
    return std::int64_t{spans(network, plan)} * kSpanUnits * team_batch(network, plan) * info(network.precision).bytes;
  }
  return static_cast<std::int64_t>(state_units(network, plan)) * unit_bytes(network, plan);
}

std::int64_t state_stride(const Network& network, const Plan& plan) {
  const std::int64_t in_line = 16 * plan.line_words;
  return plan.teams * ((exchange_bytes(network, plan) + in_line - 1) / in_line) * (16 * kLineWords);
}

std::int64_t barrier_bytes(const Network& network, const Plan& plan) {
  constexpr int kLineFlags = 32;  // 128 bytes
  const int lines = (plan.blocks() + kLineFlags - 1) / kLineFlags;
  return plan.exchange == ExchangeProtocol::bulk_copy ? std::int64_t{4} * passes(network, plan) * lines * kLineFlags
                                                      : 4;
}

int line_words_for(int words_of_sm) {
  return words_of_sm == 1 ? 1 : words_of_sm <= kLineWords / 2 ? kLineWords / 2 : kLineWords;
}

int best_line_words(const Network& network, const Plan& plan) {
  if (plan.exchange == ExchangeProtocol::cluster || plan.exchange == ExchangeProtocol::bulk_copy) {
    return kLineWords;  // it has none, or copies many at once
  }
  if (plan.family == Family::dense_persistent) {  // a span of a sample is half a line, of several SMs in any case
    return team_batch(network, plan) == 1 ? kLineWords / 2 : kLineWords;
  }
  return line_words_for(units_per_sm(network, plan) * plane_unit_bytes(network, plan) / 16);
}

int best_first_look(const Network& network, const Plan& plan, double body_cycles, double staging_cycles) {
  if (plan.exchange != ExchangeProtocol::lamport || is_library(plan.family)) {
    return 0;
  }
  constexpr int kStep = 20;  // fewer different kernels
  if (plan.family == Family::dense_persistent) {
    constexpr double kLeast = 30, kPerMiB = 40, kMost = 200;
    const double looked_at = 1.0 * plan.blocks() * static_cast<double>(exchange_bytes(network, plan)) / (1 << 20);
    return static_cast<int>(std::lround(std::min(kLeast + kPerMiB * looked_at, kMost) / kStep)) * kStep;
  }
  if (plan.exchange_warps > 0) {
    constexpr double kLeast = 40;  // to look at the clock takes nearly as long
    constexpr double kMost = 640, kOfPass = 0.25, kSooner = 40, kHidden = 70, kOfStaging = 0.75;
    const double of_pass = kOfPass * body_cycles / passes(network, plan) - kSooner;
    const double late = kOfStaging * std::max(0.0, staging_cycles - kHidden);
    const double wait = std::min(of_pass - late, kMost);
    return wait < kLeast ? 0 : static_cast<int>(wait) / kStep * kStep;
  }
  constexpr double kLeast = 100, kMost = 480, kOfBody = 0.06;
  return static_cast<int>(std::clamp(kLeast + kOfBody * body_cycles, kLeast, kMost)) / kStep * kStep;
}

std::int64_t input_bytes(const Network& network, const Plan& plan) {
  return static_cast<std::int64_t>(state_units(network, plan)) * network.batch * info(network.cell).gates *
         info(network.precision).bytes;
}

// ---- lanes ----------------------------------------------------------------------------------------------------------

int load_phases(const Network& network, const Plan& plan) {
  return std::max(1, plane_unit_bytes(network, plan) / 4);
}

int spread_over_phases(const Network& network, const Plan& plan) {
  return std::min(load_phases(network, plan), plan.lanes_per_row);
}

int thread_of(const Network& network, const Plan& plan, int group, int lane) {
  const int spread = spread_over_phases(network, plan);
  const int low = plan.lanes_per_row / spread;  // lanes of the group that are neighbours
  const int groups = 32 / plan.lanes_per_row;   // of a warp
  return group / groups * 32 + lane / low * (32 / spread) + group % groups * low + lane % low;
}

GroupLane group_lane_of(const Network& network, const Plan& plan, int thread) {
  const int spread = spread_over_phases(network, plan);
  const int low = plan.lanes_per_row / spread;
  const int groups = 32 / plan.lanes_per_row;
  const int in_warp = thread % 32;
  return {thread / 32 * groups + in_warp % (32 / spread) / low, in_warp / (32 / spread) * low + in_warp % low};
}

// ---- weights --------------------------------------------------------------------------------------------------------

Bundle bundle(const Network& network, const Plan& plan) {
  const int value_bits = info(network.precision).weight_bits;
  if (plan.storage == Storage::dense) {
    return {32 / value_bits, 1};
  }
  if (plan.storage == Storage::packed_delta) {
    return {4, 1 + value_bits / 8};
  }
  return value_bits == 16 ? Bundle{1, 1} : value_bits == 32 ? Bundle{2, 3} : Bundle{4, 3};
}

int row_words(const Network& network, const Plan& plan, int slots) {
  const int value_words = (slots * info(network.precision).weight_bits + 31) / 32;
  if (plan.storage == Storage::dense) {
    return value_words;
  }
  if (plan.storage == Storage::packed_delta) {
    return value_words + (slots + 3) / 4;
  }
  return info(network.precision).weight_bits == 16 ? slots : value_words + (slots + 1) / 2;
}

int words_of(const Network& network, const Plan& plan, int r) {
  return row_words(network, plan, plan.slots_of(r));
}

int start_words(const Plan& plan) {
  return plan.storage == Storage::packed_delta ? 1 : 0;
}

int fetched_words(const Network& network, const Plan& plan) {
  const std::int64_t words = exchange_bytes(network, plan) / 16;
  const int turns = plan.exchange_warps > 0 ? passes(network, plan) : 1;
  const int threads = turns * plan.fetching_threads();
  return static_cast<int>((words + threads - 1) / threads);
}

std::int64_t slots_of_lanes(const Network& network, const Plan& plan, std::int64_t length) {
  double slots = static_cast<double>(length);
  if (plan.storage == Storage::packed_delta && length > 1) {
    // Distances of places at random are distributed geometrically: how many exceed the most, once, twice, ...
    const double units = state_units(network, plan);
    const double beyond = std::pow(std::max(0.0, 1 - slots / units), kMostDelta);
    const double more = std::min(units / kMostDelta, slots * beyond / (1 - beyond));
    slots += std::ceil(more + 4 * std::sqrt(more * (1 + beyond)) + 1);
  }
  return static_cast<std::int64_t>(slots);
}

int row_slots(const Network& network, const Plan& plan, std::int64_t length) {
  return static_cast<int>((slots_of_lanes(network, plan, length) + plan.lanes_per_row - 1) / plan.lanes_per_row);
}

int tile_height(const Network& network, const Plan& plan) {
  const int gates = info(network.cell).gates;
  return gates > 1 ? gates : plan.tile_rows;
}

int tiles(const Network& network, const Plan& plan) {
  const int height = tile_height(network, plan);
  return (plan.rows_per_group + height - 1) / height;
}

int passes(const Network& network, const Plan& plan) {
  return planes(network, plan) / plan.pass_planes;
}

bool takes_turns(const Network& network, const Plan& plan) {
  const int turns = passes(network, plan);
  return turns > 1 && turns <= kMostTurns && plan.ring_chunks == 0 &&
         (plan.exchange == ExchangeProtocol::lamport || plan.exchange == ExchangeProtocol::bulk_copy);
}

// ---- dense persistent ----------------------------------------------------------------------------------------------

int spans(const Network& network, const Plan& plan) {
  return (state_units(network, plan) + kSpanUnits - 1) / kSpanUnits;
}

int warp_spans(const Network& network, const Plan& plan) {
  return (spans(network, plan) + plan.warps() - 1) / plan.warps();
}

int row_tiles(const Network& network, const Plan& plan) {
  return (units_per_sm(network, plan) * info(network.cell).gates + 15) / 16;
}

int team_batch(const Network& network, const Plan& plan) {
  return network.batch / plan.teams;
}

int sample_tiles(const Network& network, const Plan& plan) {
  return (team_batch(network, plan) + 7) / 8;
}

bool has_part_tile(const Network& network, const Plan& plan) {
  const int samples = team_batch(network, plan);
  return samples > 8 && samples % 8 != 0;
}

bool has_uneven_spans(const Network& network, const Plan& plan) {
  return spans(network, plan) % plan.warps() != 0;
}

int span_tiles(const Plan& plan) {
  return plan.storage == Storage::structured_2_4 ? 1 : 2;
}

int warp_tiles(const Network& network, const Plan& plan) {
  return warp_spans(network, plan) * span_tiles(plan) * row_tiles(network, plan);
}

int metadata_words(const Network& network, const Plan& plan) {
  if (plan.storage == Storage::bitmap && plan.shared_tiles > 0) {
    return (plan.shared_tiles + kTilesOfBitmap - 1) / kTilesOfBitmap + 1;
  }
  return plan.storage == Storage::structured_2_4 ? (warp_tiles(network, plan) + 1) / 2 : 0;
}

int finished_items(const Network& network, const Plan& plan) {
  const int pairs = units_per_sm(network, plan) / 2 * team_batch(network, plan);
  return info(network.cell).gates == 1 ? pairs : (pairs + 15) / 16 * 32;
}

int product_chains(const Network& network, const Plan& plan) {
  const int products = row_tiles(network, plan) * sample_tiles(network, plan);
  return products == 1 ? 4 : products == 2 ? 2 : 1;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------

int register_words(const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {
    return 4 * (warp_tiles(network, plan) - plan.shared_tiles) + metadata_words(network, plan);
  }
  int words = 0;
  for (int r = 0; r < plan.all_rows(); ++r) {
    words += start_words(plan) + words_of(network, plan, r);
  }
  return words;
}

int chunk_slots(const Network& network, const Plan& plan) {
  return plan.storage == Storage::packed_pair && network.precision == Precision::fp32 ? 2 : 4;
}

int chunk_words(const Network& network, const Plan& plan) {
  return row_words(network, plan, chunk_slots(network, plan));
}

int chunk_bytes(const Network& network, const Plan& plan) {
  return 32 * 4 * chunk_words(network, plan);
}

int row_room(const Network& network, const Plan& plan, int r) {
  return plan.slots[r] + plan.row_chunks * chunk_slots(network, plan);
}

int piece_room(const Network& network, const Plan& plan) {
  return plan.piece_slots + plan.piece_chunks * chunk_slots(network, plan);
}

double mean_slots(const Network& network, const Plan& plan) {
  return plan.slots_total() + static_cast<double>(plan.tail_chunks) * chunk_slots(network, plan) / plan.warps();
}

namespace {

// What the warps' sums of a step take, between the tensor cores and the cells (kernels/dense/combine.cuh).
std::int64_t partial_bytes(const Network& network, const Plan& plan) {
  constexpr int kGap = 4;  // rows
  return std::int64_t{4} * plan.warps() * 8 * sample_tiles(network, plan) * (16 * row_tiles(network, plan) + kGap);
}

// The states of two steps and a barrier for each (kernels/dense/cluster.cuh).
std::int64_t cluster_bytes(const Network& network, const Plan& plan) {
  return plan.exchange == ExchangeProtocol::cluster ? 2 * exchange_bytes(network, plan) + 16 : 0;
}

}  // namespace

std::int64_t state_bytes(const Network& network, const Plan& plan) {
  const auto whole_words = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
  const std::int64_t units = units_per_sm(network, plan);
  const int gates = info(network.cell).gates;
  if (plan.family == Family::dense_persistent) {
    const std::int64_t carried = network.cell == Cell::gru ? 8 : gates > 1 ? 4 : 0;  // carry, recurrent bias
    const std::int64_t input = 2 * (gates > 1 ? 8 : 4);
    return partial_bytes(network, plan) + whole_words(finished_items(network, plan) * (16 + input + carried)) +
           cluster_bytes(network, plan);
  }
  std::int64_t bytes =
      (state_units(network, plan) + zero_units(network, plan) + units) * unit_bytes(network, plan);  // and the outbox
  bytes += 2 * whole_words(units * network.batch * gates * info(network.precision).bytes);           // input
  if (gates > 1) {
    bytes += whole_words(4 * units * plan.batch_padded) + whole_words(4 * plan.batch_padded);  // carry, lengths
    bytes += whole_words(4 * units);  // where each unit's gates are
  }
  if (network.cell == Cell::gru) {
    bytes += whole_words(4 * units);  // recurrent bias
  }
  if (network.precision == Precision::fp8) {
    bytes += whole_words(4 * units * gates);  // scales
  }
  if (plan.has_tail()) {
    bytes += whole_words(4 * (plan.all_rows() + 1) * plan.warps());  // chunks of each row, and where the first is
  }
  if (plan.pieces > 0) {
    bytes += whole_words(4 * std::int64_t{plan.pieces} * plan.groups() * plan.batch_padded);  // their sums
    bytes += whole_words(4 * units * gates);                                                  // which are whose
  }
  if (plan.exchange_warps > 0) {
    bytes += whole_words(std::int64_t{8} * passes(network, plan));  // barriers
  }
  return bytes;
}

std::int64_t shared_bytes(const Network& network, const Plan& plan) {
  if (plan.family == Family::dense_persistent) {
    return state_bytes(network, plan) + (plan.storage == Storage::bitmap
                                             ? std::int64_t{kBankRowBytes} * plan.bank_words
                                             : std::int64_t{kTileBytes} * plan.shared_tiles * plan.warps());
  }
  return state_bytes(network, plan) +
         static_cast<std::int64_t>(chunk_bytes(network, plan)) * (plan.shared_chunks + plan.ring_chunks * plan.warps());
}

}  // namespace onchip
