// SPDX-License-Identifier: Apache-2.0
#include "model/training/sparse_recurrence.hpp"

#include "model/base/error.hpp"
#include "model/plan/plan_text.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/sparse/registers.hpp"
#include "model/sparse/row_assignment.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <optional>
#include <vector>

namespace onchip {
namespace {

constexpr std::array kSparseRecurrenceFields{
    number<&SparseRecurrencePlan::samples>("samples", 1, 4096),
    number<&SparseRecurrencePlan::split>("split", 1, 4).power_of_two(),
    number<&SparseRecurrencePlan::lanes>("lanes", 0, 32).power_of_two(),
    number<&SparseRecurrencePlan::load_bytes>("load_bytes", 2, kWidestLoad).power_of_two(),
    number<&SparseRecurrencePlan::buffers>("buffers", 0, 4096),
    number<&SparseRecurrencePlan::loads_in_flight>("loads_in_flight", 1, 64),
    number<&SparseRecurrencePlan::poll_delay>("poll_delay", 0, 100'000),
    number<&SparseRecurrencePlan::ahead>("ahead", 4, 64).power_of_two(),
    number<&SparseRecurrencePlan::register_words>("register_words", 0, 255)};

constexpr int kUnitGates = 4, kThreads = kSparseTrainingThreads, kSpareChunks = 8;

constexpr int divided_up(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

// Slots for the longest rows in registers, as far as they have room, and chunks for the rest.
std::optional<SparseGeometry> with_slots(const Recurrent& network, SparsePlan plan, int columns,
                                         const AssignedRows::Lengths& lengths, int most_words) {
  const int groups = plan.groups();
  const SparseGeometry empty(network, plan, columns);
  for (int r = 0; r < plan.rows_per_group; ++r) {
    for (const std::vector<int>& of_block : lengths) {
      plan.slots[r] = std::max(plan.slots[r], empty.row_slots(of_block[static_cast<std::size_t>(r) * groups]));
    }
  }
  while (SparseGeometry(network, plan, columns).register_words > most_words) {
    int& most = *std::ranges::max_element(plan.slots);
    if (most == 0) {
      return std::nullopt;
    }
    most = (most - 1) / 4 * 4;
  }
  SparseGeometry geometry(network, plan, columns);
  const int groups_per_warp = groups / plan.warps();
  for (const std::vector<int>& of_block : lengths) {
    std::vector<int> longest(static_cast<std::size_t>(plan.rows_per_group) * plan.warps(), 0);
    for (int i = 0; i < std::ssize(of_block); ++i) {
      const BlockPlace place = block_place(i, static_cast<int>(of_block.size()), groups);
      int& of_warp = longest[static_cast<std::size_t>(place.r) * plan.warps() + place.group / groups_per_warp];
      of_warp = std::max(of_warp, of_block[static_cast<std::size_t>(i)]);
    }
    int chunks = 0;
    for (std::size_t i = 0; i < longest.size(); ++i) {
      chunks += chunks_needed(geometry, static_cast<int>(i) / plan.warps(), longest[i]);
    }
    plan.shared_chunks = std::max(plan.shared_chunks, chunks);
  }
  // There is always some room: distances that are too far take slots that nobody knows beforehand.
  plan.shared_chunks += plan.storage == Storage::packed_delta ? kSpareChunks : 0;
  plan.overflow_chunks = plan.longest_overflow = plan.shared_chunks;
  return SparseGeometry(network, plan, columns);
}

// What lies in shared memory in the order of sparse_recurrence.cu.
std::size_t shared_bytes_of(const SparseRecurrence& recurrence) {
  const SparseGeometry& geometry = recurrence.geometry;
  const auto of = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
  const int rows = geometry.network.hidden, samples = recurrence.plan.samples, split = recurrence.plan.split;
  const bool is_backward = geometry.state_units != recurrence.units * recurrence.blocks / split;
  const std::size_t outbox = of(std::int64_t{recurrence.units} * (is_backward ? kUnitGates : 1) * geometry.unit_bytes);
  const std::size_t partials = of(std::int64_t{4} * ((rows + 3) / 4 * 4 + 4) * samples);
  const int items =
      divided_up(std::int64_t{recurrence.units} * samples, kThreads / recurrence.units * recurrence.units);
  const std::size_t finished = of(std::int64_t{4} * items * kThreads);
  const std::size_t received = split > 1 ? 2 * split * finished : 0;
  const std::size_t table = of(std::int64_t{4} * geometry.rows_per_group * geometry.groups());
  const std::size_t overflow =
      geometry.has_overflow() ? of(std::int64_t{4} * (geometry.rows_per_group + 1) * geometry.warps()) : 0;
  const std::size_t before = recurrence.state_bytes() + outbox + partials + finished + received + 16 + table + overflow;
  return (before + 15) / 16 * 16 + of(std::int64_t{geometry.chunk_bytes} * geometry.shared_chunks);
}

}  // namespace

const AssignedRows::Lengths& AssignedRows::lengths(int units, int blocks, int split) {
  const auto [found, is_new] = by_shape_.try_emplace({units, blocks, split});
  if (!is_new) {
    return found->second;
  }
  const int rows = is_backward_ ? units * split : units * kUnitGates;
  Lengths& all = found->second;
  all.assign(static_cast<std::size_t>(blocks), std::vector<int>(static_cast<std::size_t>(rows)));
  if (is_backward_) {
    const int columns = units * blocks / split * kUnitGates;  // of an SM
    const int hidden = size_.hidden;
    std::vector<int> counts(static_cast<std::size_t>(split) * hidden);  // of each share of the columns
    for (int row = 0; row < w_hh_.rows; ++row) {
      int* const of_share =
          counts.data() + static_cast<std::ptrdiff_t>(row % hidden * kUnitGates + row / hidden) / columns * hidden;
      for (std::int64_t e = w_hh_.row_begin[row]; e < w_hh_.row_begin[row + 1]; ++e) {
        ++of_share[w_hh_.column[e]];
      }
    }
    for (int unit = 0; unit < hidden; ++unit) {
      for (int share = 0; share < split; ++share) {
        all[static_cast<std::size_t>(unit / rows * split + share)][static_cast<std::size_t>(unit % rows)] =
            counts[static_cast<std::size_t>(share) * hidden + unit];
      }
    }
  } else {
    for (int row = 0; row < w_hh_.rows; ++row) {
      const int gate = row / size_.hidden, unit = row % size_.hidden;
      all[static_cast<std::size_t>(unit / units)][static_cast<std::size_t>(unit % units * kUnitGates + gate)] =
          static_cast<int>(w_hh_.row_begin[row + 1] - w_hh_.row_begin[row]);
    }
  }
  for (std::vector<int>& of_block : all) {
    std::ranges::sort(of_block, std::greater());
  }
  return all;
}

std::span<const Field<SparseRecurrencePlan>> fields(const SparseRecurrencePlan&) {
  return kSparseRecurrenceFields;
}

Found<SparseRecurrence> sparse_recurrence(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh,
                                          const SparseRecurrencePlan& plan, bool is_backward, int sms,
                                          std::size_t shared_bytes) {
  AssignedRows rows(size, w_hh, is_backward);
  return sparse_recurrence(rows, precision, plan, sms, shared_bytes);
}

namespace {

constexpr int kMostRegisters = 255;

bool is_possible(const SparseRecurrencePlan& plan, Precision precision, bool is_backward) {
  const int split = plan.split;
  return plan.samples >= 1 && (split == 1 || (is_backward && (split == 2 || split == 4))) && plan.ahead >= 4 &&
         std::has_single_bit(static_cast<unsigned>(plan.ahead)) && plan.buffers >= 0 &&
         std::has_single_bit(static_cast<unsigned>(plan.load_bytes)) && plan.load_bytes >= info(precision).bytes &&
         plan.load_bytes <= kWidestLoad;
}

// A block of threads as a plan of inference has it, for so many rows.
SparsePlan block_plan(const SparseRecurrencePlan& plan, Precision precision, Storage storage, int lanes, int rows) {
  SparsePlan block{.storage = storage, .sms = 1, .threads = kThreads, .lanes_per_row = lanes};
  block.rows_per_group = divided_up(rows, block.groups());
  // Sixteen sums at once, of as many samples as a load brings.
  const int element = info(precision).bytes;
  const int most_rows = std::max(1, 16 * element / std::min(plan.load_bytes, plan.samples * element));
  block.tile_rows =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min({most_rows, block.rows_per_group, 4}))));
  block.load_bytes = plan.load_bytes;
  block.loads_in_flight = plan.loads_in_flight;
  block.poll_delay = plan.poll_delay;
  block.promote_every = precision == Precision::fp16 ? 8 : 1;
  block.chunks_in_flight = 2;
  return block;
}

std::string too_many_bytes(std::size_t needed, std::size_t available) {
  return "they take " + std::to_string(needed) + " bytes of an SM's shared memory; there are " +
         std::to_string(available);
}

std::string too_many_rows(int rows, std::int64_t nonzeros) {
  return "the " + std::to_string(rows) + " rows of an SM with " + std::to_string(nonzeros) +
         " non-zeros need more registers than the " + std::to_string(kMostRegisters) + " that there are of a thread";
}

// Of a thread's slots, in percent of a wavefront: the fewer lanes, the better they are spread over the banks, as
// measured of random masks.
int wavefronts_of(const SparseGeometry& geometry, int lanes) {
  constexpr std::array<int, 6> kWavefronts{100, 100, 100, 107, 116, 128};  // by log2
  const int slots = geometry.slots_total() + geometry.shared_chunks * geometry.chunk_slots / geometry.warps();
  return slots * kWavefronts[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(lanes)))];
}

}  // namespace

