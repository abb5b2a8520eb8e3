// SPDX-License-Identifier: Apache-2.0
#include "model/layout.hpp"

#include "model/error.hpp"
#include "model/numeric.hpp"
#include "model/step_time.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace onchip;

namespace {

constexpr auto fp16 = Precision::fp16, bf16 = Precision::bf16, fp32 = Precision::fp32, fp8 = Precision::fp8;
constexpr auto packed = Storage::packed_pair, dense = Storage::dense;
constexpr auto natural = RowOrder::natural, aware = RowOrder::bank_aware;

// The lane group of a thread of a block, and its lane there.
int group_of(const Network& network, const Plan& plan, int thread) {
  return group_lane_of(network, plan, thread).group;
}
int lane_of(const Network& network, const Plan& plan, int thread) {
  return group_lane_of(network, plan, thread).lane;
}

enum class Rows {
  uniform,
  power_law,
  gates,  // each gate of another density
  holes,  // a third of the rows empty
};

struct Case {
  Cell cell;
  Precision precision;
  int hidden, batch;
  double density;
  Storage storage;
  RowOrder order;
  int sms, lanes, rows_per_group;
  Rows rows = Rows::uniform;
  bool skip = false;
  int load_bytes = kWidestLoad;

  Network network() const { return {cell, precision, hidden, batch, 16, density}; }
};

Case relu(int hidden, int batch, double density, int sms, int lanes, int rows_per_group, RowOrder order = aware) {
  return {Cell::relu, fp16, hidden, batch, density, packed, order, sms, lanes, rows_per_group};
}

// Everything that a layout depends on, on sizes that divide nothing.
std::vector<Case> awkward_cases() {
  return {
      {Cell::relu, fp16, 257, 4, 0.3, packed, aware, 7, 32, 1},
      {Cell::relu, fp16, 257, 4, 0.3, packed, natural, 7, 32, 1},
      {Cell::relu, fp16, 512, 1, 0.1, packed, aware, 132, 16, 2},
      {Cell::relu, fp16, 331, 3, 0.5, packed, aware, 13, 8, 3},
      {Cell::tanh, fp16, 97, 32, 0.2, packed, aware, 5, 4, 4},
      {Cell::relu, fp16, 1009, 2, 0.05, packed, aware, 16, 2, 8},
      {Cell::relu, fp16, 211, 2, 0.05, packed, natural, 3, 1, 5},
      {Cell::relu, fp16, 300, 8, 1.0, dense, natural, 11, 32, 2},
      {Cell::relu, fp16, 301, 4, 0.4, dense, natural, 11, 16, 3},
      {Cell::relu, fp16, 640, 4, 0.1, packed, aware, 16, 8, 5, Rows::power_law},
      {Cell::relu, fp16, 641, 4, 0.1, packed, aware, 16, 8, 5, Rows::power_law, true},
      {Cell::relu, fp16, 643, 4, 0.2, packed, natural, 3, 16, 32, Rows::power_law, true},
      {Cell::relu, fp32, 33, 4, 1.0, packed, aware, 3, 32, 1},
      {Cell::tanh, fp32, 211, 17, 0.2, packed, aware, 3, 8, 2, Rows::holes},
      {Cell::tanh, fp32, 149, 1, 0.6, dense, natural, 7, 8, 2},
      {Cell::tanh, bf16, 283, 5, 0.2, packed, aware, 5, 16, 3, Rows::uniform, false, 2},
      {Cell::tanh, bf16, 127, 5, 0.9, dense, natural, 4, 32, 3},
      {Cell::tanh, fp8, 283, 5, 0.2, packed, aware, 5, 16, 3, Rows::power_law, true},
      {Cell::tanh, fp8, 131, 3, 0.8, dense, natural, 5, 8, 3},
      {Cell::relu, fp16, 1, 1, 1.0, packed, aware, 1, 32, 1},
      {Cell::lstm, fp16, 127, 4, 0.2, packed, aware, 7, 16, 4},
      {Cell::lstm, fp16, 257, 1, 0.1, packed, natural, 5, 8, 12, Rows::gates},
      {Cell::lstm, bf16, 131, 17, 0.2, packed, aware, 3, 4, 8, Rows::power_law},
      {Cell::lstm, fp32, 101, 3, 0.3, packed, aware, 4, 32, 8, Rows::gates, true},
      {Cell::lstm, fp8, 211, 5, 0.2, packed, aware, 13, 8, 4, Rows::holes, true},
      {Cell::lstm, fp8, 61, 2, 0.9, dense, natural, 3, 8, 8},
      {Cell::lstm, fp16, 61, 8, 0.9, dense, natural, 3, 16, 4, Rows::gates},
      {Cell::gru, fp16, 127, 3, 0.2, packed, aware, 7, 16, 3, Rows::gates},
      {Cell::gru, fp16, 313, 4, 0.1, packed, aware, 5, 4, 9, Rows::power_law, true},
      {Cell::gru, bf16, 131, 32, 0.2, packed, natural, 3, 8, 30, Rows::holes},
      {Cell::gru, fp32, 101, 1, 0.3, packed, aware, 4, 32, 6, Rows::power_law},
      {Cell::gru, fp8, 211, 1, 0.2, packed, aware, 13, 32, 3, Rows::gates, false, 2},
      {Cell::gru, fp32, 67, 5, 0.9, dense, natural, 3, 4, 9, Rows::holes},
      {Cell::gru, fp16, 2, 1, 1.0, packed, aware, 3, 4, 3},
  };
}

// `matrix` without the rows for which `drop(row)`.
template <typename Drop>
SparseMatrix without_rows(const SparseMatrix& matrix, Drop&& drop) {
  SparseMatrix left{matrix.rows, matrix.columns, {0}, {}, {}};
  for (int row = 0; row < matrix.rows; ++row) {
    for (std::int64_t e = matrix.row_begin[row]; !drop(row) && e < matrix.row_begin[row + 1]; ++e) {
      left.column.push_back(matrix.column[e]);
      left.value.push_back(matrix.value[e]);
    }
    left.row_begin.push_back(left.nnz());
  }
  return left;
}

SparseMatrix stack(const std::vector<SparseMatrix>& parts) {
  SparseMatrix whole{0, parts[0].columns, {0}, {}, {}};
  for (const SparseMatrix& part : parts) {
    whole.rows += part.rows;
    for (int row = 0; row < part.rows; ++row) {
      whole.row_begin.push_back(whole.row_begin.back() + part.row_begin[row + 1] - part.row_begin[row]);
    }
    whole.column.insert(whole.column.end(), part.column.begin(), part.column.end());
    whole.value.insert(whole.value.end(), part.value.begin(), part.value.end());
  }
  return whole;
}

SparseMatrix matrix_of(const Case& c) {
  const int rows = c.network().rows();
  switch (c.rows) {
    case Rows::uniform:
      return generate_mask(rows, c.hidden, c.density, 7, c.precision);
    case Rows::power_law:
      return generate_mask(rows, c.hidden, c.density, 7, c.precision, MaskKind::power_law);
    case Rows::gates: {
      std::vector<SparseMatrix> parts;
      for (int gate = 0; gate < info(c.cell).gates; ++gate) {
        parts.push_back(generate_mask(c.hidden, c.hidden, c.density * (gate + 1) / 4, 7 + gate, c.precision,
                                      gate == 1 ? MaskKind::power_law : MaskKind::uniform));
      }
      return stack(parts);
    }
    case Rows::holes:
      return without_rows(generate_mask(rows, c.hidden, c.density, 7, c.precision),
                          [](int row) { return row % 3 == 0; });
  }
  return {};
}

Plan plan_of(const Case& c, const SparseMatrix& matrix) {
  Plan plan =
      shape_plan(c.network(), RowProfile::from_matrix(matrix), c.storage, c.sms, c.lanes, c.rows_per_group, c.skip);
  plan.order = c.order;
  plan.load_bytes = std::max(c.load_bytes, info(c.precision).bytes);
  return plan;
}

Layout layout_of(const Case& c, const SparseMatrix& matrix) {
  return make_layout(c.network(), plan_of(c, matrix), matrix);
}

std::int32_t row_at(const Layout& layout, int sm, int r, int group) {
  const Plan& plan = layout.plan;
  return layout.rows[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.groups() + group];
}

int done_at(const Layout& layout, int sm, int r, int warp) {
  const Plan& plan = layout.plan;
  return layout.done[(static_cast<std::size_t>(sm) * plan.rows_per_group + r) * plan.warps() + warp];
}

int length(const SparseMatrix& matrix, int row) {
  return static_cast<int>(matrix.row_begin[row + 1] - matrix.row_begin[row]);
}

// Wavefronts counted the slow way: every phase that is done, every bank, every word.
std::int64_t brute_force_wavefronts(const Layout& layout) {
  const Plan& plan = layout.plan;
  const int stride = plane_unit_bytes(layout.network, plan);
  const int access = std::max(4, stride), lanes = 128 / access;
  std::int64_t total = 0;
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
      for (int first = 0; first < plan.threads; first += lanes) {
        for (int slot = 0; slot < done_at(layout, sm, r, first / 32); ++slot) {
          std::size_t most = 0;
          for (int bank = 0; bank < 32; ++bank) {
            std::set<int> words;
            for (int lane = 0; lane < lanes; ++lane) {
              const int byte = layout.place[layout.entry(sm, first_slot + slot, first + lane)] * stride;
              for (int word = byte / 4; word <= (byte + stride - 1) / 4; ++word) {
                if (word % 32 == bank) {
                  words.insert(word);
                }
              }
            }
            most = std::max(most, words.size());
          }
          total += static_cast<std::int64_t>(most) * planes(layout.network, plan);
        }
      }
    }
  }
  return total;
}

