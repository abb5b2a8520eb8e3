// SPDX-License-Identifier: Apache-2.0
#include "model/plan/plan.hpp"

#include "model/base/error.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace onchip;

namespace {

// Numbers without meaning, so that every field is seen.
Plan random_plan(std::mt19937& random) {
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  Plan plan;
  plan.storage = static_cast<Storage>(number(0, 1));
  plan.order = static_cast<RowOrder>(number(0, 2));
  plan.exchange = static_cast<ExchangeProtocol>(number(0, 2));
  plan.sms = number(0, 4096);
  plan.threads = number(0, 1024);
  plan.lanes_per_row = number(1, 32);
  plan.rows_per_group = number(1, kMaxRowsPerGroup);
  for (int r = 0; r < plan.rows_per_group; ++r) {
    plan.slots[r] = number(0, 100000);
  }
  for (int* field : {&plan.tile_rows, &plan.pass_planes, &plan.batch_padded, &plan.load_bytes, &plan.loads_in_flight,
                     &plan.promote_every, &plan.tail_chunks, &plan.longest_tail, &plan.shared_chunks,
                     &plan.chunks_in_flight, &plan.ring_chunks, &plan.pieces, &plan.piece_slots, &plan.most_pieces,
                     &plan.row_chunks, &plan.piece_chunks, &plan.exchange_warps}) {
    *field = number(0, 2147483647);
  }
  return plan;
}

Plan random_dense_plan(std::mt19937& random) {
  Plan plan = shape_dense_plan({Cell::relu, Precision::fp16, 1, 1 + static_cast<int>(random() % 32)}, 1, 32);
  plan.exchange = static_cast<ExchangeProtocol>(random() % 3);
  for (int* field : {&plan.sms, &plan.threads, &plan.loads_in_flight, &plan.shared_tiles}) {
    *field = static_cast<int>(random() % 2147483647);
  }
  return plan;
}

}  // namespace

// ---- text -----------------------------------------------------------------------------------------------------------

TEST_CASE("plans survive being written and read", "[fast]") {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const Plan plan = random_plan(random);
    const std::string text = to_string(plan);
    CAPTURE(text);
    CHECK(parse_plan(text) == plan);
    CHECK(text.find('\n') == std::string::npos);
    const Plan dense = random_dense_plan(random);
    CHECK(parse_plan(to_string(dense)) == dense);
  }
}

TEST_CASE("two plans that differ are written differently", "[fast]") {
  std::mt19937 random(4);
  const Plan plan = random_plan(random);
  for (int Plan::*field :
       {&Plan::sms, &Plan::threads, &Plan::lanes_per_row, &Plan::tile_rows, &Plan::pass_planes, &Plan::batch_padded,
        &Plan::load_bytes, &Plan::loads_in_flight, &Plan::promote_every, &Plan::tail_chunks, &Plan::longest_tail,
        &Plan::shared_chunks, &Plan::chunks_in_flight, &Plan::ring_chunks}) {
    Plan other = plan;
    other.*field = plan.*field / 2 + 7;
    CHECK(to_string(other) != to_string(plan));
    CHECK(parse_plan(to_string(other)) == other);
  }
}

