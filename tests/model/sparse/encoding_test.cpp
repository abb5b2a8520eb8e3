// SPDX-License-Identifier: Apache-2.0
// The words that the kernel loads, read back by their description alone (model/sparse/layout/layout.hpp,
// kernels/sparse/gather.cuh).
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/sparse/layout/layout.hpp"
#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

constexpr auto fp16 = Precision::fp16, fp32 = Precision::fp32, fp8 = Precision::fp8;
constexpr auto packed = Storage::packed_pair, dense = Storage::dense, delta = Storage::packed_delta;
constexpr auto aware = RowOrder::bank_aware;

struct Slot {
  float value = 0;  // fp8: in units of the row's scale
  int offset = 0;   // bytes, in a plane of the state
};

// Reads what the threads of a layout's SMs load, in the order in which the kernel does.
class Decoder {
 public:
  explicit Decoder(const SparseLayout& layout)
      : geometry_(layout.geometry), encoded_(encode(layout)), lane_words_(layout.geometry.chunk_words) {
    registers_ = static_cast<std::size_t>(geometry_.register_words) * geometry_.threads;
    sm_words_ = registers_ + static_cast<std::size_t>(geometry_.shared_chunks) * 32 * lane_words_;
    table_ = geometry_.has_overflow() ? static_cast<std::size_t>(geometry_.rows_per_group + 3) * geometry_.warps() : 0;
  }

  const Encoded& encoded() const { return encoded_; }
  std::size_t sm_words() const { return sm_words_; }
  std::size_t table() const { return table_; }

  // Chunks of a warp's row: how many in shared memory, how many streamed.
  OverflowChunks overflow(int sm, int r, int warp) const {
    if (table_ == 0) {
      return {};
    }
    const std::int32_t both = encoded_.overflow.at(sm * table_ + r * geometry_.warps() + warp);
    return {both & 0xffff, both >> 16};
  }
  // Numbers of the warp's first chunk in shared memory, in that of the SM; of its first streamed one; of these in a
  // step.
  int first_shared(int sm, int warp) const {
    const auto byte = number(sm, 0, warp) - static_cast<std::int32_t>(geometry_.bytes_without_weights());
    REQUIRE(byte % geometry_.chunk_bytes == 0);
    return byte / geometry_.chunk_bytes;
  }
  int first_streamed(int sm, int warp) const { return number(sm, 1, warp); }
  int streamed_in_step(int sm, int warp) const { return number(sm, 2, warp); }

  // packed_delta: the byte in a plane from which the first slot's distance is counted.
  int start(int sm, int r, int thread) const {
    return geometry_.storage == delta ? static_cast<int>(in_register(sm, first_word(r), thread)) : 0;
  }
  std::vector<Slot> in_registers(int sm, int r, int thread, int before) const {
    const std::size_t first = first_word(r) + (geometry_.storage == delta ? 1 : 0);
    std::vector<std::uint32_t> words;
    for (int i = 0; i < geometry_.row_words(geometry_.slots[r]); ++i) {
      words.push_back(in_register(sm, first + i, thread));
    }
    return decode(words, geometry_.slots[r], 0, thread, before);
  }
  // Slots of a chunk, of which slot `first` of the row is the first; `before`: the offset of the slot before.
  std::vector<Slot> in_shared(int sm, int chunk, int first, int thread, int before) const {
    REQUIRE(chunk < geometry_.shared_chunks);
    return in_chunk(encoded_.weights, sm * sm_words_ + registers_, chunk, first, thread, before);
  }
  std::vector<Slot> in_stream(int chunk, int first, int thread, int before) const {
    return in_chunk(encoded_.streamed, 0, chunk, first, thread, before);
  }

 private:
  int number(int sm, int which, int warp) const {
    return encoded_.overflow.at(sm * table_ + (geometry_.rows_per_group + which) * geometry_.warps() + warp);
  }

  std::size_t first_word(int r) const {
    std::size_t first = 0;
    for (int before = 0; before < r; ++before) {
      first += geometry_.row_words(geometry_.slots[before]) + (geometry_.storage == delta ? 1 : 0);
    }
    return first;
  }
  std::uint32_t in_register(int sm, std::size_t word, int thread) const {
    return encoded_.weights.at(sm * sm_words_ + word * geometry_.threads + thread);
  }

