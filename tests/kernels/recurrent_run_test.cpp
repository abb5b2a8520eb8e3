// SPDX-License-Identifier: Apache-2.0
// What the persistent kernels compute, against the reference (tag [gpu]).
#include "model/base/error.hpp"
#include "model/chip/chip.hpp"
#include "model/plan/footprint.hpp"
#include "tests/kernels/runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("sparse kernels of every cell and precision give what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  for (const int batch : {1, 3, 5, 17}) {
    const SparseCase c = sparse_case({.cell = cell,
                                      .precision = precision,
                                      .hidden = batch == 1 ? 257 : 127,
                                      .batch = batch,
                                      .sms = batch == 5 ? 2 : 7,
                                      .lanes = batch == 3 ? 32 : 8,
                                      .units_per_group = batch == 17 ? 1 : 2});
    check_steps(c);
  }
}

TEST_CASE("drawn plans that pipeline sub-batches give what the reference gives", "[gpu]") {
  for (std::uint64_t seed = 101; seed <= 120; ++seed) {
    check_steps(pipelined_case(seed, 800, 300));
  }
}

TEST_CASE("dense kernels of every cell, precision and storage give what the reference gives, on awkward sizes",
          "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  for (const Storage storage : {Storage::dense, kStructured, kBitmap}) {
    const bool is_dense = storage == Storage::dense;
    for (const int batch : {1, 3, 8, is_dense ? 9 : 20, is_dense ? 17 : 20, 32}) {
      check_steps(awkward_dense_case(cell, precision, storage, batch, /*is_small=*/false));
    }
  }
}

TEST_CASE("one unit, and fewer units than SMs, are networks too", "[gpu]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  for_every_tiny_network(cell, [](const auto& c) { check_right(c, given(c.network, 4)); });
}

TEST_CASE("all SMs of the device work together, and stream at once", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const int sms = device_info().sm_count;
  const auto check = [](const auto& c) {
    check_right(c, given(c.network, 300));  // more steps than segments are emptied ahead
  };
  for (const MaskKind mask : {MaskKind::uniform, MaskKind::power_law}) {
    const SparseCase c = sparse_case({.cell = cell,
                                      .hidden = 1021,
                                      .batch = 4,
                                      .sms = sms,
                                      .lanes = 32,
                                      .units_per_group = 1,
                                      .density = 0.1,
                                      .mask = mask});
    check(with_tiers(c, mask == MaskKind::uniform ? Tiers::registers : Tiers::streamed, 4));
  }
  for (const Storage storage : {Storage::dense, kStructured, kBitmap}) {
    for (const int threads : {256, 1024}) {
      check(dense_case({.cell = cell,
                        .hidden = 1021,
                        .batch = 4,
                        .sms = sms,
                        .threads = threads,
                        .in_shared = 0.3,
                        .density = storage == kBitmap ? 0.3 : 1,
                        .storage = storage}));
    }
  }
}

TEST_CASE("pipelined passes and split rows come out right, over any number of steps and launches, with the same bits",
          "[gpu]") {
  for (const std::vector<SparseCase>& cases : {every_pipeline(), every_split()}) {
    for (const SparseCase& c : cases) {
      CAPTURE(c.text());
      const Given g = given(c.network, 300);  // more steps than segments are emptied ahead
      const Got first = run(c, g);
      check_right(first, expected(c, g), c.network.precision);
      CHECK(run(c, g) == first);
      CHECK(run(c, g, 7) == first);
    }
  }
}

TEST_CASE("natural order, narrow loads, tiles of several rows and passes of several planes give the same", "[gpu]") {
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    SparseCase c = sparse_case(shape);
    const Given g = given(c.network, 5);
    c.plan.order = RowOrder::natural;
    check_right(c, g);
    c.plan.order = RowOrder::bank_aware;
    for (int load_bytes = info(shape.precision).bytes; load_bytes < kWidestLoad; load_bytes *= 2) {
      c.plan.load_bytes = load_bytes;
      check_right(c, g);
    }
    c.plan.load_bytes = kWidestLoad;
    c.plan.pass_planes = 2;
    c.plan.loads_in_flight = 5;
    c.plan.promote_every = 1;
    if (info(shape.cell).gates == 1) {
      c.plan.tile_rows = 4;  // of two rows
    }
    check_right(c, g);
  }
}

TEST_CASE("dense kernels end where spans divide evenly over neither warps nor groups", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::gru);
  for (const int hidden : {1152, 2336, 33}) {  // 36 and 73 spans, and two, fewer than there are warps
    for (const int threads : {128, 256, 384}) {
      if (hidden == 2336 && cell == Cell::gru) {
        continue;  // more weights than so few threads have room for
      }
      for (const int groups_loads : {1, 2, 3, 4}) {
        const DenseCase c = dense_case({.cell = cell,
                                        .hidden = hidden,
                                        .batch = 1,
                                        .sms = device_info().sm_count / 2,
                                        .threads = threads,
                                        .in_shared = 0.7,
                                        .groups_loads = groups_loads});
        check_right(c, given(c.network, 3));
      }
    }
  }
}

TEST_CASE("dense kernels give the same bits wherever their weights are", "[gpu]") {
  for (const DenseShape& shape : kEveryDenseKind) {
    DenseCase c = dense_case(shape);
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    const Got first = run(c, g);
    int fewest = 0;  // tiles that leave the others room in registers
    const Chip chip = find_chip("h200").chip;
    for (keep_in_shared(c, 0); !footprint(chip, c.network, c.plan).fits; keep_in_shared(c, fewest)) {
      ++fewest;
    }
    for (const int tiles : {fewest, fewest + 1, c.geometry().warp_tiles}) {
      keep_in_shared(c, tiles);
      CAPTURE(tiles);
      CHECK(run(c, g) == first);
    }
  }
}