TEST_CASE("text that is no plan is refused with a reason", "[fast]") {
  CHECK_THROWS_WITH(parse_plan("sparse_persistent smz=132"), "plan: unknown key 'smz'; did you mean 'sms'?");
  CHECK_THROWS_WITH(parse_plan("sparse_persistent sms=-4"), "plan: 'sms' expects a whole number, found '-4'");
  CHECK_THROWS_WITH(parse_plan("sparse_persistent sms="), "plan: 'sms' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("threads=4x"), "plan: 'threads' expects a whole number, found '4x'");
  CHECK_THROWS_WITH(parse_plan("sms=99999999999"), "plan: 'sms' expects a whole number, found '99999999999'");
  CHECK_THROWS_WITH(parse_plan("slots=1//2"), "plan: 'slots' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("slots=1/2/"), "plan: 'slots' expects a whole number, found ''");
  CHECK_THROWS_WITH(parse_plan("slots=1,2"), "plan: 'slots' expects a whole number, found '1,2'");
  CHECK_THROWS_WITH(parse_plan("sparse_persistant"), "plan: unknown word 'sparse_persistant'");
  CHECK_THROWS_WITH(parse_plan("tail_chunk=1"), "plan: unknown key 'tail_chunk'; did you mean 'tail_chunks'?");
  CHECK_THROWS_WITH(parse_plan("unpacked=1"), "plan: unknown key 'unpacked'");
  std::string many = "slots=1";
  for (int r = 1; r <= kMaxRowsPerGroup; ++r) {
    many += "/1";
  }
  CHECK_THROWS_WITH(parse_plan(many), "plan: more than 32 rows per group");
}

// ---- shapes ---------------------------------------------------------------------------------------------------------

TEST_CASE("a shape has slots for every row, none that no row needs, and no tail", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int units_per_group = GENERATE(1, 2, 5);
  const int lanes = GENERATE(4, 32);
  const Storage storage = GENERATE(Storage::packed_pair, Storage::dense);
  const int gates = info(cell).gates;
  const Network network{cell, Precision::fp16, 509, 3, 1, 0.2};
  const RowProfile rows =
      RowProfile::from_matrix(generate_mask(network.rows(), 509, 0.2, 3, Precision::fp16, MaskKind::power_law));
  const Plan plan = shape_plan(network, rows, storage, 7, lanes, gates * units_per_group);
  CAPTURE(to_string(plan));
  CHECK(plan.batch_padded == 4);
  CHECK(plan.threads % 32 == 0);
  CHECK(7 * units_per_group * plan.groups() >= 509);
  CHECK(plan.tile_rows == (gates > 1 ? 4 : 1));
  CHECK_FALSE(plan.has_tail());
  CHECK(plan.streamed_chunks() == 0);
  CHECK(mean_slots(network, plan) == plan.slots_total());
  const int per_class = 7 * plan.groups();
  for (int r = 0; r < plan.rows_per_group; ++r) {
    const int first = r / gates * per_class;
    CHECK(plan.slots[r] >= 1);
    if (first < 509) {
      const int longest = storage == Storage::dense ? state_units(network, plan) : rows.longest_from(first, r % gates);
      CHECK(plan.slots[r] * lanes >= longest);
      CHECK((plan.slots[r] - 1) * lanes < std::max(1, longest));
    }
  }
}

TEST_CASE("a dense shape has tiles for every row and unit, and spans for every unit", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const int hidden = GENERATE(1, 31, 509, 2304);
  const int threads = GENERATE(32, 256, 1024);
  const Network network{cell, Precision::bf16, hidden, 9, 1, 1};
  const int gates = info(cell).gates;
  for (const int sms : {1, 7, 132}) {
    Plan plan = shape_dense_plan(network, sms, threads);
    CAPTURE(describe(network), to_string(plan));
    const int units = units_per_sm(network, plan);
    CHECK(units % 2 == 0);
    CHECK(units * sms >= hidden);
    CHECK((units - 2) * sms < hidden);
    CHECK(spans(network, plan) * kSpanUnits >= state_units(network, plan));
    CHECK((spans(network, plan) - 1) * kSpanUnits < state_units(network, plan));
    CHECK(warp_spans(network, plan) * plan.warps() >= spans(network, plan));
    CHECK(row_tiles(network, plan) * 16 >= units * gates);
    CHECK(sample_tiles(network, plan) == 2);
    CHECK(register_words(network, plan) == 4 * warp_tiles(network, plan));
    // Only the samples that there are.
    CHECK(exchange_bytes(network, plan) == std::int64_t{2} * 9 * kSpanUnits * spans(network, plan));
    // A tile that moves from registers to shared memory takes as many bytes there.
    const std::int64_t bare = shared_bytes(network, plan);
    CHECK(bare == state_bytes(network, plan));
    CHECK(bare % 16 == 0);
    plan.shared_tiles = 1;
    CHECK(shared_bytes(network, plan) == bare + kTileBytes * plan.warps());
    CHECK(register_words(network, plan) == 4 * (warp_tiles(network, plan) - 1));
  }
}

// ---- words of weights -----------------------------------------------------------------------------------------------

TEST_CASE("rows take whole bundles and the words of the rest, and chunks are whole bundles", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8);
  const Storage storage = GENERATE(Storage::packed_pair, Storage::dense, Storage::packed_delta);
  if (storage == Storage::packed_delta && precision == Precision::fp32) {
    return;  // never stored so
  }
  const int gates = info(cell).gates;
  const Network network{cell, precision, 509, 3, 1, 0.2};
  std::mt19937 random(6);
  for (int round = 0; round < 20; ++round) {
    Plan plan;
    plan.storage = storage;
    plan.sms = 7;
    plan.threads = 64;
    plan.rows_per_group = gates * static_cast<int>(1 + random() % (kMaxRowsPerGroup / gates));
    plan.tile_rows = gates > 1 ? 4 : 1 << random() % 4;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      plan.slots[r] = static_cast<int>(random() % 40);
    }
    CAPTURE(describe(network), to_string(plan));
    // Bits of values and indices, in whole words for every bundle.
    const Bundle whole = bundle(network, plan);
    int words = 0;
    for (int r = 0; r < plan.rows_per_group; ++r) {
      const int rest = plan.slots[r] % whole.slots;
      const int rest_bits = rest * info(precision).weight_bits;
      const int rest_words = storage == Storage::dense          ? (rest_bits + 31) / 32
                             : rest == 0                        ? 0
                             : storage == Storage::packed_delta ? 1 + (rest_bits + 31) / 32
                             : precision == Precision::fp8 || precision == Precision::fp32
                                 ? (rest_bits + 31) / 32 + (rest + 1) / 2
                                 : rest;
      const int row = plan.slots[r] / whole.slots * whole.words + rest_words;
      CHECK(row_words(network, plan, plan.slots[r]) == row);
      words += row + (storage == Storage::packed_delta ? 1 : 0);  // where its first slot reads
    }
    CHECK(register_words(network, plan) == words);
    // A lane loads its words of a chunk at once; the warp copies a chunk in pieces of 16 bytes, at most one a lane.
    CHECK(chunk_slots(network, plan) % whole.slots == 0);
    CHECK(chunk_words(network, plan) == chunk_slots(network, plan) / whole.slots * whole.words);
    CHECK(chunk_words(network, plan) <= 4);
    CHECK(chunk_bytes(network, plan) == 32 * 4 * chunk_words(network, plan));
    CHECK(chunk_bytes(network, plan) % 16 == 0);
    CHECK(chunk_bytes(network, plan) <= 32 * 16);
  }
}

