// SPDX-License-Identifier: Apache-2.0
// The dense persistent family's fragments, multiplied as the tensor cores do.
#include "model/fragments.hpp"

#include "model/layout.hpp"
#include "model/mask.hpp"
#include "model/numeric.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

using namespace onchip;

namespace {

struct Case {
  Network network;
  Plan plan;
  SparseMatrix matrix;
};

Case make_case(Cell cell, Precision precision, int hidden, int batch, int sms, int threads, double share_in_shared,
               double density = 0.8) {
  Case c;
  c.network = {cell, precision, hidden, batch, 1, density};
  c.plan = shape_dense_plan(c.network, sms, threads);
  c.plan.shared_tiles = static_cast<int>(share_in_shared * warp_tiles(c.network, c.plan));
  c.matrix = generate_mask(c.network.rows(), hidden, density, 7, precision, MaskKind::uniform);
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
  return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane / 4};
}

float half_of(std::uint32_t word, int i, Precision precision) {
  return from_bits(precision, i % 2 ? word >> 16 : word & 0xffffu);
}

// The state as the kernels exchange it, [spans][batch][32] 16-bit elements in words (kernels/spans.cuh).
std::vector<std::uint32_t> exchanged(const Case& c, const std::vector<float>& state) {
  const int batch = c.network.batch;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(exchange_bytes(c.network, c.plan)) / 4);
  for (int unit = 0; unit < c.network.hidden; ++unit) {
    for (int sample = 0; sample < batch; ++sample) {
      const std::size_t element = (static_cast<std::size_t>(unit / 32) * batch + sample) * 32 + unit % 32;
      words[element / 2] |= to_bits(c.network.precision, state[unit * batch + sample]) << (element % 2 * 16);
    }
  }
  return words;
}