// ---- the words that the kernel loads, read back by their description alone
// -------------------------------------------

struct Slot {
  float value = 0;  // fp8: in units of the row's scale
  int offset = 0;   // bytes, in a plane of the state
};

class Decoder {
 public:
  explicit Decoder(const Layout& layout) : network_(layout.network), plan_(layout.plan), words_(encode(layout)) {
    // Block by block: the words in registers [words, threads], then the quads [quads, threads, 4], shared ones first.
    const std::vector<Tier> tiers = quad_tiers(network_, plan_);
    std::size_t reg = 0, shared = 0, streamed = 0, quad = 0;
    const std::size_t threads = plan_.threads;
    const std::size_t quads_at = register_words(network_, plan_) * threads;
    for (int tile = 0; tile < tiles(network_, plan_); ++tile) {
      const int count = tile_words(network_, plan_, tile);
      for (int i = 0; i < count / 4; ++i, ++quad) {
        for (std::size_t k = 0; k < 4; ++k) {
          if (tiers[quad] == Tier::registers) {
            at_.push_back({reg++ * threads, 1});
          } else {
            const std::size_t number = tiers[quad] == Tier::shared_memory ? shared : plan_.shared_quads + streamed;
            at_.push_back({quads_at + number * threads * 4 + k, 4});
          }
        }
        shared += tiers[quad] == Tier::shared_memory;
        streamed += tiers[quad] == Tier::streamed;
      }
      for (int i = 0; i < count % 4; ++i) {
        at_.push_back({reg++ * threads, 1});
      }
    }
  }