TEST_CASE("chunks, rings and the table of tails add to shared memory what they take", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32, Precision::fp8);
  const Network network{cell, precision, 509, 3, 1, 0.2};
  Plan plan = shape_plan(network, RowProfile::uniform(network), Storage::packed_pair, 7, 8, 2 * info(cell).gates);
  const std::int64_t bare = state_bytes(network, plan);
  CHECK(shared_bytes(network, plan) == bare);
  const double slots = mean_slots(network, plan);
  plan.tail_chunks = 50;
  plan.longest_tail = 9;
  // An int for each row of each warp and one for each warp, in whole 16-byte words.
  const std::int64_t table = 4 * (plan.rows_per_group + 1) * plan.warps();
  const std::int64_t with_table = state_bytes(network, plan);
  CHECK(with_table >= bare + table);
  CHECK(with_table < bare + table + 16);
  CHECK(shared_bytes(network, plan) == with_table);
  CHECK_THAT(mean_slots(network, plan) - slots,
             Catch::Matchers::WithinRel(50.0 * chunk_slots(network, plan) / plan.warps(), 1e-12));
  plan.shared_chunks = 20;
  CHECK(plan.streamed_chunks() == 0);  // without a ring
  CHECK(shared_bytes(network, plan) == with_table + 20 * chunk_bytes(network, plan));
  plan.ring_chunks = 3;
  CHECK(plan.streamed_chunks() == 30);
  CHECK(shared_bytes(network, plan) == with_table + (20 + 3 * plan.warps()) * chunk_bytes(network, plan));
  plan.shared_chunks = 60;
  CHECK(plan.streamed_chunks() == 0);
}

