// SPDX-License-Identifier: Apache-2.0
#include "model/layout.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"
#include "model/step_time.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <set>
#include <string>

using namespace onchip;

namespace {

struct Case {
  Network network;
  Storage storage;
  RowOrder order;
  int sms, lanes, rows_per_group;
  MaskKind kind = MaskKind::uniform;
};

Network network(int hidden, int batch, double density, Precision precision = Precision::fp16) {
  return {Cell::relu, precision, hidden, batch, 16, density};
}

Layout layout_of(const Case& c, const SparseMatrix& matrix) {
  Plan plan = shape_plan(c.network, RowProfile::from_matrix(matrix), c.storage, c.sms, c.lanes, c.rows_per_group);
  plan.order = c.order;
  return make_layout(c.network, plan, matrix);
}

SparseMatrix matrix_of(const Case& c) {
  return generate_mask(c.network.hidden, c.network.hidden, c.network.density, 7, c.network.precision, c.kind);
}

// Wavefronts counted the slow way: every phase, every bank, every word.
std::int64_t brute_force_wavefronts(const Layout& layout) {
  const int stride = plane_unit_bytes(layout.network, layout.plan);
  const int access = std::max(4, stride), lanes = 128 / access;
  std::int64_t total = 0;
  for (int sm = 0; sm < layout.plan.sms; ++sm) {
    for (int slot = 0; slot < layout.plan.slots_total(); ++slot) {
      for (int first = 0; first < layout.plan.threads; first += lanes) {
        std::size_t most = 0;
        for (int bank = 0; bank < 32; ++bank) {
          std::set<int> words;
          for (int lane = 0; lane < lanes; ++lane) {
            const int byte = layout.place[layout.entry(sm, slot, first + lane)] * stride;
            for (int word = byte / 4; word <= (byte + stride - 1) / 4; ++word) {
              if (word % 32 == bank) {
                words.insert(word);
              }
            }
          }
          most = std::max(most, words.size());
        }
        total += static_cast<std::int64_t>(most) * planes(layout.network, layout.plan);
      }
    }
  }
  return total;
}

}  // namespace

TEST_CASE("unpacking a layout gives back the matrix exactly", "[fast]") {
  const Case c =
      GENERATE(Case{network(257, 4, 0.3), Storage::packed_pair, RowOrder::bank_aware, 7, 32, 1},
               Case{network(257, 4, 0.3), Storage::packed_pair, RowOrder::natural, 7, 32, 1},
               Case{network(512, 1, 0.1), Storage::packed_pair, RowOrder::bank_aware, 132, 16, 2},
               Case{network(331, 3, 0.5), Storage::packed_pair, RowOrder::bank_aware, 13, 8, 3},
               Case{network(97, 32, 0.2), Storage::packed_pair, RowOrder::bank_aware, 5, 4, 4},
               Case{network(1009, 2, 0.05), Storage::packed_pair, RowOrder::bank_aware, 16, 2, 8},
               Case{network(300, 8, 1.0), Storage::dense, RowOrder::natural, 11, 32, 2},
               Case{network(301, 4, 0.4), Storage::dense, RowOrder::natural, 11, 16, 3},
               Case{network(640, 4, 0.1), Storage::packed_pair, RowOrder::bank_aware, 16, 8, 5, MaskKind::power_law},
               Case{network(33, 4, 1.0, Precision::fp32), Storage::packed_pair, RowOrder::bank_aware, 3, 32, 1},
               Case{network(1, 1, 1.0), Storage::packed_pair, RowOrder::bank_aware, 1, 32, 1});
  const SparseMatrix matrix = matrix_of(c);
  const Layout layout = layout_of(c, matrix);
  CAPTURE(describe(c.network), to_string(layout.plan));
  CHECK(unpack(layout) == matrix);
  CHECK(gather_wavefronts(layout).total == brute_force_wavefronts(layout));
}

TEST_CASE("a layout of empty rows unpacks to empty rows", "[fast]") {
  SparseMatrix matrix{64, 64, std::vector<std::int64_t>(65, 0), {}, {}};
  const Case c{network(64, 4, 0.01), Storage::packed_pair, RowOrder::bank_aware, 4, 32, 1};
  const Layout layout = layout_of(c, matrix);
  CHECK(unpack(layout) == matrix);
  CHECK(gather_wavefronts(layout).total == gather_wavefronts(layout).ideal);
}

TEST_CASE("the same matrix gives the same layout", "[fast]") {
  const Case c{network(700, 4, 0.1), Storage::packed_pair, RowOrder::bank_aware, 16, 16, 2};
  const SparseMatrix matrix = matrix_of(c);
  CHECK(encode(layout_of(c, matrix)) == encode(layout_of(c, matrix)));
}