TEST_CASE("batch groups and clusters compute what the reference does, the same bits in every run and launch",
          "[gpu][batch_groups]") {
  for (DenseShape shape : kEveryBatchGroup) {
    const DenseCase c = dense_case(shape);
    shape.density = 1;  // zeros that are multiplied by infinity are not the reference's
    const DenseCase of_no_zeros = dense_case(shape);
    CAPTURE(c.text());
    Given g = given(c.network, 9);
    check_right(c, g);
    for (int sample = 0; sample < c.network.batch; ++sample) {
      g.lengths.push_back(sample * 5 % 9 + 1);
    }
    check_right(c, g);
    g.backward = true;
    check_right(c, g, 4);
    const Given longer = given(c.network, 150);
    PersistentKernel kernel(c.layout(), longer.biases());
    const Got first = run(kernel, c.network, longer);
    check_right(first, expected(c, longer), c.network.precision);
    for (int again = 0; again < 5; ++again) {
      CHECK(run(kernel, c.network, longer) == first);
    }
    for (const int most_steps : {1, 40}) {
      CHECK(run(c, longer, most_steps) == first);
    }
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Given poisoned = given(c.network, 5);
      poisoned.input[7] = poison;  // step 0, sample 0
      check_right(of_no_zeros, poisoned);
    }
  }
}

TEST_CASE("input and recurrent biases are added where they belong", "[gpu]") {
  for_every_kind([](const auto& c) {
    for (const int which : {0, 1, 2}) {
      Given g = given(c.network, 4);
      (which == 0 ? g.input_bias : which == 1 ? g.recurrent_bias : g.initial_cell).clear();
      check_right(c, g);
    }
  });
}

TEST_CASE("without an input, an initial state or a cell, they are zeros", "[gpu]") {
  for_every_kind([](const auto& c) {
    Given g = given(c.network, 4);
    g.initial_cell.clear();
    std::ranges::fill(g.initial, 0.0F);
    const Expected zeros = expected(c, g);
    g.initial.clear();
    CAPTURE(c.text());
    check_right(run(c, g), zeros, c.network.precision);
    g.input.clear();
    check_right(c, g);
  });
}

TEST_CASE("samples of different lengths end each for itself, forward and backward, in one launch and in several",
          "[gpu]") {
  const bool backward = GENERATE(false, true);
  for_every_kind([&](const auto& c) {
    Given g = given(c.network, 9);
    g.backward = backward;
    check_right(c, g);  // all as long
    for (int sample = 0; sample < c.network.batch; ++sample) {
      g.lengths.push_back(std::array{5, 9, 1, 8, 4}[sample]);
    }
    check_right(c, g);
    check_right(c, g, 4);
  });
}

TEST_CASE("every run, launch, exchange and place of the state in L2 gives the same bits", "[gpu]") {
  const auto check = [](auto c) {
    const Given g = given(c.network, 150);  // more than segments are emptied ahead
    CAPTURE(c.text());
    PersistentKernel kernel(c.layout(), g.biases());
    const Got first = run(kernel, c.network, g);
    Given other = given(c.network, 3);  // what another run leaves in the workspace must not matter
    other.backward = true;
    run(kernel, c.network, other);
    for (int again = 0; again < 5; ++again) {
      CHECK(run(kernel, c.network, g) == first);
    }
    for (const int most_steps : {1, 40, 150}) {
      CHECK(run(c, g, most_steps) == first);
    }
    for (const int line_words : {1, 2, 4}) {
      c.plan.line_words = line_words;
      CHECK(run(c, g) == first);
      CHECK(run(c, g, 40) == first);
    }
    for (const auto exchange : {ExchangeProtocol::atomic_barrier, ExchangeProtocol::cooperative_barrier}) {
      c.plan.exchange = exchange;
      CHECK(run(c, g) == first);
      CHECK(run(c, g, 40) == first);
    }
  };
  for_every_kind(check);
  for (Shape shape : kEveryKind) {
    shape.batch = 17;
    check(sparse_case(shape));
  }
}

TEST_CASE("NaN and infinity travel as in the reference, stay in their sample, and hang nothing", "[gpu]") {
  for_every_poison([](const auto& c, const Given& g) {
    const Got got = run(c, g);
    const std::size_t batch = c.network.batch, rows = c.network.rows(), hidden = c.network.hidden;
    if (std::isnan(g.input[batch * rows + 7])) {
      CHECK(std::isnan(from_elements(got.states, c.network.precision)[batch * hidden + 7]));
    }
    check_right(got, expected(c, g), c.network.precision);
  });
}

TEST_CASE("lengths that cannot be are refused", "[gpu]") {
  const SparseCase c = sparse_case({.batch = 3});
  Given g = given(c.network, 4);
  PersistentKernel kernel(c.layout(), g.biases());
  for (const std::vector<int>& lengths : {std::vector<int>{1, 2}, {1, 2, 3, 4}, {0, 1, 1}, {1, 5, 1}, {-1, 1, 1}}) {
    g.lengths = lengths;
    CHECK_THROWS_AS(run(kernel, c.network, g), InputError);
  }
  g.lengths = {4, 1, 2};
  check_right(run(kernel, c.network, g), expected(c, g), c.network.precision);
  g.input_bias.pop_back();
  CHECK_THROWS_AS(PersistentKernel(c.layout(), g.biases()), InputError);
}

}  // namespace
}  // namespace onchip