  std::size_t size() const { return words_.size(); }
  std::size_t words_per_thread() const { return at_.size(); }

  // Slots of the r-th row of a thread.
  std::vector<Slot> row(int sm, int r, int thread) const {
    std::size_t next = 0;
    for (int before = 0; before < r; ++before) {
      next += row_words(network_, plan_, plan_.slots[before]);
    }
    const auto word = [&] {
      const Place& place = at_.at(next++);
      return words_.at(sm * at_.size() * plan_.threads + place.first + place.stride * thread);
    };
    std::vector<Slot> slots(plan_.slots[r]);
    const int count = plan_.slots[r];
    const Precision type = network_.precision;
    const int shift = index_shift(network_, plan_);
    if (plan_.storage == Storage::dense) {
      const int per_word = type == fp8 ? 4 : type == fp32 ? 1 : 2;
      std::uint32_t values = 0;
      for (int s = 0; s < count; ++s) {
        values = s % per_word == 0 ? word() : values;
        slots[s].value = value(values >> (32 / per_word * (s % per_word)));
        slots[s].offset =
            (s * plan_.lanes_per_row + lane_of(network_, plan_, thread)) * plane_unit_bytes(network_, plan_);
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
    return slots;
  }

 private:
  struct Place {
    std::size_t first, stride;
  };
  float value(std::uint32_t bits) const {
    return network_.precision == fp8    ? from_e4m3(static_cast<std::uint8_t>(bits))
           : network_.precision == fp32 ? from_bits(fp32, bits)
                                        : from_bits(network_.precision, bits & 0xffff);
  }

  Network network_;
  Plan plan_;
  std::vector<std::uint32_t> words_;
  std::vector<Place> at_;  // of a thread's words, in order of use
};

// Entries of the layout that the encoded words do not say.
int wrong_entries(const Layout& layout) {
  const Network& network = layout.network;
  const Plan& plan = layout.plan;
  const Decoder decoder(layout);
  REQUIRE(decoder.words_per_thread() == static_cast<std::size_t>(weight_words(network, plan)));
  REQUIRE(decoder.size() == decoder.words_per_thread() * plan.threads * plan.sms);
  const std::vector<float> scales = row_scales(layout);
  REQUIRE(scales.size() == static_cast<std::size_t>(network.precision == fp8 ? network.rows() : 0));
  int wrong = 0;
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int thread = 0; thread < plan.threads; ++thread) {
      for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
        const std::int32_t row = row_at(layout, sm, r, group_of(layout.network, layout.plan, thread));
        const float scale = scales.empty() || row < 0 ? 1.0f : scales[row];
        const std::vector<Slot> slots = decoder.row(sm, r, thread);
        for (int s = 0; s < plan.slots[r]; ++s) {
          const std::size_t entry = layout.entry(sm, first_slot + s, thread);
          wrong += slots[s].value * scale != layout.value[entry];
          // Dense slots behind the state multiply zeros of any place there.
          const bool behind = plan.storage == dense && layout.place[entry] >= state_units(network, plan);
          const int offset = layout.place[entry] * plane_unit_bytes(network, plan);
          wrong += behind ? slots[s].offset < offset : slots[s].offset != offset;
        }
      }
    }
  }
  return wrong;
}

