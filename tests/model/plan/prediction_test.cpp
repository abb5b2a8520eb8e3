// SPDX-License-Identifier: Apache-2.0
#include "model/families/plan.hpp"
#include "tests/catch.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

using namespace onchip;

namespace {

struct Measured {
  Recurrent network;
  const char* plan;
  double us;  // per step
};

}  // namespace

// Of drawn.csv and clusters.csv (experiments/data/h100_sxm), each for something that the model had not seen.
TEST_CASE("regression: steps that were measured on an H100 are within a fifth", "[fast]") {
  const Chip chip = find_chip("h100_sxm").chip;
  const Measured measured = GENERATE(
      // items that are left over when all threads have had one, in a cluster
      Measured{{Cell::gru, Precision::bf16, 278, 64, 256, 1},
               "dense_persistent dense cluster sms=8 threads=128 loads_in_flight=2 "
               "shared_tiles=0 batch_groups=8",
               1.265},
      Measured{{Cell::gru, Precision::fp16, 256, 64, 256, 1},
               "dense_persistent dense cluster sms=8 threads=128 loads_in_flight=2 "
               "shared_tiles=0 batch_groups=8",
               0.910},
      Measured{{Cell::tanh, Precision::bf16, 337, 22, 256, 1},
               "dense_persistent dense cluster sms=8 threads=128 loads_in_flight=4 "
               "shared_tiles=0 batch_groups=2",
               1.059},
      // products of 2:4 weights with many samples
      Measured{{Cell::tanh, Precision::fp16, 1696, 28, 256, 0.5},
               "dense_persistent structured_2_4 lamport sms=27 threads=256 loads_in_flight=8 "
               "poll_delay=120 shared_tiles=0 batch_groups=4",
               1.409},
      Measured{{Cell::tanh, Precision::fp16, 1646, 56, 256, 0.5},
               "dense_persistent structured_2_4 lamport sms=16 threads=256 loads_in_flight=8 "
               "poll_delay=140 shared_tiles=15 batch_groups=8",
               2.144},
      // a loop over chunks in a step longer than the instruction cache
      Measured{
          {Cell::gru, Precision::bf16, 1577, 64, 256, 0.6563},
          "sparse_persistent packed_pair bank_aware lamport sms=132 threads=192 lanes_per_row=16 slots=5/5/5 "
          "tile_rows=4 pass_planes=4 load_bytes=16 loads_in_flight=8 poll_delay=480 "
          "promote_every=1 overflow_chunks=279 longest_overflow=48 shared_chunks=10 chunks_in_flight=1 ring_chunks=2",
          49.28});
  const double us = predict(chip, measured.network, parse_recurrent_plan(measured.plan)).step_us;
  CAPTURE(describe(measured.network), measured.plan, us, measured.us);
  CHECK(std::abs(us / measured.us - 1) < 0.2);
}

TEST_CASE("a term beyond the most is refused, in release builds too", "[fast]") {
  Terms terms;
  for (std::size_t i = 0; i < Terms::kMost; ++i) {
    terms.add("term", 1);
  }
  CHECK_THROWS_AS(terms.add("one more", 1), std::out_of_range);
  CHECK(terms.size() == Terms::kMost);
  CHECK(terms.total() == static_cast<double>(Terms::kMost));
}
