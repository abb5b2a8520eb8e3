// SPDX-License-Identifier: Apache-2.0
// The dense persistent family's fragments, multiplied as the tensor cores do.
#include "model/dense/fragments.hpp"

#include "model/base/numeric.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/family.hpp"
#include "model/dense/layout.hpp"
#include "model/plan/plan_text.hpp"
#include "model/workload/mask.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

struct Case {
  Recurrent network;
  DensePlan plan;
  SparseMatrix matrix;

  DenseGeometry geometry() const { return {network, plan}; }
  DenseLayout layout() const { return make_layout(geometry(), matrix); }
};

Case make_case(Storage storage, Cell cell, Precision precision, int hidden, int batch, int sms, int threads,
               double share_in_shared) {
  const bool is_structured = storage == Storage::structured_2_4;
  Case c;
  c.network = {cell, precision, hidden, batch, 1, is_structured ? 0.4 : storage == Storage::bitmap ? 0.2 : 0.8};
  c.plan = shape_dense_plan(c.network, sms, threads, 1, storage);
  c.plan.shared_tiles = static_cast<int>(share_in_shared * c.geometry().warp_tiles);
  c.matrix = generate_mask(c.network.rows(), hidden, c.network.density, 7, precision,
                           is_structured ? MaskKind::two_four : MaskKind::uniform);
  if (storage == Storage::bitmap) {
    c.plan.bank_words = needed_bank_words(c.geometry(), word_mask(c.matrix));
  }
  return c;
}

constexpr std::pair<Cell, int> kSizes[] = {{Cell::relu, 127}, {Cell::tanh, 64}, {Cell::lstm, 61},  {Cell::gru, 101},
                                           {Cell::relu, 1},   {Cell::gru, 3},   {Cell::lstm, 128}, {Cell::relu, 1000}};