TEST_CASE("SMs that write half a line or less have lines of their own, and states grow by as much", "[fast]") {
  CHECK(line_words_for(1) == 1);
  CHECK(line_words_for(2) == 4);
  CHECK(line_words_for(3) == 4);
  CHECK(line_words_for(4) == 4);
  CHECK(line_words_for(5) == kLineWords);
  CHECK(line_words_for(9) == kLineWords);
  const Network network{Cell::relu, Precision::fp16, 1024, 1, 1, 0.1};
  Plan plan = shape_plan(network, RowProfile::uniform(network), Storage::packed_pair, 128, 8, 1);
  CHECK(state_stride(network, plan) == 2048);
  plan.line_words = best_line_words(network, plan);
  CHECK(plan.line_words == 1);
  CHECK(state_stride(network, plan) == 128 * 128);
  CHECK(parse_plan(to_string(plan)) == plan);
  Plan dense = shape_dense_plan(network, 128, 128);
  CHECK(best_line_words(network, dense) == kLineWords / 2);
  dense.exchange = ExchangeProtocol::cluster;
  CHECK(best_line_words(network, dense) == kLineWords);
  Network batch = network;
  batch.batch = 4;
  CHECK(best_line_words(batch, shape_dense_plan(batch, 128, 128)) == kLineWords);
  CHECK(best_line_words(batch, shape_dense_plan(batch, 32, 128, 4)) == kLineWords / 2);
}

TEST_CASE("the longer an SM computes, the longer its warps wait before the first look", "[fast]") {
  const Network network{Cell::relu, Precision::fp16, 2304, 4, 256, 0.3};
  Plan plan;
  CHECK(best_first_look(network, plan, 0, 0) == 100);
  CHECK(best_first_look(network, plan, 2000, 0) == 220);
  CHECK(best_first_look(network, plan, 1e6, 0) == 480);
  CHECK(best_first_look(network, plan, 2000, 1000) == 220);
  Plan turns = plan;
  turns.exchange_warps = 5;
  turns.load_bytes = 4;
  turns.batch_padded = 4;
  REQUIRE(passes(network, turns) == 2);
  CHECK(best_first_look(network, turns, 100, 0) == 0);
  CHECK(best_first_look(network, turns, 2000, 0) == 200);
  CHECK(best_first_look(network, turns, 2000, 400) < 100);
  CHECK(best_first_look(network, turns, 1e6, 0) == 640);
  plan.exchange = ExchangeProtocol::atomic_barrier;
  CHECK(best_first_look(network, plan, 2000, 0) == 0);
  const auto of_dense = [](int hidden, int batch, int sms, int teams = 1) {
    const Network dense{Cell::relu, Precision::fp16, hidden, batch, 256, 1};
    return best_first_look(dense, shape_dense_plan(dense, sms, 256, teams), 500, 0);
  };
  CHECK(of_dense(2048, 1, 128) == 60);  // 0.5 MiB that all SMs together look at
  CHECK(of_dense(2048, 4, 128) == 120);
  CHECK(of_dense(2048, 4, 64) == 80);
  CHECK(of_dense(2048, 32, 16, 8) == 120);
  CHECK(of_dense(2048, 16, 128) == 200);
  Plan in_cluster = shape_dense_plan(network, 16, 256);
  in_cluster.exchange = ExchangeProtocol::cluster;
  CHECK(best_first_look(network, in_cluster, 500, 0) == 0);
  CHECK(best_first_look(network, library_plan(Family::cudnn), 500, 0) == 0);
}

TEST_CASE("plans of 2:4 matrices have half the tiles, and metadata in registers", "[fast]") {
  for (const auto& [cell, hidden, threads] :
       {std::tuple{Cell::relu, 2304, 256}, {Cell::lstm, 1021, 128}, {Cell::gru, 31, 96}}) {
    const Network network{cell, Precision::fp16, hidden, 4, 1, 0.5};
    const Plan dense = shape_dense_plan(network, 64, threads);
    Plan plan = shape_dense_plan(network, 64, threads, 1, Storage::structured_2_4);
    CAPTURE(to_string(plan));
    CHECK(to_string(plan).starts_with("dense_persistent structured_2_4 natural lamport sms=64 "));
    CHECK(parse_plan(to_string(plan)) == plan);
    CHECK(units_per_sm(network, plan) == units_per_sm(network, dense));
    CHECK(exchange_bytes(network, plan) == exchange_bytes(network, dense));
    const int tiles = warp_tiles(network, plan);
    CHECK(2 * tiles == warp_tiles(network, dense));
    CHECK(metadata_words(network, dense) == 0);
    CHECK(2 * metadata_words(network, plan) - tiles == tiles % 2);
    CHECK(register_words(network, plan) == 4 * tiles + metadata_words(network, plan));
    const std::int64_t state = state_bytes(network, plan);
    CHECK(shared_bytes(network, plan) == state);
    plan.shared_tiles = tiles;
    CHECK(register_words(network, plan) == metadata_words(network, plan));
    CHECK(shared_bytes(network, plan) == state + 512 * tiles * plan.warps());
  }
  CHECK(parse_plan("dense_persistent sms=2").storage == Storage::dense);
  CHECK(parse_plan("sms=2").storage == Storage::packed_pair);
}

