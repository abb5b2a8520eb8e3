// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/layout/layout.hpp"

#include "model/base/error.hpp"
#include "model/sparse/wavefronts.hpp"
#include "tests/catch.hpp"
#include "tests/model/cases.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace onchip;

namespace {

constexpr auto fp16 = Precision::fp16;
constexpr auto packed = Storage::packed_pair, dense = Storage::dense, delta = Storage::packed_delta;
constexpr auto natural = RowOrder::natural, aware = RowOrder::bank_aware;

// Wavefronts counted the slow way: every phase, every bank, every word.
std::int64_t brute_force_wavefronts(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const int stride = geometry.plane_unit_bytes;
  const int access = std::max(4, stride), lanes = 128 / access;
  std::int64_t total = 0;
  for_each_warp_row(geometry, [&](int sm, int r, int warp) {
    const std::size_t warp_row = layout.warp_row(sm, r, warp);
    for (int slot = 0; slot < layout.slots(warp_row); ++slot) {
      for (int first = 0; first < 32; first += lanes) {
        std::size_t most = 0;
        for (int bank = 0; bank < 32; ++bank) {
          std::set<int> words;
          for (int lane = first; lane < first + lanes; ++lane) {
            const int byte = layout.place[layout.entry(warp_row, slot, lane)] * stride;
            for (int word = byte / 4; word <= (byte + stride - 1) / 4; ++word) {
              if (word % 32 == bank) {
                words.insert(word);
              }
            }
          }
          most = std::max(most, words.size());
        }
        total += static_cast<std::int64_t>(most) * geometry.planes;
      }
    }
  });
  return total;
}

}  // namespace

TEST_CASE("unpacking a layout gives back the matrix exactly", "[fast]") {
  for (const Case& c : awkward_cases()) {
    SparseMatrix matrix = matrix_of(c);
    const SparseLayout layout = layout_of(c, matrix);
    CAPTURE(describe(c.network()), to_string(layout.geometry));
    if (c.storage != packed) {  // a zero that rounding made is a zero like any other there
      const SparseMatrix kept = without_zeros(matrix);
      CHECK(matrix.nnz() - kept.nnz() < 5);
      matrix = kept;
    }
    CHECK(unpack(layout) == matrix);
  }
}

TEST_CASE("wavefronts are those of a count of every phase, bank and word", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const SparseLayout layout = layout_of(c, matrix_of(c));
    CAPTURE(describe(c.network()), to_string(layout.geometry));
    const Wavefronts wavefronts = gather_wavefronts(layout);
    CHECK(wavefronts.total == brute_force_wavefronts(layout));
    CHECK(wavefronts.total >= wavefronts.ideal);
    CHECK(wavefronts.busiest_sm * c.sms >= wavefronts.total);
    CHECK(wavefronts.busiest_sm <= wavefronts.total);
  }
}

TEST_CASE("a layout of empty rows unpacks to empty rows, and has no overflow", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int gates = info(cell).gates;
  const SparseMatrix matrix{64 * gates, 64, std::vector<std::int64_t>(64 * gates + 1, 0), {}, {}};
  Case c{cell, fp16, 64, 4, 0.01, packed, aware, 4, 32, gates};
  const SparseLayout layout = layout_of(c, matrix);
  CHECK(unpack(layout) == matrix);
  CHECK(gather_wavefronts(layout).total == gather_wavefronts(layout).ideal);
  SparsePlan plan = layout.geometry;
  plan.slots.fill(0);
  plan.overflow_chunks = plan.longest_overflow = 1;  // wrong, which is no reason for chunks that no row needs
  const SparseLayout nothing = layout_of(c.network(), plan, matrix);
  CHECK(nothing.first.back() == 0);
  CHECK(unpack(nothing) == matrix);
}

TEST_CASE("bank-aware order needs fewer wavefronts than natural order, and never fewer than possible", "[fast]") {
  const int batch = GENERATE(1, 2, 4, 8, 16);
  const double density = GENERATE(0.02, 0.1, 0.3);
  const double kept = GENERATE(1.0, 0.5);
  Case c = relu_case(1024, batch, density, 32, 32, 1, natural);
  c.kept = kept;
  const SparseMatrix matrix = matrix_of(c);
  const Wavefronts in_order = gather_wavefronts(layout_of(c, matrix));
  c.order = aware;
  const SparseLayout layout = layout_of(c, matrix);
  const Wavefronts reordered = gather_wavefronts(layout);
  CAPTURE(batch, density, kept, in_order.total, reordered.total, reordered.ideal);
  CHECK(reordered.total < in_order.total);
  CHECK(reordered.total >= reordered.ideal);
  // The model's closed form, which never sees a mask, against the count.
  const double expected = expected_wavefronts(find_chip("h200").chip, layout.geometry).expected * c.sms;
  CHECK_THAT(expected, Catch::Matchers::WithinRel(static_cast<double>(reordered.total), 0.2));
}