std::vector<std::int64_t> non_zeros_per_sm(const Layout& layout, const SparseMatrix& matrix) {
  std::vector<std::int64_t> load(layout.plan.sms);
  const std::size_t rows_per_sm = layout.rows.size() / load.size();
  for (std::size_t i = 0; i < layout.rows.size(); ++i) {
    if (const int row = layout.rows[i]; row >= 0) {
      load[i / rows_per_sm] += length(matrix, row);
    }
  }
  return load;
}

}  // namespace

TEST_CASE("unpacking a layout gives back the matrix exactly", "[fast]") {
  for (const Case& c : awkward_cases()) {
    SparseMatrix matrix = matrix_of(c);
    const Layout layout = layout_of(c, matrix);
    CAPTURE(describe(c.network()), to_string(layout.plan));
    if (c.storage == dense) {  // a zero that rounding made is a zero like any other there
      SparseMatrix kept{matrix.rows, matrix.columns, {0}, {}, {}};
      for (int row = 0; row < matrix.rows; ++row) {
        for (std::int64_t e = matrix.row_begin[row]; e < matrix.row_begin[row + 1]; ++e) {
          if (matrix.value[e] != 0) {
            kept.column.push_back(matrix.column[e]);
            kept.value.push_back(matrix.value[e]);
          }
        }
        kept.row_begin.push_back(kept.nnz());
      }
      CHECK(matrix.nnz() - kept.nnz() < 5);
      matrix = kept;
    }
    CHECK(unpack(layout) == matrix);
  }
}

TEST_CASE("wavefronts are those of a count of every phase, bank and word that is done", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const Layout layout = layout_of(c, matrix_of(c));
    CAPTURE(describe(c.network()), to_string(layout.plan));
    const Wavefronts wavefronts = gather_wavefronts(layout);
    CHECK(wavefronts.total == brute_force_wavefronts(layout));
    CHECK(wavefronts.total >= wavefronts.ideal);
    CHECK(wavefronts.busiest_sm * c.sms >= wavefronts.total);
    CHECK(wavefronts.busiest_sm <= wavefronts.total);
  }
}

