// SPDX-License-Identifier: Apache-2.0
// What the dense persistent kernel computes, against the reference (tag [gpu]).
#include "model/chip/chip.hpp"
#include "model/plan/footprint.hpp"
#include "tests/kernels/runs.hpp"

#include <limits>
#include <vector>

namespace onchip {
namespace {

TEST_CASE("dense kernels of every cell and precision give what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  for (const int batch : {1, 3, 8, 9, 17, 32}) {
    const DenseCase c = dense_case({.cell = cell,
                                    .precision = precision,
                                    .hidden = batch == 1 ? 257 : 127,
                                    .batch = batch,
                                    .sms = batch == 3 ? 2 : 7,
                                    .threads = batch == 8 ? 256 : 96,
                                    .in_shared = batch == 9 ? 0.0 : 0.4,
                                    .density = batch == 17 ? 0.3 : 1.0});
    check_steps(c);
  }
}

TEST_CASE("dense kernels of 2:4 masks give what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  for (const int batch : {1, 3, 8, 20, 32}) {
    const DenseCase c = dense_case({.cell = cell,
                                    .precision = precision,
                                    .hidden = batch == 1   ? 257
                                              : batch == 3 ? 126  // on two SMs: more would spill
                                                           : 127,
                                    .batch = batch,
                                    .sms = batch == 3 ? 2 : 7,
                                    .threads = batch == 8 ? 256 : 96,
                                    .in_shared = batch == 8 ? 0.0 : 0.4,
                                    .density = batch == 20 ? 0.3 : 0.5,
                                    .groups_loads = batch == 3 ? 2 : 1,
                                    .storage = Storage::structured_2_4});
    check_steps(c);
  }
}

TEST_CASE("dense kernels of bitmaps give what the reference gives, on awkward sizes", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::tanh, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16);
  for (const int batch : {1, 3, 8, 20, 32}) {
    const DenseCase c = dense_case({.cell = cell,
                                    .precision = precision,
                                    .hidden = batch == 1 ? 257 : 127,
                                    .batch = batch,
                                    .sms = batch == 3 ? 2 : 7,
                                    .threads = batch == 8 ? 256 : 96,
                                    .in_shared = batch == 8 ? 0.3 : 0.9,
                                    .density = batch == 20   ? 0.01
                                               : batch == 32 ? 0.6
                                                             : 0.2,
                                    .groups_loads = batch == 3 ? 2 : 1,
                                    .storage = Storage::bitmap});
    check_steps(c);
  }
}

TEST_CASE("dense networks of one unit, and of fewer units than SMs, are networks too", "[gpu]") {
  const Cell cell = GENERATE(Cell::tanh, Cell::lstm, Cell::gru);
  const Storage storage = GENERATE(Storage::dense, Storage::structured_2_4, Storage::bitmap);
  for (const int hidden : {1, 3}) {
    const DenseCase c = dense_case({.cell = cell, .hidden = hidden, .storage = storage});
    check_right(c, given(c.network, 4));
  }
}

TEST_CASE("all SMs of the device work together on a dense network", "[gpu]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const Storage storage = GENERATE(Storage::dense, Storage::structured_2_4, Storage::bitmap);
  for (const int threads : {256, 1024}) {
    const DenseCase c = dense_case({.cell = cell,
                                    .hidden = 1021,
                                    .batch = 4,
                                    .sms = device_info().sm_count,
                                    .threads = threads,
                                    .in_shared = 0.3,
                                    .density = storage == Storage::bitmap ? 0.3 : 1,
                                    .storage = storage});
    check_right(c, given(c.network, 300));  // more steps than segments are emptied ahead
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

}  // namespace
}  // namespace onchip