TEST_CASE("words that SMs' units leave empty make loads of the others' banks wait, part of which is expected",
          "[fast][long]") {
  const double density = GENERATE(0.1, 0.2, 0.3);
  struct PerWeight {
    double counted, expected;
  };
  const auto wavefronts = [&](int units_of_sm) {  // of 64 places, which are all banks
    constexpr int kSms = 64;
    const Case c = relu_case(kSms * units_of_sm, 1, density, kSms, 16, 1);
    const SparseLayout layout = layout_of(c, matrix_of(c));
    const double weights = c.density * c.hidden * c.hidden;
    return PerWeight{static_cast<double>(gather_wavefronts(layout).total) / weights,
                     expected_wavefronts(find_chip("h200").chip, layout.geometry).expected * kSms / weights};
  };
  const PerWeight full = wavefronts(64), holed = wavefronts(58);
  CAPTURE(full.counted, full.expected, holed.counted, holed.expected);
  CHECK(holed.counted > 1.15 * full.counted);
  CHECK(holed.expected >= full.expected);
  CHECK_THAT(holed.expected / full.expected, Catch::Matchers::WithinRel(holed.counted / full.counted, 0.3));
}

TEST_CASE("every row has one place, and the rows of a unit stand in one group by falling length", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    const SparseLayout layout = layout_of(c, matrix);
    const SparseGeometry& geometry = layout.geometry;
    CAPTURE(describe(c.network()), to_string(geometry));
    const int gates = info(c.cell).gates;
    std::vector<int> assigned(c.network().rows(), 0);
    int wrong = 0;
    for (int sm = 0; sm < geometry.sms; ++sm) {
      for (int group = 0; group < geometry.groups(); ++group) {
        for (int r = 0; r < geometry.rows_per_group; ++r) {
          const int row = layout.row(sm, r, group);
          if (row >= 0) {
            ++assigned.at(row);
          }
          if (r % gates == 0) {
            continue;
          }
          const int before = layout.row(sm, r - 1, group);
          wrong += (row < 0) != (before < 0);
          if (row >= 0 && before >= 0) {
            wrong += row % c.hidden != before % c.hidden;
            wrong += length(matrix, row) > length(matrix, before);
            wrong += length(matrix, row) == length(matrix, before) && row < before;
          }
        }
      }
    }
    CHECK(wrong == 0);
    CHECK(std::count(assigned.begin(), assigned.end(), 1) == c.network().rows());
  }
}

TEST_CASE("a warp has the plan's slots, and as many chunks as its longest row needs beyond", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    const SparseLayout layout = layout_of(c, matrix);
    const SparseGeometry& geometry = layout.geometry;
    CAPTURE(describe(c.network()), to_string(geometry));
    REQUIRE(layout.first.size() ==
            static_cast<std::size_t>(geometry.sms) * geometry.rows_per_group * geometry.warps() + 1);
    REQUIRE(layout.first.front() == 0);
    REQUIRE(layout.place.size() == static_cast<std::size_t>(layout.first.back()) * 32);
    REQUIRE(layout.value.size() == layout.place.size());
    const int per_chunk = geometry.chunk_slots;
    int wrong = 0, beyond = 0;
    for_each_warp_row(geometry, [&](int sm, int r, int warp) {
      const int slots = layout.slots(layout.warp_row(sm, r, warp));
      const int reached = c.storage == dense ? geometry.state_units : longest_row(layout, matrix, sm, r, warp);
      wrong += slots < geometry.slots[r] || (slots - geometry.slots[r]) % per_chunk != 0;
      wrong += (!geometry.has_overflow() && slots != geometry.slots[r]);
      // Of dense storage the rows that no unit has are not there to be reached.
      const bool has_rows = longest_row(layout, matrix, sm, r, warp) > 0;
      wrong += slots * c.lanes < reached && (geometry.has_overflow() || has_rows);
      // A chunk that no row needs; of distances, how many slots a row needs depends on where it has its non-zeros.
      wrong += c.storage != delta && slots > geometry.slots[r] && (slots - per_chunk) * c.lanes >= reached;
      beyond += slots - geometry.slots[r];
    });
    CHECK(wrong == 0);
    CHECK((beyond > 0) == geometry.has_overflow());
  }
}