Found<SparseRecurrence> sparse_recurrence(AssignedRows& assigned, Precision precision, const SparseRecurrencePlan& plan,
                                          int sms, std::size_t shared_bytes) {
  const TrainingSize& size = assigned.size();
  const bool is_backward = assigned.is_backward();
  const int split = plan.split, samples = plan.samples;
  if (!is_possible(plan, precision, is_backward)) {
    throw InputError("the plan '" + fields_text(plan) + "' is not possible");
  }
  const int element = info(precision).bytes, values = is_backward ? kUnitGates : 1;
  const int unit_bytes =
      std::min(plan.load_bytes, static_cast<int>(std::bit_ceil(unsigned(samples))) * element) * values;
  const int word_units = std::max(1, 16 / unit_bytes);
  const int clusters = std::max(1, (split == 4 ? sms * 10 / 11 : sms) / split);  // those of 4 do not fill a chip
  const int units = divided_up(divided_up(size.hidden, clusters * split), word_units) * word_units;
  const int blocks = divided_up(size.hidden, units * split) * split;
  const int rows = is_backward ? units * split : units * kUnitGates;
  const int columns = units * blocks / split * values;
  // As inference would: two bytes an element, one row a unit.
  const Recurrent network{.cell = Cell::relu, .precision = Precision::fp16, .hidden = rows, .batch = samples};
  const int of_item = is_backward ? 22 : 18;  // as sm_90 needs them
  std::optional<SparseRecurrence> best;
  int best_slots = 0;
  std::size_t least_bytes = 0;  // of shared memory, of what does not fit
  const auto takes = [&](std::size_t bytes) {
    if (bytes <= shared_bytes) {
      return true;
    }
    least_bytes = least_bytes == 0 ? bytes : std::min(least_bytes, bytes);
    return false;
  };
  for (const Storage storage : {Storage::packed_pair, Storage::packed_delta}) {
    if (units > kThreads || (best && storage == Storage::packed_delta && !best->geometry.has_overflow())) {
      break;
    }
    best.reset();
    for (const int lanes : {4, 8, 16, 32}) {
      const SparsePlan block = block_plan(plan, precision, storage, lanes, rows);
      if ((plan.lanes != 0 && lanes != plan.lanes) || block.rows_per_group > kMaxRowsPerGroup) {
        continue;
      }
      const SparseGeometry empty(network, block, columns);
      const int items = divided_up(std::int64_t{units} * samples, kThreads / units * units);
      const int most = plan.register_words != 0
                           ? plan.register_words
                           : kMostRegisters - working_registers(register_costs(9), empty) - of_item * items;
      SparseRecurrence found{.plan = plan, .geometry = empty, .units = units, .blocks = blocks};
      found.plan.lanes = lanes;
      found.plan.buffers = plan.buffers == 0 ? empty.planes : std::min(std::max(2, plan.buffers), empty.planes);
      found.plan.register_words = most;
      found.sub_batches = divided_up(size.batch, samples);
      const std::optional<SparseGeometry> geometry =
          takes(shared_bytes_of(found))
              ? with_slots(network, block, columns, assigned.lengths(units, blocks, split), most)
              : std::nullopt;
      if (!geometry) {
        continue;
      }
      const int slots = wavefronts_of(*geometry, lanes);
      found.geometry = *geometry;
      found.shared_bytes = shared_bytes_of(found);
      if (takes(found.shared_bytes) && (!best || slots < best_slots)) {
        best = found;
        best_slots = slots;
      }
    }
  }
  if (!best) {
    return Found<SparseRecurrence>::nothing("the non-zeros of W_hh and a state of " + std::to_string(samples) +
                                            " samples do not fit on " + std::to_string(sms) + " SMs: " +
                                            (units > kThreads ? "an SM would have " + std::to_string(units) +
                                                                    " units, of at most " + std::to_string(kThreads)
                                             : least_bytes > 0 ? too_many_bytes(least_bytes, shared_bytes)
                                                               : too_many_rows(rows, assigned.nonzeros() / blocks)));
  }
  best->mean_nonzeros = static_cast<double>(assigned.nonzeros()) / blocks;
  best->ring_bytes = std::size_t{2} * plan.ahead * split * static_cast<std::size_t>(best->geometry.exchange_bytes);
  best->bias_bytes =
      std::size_t{4} * kUnitGates * size.hidden * best->sub_batches * std::min(samples, kThreads / units);
  return *best;
}

}  // namespace onchip