TEST_CASE("bitmap plans have a word of registers for eight tiles in shared memory, and room for so many words",
          "[fast]") {
  const Network network{Cell::lstm, Precision::bf16, 1021, 4, 1, 0.2};
  Plan plan = shape_dense_plan(network, 64, 256, 1, Storage::bitmap);
  const Plan dense = shape_dense_plan(network, 64, 256);
  const int tiles = warp_tiles(network, plan);
  CHECK(tiles == warp_tiles(network, dense));
  CHECK(metadata_words(network, plan) == 0);  // all tiles in registers, as a dense plan has them
  CHECK(register_words(network, plan) == register_words(network, dense));
  CHECK(shared_bytes(network, plan) == state_bytes(network, plan));
  for (const auto& [in_shared, words] : {std::pair{1, 2}, {8, 2}, {9, 3}, {tiles, (tiles + 7) / 8 + 1}}) {
    plan.shared_tiles = in_shared;
    plan.bank_words = 10 * in_shared;
    CHECK(metadata_words(network, plan) == words);
    CHECK(register_words(network, plan) == 4 * (tiles - in_shared) + words);
    CHECK(shared_bytes(network, plan) == state_bytes(network, plan) + 128 * plan.bank_words);
    CHECK(to_string(plan).starts_with("dense_persistent bitmap natural lamport sms=64 "));
    CHECK(parse_plan(to_string(plan)) == plan);
  }
  CHECK(to_string(dense).find("bank_words") == std::string::npos);
}

TEST_CASE("shared memory holds the state in whole words for every cell and load", "[fast]") {
  const Cell cell = GENERATE(Cell::relu, Cell::lstm, Cell::gru);
  const Precision precision = GENERATE(Precision::fp16, Precision::fp32, Precision::fp8);
  const int batch = GENERATE(1, 3, 8, 17, 32);
  const Network network{cell, precision, 1151, batch, 1, 0.1};
  const int gates = info(cell).gates;
  for (int load_bytes = info(precision).bytes; load_bytes <= kWidestLoad; load_bytes *= 2) {
    Plan plan = shape_plan(network, RowProfile::uniform(network), Storage::packed_pair, 23, 8, gates);
    plan.load_bytes = load_bytes;
    CAPTURE(describe(network), to_string(plan));
    CHECK(planes(network, plan) * plane_unit_bytes(network, plan) == unit_bytes(network, plan));
    CHECK(plane_unit_bytes(network, plan) <= load_bytes);
    CHECK(units_per_sm(network, plan) * 23 >= 1151);
    CHECK((units_per_sm(network, plan) - 16) * 23 < 1151);
    CHECK(exchange_bytes(network, plan) % 16 == 0);
    CHECK(state_bytes(network, plan) % 16 == 0);
    CHECK(state_bytes(network, plan) > exchange_bytes(network, plan));
    // Zero units in every bank.
    CHECK(zero_units(network, plan) * plane_unit_bytes(network, plan) >= 128);
    const std::int64_t reach = state_units(network, plan) + zero_units(network, plan);
    CHECK((reach - 1) * plane_unit_bytes(network, plan) >> index_shift(network, plan) < 65536);
    CHECK(plane_unit_bytes(network, plan) % (1 << index_shift(network, plan)) == 0);
    // The last chunk of a dense row reaches beyond the state, into zeros.
    plan.storage = Storage::dense;
    CHECK(zero_units(network, plan) >= chunk_slots(network, plan) * plan.lanes_per_row);
  }
}