  std::vector<Slot> in_chunk(const std::vector<std::uint32_t>& from, std::size_t begin, int chunk, int first,
                             int thread, int before) const {
    std::vector<std::uint32_t> words;
    for (int i = 0; i < lane_words_; ++i) {
      const int lane = thread % 32;
      const int at = lane_words_ == 4 ? 4 * lane + i : lane_words_ == 2 ? 2 * lane + i : 32 * i + lane;
      words.push_back(from.at(begin + static_cast<std::size_t>(chunk) * 32 * lane_words_ + at));
    }
    return decode(words, geometry_.chunk_slots, first, thread, before);
  }

  std::vector<Slot> decode(const std::vector<std::uint32_t>& words, int count, int first, int thread,
                           int before) const {
    std::size_t next = 0;
    const auto word = [&] { return words.at(next++); };
    std::vector<Slot> slots(count);
    const Precision type = geometry_.network.precision;
    const int shift = geometry_.index_shift;
    if (geometry_.storage == dense) {
      const int per_word = type == fp8 ? 4 : type == fp32 ? 1 : 2;
      const int lane = geometry_.group_lane_of(thread).lane;
      std::uint32_t values = 0;
      for (int s = 0; s < count; ++s) {
        values = s % per_word == 0 ? word() : values;
        slots[s].value = value(values >> (32 / per_word * (s % per_word)));
        slots[s].offset = ((first + s) * geometry_.lanes_per_row + lane) * geometry_.plane_unit_bytes;
      }
    } else if (geometry_.storage == delta) {
      std::uint32_t distances = 0, values = 0;
      for (int s = 0; s < count; ++s) {
        distances = s % 4 == 0 ? word() : distances;
        values = s % (type == fp8 ? 4 : 2) == 0 ? word() : values;
        before += static_cast<std::int8_t>(distances >> (8 * (s % 4))) * geometry_.plane_unit_bytes;
        // Bytes of fp8 values stand as in a pair's bundle: 0 and 2 in the low halves.
        slots[s] = {value(type == fp8 ? values >> (s % 2 * 8 + s / 2 % 2 * 16) : values >> (16 * (s % 2))), before};
      }
    } else if (type == fp32) {
      for (int s = 0; s < count; s += 2) {
        const std::uint32_t indices = word();
        for (int i = s; i < std::min(s + 2, count); ++i) {
          slots[i] = {value(word()), static_cast<int>((indices >> (16 * (i - s)) & 0xffff) << shift)};
        }
      }
    } else if (type == fp8) {
      for (int s = 0; s < count; s += 4) {
        const std::uint32_t values = word();
        std::uint32_t indices = 0;
        for (int i = s; i < std::min(s + 4, count); ++i) {
          indices = (i - s) % 2 == 0 ? word() : indices >> 16;
          slots[i] = {value(values >> (8 * (i - s))), static_cast<int>((indices & 0xffff) << shift)};
        }
      }
    } else {
      for (Slot& slot : slots) {
        const std::uint32_t pair = word();
        slot = {value(pair >> 16), static_cast<int>((pair & 0xffff) << shift)};
      }
    }
    REQUIRE(next == words.size());
    return slots;
  }

  float value(std::uint32_t bits) const {
    return geometry_.network.precision == fp8    ? from_e4m3(static_cast<std::uint8_t>(bits))
           : geometry_.network.precision == fp32 ? from_bits(fp32, bits)
                                                 : from_bits(geometry_.network.precision, bits & 0xffff);
  }

  SparseGeometry geometry_;
  Encoded encoded_;
  int lane_words_;
  std::size_t registers_ = 0, sm_words_ = 0, table_ = 0;
};