TEST_CASE("slots that are skipped cost no wavefront", "[fast]") {
  Case c = relu(1024, 4, 0.1, 16, 16, 4);
  c.rows = Rows::power_law;
  const SparseMatrix matrix = matrix_of(c);
  const Wavefronts all = gather_wavefronts(layout_of(c, matrix));
  c.skip = true;
  const Wavefronts some = gather_wavefronts(layout_of(c, matrix));
  CHECK(static_cast<double>(some.ideal) < 0.95 * static_cast<double>(all.ideal));
}

TEST_CASE("a layout of empty rows unpacks to empty rows", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const bool skip = GENERATE(false, true);
  const int gates = info(cell).gates;
  const SparseMatrix matrix{64 * gates, 64, std::vector<std::int64_t>(64 * gates + 1, 0), {}, {}};
  const Case c{cell, fp16, 64, 4, 0.01, packed, aware, 4, 32, gates, Rows::uniform, skip};
  const Layout layout = layout_of(c, matrix);
  CHECK(unpack(layout) == matrix);
  CHECK(gather_wavefronts(layout).total == gather_wavefronts(layout).ideal);
}

TEST_CASE("the same matrix gives the same layout", "[fast]") {
  for (const Case& c : {relu(700, 4, 0.1, 16, 16, 2), awkward_cases().back()}) {
    const SparseMatrix matrix = matrix_of(c);
    CHECK(encode(layout_of(c, matrix)) == encode(layout_of(c, matrix)));
  }
}

TEST_CASE("bank-aware order needs fewer wavefronts than natural order, and never fewer than possible", "[fast]") {
  const int batch = GENERATE(1, 2, 4, 8, 16);
  const double density = GENERATE(0.02, 0.1, 0.3);
  Case c = relu(1024, batch, density, 32, 32, 1, natural);
  const SparseMatrix matrix = matrix_of(c);
  const Wavefronts in_order = gather_wavefronts(layout_of(c, matrix));
  c.order = aware;
  const Layout layout = layout_of(c, matrix);
  const Wavefronts reordered = gather_wavefronts(layout);
  CAPTURE(batch, density, in_order.total, reordered.total, reordered.ideal);
  CHECK(reordered.total < in_order.total);
  CHECK(reordered.total >= reordered.ideal);
  // The model's closed form, which never sees a mask, against the count.
  const double expected = expected_wavefronts(c.network(), layout.plan).expected * c.sms;
  CHECK_THAT(expected, Catch::Matchers::WithinRel(static_cast<double>(reordered.total), 0.2));
}

TEST_CASE("rows are dealt so that every SM carries about the same number of non-zeros", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int gates = info(cell).gates;
  const int hidden = gates == 1 ? 2048 : 1021;
  const Case c{cell, fp16, hidden, 4, 0.1, packed, aware, 32, 16, 4 * gates, Rows::power_law};
  const SparseMatrix matrix = matrix_of(c);
  const std::vector<std::int64_t> load = non_zeros_per_sm(layout_of(c, matrix), matrix);
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  CAPTURE(gates, *least, *most);
  // 1021 units make 31 or 32 for an SM.
  CHECK(static_cast<double>(*most) < 1.1 * static_cast<double>(*least));
}

TEST_CASE("where there is room to give an SM with long rows fewer of them, the busiest is within 2 % of the mean",
          "[fast]") {
  const Case c{Cell::relu, fp16, 1500, 4, 0.1, packed, aware, 64, 16, 2, Rows::power_law};
  const SparseMatrix matrix = matrix_of(c);
  const Layout layout = layout_of(c, matrix);
  REQUIRE(state_units(c.network(), layout.plan) == 1536);
  const std::vector<std::int64_t> load = non_zeros_per_sm(layout, matrix);
  const double mean = static_cast<double>(matrix.nnz()) / c.sms;
  CHECK(static_cast<double>(*std::max_element(load.begin(), load.end())) < 1.02 * mean);
}