TEST_CASE("bank-aware order needs fewer wavefronts than natural order, and never fewer than possible", "[fast]") {
  const int batch = GENERATE(1, 2, 4, 8, 16);
  const double density = GENERATE(0.02, 0.1, 0.3);
  Case c{network(1024, batch, density), Storage::packed_pair, RowOrder::natural, 32, 32, 1};
  const SparseMatrix matrix = matrix_of(c);
  const Wavefronts natural = gather_wavefronts(layout_of(c, matrix));
  c.order = RowOrder::bank_aware;
  const Layout layout = layout_of(c, matrix);
  const Wavefronts aware = gather_wavefronts(layout);
  CAPTURE(batch, density, natural.total, aware.total, aware.ideal);
  CHECK(aware.total < natural.total);
  CHECK(aware.total >= aware.ideal);
  // The model's closed form, which never sees a mask, against the count.
  const double expected = expected_wavefronts(c.network, layout.plan).expected * c.sms;
  CHECK_THAT(expected, Catch::Matchers::WithinRel(static_cast<double>(aware.total), 0.2));
}

TEST_CASE("rows are dealt so that every SM carries about the same number of non-zeros", "[fast]") {
  const Case c{network(2048, 4, 0.1), Storage::packed_pair, RowOrder::bank_aware, 32, 16, 4, MaskKind::power_law};
  const SparseMatrix matrix = matrix_of(c);
  const Layout layout = layout_of(c, matrix);
  std::vector<std::int64_t> load(c.sms);
  const std::size_t rows_per_sm = layout.rows.size() / c.sms;
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    if (const int row = layout.rows[i]; row >= 0) {
      load[i / rows_per_sm] += matrix.row_begin[row + 1] - matrix.row_begin[row];
    }
  }
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  CHECK(static_cast<double>(*most) < 1.1 * static_cast<double>(*least));
}

TEST_CASE("every unit has a place of its own in its SM's segment of the state", "[fast]") {
  const Case c{network(1000, 2, 0.1), Storage::packed_pair, RowOrder::bank_aware, 13, 8, 3};
  const Layout layout = layout_of(c, matrix_of(c));
  std::set<int> places(layout.order.begin(), layout.order.end());
  CHECK(places.size() == 1000);
  CHECK(*places.rbegin() < state_units(c.network, layout.plan));
  CHECK(units_per_sm(c.network, layout.plan) * unit_bytes(c.network, layout.plan) % 16 == 0);
}

TEST_CASE("encoded words hold value and index as the kernel reads them", "[fast]") {
  const Case c{network(128, 4, 0.2, GENERATE(Precision::fp16, Precision::bf16, Precision::fp32)),
               Storage::packed_pair,
               RowOrder::bank_aware,
               4,
               32,
               1};
  const Layout layout = layout_of(c, matrix_of(c));
  const std::vector<std::uint32_t> words = encode(layout);
  const int slots = layout.plan.slots[0], threads = layout.plan.threads;
  const int per_thread = weight_words(c.network, layout.plan);
  REQUIRE(words.size() == static_cast<std::size_t>(c.sms) * per_thread * threads);
  int wrong = 0;
  for (int sm = 0; sm < c.sms; ++sm) {
    for (int thread = 0; thread < threads; ++thread) {
      for (int slot = 0; slot < slots; ++slot) {
        const auto word = [&](int i) {
          return words[(static_cast<std::size_t>(sm) * per_thread + i) * threads + thread];
        };
        const bool wide = c.network.precision == Precision::fp32;
        const std::uint32_t bits = wide ? word(slot) : word(slot) >> 16;
        const std::uint32_t index = wide ? word(slots + slot / 2) >> (slot % 2 ? 16 : 0) & 0xffff : word(slot) & 0xffff;
        const std::size_t entry = layout.entry(sm, slot, thread);
        wrong += from_bits(c.network.precision, bits) != layout.value[entry];
        wrong += static_cast<int>(index) << index_shift(c.network, layout.plan) !=
                 layout.place[entry] * plane_unit_bytes(c.network, layout.plan);
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a matrix that is not the network's, or rows longer than their slots, are refused", "[fast]") {
  const Case c{network(64, 4, 0.5), Storage::packed_pair, RowOrder::bank_aware, 4, 32, 1};
  const SparseMatrix matrix = matrix_of(c);
  Plan plan = shape_plan(c.network, RowProfile::from_matrix(matrix), c.storage, c.sms, c.lanes, c.rows_per_group);
  CHECK_THROWS_AS(make_layout(network(65, 4, 0.5), plan, matrix), InputError);
  plan.slots[0] = 1;
  CHECK_THROWS_AS(make_layout(c.network, plan, generate_mask(64, 64, 1.0, 1, Precision::fp16)), InputError);
  plan.sms = 1;
  plan.threads = 32;
  CHECK_THROWS_AS(make_layout(c.network, plan, matrix), InputError);
}
