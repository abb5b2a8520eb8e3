// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/sparse/layout.hpp"

#include "kernels/runtime/defines.hpp"
#include "kernels/runtime/sources.hpp"
#include "kernels/sparse/program.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/sparse/layout/layout.hpp"
#include "model/sparse/registers.hpp"
#include "model/sparse/search/row_assignment.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

using SparseField = std::pair<std::string_view, int SparseTrainingPlan::*>;
constexpr std::array<SparseField, 9> kSparseFields{{{"samples", &SparseTrainingPlan::samples},
                                                    {"split", &SparseTrainingPlan::split},
                                                    {"lanes", &SparseTrainingPlan::lanes},
                                                    {"load_bytes", &SparseTrainingPlan::load_bytes},
                                                    {"buffers", &SparseTrainingPlan::buffers},
                                                    {"loads_in_flight", &SparseTrainingPlan::loads_in_flight},
                                                    {"poll_delay", &SparseTrainingPlan::poll_delay},
                                                    {"ahead", &SparseTrainingPlan::ahead},
                                                    {"register_words", &SparseTrainingPlan::register_words}}};

constexpr int kUnitGates = 4, kThreads = 256, kSpareChunks = 8;

constexpr int divided_up(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

// Of an SM: its rows of W, or its columns' part of its cluster's rows of W transposed. An element's value is its number
// in `sources`, from 1 on.
struct Block {
  SparseMatrix matrix;
  std::vector<std::int32_t> sources;  // where it is in W
};

void add(Block& block, std::int32_t column, std::int64_t source) {
  block.matrix.column.push_back(column);
  block.sources.push_back(static_cast<std::int32_t>(source));
  block.matrix.value.push_back(static_cast<float>(block.sources.size()));
}

std::vector<Block> blocks_of(const TrainingSize& size, const SparseMatrix& w, int units, int blocks, int split,
                             bool is_backward) {
  const std::int64_t hidden = size.hidden;
  const int columns = units * blocks / split * (is_backward ? kUnitGates : 1);
  std::vector<Block> all(static_cast<std::size_t>(blocks));
  std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> of_unit;  // transposed: column, source
  if (is_backward) {
    of_unit.resize(static_cast<std::size_t>(hidden));
    for (int from = 0; from < size.hidden; ++from) {
      for (int gate = 0; gate < kUnitGates; ++gate) {
        const std::int64_t row = gate * hidden + from;
        for (std::int64_t e = w.row_begin[row]; e < w.row_begin[row + 1]; ++e) {
          of_unit[w.column[e]].emplace_back(from * kUnitGates + gate, row * hidden + w.column[e]);
        }
      }
    }
  }
  for (int sm = 0; sm < blocks; ++sm) {
    Block& block = all[static_cast<std::size_t>(sm)];
    const int rows = is_backward ? units * split : units * kUnitGates;
    block.matrix.rows = rows;
    block.matrix.columns = columns;
    block.matrix.row_begin.push_back(0);
    for (int row = 0; row < rows; ++row) {
      const int unit = is_backward ? sm / split * rows + row : sm * units + row / kUnitGates;
      if (unit < size.hidden && is_backward) {
        const std::int32_t first = sm % split * columns;
        for (const auto& [column, source] : of_unit[unit]) {
          if (column >= first && column < first + columns) {
            add(block, column - first, source);
          }
        }
      } else if (unit < size.hidden) {
        const std::int64_t of_w = row % kUnitGates * hidden + unit;
        for (std::int64_t e = w.row_begin[of_w]; e < w.row_begin[of_w + 1]; ++e) {
          add(block, w.column[e], of_w * hidden + w.column[e]);
        }
      }
      block.matrix.row_begin.push_back(block.matrix.nnz());
    }
  }
  return all;
}

// Of each block, its rows' lengths, longest first.
using Lengths = std::vector<std::vector<int>>;
Lengths lengths_of(const std::vector<Block>& blocks) {
  Lengths all;
  for (const Block& block : blocks) {
    std::vector<int>& lengths = all.emplace_back();
    for (int row = 0; row < block.matrix.rows; ++row) {
      lengths.push_back(static_cast<int>(block.matrix.row_begin[row + 1] - block.matrix.row_begin[row]));
    }
    std::ranges::sort(lengths, std::greater());
  }
  return all;
}

// Slots for the longest rows in registers, as far as they have room, and chunks for the rest.
std::optional<SparseGeometry> with_slots(const Recurrent& network, SparsePlan plan, int columns, const Lengths& lengths,
                                         int most_words) {
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
  const std::size_t state = of(std::int64_t{recurrence.plan.buffers} * (geometry.state_units + geometry.zero_units) *
                               geometry.plane_unit_bytes);
  const std::size_t before = state + outbox + partials + finished + received + 16 + table + overflow;
  return (before + 15) / 16 * 16 + of(std::int64_t{geometry.chunk_bytes} * geometry.shared_chunks);
}

}  // namespace

std::string text(const SparseTrainingPlan& plan) {
  std::string words;
  for (const auto& [name, field] : kSparseFields) {
    words += (words.empty() ? "" : " ") + std::string(name) + "=" + std::to_string(plan.*field);
  }
  return words;
}