TEST_CASE("every row is dealt once, and the gates of a unit to one group", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const Layout layout = layout_of(c, matrix_of(c));
    const Plan& plan = layout.plan;
    CAPTURE(describe(c.network()), to_string(plan));
    const int gates = info(c.cell).gates;
    std::vector<int> dealt(c.network().rows(), 0);
    int apart = 0;
    for (int sm = 0; sm < plan.sms; ++sm) {
      for (int r = 0; r < plan.rows_per_group; ++r) {
        for (int group = 0; group < plan.groups(); ++group) {
          const int row = row_at(layout, sm, r, group);
          if (row >= 0) {
            ++dealt.at(row);
          }
          const int first = row_at(layout, sm, r / gates * gates, group);
          apart += first < 0 ? row >= 0 : row != r % gates * c.hidden + first;
        }
      }
    }
    CHECK(apart == 0);
    CHECK(std::count(dealt.begin(), dealt.end(), 1) == c.network().rows());
  }
}

TEST_CASE("a unit's place is its own, in its SM's segment of the state, and follows from its group", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const Layout layout = layout_of(c, matrix_of(c));
    const Plan& plan = layout.plan;
    CAPTURE(describe(c.network()), to_string(plan));
    const int gates = info(c.cell).gates, units = units_per_sm(c.network(), plan);
    CHECK(units * plane_unit_bytes(c.network(), plan) % 16 == 0);
    CHECK(units * gates * info(c.precision).bytes % 4 == 0);
    REQUIRE(layout.order.size() == static_cast<std::size_t>(c.hidden));
    CHECK(std::set<int>(layout.order.begin(), layout.order.end()).size() == layout.order.size());
    int wrong = 0;
    for (int sm = 0; sm < plan.sms; ++sm) {
      for (int r = 0; r < plan.rows_per_group; r += gates) {
        for (int group = 0; group < plan.groups(); ++group) {
          const int unit = row_at(layout, sm, r, group);
          if (unit >= 0) {
            const int place = r / gates * plan.groups() + group;  // as the kernel counts (fetch_outputs)
            wrong += place >= units || layout.order.at(unit) != sm * units + place;
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what loads find is in the state, or in the zeros behind it", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const Layout layout = layout_of(c, matrix_of(c));
    const Plan& plan = layout.plan;
    CAPTURE(describe(c.network()), to_string(plan));
    const int units = state_units(c.network(), plan);
    const auto [lowest, highest] = std::minmax_element(layout.place.begin(), layout.place.end());
    CHECK(*lowest >= 0);
    CHECK(*highest < units + zero_units(c.network(), plan));
    int wrong = 0;
    for (std::size_t entry = 0; entry < layout.place.size(); ++entry) {
      wrong += layout.place[entry] >= units && layout.value[entry] != 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a warp does the slots that its rows need, whole chunks beyond the least", "[fast]") {
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    const Layout layout = layout_of(c, matrix);
    const Plan& plan = layout.plan;
    CAPTURE(describe(c.network()), to_string(plan));
    REQUIRE(layout.done.size() == static_cast<std::size_t>(plan.sms) * plan.rows_per_group * plan.warps());
    int wrong = 0;
    std::int64_t done_slots = 0, all_slots = 0;
    for (int sm = 0; sm < plan.sms; ++sm) {
      for (int r = 0, first_slot = 0; r < plan.rows_per_group; first_slot += plan.slots[r++]) {
        for (int warp = 0; warp < plan.warps(); ++warp) {
          const int done = done_at(layout, sm, r, warp);
          int needed = 0;
          for (int thread = 32 * warp; thread < 32 * (warp + 1); ++thread) {
            if (const int row = row_at(layout, sm, r, group_of(layout.network, layout.plan, thread)); row >= 0) {
              needed = std::max(needed, (length(matrix, row) + c.lanes - 1) / c.lanes);
            }
            for (int slot = done; slot < plan.slots[r]; ++slot) {
              const std::size_t entry = layout.entry(sm, first_slot + slot, thread);
              wrong += layout.place[entry] < state_units(c.network(), plan) || layout.value[entry] != 0;
            }
          }
          std::set<int> chunk_ends{plan.least_slots[r]};
          while (*chunk_ends.rbegin() < plan.slots[r]) {
            chunk_ends.insert(std::min(plan.slots[r], next_chunk(*chunk_ends.rbegin())));
          }
          wrong += done < (c.storage == dense ? plan.slots[r] : needed) || !chunk_ends.contains(done);
          // No chunk that nobody needs.
          wrong += c.storage == packed && done > plan.least_slots[r] && *std::prev(chunk_ends.find(done)) >= needed;
          done_slots += done;
          all_slots += plan.slots[r];
        }
      }
    }
    CHECK(wrong == 0);
    CHECK((c.skip || done_slots == all_slots));
  }
}

TEST_CASE("chunks that may be skipped grow, and are whole fours", "[fast]") {
  for (int slots = kSkippedSlots; slots < 3000; slots += kSkippedSlots) {
    const int next = next_chunk(slots);
    CHECK(next % kSkippedSlots == 0);
    CHECK(next >= slots + kSkippedSlots);
    CHECK(2 * (next - slots) <= std::max(slots, 2 * kSkippedSlots));
  }
}

TEST_CASE("encoded words hold value and index as the kernel reads them, in every tier", "[fast]") {
  std::mt19937 random(5);
  for (const Case& c : awkward_cases()) {
    const SparseMatrix matrix = matrix_of(c);
    Plan plan = plan_of(c, matrix);
    const int quads = total_quads(c.network(), plan);
    // All in registers, all in shared memory, all streamed, and two mixtures of three.
    const int some = static_cast<int>(random() % (quads + 1)), rest = static_cast<int>(random() % (quads - some + 1));
    const std::pair<int, int> tiers[] = {{0, 0}, {quads, 0}, {0, quads}, {some, rest}, {quads / 3, quads / 3}};
    for (const auto& [shared, streamed] : tiers) {
      plan.shared_quads = shared;
      plan.streamed_quads = streamed;
      plan.ring_quads = streamed > 0 ? 2 : 0;
      CAPTURE(describe(c.network()), to_string(plan));
      const Layout layout = make_layout(c.network(), plan, matrix);
      CHECK(wrong_entries(layout) == 0);
    }
  }
}

TEST_CASE("fp8 scales are those of the rows as they were rounded", "[fast]") {
  Case c = relu(211, 4, 0.2, 5, 16, 2);
  c.precision = fp8;
  c.rows = Rows::holes;
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

TEST_CASE("a matrix that is not the network's, or rows longer than their slots, are refused", "[fast]") {
  const Case c = relu(64, 4, 0.5, 4, 32, 1);
  const SparseMatrix matrix = matrix_of(c);
  Plan plan = plan_of(c, matrix);
  CHECK_THROWS_AS(make_layout(relu(65, 4, 0.5, 4, 32, 1).network(), plan, matrix), InputError);
  Network gated = c.network();
  gated.cell = Cell::lstm;
  CHECK_THROWS_AS(make_layout(gated, plan, matrix), InputError);
  plan.slots[0] = plan.least_slots[0] = 1;
  CHECK_THROWS_AS(make_layout(c.network(), plan, generate_mask(64, 64, 1.0, 1, Precision::fp16)), InputError);
  plan.sms = 1;
  plan.threads = 32;
  CHECK_THROWS_AS(make_layout(c.network(), plan, matrix), InputError);
}

TEST_CASE("dense weights whose places the slots do not reach are refused", "[fast]") {
  // Loads of 2 bytes need segments of whole 8 units: more places than the 16-byte loads that the shape is made for.
  Case c = relu(100, 8, 1.0, 11, 32, 1, natural);
  c.storage = dense;
  const SparseMatrix matrix = matrix_of(c);
  Plan plan = plan_of(c, matrix);
  CHECK_NOTHROW(make_layout(c.network(), plan, matrix));
  plan.load_bytes = 2;
  while (plan.slots[0] * plan.lanes_per_row >= state_units(c.network(), plan)) {
    plan.least_slots[0] = --plan.slots[0];
  }
  CHECK_THROWS_AS(make_layout(c.network(), plan, matrix), InputError);
}