// Element (row, column) of A, or (row, sample) of B and of the sums, that a lane holds in its i-th place: "Matrix
// Fragments for mma.m16n8k16" of the PTX ISA.
struct Place {
  int row, column;
};
Place of_a(int lane, int i) {
  return {i < 2 || (i >= 4 && i < 6) ? lane / 4 : lane / 4 + 8, lane % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place of_b(int lane, int i) {
  return {lane % 4 * 2 + (i & 1) + i / 2 * 8, lane / 4};
}

float half_of(std::uint32_t word, int i, Precision precision) {
  return from_bits(precision, i % 2 ? word >> 16 : word & 0xffffu);
}

// Of a tile of A that is stored as 2:4, 16 x 32: "Matrix Fragments for sparse mma.m16n8k32". A lane's words are those
// of a dense tile of 16 x 16; the places in groups of four columns come from the first two lanes of every four, or from
// the last two.
void expand(const std::uint32_t* values, const std::uint32_t* metadata, int selector, Precision precision,
            float (&weight)[16][32]) {
  for (int row = 0; row < 16; ++row) {
    for (int stored = 0; stored < 16; ++stored) {
      const int lane = row % 8 * 4 + stored % 8 / 2, word = row / 8 + stored / 8 * 2;
      const int source = row % 8 * 4 + 2 * selector + stored / 8;
      const int bits = 16 * (row / 8) + 2 * (stored % 8);
      const int column = stored / 2 * 4 + static_cast<int>(metadata[source] >> bits & 3);
      weight[row][column] += half_of(values[4 * lane + word], stored, precision);
    }
  }
}

// Of tiles that are stored without their empty words, the words of a warp's tile `index`: a lane's next ones lie 32
// words behind each other.
std::vector<std::uint32_t> expand(const std::uint32_t* words, const std::uint32_t* metadata, int metadata_words,
                                  int index) {
  std::vector<std::uint32_t> tile(128);
  for (int lane = 0; lane < 32; ++lane) {
    std::uint32_t next = metadata[(metadata_words - 1) * 32 + lane] / 4;
    for (int i = 0; i <= index; ++i) {
      for (int k = 0; k < 4; ++k) {
        const bool has = metadata[i / 8 * 32 + lane] >> (4 * (i % 8) + k) & 1;
        if (i == index) {
          tile[4 * lane + k] = has ? words[next] : 0;
        }
        next += has ? 32 : 0;
      }
    }
  }
  return tile;
}

// Where a unit stands in its span, of pairs of neighbours.
int place_of(Storage storage, int unit) {
  const int pair = unit % 32 / 2;
  return storage != Storage::structured_2_4 ? unit % 32 : 2 * ((pair / 8 * 2 + pair % 2) * 4 + pair / 2 % 4) + unit % 2;
}

// The state as the kernels exchange it, [spans][batch][32] 16-bit elements in words (kernels/dense/spans.cuh).
std::vector<std::uint32_t> exchanged(const Case& c, const std::vector<float>& state) {
  const int batch = c.network.batch;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(c.geometry().exchange_bytes) / 4);
  for (int unit = 0; unit < c.network.hidden; ++unit) {
    for (int sample = 0; sample < batch; ++sample) {
      const std::size_t element = (static_cast<std::size_t>(unit / 32) * batch + sample) * 32 +
                                  static_cast<std::size_t>(place_of(c.plan.storage, unit));
      words[element / 2] |= to_bits(c.network.precision, state[unit * batch + sample]) << (element % 2 * 16);
    }
  }
  return words;
}

// One product as kernels/dense/multiply.cuh computes it: [sms][16 * row_tiles][8 * sample_tiles], summed over the
// warps.
std::vector<double> multiply(const Case& c, const Encoded& encoded, const std::vector<std::uint32_t>& state) {
  const Recurrent& network = c.network;
  const DenseGeometry geometry = c.geometry();
  const int tiles = geometry.warp_tiles, in_registers = tiles - geometry.shared_tiles;
  const int rows = 16 * geometry.row_tiles, samples = 8 * geometry.sample_tiles;
  const int spans_of_warp = geometry.warp_spans;
  std::vector<double> sums(static_cast<std::size_t>(geometry.sms) * rows * samples);
  for (int sm = 0; sm < geometry.sms; ++sm) {
    for (int warp = 0; warp < geometry.warps(); ++warp) {
      for (int tile = 0; tile < tiles; ++tile) {
        const bool is_structured = geometry.storage == Storage::structured_2_4;
        const int columns = is_structured ? 32 : 16;  // of a tile
        const int span = warp * spans_of_warp + tile / (geometry.span_tiles * geometry.row_tiles);
        if (span >= geometry.spans) {
          continue;
        }
        const int half = tile / geometry.row_tiles % geometry.span_tiles, row_tile = tile % geometry.row_tiles;
        const int before = shared_tiles_before(tile, geometry.shared_tiles, tiles);
        const bool in_shared = shared_tiles_before(tile + 1, geometry.shared_tiles, tiles) > before;
        const std::size_t at = in_shared ? static_cast<std::size_t>(geometry.warps()) * in_registers +
                                               warp * geometry.shared_tiles + before
                                         : static_cast<std::size_t>(warp) * in_registers + tile - before;
        const bool is_bitmap = geometry.storage == Storage::bitmap;
        const std::size_t words_of_registers = static_cast<std::size_t>(geometry.warps()) * in_registers * 128;
        const std::size_t sm_tiles = is_bitmap ? words_of_registers + static_cast<std::size_t>(geometry.bank_words) * 32
                                               : static_cast<std::size_t>(geometry.warps()) * tiles * 128;
        const std::size_t sm_metadata = static_cast<std::size_t>(geometry.warps()) * geometry.metadata_words * 32;
        const std::uint32_t* const of_sm = encoded.weights.data() + sm * (sm_tiles + sm_metadata);
        std::vector<std::uint32_t> expanded;
        if (is_bitmap && in_shared) {
          const int words = geometry.metadata_words;
          expanded = expand(of_sm + words_of_registers, of_sm + sm_tiles + static_cast<std::size_t>(warp) * words * 32,
                            words, before);
        }
        const std::uint32_t* const a = expanded.empty() ? of_sm + at * 128 : expanded.data();
        float weight[16][32] = {};
        if (is_structured) {
          const int word = warp * geometry.metadata_words + tile / 2;
          expand(a, of_sm + sm_tiles + static_cast<std::size_t>(word) * 32, tile % 2, network.precision, weight);
        }
        for (int lane = 0; lane < 32 && !is_structured; ++lane) {
          for (int i = 0; i < 8; ++i) {
            weight[of_a(lane, i).row][of_a(lane, i).column] = half_of(a[lane * 4 + i / 2], i, network.precision);
          }
        }
        for (int sample_tile = 0; sample_tile < geometry.sample_tiles; ++sample_tile) {
          float b[32][8] = {};
          for (int lane = 0; lane < 32; ++lane) {
            const int sample = 8 * sample_tile + lane / 4;
            for (int i = 0; i < columns / 4 && sample < network.batch; ++i) {
              // Lane 4 n + c loads 16 bytes of sample n; two of their words are its part of this half, or all of the
              // whole span.
              const std::size_t word =
                  (static_cast<std::size_t>(span) * network.batch + sample) * 16 + lane % 4 * 4 + 2 * half + i / 2;
              b[of_b(lane, i).row][of_b(lane, i).column] = half_of(state[word], i, network.precision);
            }
          }
          for (int row = 0; row < 16; ++row) {
            for (int sample = 0; sample < 8; ++sample) {
              double sum = 0;
              for (int k = 0; k < columns; ++k) {
                sum += static_cast<double>(weight[row][k]) * b[k][sample];
              }
              sums[(static_cast<std::size_t>(sm) * rows + 16 * row_tile + row) * samples + 8 * sample_tile + sample] +=
                  sum;
            }
          }
        }
      }
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("fragments give the matrix back", "[fast]") {
  const Storage storage = GENERATE(Storage::dense, Storage::structured_2_4, Storage::bitmap);
  for (const auto& [cell, hidden] : kSizes) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      for (const int threads : {32, 256}) {
        const Case c = make_case(storage, cell, precision, hidden, 3, 7, threads, 0.4);
        CAPTURE(describe(c.network), plan_text(c.plan));
        const SparseMatrix back = unpack(c.layout());
        CHECK(back.row_begin == c.matrix.row_begin);
        CHECK(back.column == c.matrix.column);
        CHECK(back.value == c.matrix.value);
      }
    }
  }
}

TEST_CASE("structured_2_4 refuses what is not 2:4, with the place", "[fast]") {
  Case c = make_case(Storage::structured_2_4, Cell::relu, Precision::fp16, 61, 1, 5, 96, 0);
  c.matrix = generate_mask(61, 61, 0.5, 7, Precision::fp16, MaskKind::uniform);
  const CrowdedGroup crowded = find_crowded_group(c.matrix).value();
  CHECK_THROWS_WITH(c.layout(), Catch::Matchers::Contains(describe(crowded)));
}

TEST_CASE("the tensor cores multiply what the kernel loads to the product of matrix and state", "[fast]") {
  const Storage storage = GENERATE(Storage::dense, Storage::structured_2_4, Storage::bitmap);
  for (const auto& [cell, hidden] : kSizes) {
    for (const int batch : {1, 3, 8, 9, 32}) {
      const Precision precision = batch % 2 ? Precision::fp16 : Precision::bf16;
      const Case c = make_case(storage, cell, precision, hidden, batch, hidden > 500 ? 132 : 3, batch == 8 ? 256 : 96,
                               batch == 3 ? 0 : 0.5);
      CAPTURE(describe(c.network), plan_text(c.plan));
      std::mt19937 random(3);
      std::vector<float> state(static_cast<std::size_t>(hidden) * batch);
      for (float& value : state) {
        value = round_to(precision, static_cast<float>(random()) * 0x1p-31f - 1.0f);
      }
      const std::vector<double> sums = multiply(c, encode(c.layout()), exchanged(c, state));
      const int units = c.geometry().units_per_sm, gates = info(cell).gates;
      const int rows = 16 * c.geometry().row_tiles, samples = 8 * c.geometry().sample_tiles;
      for (int row = 0; row < c.network.rows(); ++row) {
        const int unit = row % hidden, gate = row / hidden;
        // Rows g and g + 8 of a tile are neighbours (kernels/dense/combine.cuh).
        const int of_sm = unit % units * gates + gate;
        const int fragment_row = of_sm / 16 * 16 + of_sm % 16 / 2 + of_sm % 2 * 8;
        for (int sample = 0; sample < batch; ++sample) {
          double expected = 0;
          for (std::int64_t e = c.matrix.row_begin[row]; e < c.matrix.row_begin[row + 1]; ++e) {
            expected += static_cast<double>(c.matrix.value[e]) * state[c.matrix.column[e] * batch + sample];
          }
          const double got = sums[(static_cast<std::size_t>(unit / units) * rows + fragment_row) * samples + sample];
          REQUIRE(std::abs(got - expected) < 1e-9);
        }
      }
    }
  }
}