// Entries of the layout that the encoded words do not say, or not where the kernel looks for them.
int wrong_entries(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const Decoder decoder(layout);
  const std::vector<float> scales = row_scales(layout);
  const int per_chunk = geometry.chunk_slots, passes = geometry.passes;
  int wrong = 0;
  const auto compare = [&](const std::vector<Slot>& slots, int sm, int r, int thread, int first) {
    const std::int32_t row = layout.row(sm, r, geometry.group_lane_of(thread).group);
    const float scale = scales.empty() || row < 0 ? 1.0f : scales[row];
    for (int s = 0; s < static_cast<int>(slots.size()); ++s) {
      const std::size_t entry = layout.entry(layout.warp_row(sm, r, thread / 32), first + s, thread % 32);
      wrong += slots[s].value * scale != layout.value[entry];
      // Dense slots behind the state multiply zeros of any place there.
      const bool behind = geometry.storage == dense && layout.place[entry] >= geometry.state_units;
      const int offset = layout.place[entry] * geometry.plane_unit_bytes;
      const int end = (geometry.state_units + geometry.zero_units) * geometry.plane_unit_bytes;
      wrong += (behind ? slots[s].offset < offset : slots[s].offset != offset) || slots[s].offset >= end;
    }
  };
  std::set<int> shared_seen, streamed_seen;  // chunks that a warp has read: no other may
  for (int sm = 0; sm < geometry.sms; ++sm) {
    shared_seen.clear();
    for (int warp = 0; warp < geometry.warps(); ++warp) {
      int shared = geometry.has_overflow() ? decoder.first_shared(sm, warp) : 0;
      int streamed = geometry.has_overflow() ? decoder.first_streamed(sm, warp) : 0;
      const int streamed_end = geometry.has_overflow() ? streamed + decoder.streamed_in_step(sm, warp) : 0;
      const int height = geometry.tile_height;
      for (int tile = 0; tile < geometry.tiles; ++tile) {
        const int tile_begin = shared;
        for (int pass = 0; pass < passes; ++pass) {
          shared = tile_begin;  // every pass takes the same again; what is streamed comes again
          for (int r = tile * height; r < std::min(geometry.rows_per_group, (tile + 1) * height); ++r) {
            const OverflowChunks overflow = decoder.overflow(sm, r, warp);
            wrong += geometry.slots[r] + (overflow.shared + overflow.streamed) * per_chunk !=
                     layout.slots(layout.warp_row(sm, r, warp));
            std::vector<int> before(geometry.threads);
            const auto of_lanes = [&](auto&& slots_of, int first) {
              for (int thread = 32 * warp; thread < 32 * (warp + 1); ++thread) {
                const std::vector<Slot> slots = slots_of(thread, before[thread]);
                compare(slots, sm, r, thread, first);
                before[thread] = slots.empty() ? before[thread] : slots.back().offset;
              }
            };
            for (int thread = 32 * warp; thread < 32 * (warp + 1); ++thread) {
              before[thread] = decoder.start(sm, r, thread);
            }
            of_lanes([&](int thread, int at) { return decoder.in_registers(sm, r, thread, at); }, 0);
            int first = geometry.slots[r];
            for (int i = 0; i < overflow.shared; ++i, first += per_chunk) {
              wrong += !shared_seen.insert(shared).second && pass == 0;
              of_lanes([&](int thread, int at) { return decoder.in_shared(sm, shared, first, thread, at); }, first);
              ++shared;
            }
            for (int i = 0; i < overflow.streamed; ++i, first += per_chunk) {
              wrong += !streamed_seen.insert(streamed).second;
              of_lanes([&](int thread, int at) { return decoder.in_stream(streamed, first, thread, at); }, first);
              ++streamed;
            }
          }
        }
      }
      wrong += streamed != streamed_end;
    }
  }
  CHECK(decoder.encoded().weights.size() == decoder.sm_words() * geometry.sms);
  CHECK(decoder.encoded().overflow.size() == decoder.table() * geometry.sms);
  CHECK(decoder.encoded().streamed.size() == streamed_seen.size() * 32 * geometry.chunk_words);
  return wrong;
}

// The plans that put a plan's overflow, all of which is in shared memory, wholly or in part elsewhere; itself first.
std::vector<SparsePlan> placements(const SparsePlan& plan) {
  std::vector<SparsePlan> plans{plan};
  for (const int divisor : {2, 5, 0}) {
    SparsePlan other = plan;
    other.shared_chunks = divisor > 0 ? plan.shared_chunks / divisor : 0;
    other.ring_chunks = divisor > 0 ? divisor / 2 + 1 : 4;
    plans.push_back(other);
  }
  plans.resize(plan.has_overflow() ? plans.size() : 1);
  return plans;
}

}  // namespace