SparseTrainingPlan changed(SparseTrainingPlan plan, const std::string& words) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto field = std::ranges::find(kSparseFields, std::string_view(word).substr(0, equals), &SparseField::first);
    const std::string value = word.substr(std::min(equals + 1, word.size()));
    if (field == kSparseFields.end() || value.empty() || value.size() > 6 ||
        !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
      throw InputError("the plan has no '" + word + "'; it has " + text(plan));
    }
    plan.*field->second = std::stoi(value);
  }
  return plan;
}

int weight_scale(Precision precision, bool is_backward) {
  constexpr int kOfSmallGradients = 64;
  return is_backward && precision == Precision::fp16 ? kOfSmallGradients : 1;
}

SparseRecurrence sparse_recurrence(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh,
                                   const SparseTrainingPlan& plan, bool is_backward, int sms,
                                   std::size_t shared_bytes) {
  const int split = plan.split, samples = plan.samples;
  if (samples < 1 || (split != 1 && (!is_backward || (split != 2 && split != 4))) || plan.ahead < 4 ||
      (plan.ahead & (plan.ahead - 1)) != 0 || !std::has_single_bit(static_cast<unsigned>(plan.load_bytes)) ||
      plan.buffers < 0 || plan.load_bytes < info(precision).bytes || plan.load_bytes > kWidestLoad) {
    throw InputError("the plan '" + text(plan) + "' is not possible");
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
  const Lengths lengths = lengths_of(blocks_of(size, w_hh, units, blocks, split, is_backward));
  // As inference would: two bytes an element, one row a unit.
  const Recurrent network{.cell = Cell::relu, .precision = Precision::fp16, .hidden = rows, .batch = samples};
  constexpr int kRegisters = 255;
  const int of_item = is_backward ? 22 : 18;  // as sm_90 needs them
  std::optional<SparseRecurrence> best;
  int best_slots = 0;
  for (const Storage storage : {Storage::packed_pair, Storage::packed_delta}) {
    if (units > kThreads || (best && storage == Storage::packed_delta && !best->geometry.has_overflow())) {
      break;
    }
    best.reset();
    for (const int lanes : {4, 8, 16, 32}) {
      SparsePlan block{.storage = storage, .sms = 1, .threads = kThreads, .lanes_per_row = lanes};
      block.rows_per_group = divided_up(rows, block.groups());
      if ((plan.lanes != 0 && lanes != plan.lanes) || block.rows_per_group > kMaxRowsPerGroup) {
        continue;
      }
      // Sixteen sums at once, of as many samples as a load brings.
      const int most_rows = std::max(1, 16 * element / std::min(plan.load_bytes, samples * element));
      block.tile_rows =
          static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min({most_rows, block.rows_per_group, 4}))));
      block.load_bytes = plan.load_bytes;
      block.loads_in_flight = plan.loads_in_flight;
      block.poll_delay = plan.poll_delay;
      block.promote_every = precision == Precision::fp16 ? 8 : 1;
      block.chunks_in_flight = 2;
      const SparseGeometry empty(network, block, columns);
      const int items = divided_up(std::int64_t{units} * samples, kThreads / units * units);
      const int most = plan.register_words != 0
                           ? plan.register_words
                           : kRegisters - working_registers(register_costs(9), empty) - of_item * items;
      const std::optional<SparseGeometry> geometry = with_slots(network, block, columns, lengths, most);
      if (!geometry) {
        continue;
      }
      // The fewer lanes, the better they are spread over the banks: as measured of random masks, in percent.
      constexpr std::array<int, 6> kWavefronts{100, 100, 100, 107, 116, 128};  // by log2
      int slots = geometry->slots_total() + geometry->shared_chunks * geometry->chunk_slots / geometry->warps();
      slots *= kWavefronts[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(lanes)))];
      SparseRecurrence found{.plan = plan, .geometry = *geometry, .units = units, .blocks = blocks};
      found.plan.lanes = lanes;
      found.plan.buffers = plan.buffers == 0 ? geometry->planes : std::min(std::max(2, plan.buffers), geometry->planes);
      found.plan.register_words = most;
      found.turns = divided_up(size.batch, samples);
      found.shared_bytes = shared_bytes_of(found);
      if (found.shared_bytes <= shared_bytes && (!best || slots < best_slots)) {
        best = found;
        best_slots = slots;
      }
    }
  }
  if (!best) {
    throw InputError("the non-zeros of W_hh and a state of " + std::to_string(samples) + " samples do not fit on " +
                     std::to_string(sms) + " SMs");
  }
  best->ring_bytes = std::size_t{2} * plan.ahead * split * static_cast<std::size_t>(best->geometry.exchange_bytes);
  best->bias_bytes = std::size_t{4} * kUnitGates * size.hidden * best->turns * std::min(samples, kThreads / units);
  return *best;
}

