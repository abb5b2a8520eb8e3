// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/family.hpp"
#include "model/sparse/registers.hpp"

#include <algorithm>

namespace onchip {

Footprint footprint(const Chip& chip, const SparseGeometry& geometry) {
  Footprint result;
  const auto use = [&](Resource resource) -> ResourceUse& { return result.resources[static_cast<int>(resource)]; };
  use(Resource::registers) = {static_cast<double>(geometry.register_words + working_registers(chip, geometry)),
                              static_cast<double>(registers_available(chip, geometry))};
  use(Resource::shared_memory) = {static_cast<double>(geometry.shared_bytes()), chip.smem_bytes_per_block};
  use(Resource::l2) = {static_cast<double>(geometry.sms) * geometry.streamed_chunks() * geometry.chunk_bytes,
                       chip.l2_bytes};
  use(Resource::threads) = {static_cast<double>(geometry.block_threads()), chip.max_threads_per_block};
  use(Resource::sms) = {static_cast<double>(geometry.blocks), chip.sm_count};
  if (geometry.storage == Storage::packed_pair) {
    result.indexed_units = geometry.state_units + geometry.zero_units;
  }
  conclude(result);
  return result;
}

namespace {

// Registers at most, of a warp that computes beside warps that fetch with one load in flight; the least shared memory.
SparsePlan with_most_room(const SparseGeometry& geometry) {
  SparsePlan plan = geometry;
  plan.loads_in_flight = 1;
  plan.pass_planes = geometry.planes;
  return plan;
}

// What a thread needs beside its weights.
double least_working(const Chip& chip) {
  constexpr int kLeastStaging = 4;
  return register_costs(static_cast<int>(chip.compute_capability_major))[RegisterCost::base] + kLeastStaging;
}

double words_of(const SparseGeometry& geometry, double slots) {
  return slots * geometry.bundle.words / geometry.bundle.slots;
}

}  // namespace

double least_bytes_beyond(const Chip& chip, const SparseGeometry& geometry, double least_slots) {
  const double room = std::max(0.0, registers_available(chip, with_most_room(geometry)) - least_working(chip));
  return 4 * std::max(0.0, words_of(geometry, least_slots) - room) * geometry.threads;
}

double least_bytes_beyond_of_sms(const Chip& chip, const SparseGeometry& geometry, double nonzeros, int threads) {
  // With any number of threads those are best that have as many registers as a thread can have.
  const double of_sm = chip.registers_per_sm, of_thread = chip.registers_per_thread;
  const double count = threads == 0 ? of_sm / of_thread : threads;
  const double room = count * std::max(0.0, std::min(of_thread, of_sm / count) - least_working(chip));
  return 4 * std::max(0.0, words_of(geometry, nonzeros / geometry.sms) - room);
}

double least_overload(const Chip& chip, const SparseGeometry& geometry, double state_bytes, double bytes_beyond,
                      Tier most) {
  if (most == Tier::registers) {  // of all threads together there are no more than an SM's
    return bytes_beyond > 0 ? 1 + bytes_beyond / (4 * chip.registers_per_sm) : 0;
  }
  const auto share_of_shared = [&](double bytes) { return ResourceUse{bytes, chip.smem_bytes_per_block}.share(); };
  if (most != Tier::streamed) {
    return share_of_shared(state_bytes + bytes_beyond);
  }
  const double streamed = geometry.sms * std::max(0.0, bytes_beyond - chip.smem_bytes_per_block);
  return std::max(share_of_shared(state_bytes), ResourceUse{streamed, chip.l2_bytes}.share());
}

double least_state_bytes(const SparseGeometry& geometry) {
  return static_cast<double>(SparseGeometry(geometry.network, with_most_room(geometry)).bytes_without_weights());
}

}  // namespace onchip