TEST_CASE("every lane has about its share of a row, none more slots than the row's warp", "[fast]") {
  // A row of natural order fills slot after slot; one of bank-aware order may leave holes, but no lane is left out.
  for (const Case& c : awkward_cases()) {
    if (c.storage != packed || c.lanes == 1) {
      continue;
    }
    const SparseMatrix matrix = matrix_of(c);
    const SparseLayout layout = layout_of(c, matrix);
    const SparseGeometry& geometry = layout.geometry;
    CAPTURE(describe(c.network()), to_string(geometry));
    int wrong = 0;
    for_each_warp_row(geometry, [&](int sm, int r, int warp) {
      const std::size_t warp_row = layout.warp_row(sm, r, warp);
      for (int group = warp * 32 / c.lanes; group < (warp + 1) * 32 / c.lanes; ++group) {
        const int row = layout.row(sm, r, group);
        int stored = 0;
        for (int slot = 0; slot < layout.slots(warp_row); ++slot) {
          int in_slot = 0;
          for (int lane = 0; lane < c.lanes; ++lane) {
            const int thread = geometry.thread_of(group, lane);
            in_slot += layout.place[layout.entry(warp_row, slot, thread % 32)] < geometry.state_units;
          }
          wrong += c.order == natural && row >= 0 && in_slot != std::clamp(length(matrix, row) - stored, 0, c.lanes);
          stored += in_slot;
        }
        wrong += stored != (row < 0 ? 0 : length(matrix, row));
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a matrix that is not the network's, or rows longer than their slots, are refused", "[fast]") {
  const Case c = relu_case(64, 4, 0.5, 4, 32, 1);
  const SparseMatrix matrix = matrix_of(c);
  SparsePlan plan = plan_of(c, matrix);
  CHECK_THROWS_AS(make_layout(relu_case(65, 4, 0.5, 4, 32, 1).network(), plan, matrix), InputError);
  Recurrent gated = c.network();
  gated.cell = Cell::lstm;
  CHECK_THROWS_AS(make_layout(gated, plan, matrix), InputError);
  plan.slots[0] = 1;
  const SparseMatrix full = generate_mask(64, 64, 1.0, 1, Precision::fp16);
  CHECK_THROWS_WITH(make_layout(c.network(), plan, full),
                    Catch::Matchers::EndsWith("has 64 non-zeros, but the plan's slots hold 32"));
  plan.sms = 1;
  plan.threads = 32;
  CHECK_THROWS_AS(make_layout(c.network(), plan, matrix), InputError);
}

TEST_CASE("overflow for which shared memory has no room are refused, unless they may be streamed", "[fast]") {
  Case c = relu_case(257, 4, 0.3, 7, 32, 2);
  c.kept = GENERATE(0.0, 0.5);
  const SparseMatrix matrix = matrix_of(c);
  SparsePlan plan = plan_of(c, matrix);
  REQUIRE(plan.shared_chunks > 1);
  CHECK_NOTHROW(make_layout(c.network(), plan, matrix));
  --plan.shared_chunks;  // of the SM that has most
  CHECK_THROWS_WITH(make_layout(c.network(), plan, matrix),
                    Catch::Matchers::EndsWith("room for " + std::to_string(plan.shared_chunks) + " in shared memory"));
  plan.ring_chunks = 2;
  CHECK_NOTHROW(make_layout(c.network(), plan, matrix));
}

TEST_CASE("dense weights whose places the slots do not reach are refused", "[fast]") {
  // Loads of 2 bytes need segments of whole 8 units: more places than the 16-byte loads that the shape is made for.
  Case c = relu_case(100, 8, 1.0, 11, 32, 1, natural);
  c.storage = dense;
  const SparseMatrix matrix = matrix_of(c);
  SparsePlan plan = plan_of(c, matrix);
  CHECK_NOTHROW(make_layout(c.network(), plan, matrix));
  plan.load_bytes = 2;
  while (plan.slots[0] * plan.lanes_per_row >= SparseGeometry(c.network(), plan).state_units) {
    --plan.slots[0];
  }
  CHECK_THROWS_AS(make_layout(c.network(), plan, matrix), InputError);
}
