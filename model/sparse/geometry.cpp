// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/geometry.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace onchip {
namespace {

Bundle bundle_of(Storage storage, int value_bits) {
  if (storage == Storage::dense) {
    return {32 / value_bits, 1};
  }
  if (storage == Storage::packed_delta) {
    return {4, 1 + value_bits / 8};
  }
  return value_bits == 16 ? Bundle{1, 1} : value_bits == 32 ? Bundle{2, 3} : Bundle{4, 3};
}

}  // namespace

SparseGeometry::SparseGeometry(const Recurrent& of_network, const SparsePlan& plan, int columns)
    : SparsePlan(plan), network(of_network), gates(info(of_network.cell).gates) {
  const int element = info(network.precision).bytes;
  samples = network.batch;
  batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(network.batch)));
  unit_bytes = batch_padded * element;
  plane_unit_bytes = std::min(load_bytes, unit_bytes);
  planes = unit_bytes / plane_unit_bytes;
  plane_samples = batch_padded / planes;
  passes = planes / pass_planes;
  pass_samples = pass_planes * plane_samples;

  // Whole 16-byte words of every plane, and of the input whole 4-byte words.
  const int word_units = std::max(16 / plane_unit_bytes, 4 / element);
  units_per_sm = ((network.hidden + sms - 1) / sms + word_units - 1) / word_units * word_units;
  state_units = columns > 0 ? columns : sms * units_per_sm;
  blocks = sms;
  exchange_bytes = std::int64_t{state_units} * unit_bytes;
  state_stride = line_bytes(exchange_bytes, line_words);
  if (exchange == ExchangeProtocol::bulk_copy) {  // a flag of every SM and pass
    constexpr int kLineFlags = 32;
    barrier_bytes = std::int64_t{4} * passes * ((sms + kLineFlags - 1) / kLineFlags) * kLineFlags;
  }
  input_bytes = std::int64_t{state_units} * network.batch * gates * element;

  bundle = bundle_of(storage, info(network.precision).weight_bits);
  chunk_slots = storage == Storage::packed_pair && network.precision == Precision::fp32 ? 2 : 4;
  chunk_words = row_words(chunk_slots);
  chunk_bytes = 32 * 4 * chunk_words;
  start_words = storage == Storage::packed_delta ? 1 : 0;
  register_words = start_words * all_rows();
  for (int r = 0; r < all_rows(); ++r) {
    register_words += words_of(r);
  }

  // At least one zero unit in every bank; of a dense row whole chunks reach beyond the state.
  zero_units = std::max({32, 128 / plane_unit_bytes, storage == Storage::dense ? chunk_slots * lanes_per_row : 0});
  const std::int64_t reach = std::int64_t{state_units + zero_units} * plane_unit_bytes;
  index_shift = reach <= 65536 ? 0 : std::countr_zero(static_cast<unsigned>(plane_unit_bytes));

  load_phases = std::max(1, plane_unit_bytes / 4);
  spread = std::min(load_phases, lanes_per_row);
  tile_height = gates > 1 ? gates : tile_rows;
  tiles = (rows_per_group + tile_height - 1) / tile_height;
  const std::int64_t fetching = std::int64_t{pipelined_passes()} * fetching_threads();
  fetched_words = static_cast<int>((exchange_bytes / 16 + fetching - 1) / fetching);

  const std::int64_t units = units_per_sm;
  const bool carries = gates > 1;
  memory.add(SparseRegion::state, std::int64_t{state_units + zero_units} * unit_bytes);
  memory.add(SparseRegion::outbox, units * unit_bytes);
  memory.add(SparseRegion::input, 2 * whole_words(units * network.batch * gates * element));
  memory.add(SparseRegion::carry, carries ? 4 * units * batch_padded : 0);
  memory.add(SparseRegion::lengths, carries ? 4 * batch_padded : 0);
  memory.add(SparseRegion::gates, carries ? 4 * units : 0);
  memory.add(SparseRegion::bias, network.cell == Cell::gru ? 4 * units : 0);
  memory.add(SparseRegion::scales, network.precision == Precision::fp8 ? 4 * units * gates : 0);
  memory.add(SparseRegion::overflow, has_overflow() ? 4 * (all_rows() + 1) * warps() : 0);
  memory.add(SparseRegion::split_sums, std::int64_t{4} * row_splits * groups() * batch_padded);
  memory.add(SparseRegion::split_table, row_splits > 0 ? 4 * units * gates : 0);
  memory.add(SparseRegion::barriers, producer_warps > 0 ? 8 * passes : 0);
  memory.add(SparseRegion::chunks, std::int64_t{chunk_bytes} * shared_chunks);
  memory.add(SparseRegion::ring, std::int64_t{chunk_bytes} * ring_chunks * warps());
}

int SparseGeometry::thread_of(int group, int lane) const {
  const int low = lanes_per_row / spread;  // lanes of the group that are neighbours
  const int warp_groups = 32 / lanes_per_row;
  return group / warp_groups * 32 + lane / low * (32 / spread) + group % warp_groups * low + lane % low;
}

SparseGeometry::GroupLane SparseGeometry::group_lane_of(int thread) const {
  const int low = lanes_per_row / spread;
  const int warp_groups = 32 / lanes_per_row;
  const int in_warp = thread % 32;
  return {thread / 32 * warp_groups + in_warp % (32 / spread) / low, in_warp / (32 / spread) * low + in_warp % low};
}

int SparseGeometry::row_words(int row_slots) const {
  const int value_bits = info(network.precision).weight_bits;
  const int value_words = (row_slots * value_bits + 31) / 32;
  if (storage == Storage::dense) {
    return value_words;
  }
  if (storage == Storage::packed_delta) {
    return value_words + (row_slots + 3) / 4;
  }
  return value_bits == 16 ? row_slots : value_words + (row_slots + 1) / 2;
}

std::int64_t SparseGeometry::slots_of_lanes(std::int64_t length) const {
  auto needed = static_cast<double>(length);
  if (storage == Storage::packed_delta && length > 1) {
    // Distances of places at random are distributed geometrically: how many exceed the most, once, twice, ...
    const double units = state_units;
    const double beyond = std::pow(std::max(0.0, 1 - needed / units), kMostDelta);
    const double more = std::min(units / kMostDelta, needed * beyond / (1 - beyond));
    needed += std::ceil(more + 4 * std::sqrt(more * (1 + beyond)) + 1);
  }
  return static_cast<std::int64_t>(needed);
}

int SparseGeometry::row_slots(std::int64_t length) const {
  return static_cast<int>((slots_of_lanes(length) + lanes_per_row - 1) / lanes_per_row);
}

double SparseGeometry::mean_slots() const {
  return slots_total() + static_cast<double>(overflow_chunks) * chunk_slots / warps();
}

bool SparseGeometry::can_pipeline() const {
  return passes > 1 && passes <= kMostPipelined && ring_chunks == 0 &&
         (exchange == ExchangeProtocol::lamport || exchange == ExchangeProtocol::bulk_copy);
}

}  // namespace onchip