SparseRecurrence choose_sparse_recurrence(const TrainingSize& size, Precision precision, const SparseMatrix& w_hh,
                                          bool is_backward, int sms, std::size_t shared_bytes) {
  constexpr std::size_t kLargeRing = 8u << 20;
  constexpr std::int64_t kLargeState = 64 << 10;
  for (int samples = std::min(size.batch, kMostSamples);; samples = (samples + 1) / 2) {
    const std::int64_t state = std::int64_t{2} * samples * size.hidden * (is_backward ? kUnitGates : 1);
    SparseTrainingPlan plan{.samples = samples};
    const std::int64_t plane = state / samples * std::min(samples, plan.load_bytes / info(precision).bytes);
    plan.split = !is_backward || plane <= kLargeState / 2 ? 1 : plane <= 3 * kLargeState ? 2 : 4;
    while (plan.ahead > 4 && 2 * static_cast<std::size_t>(plan.ahead * state) > kLargeRing) {
      plan.ahead /= 2;
    }
    // The registers of what is under way are those that two items of a thread need.
    plan.load_bytes = is_backward || samples <= 4 ? 8 : 16;  // as measured of 4096 units and 16 samples
    plan.loads_in_flight = is_backward && samples > plan.load_bytes / info(precision).bytes ? 4 : 8;
    for (const int buffers : {0, 3, 2}) {
      plan.buffers = buffers;
      try {
        return sparse_recurrence(size, precision, w_hh, plan, is_backward, sms, shared_bytes);
      } catch (const InputError&) {
        if (samples == 1) {
          throw;
        }
      }
    }
  }
}

CompileRequest compile_request(const SparseRecurrence& recurrence, const TrainingSize& size, Precision precision,
                               bool is_backward, const std::string& architecture) {
  const SparseGeometry& geometry = recurrence.geometry;
  CompileRequest request{"sparse_training", kSparseRecurrenceSource, architecture, {}};
  define_gather(request.defines, geometry);
  // As those of plans with producer warps, passes come one after another.
  std::ranges::replace(request.defines, "ONCHIP_PRODUCER_WARPS=0", "ONCHIP_PRODUCER_WARPS=1");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"precision", static_cast<int>(precision)},
           {"backward", is_backward},
           {"hidden", size.hidden},
           {"batch", size.batch},
           {"blocks", recurrence.blocks},
           {"turns", recurrence.turns},
           {"samples", recurrence.plan.samples},
           {"batch_padded", geometry.batch_padded},
           {"split", recurrence.plan.split},
           {"units", recurrence.units},
           {"ahead", recurrence.plan.ahead},
           {"weight_scale", weight_scale(precision, is_backward)},
           {"buffers", recurrence.plan.buffers},
           {"chunks_from", geometry.bytes_without_weights()},
           {"shared_bytes", static_cast<std::int64_t>(recurrence.shared_bytes)}}) {
    define(request.defines, name, value);
  }
  return request;
}

void lay_out(SparseRecurrence& recurrence, const TrainingSize& size, const SparseMatrix& w_hh, bool is_backward,
             int threads) {
  const SparseGeometry& geometry = recurrence.geometry;
  const std::vector<Block> blocks =
      blocks_of(size, w_hh, recurrence.units, recurrence.blocks, recurrence.plan.split, is_backward);
  std::vector<Encoded> words(blocks.size());
  std::vector<std::vector<std::int32_t>> sources(blocks.size()), rows(blocks.size());
  parallel_for(recurrence.blocks, threads, [&](int sm) {
    const Block& block = blocks[static_cast<std::size_t>(sm)];
    SparseLayout layout = make_block_layout(geometry, block.matrix);
    // An element's number goes where its value would, in two digits that fp16 has; padding has 0.
    constexpr int kDigits = 2048;
    const std::vector<float> numbers = std::move(layout.value);
    const auto encoded = [&](auto digit) {
      layout.value.resize(numbers.size());
      std::ranges::transform(numbers, layout.value.begin(),
                             [&](float number) { return static_cast<float>(digit(static_cast<int>(number))); });
      return encode(layout);
    };
    Encoded& of_block = words[static_cast<std::size_t>(sm)];
    of_block = encoded([](int) { return 0; });
    const Encoded low = encoded([](int number) { return number % kDigits; });
    const Encoded high = encoded([](int number) { return number / kDigits; });
    std::vector<std::int32_t>& of_halves = sources[static_cast<std::size_t>(sm)];
    for (std::size_t i = 0; i < low.weights.size(); ++i) {
      for (const int shift : {0, 16}) {
        const auto digit = [&](const Encoded& encoding) {
          const std::uint32_t bits = (encoding.weights[i] ^ of_block.weights[i]) >> shift & 0xffff;
          return static_cast<int>(from_bits(Precision::fp16, bits));
        };
        const int number = digit(low) + kDigits * digit(high);
        of_halves.push_back(number == 0 ? -1 : block.sources[static_cast<std::size_t>(number) - 1]);
      }
    }
    rows[static_cast<std::size_t>(sm)] = std::move(layout.rows);
  });
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (std::size_t sm = 0; sm < blocks.size(); ++sm) {
    append(recurrence.words, words[sm].weights);
    append(recurrence.sources, sources[sm]);
    append(recurrence.tables, words[sm].overflow);
    append(recurrence.tables, rows[sm]);
  }
}

}  // namespace onchip