// One product as kernels/multiply.cuh computes it: [sms][16 * row_tiles][8 * sample_tiles], summed over the warps.
std::vector<double> multiply(const Case& c, const Encoded& encoded, const std::vector<std::uint32_t>& state) {
  const Network& network = c.network;
  const Plan& plan = c.plan;
  const int tiles = warp_tiles(network, plan), in_registers = tiles - plan.shared_tiles;
  const int rows = 16 * row_tiles(network, plan), samples = 8 * sample_tiles(network, plan);
  const int spans_of_warp = warp_spans(network, plan);
  std::vector<double> sums(static_cast<std::size_t>(plan.sms) * rows * samples);
  for (int sm = 0; sm < plan.sms; ++sm) {
    for (int warp = 0; warp < plan.warps(); ++warp) {
      for (int tile = 0; tile < tiles; ++tile) {
        const int span = warp * spans_of_warp + tile / (2 * row_tiles(network, plan));
        if (span >= spans(network, plan)) {
          continue;
        }
        const int half = tile / row_tiles(network, plan) % 2, row_tile = tile % row_tiles(network, plan);
        const int before = shared_tiles_before(tile, plan.shared_tiles, tiles);
        const bool in_shared = shared_tiles_before(tile + 1, plan.shared_tiles, tiles) > before;
        const std::size_t at =
            in_shared ? static_cast<std::size_t>(plan.warps()) * in_registers + warp * plan.shared_tiles + before
                      : static_cast<std::size_t>(warp) * in_registers + tile - before;
        const std::uint32_t* const a =
            encoded.weights.data() + (static_cast<std::size_t>(sm) * plan.warps() * tiles + at) * 128;
        float weight[16][16] = {};
        for (int lane = 0; lane < 32; ++lane) {
          for (int i = 0; i < 8; ++i) {
            weight[of_a(lane, i).row][of_a(lane, i).column] = half_of(a[lane * 4 + i / 2], i, network.precision);
          }
        }
        for (int sample_tile = 0; sample_tile < sample_tiles(network, plan); ++sample_tile) {
          float b[16][8] = {};
          for (int lane = 0; lane < 32; ++lane) {
            const int sample = 8 * sample_tile + lane / 4;
            for (int i = 0; i < 4 && sample < network.batch; ++i) {
              // Lane 4 n + c loads 16 bytes of sample n; two of their words are its part of this half.
              const std::size_t word =
                  (static_cast<std::size_t>(span) * network.batch + sample) * 16 + lane % 4 * 4 + 2 * half + i / 2;
              b[of_b(lane, i).row][of_b(lane, i).column] = half_of(state[word], i, network.precision);
            }
          }
          for (int row = 0; row < 16; ++row) {
            for (int sample = 0; sample < 8; ++sample) {
              double sum = 0;
              for (int k = 0; k < 16; ++k) {
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
  for (const auto& [cell, hidden] : kSizes) {
    for (const Precision precision : {Precision::fp16, Precision::bf16}) {
      for (const int threads : {32, 256}) {
        const Case c = make_case(cell, precision, hidden, 3, 7, threads, 0.4);
        CAPTURE(describe(c.network), to_string(c.plan));
        const SparseMatrix back = unpack(make_layout(c.network, c.plan, c.matrix));
        CHECK(back.row_begin == c.matrix.row_begin);
        CHECK(back.column == c.matrix.column);
        CHECK(back.value == c.matrix.value);
      }
    }
  }
}

TEST_CASE("every weight has a place of its own among the fragments", "[fast]") {
  for (const auto& [cell, hidden] : {std::pair{Cell::lstm, 61}, {Cell::gru, 101}, {Cell::relu, 127}}) {
    const Case c = make_case(cell, Precision::fp16, hidden, 1, 5, 96, 0);
    const std::size_t all =
        static_cast<std::size_t>(c.plan.sms) * c.plan.warps() * warp_tiles(c.network, c.plan) * kTileElements;
    std::set<std::size_t> seen;
    for (int row = 0; row < c.network.rows(); ++row) {
      for (int column = 0; column < hidden; ++column) {
        const std::size_t index = fragment_index(c.network, c.plan, row, column);
        REQUIRE(index < all);
        REQUIRE(seen.insert(index).second);
      }
    }
  }
}

TEST_CASE("tiles in shared memory are spread evenly over a warp's tiles", "[fast]") {
  for (const int tiles : {1, 2, 7, 90, 128}) {
    for (int in_shared = 0; in_shared <= tiles; ++in_shared) {
      CHECK(shared_tiles_before(0, in_shared, tiles) == 0);
      CHECK(shared_tiles_before(tiles, in_shared, tiles) == in_shared);
      for (int tile = 0; tile < tiles; ++tile) {
        const int step = shared_tiles_before(tile + 1, in_shared, tiles) - shared_tiles_before(tile, in_shared, tiles);
        CHECK((step == 0 || step == 1));
      }
    }
  }
}

TEST_CASE("the tensor cores multiply what the kernel loads to the product of matrix and state", "[fast]") {
  for (const auto& [cell, hidden] : kSizes) {
    for (const int batch : {1, 3, 8, 9, 32}) {
      const Precision precision = batch % 2 ? Precision::fp16 : Precision::bf16;
      const Case c = make_case(cell, precision, hidden, batch, hidden > 500 ? 132 : 3, batch == 8 ? 256 : 96,
                               batch == 3 ? 0 : 0.5);
      CAPTURE(describe(c.network), to_string(c.plan));
      std::mt19937 random(3);
      std::vector<float> state(static_cast<std::size_t>(hidden) * batch);
      for (float& value : state) {
        value = round_to(precision, static_cast<float>(random()) * 0x1p-31f - 1.0f);
      }
      const std::vector<double> sums =
          multiply(c, encode(make_layout(c.network, c.plan, c.matrix)), exchanged(c, state));
      const int units = units_per_sm(c.network, c.plan), gates = info(cell).gates;
      const int rows = 16 * row_tiles(c.network, c.plan), samples = 8 * sample_tiles(c.network, c.plan);
      for (int row = 0; row < c.network.rows(); ++row) {
        const int unit = row % hidden, gate = row / hidden;
        // Rows g and g + 8 of a tile are neighbours (kernels/combine.cuh).
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