TEST_CASE("encoded words hold value and index as the kernel reads them, wherever they are", "[fast]") {
  int number = 0;
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    SparsePlan whole = plan_of(c, matrix);
    if (info(c.cell).gates == 1) {
      whole.tile_rows = 1 << number++ % 4;
    }
    for (const SparsePlan& placed : placements(whole)) {
      for (int pass_planes = 1; pass_planes <= SparseGeometry(c.network(), placed).planes; pass_planes *= 4) {
        SparsePlan plan = placed;
        plan.pass_planes = pass_planes;
        CAPTURE(describe(c.network()), to_string(plan));
        CHECK(wrong_entries(layout_of(c.network(), plan, matrix)) == 0);
      }
    }
  }
}

TEST_CASE("overflow of every cell, precision and storage is encoded as the kernel reads them", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Storage storage = GENERATE(packed, dense, delta);
  for (const Precision precision : {fp16, Precision::bf16, fp32, fp8}) {
    for (const double kept : {0.0, 0.55}) {
      if (storage == delta && precision == fp32) {
        continue;  // never stored so
      }
      const int gates = info(cell).gates;
      const double density = storage == dense ? 0.8 : 0.3;
      const Case c{cell, precision, 83, 17, density, storage, aware, 3, 8, 2 * gates, Rows::power_law, kept};
      const SparseMatrix matrix = matrix_of(c);
      const SparsePlan whole = plan_of(c, matrix);
      REQUIRE(whole.has_overflow());
      for (const SparsePlan& plan : placements(whole)) {
        CAPTURE(describe(c.network()), to_string(plan));
        CHECK(wrong_entries(layout_of(c.network(), plan, matrix)) == 0);
      }
    }
  }
}

TEST_CASE("overflow is split so that shared memory is filled, and what is streamed is spread evenly", "[fast]") {
  int streaming = 0;
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    for (const SparsePlan& plan : placements(plan_of(c, matrix))) {
      const SparseLayout layout = layout_of(c.network(), plan, matrix);
      CAPTURE(describe(c.network()), to_string(plan));
      const std::vector<OverflowChunks> overflow = split_overflow(layout);
      REQUIRE(overflow.size() == static_cast<std::size_t>(plan.sms) * plan.rows_per_group * plan.warps());
      int wrong = 0;
      for (int sm = 0; sm < plan.sms; ++sm) {
        int all = 0, shared = 0;
        std::vector<std::pair<int, int>> until;  // chunks and streamed chunks of the SM up to each row of each warp
        for (int warp = 0; warp < plan.warps(); ++warp) {
          for (int r = 0; r < plan.rows_per_group; ++r) {
            const std::size_t warp_row = layout.warp_row(sm, r, warp);
            const OverflowChunks& chunks = overflow[warp_row];
            wrong += chunks.shared < 0 || chunks.streamed < 0;
            wrong += (chunks.shared + chunks.streamed) * layout.geometry.chunk_slots !=
                     layout.slots(warp_row) - plan.slots[r];
            all += chunks.shared + chunks.streamed;
            shared += chunks.shared;
            until.emplace_back(all, all - shared);
          }
        }
        wrong += shared != std::min(all, plan.shared_chunks);
        for (const auto& [count, streamed] : until) {
          wrong += all > 0 && std::abs(streamed - static_cast<double>(count) * (all - shared) / all) >= 1;
        }
        streaming += shared < all;
      }
      CHECK(wrong == 0);
    }
  }
  CHECK(streaming > 100);
}

TEST_CASE("the same matrix gives the same layout and the same words", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    const Encoded first = encode(layout_of(c, matrix)), second = encode(layout_of(c, matrix));
    CHECK(first.weights == second.weights);
    CHECK(first.streamed == second.streamed);
    CHECK(first.overflow == second.overflow);
  }
}

TEST_CASE("fp8 scales are those of the rows as they were rounded", "[fast]") {
  Case c = relu_case(211, 4, 0.2, 5, 16, 2);
  c.precision = fp8;
  c.rows = Rows::holes;
  c.kept = GENERATE(1.0, 0.3);
  const SparseMatrix matrix = matrix_of(c);
  const std::vector<float> scales = row_scales(layout_of(c, matrix));
  REQUIRE(scales.size() == static_cast<std::size_t>(matrix.rows));
  for (int row = 0; row < matrix.rows; ++row) {
    float largest = 0;
    for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
      largest = std::max(largest, std::abs(matrix.value[e]));
    }
    CHECK(scales[row] == e4m3_scale(largest));
  }
  c.precision = fp16;
  CHECK(row_scales(layout_of(c, matrix)).empty());
}
