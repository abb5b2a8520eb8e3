// SPDX-License-Identifier: Apache-2.0
// Networks and plans for which the persistent kernels must compile, and run right: everything that a plan can say, on
// sizes that divide nothing.
#pragma once

#include "model/dense/bitmap.hpp"
#include "model/sparse/row_assignment.hpp"
#include "model/plan/layout.hpp"
#include "model/workload/mask.hpp"
#include "model/plan/plan.hpp"
#include "tests/tails.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace onchip {

struct Shape {
  Cell cell = Cell::tanh;
  Precision precision = Precision::fp16;
  int hidden = 127, batch = 3;
  int sms = 5, lanes = 16, units_per_group = 2;
  double density = 0.25;
  MaskKind mask = MaskKind::uniform;
};

// Where the tails are: nowhere, for all weights are in registers; in shared memory; there and streamed; all streamed.
enum class Tiers { registers, shared, mixed, streamed };
inline constexpr Tiers kAllTiers[] = {Tiers::registers, Tiers::shared, Tiers::mixed, Tiers::streamed};
inline constexpr Tiers kTailTiers[] = {Tiers::shared, Tiers::mixed, Tiers::streamed};

struct PlannedCase {
  Network network;
  SparseMatrix matrix;
  Plan plan;

  Layout layout() const { return make_layout(network, plan, matrix); }
  std::string text() const { return describe(network) + ": " + to_string(plan); }
};

// The case with the share `kept` of each row's slots in registers and the rest where `tiers` says.
inline PlannedCase with_tiers(PlannedCase c, Tiers tiers, int ring_chunks = 3, double kept = 0.4) {
  if (tiers == Tiers::registers) {
    return c;
  }
  c.plan = with_tail(c.network, c.plan, RowProfile::from_matrix(c.matrix), kept);
  if (c.plan.has_tail() && tiers != Tiers::shared) {
    c.plan.shared_chunks = tiers == Tiers::mixed ? c.plan.shared_chunks / 2 : 0;
    c.plan.ring_chunks = ring_chunks;
  }
  return c;
}

inline PlannedCase planned_case(const Shape& shape) {
  PlannedCase c;
  c.network = {shape.cell, shape.precision, shape.hidden, shape.batch, 16, shape.density};
  c.matrix = generate_mask(c.network.rows(), shape.hidden, shape.density, 5, shape.precision, shape.mask);
  c.plan = shape_plan(c.network, RowProfile::from_matrix(c.matrix), Storage::packed_pair, shape.sms, shape.lanes,
                      shape.units_per_group * info(shape.cell).gates);
  c.plan.promote_every = state_type(shape.precision) == Precision::fp16 ? 8 : 1;
  return c;
}

// The case stored otherwise, in other shapes of SMs and lanes.
inline PlannedCase stored_as(Storage storage, PlannedCase c, int sms, int lanes, int units_per_group) {
  const int promote_every = c.plan.promote_every;
  c.plan = shape_plan(c.network, RowProfile::from_matrix(c.matrix), storage, sms, lanes,
                      units_per_group * info(c.network.cell).gates);
  c.plan.promote_every = promote_every;
  return c;
}

// What a plan says of the row that has most pieces.
inline void count_pieces(PlannedCase& c) {
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  c.plan.most_pieces = 0;
  for (int rank = 0; rank < rows.units(); ++rank) {
    const int r = rank / (c.plan.groups() * c.plan.sms) * rows.gates();
    for (int at = 0; at < rows.gates(); ++at) {
      c.plan.most_pieces =
          std::max(c.plan.most_pieces, pieces_of_row(c.network, c.plan, r + at, rows.length(rank, at)));
    }
  }
}

// The case with its longest rows cut to as few slots as so many pieces for every group, of as few slots, allow.
inline PlannedCase in_pieces(PlannedCase c, int pieces) {
  const RowProfile rows = RowProfile::from_matrix(c.matrix);
  const std::vector<std::int32_t> ranks = deal_units(c.network, c.plan, rows);
  const Plan whole = c.plan;
  c.plan.pieces = pieces;
  const auto fits = [&] { return most_pieces(c.network, c.plan, rows, ranks) <= pieces * c.plan.groups(); };
  for (int kept = 1; !(c.plan.piece_slots > 0 && fits()); ++kept) {
    for (int r = 0; r < c.plan.rows_per_group; ++r) {
      c.plan.slots[r] = std::min(kept, whole.slots[r]);
    }
    for (c.plan.piece_slots = 1; c.plan.piece_slots < whole.slots[0] && !fits();) {
      ++c.plan.piece_slots;
    }
  }
  count_pieces(c);
  return c;
}

// The case, whose rows are cut, with so many chunks of each row and piece instead of slots in registers, where `tiers`
// says.
inline PlannedCase in_chunks(PlannedCase c, int row_chunks, int piece_chunks, Tiers tiers, int ring_chunks = 3) {
  const int per_chunk = chunk_slots(c.network, c.plan);
  const auto fewer = [&](int& slots, int chunks) { slots = std::max(0, slots - chunks * per_chunk); };
  for (int r = 0; r < c.plan.rows_per_group; ++r) {
    fewer(c.plan.slots[r], c.plan.slots[r] > 0 ? row_chunks : 0);
  }
  fewer(c.plan.piece_slots, piece_chunks);
  c.plan.row_chunks = row_chunks;
  c.plan.piece_chunks = piece_chunks;
  const Tail tail = tail_of(c.network, c.plan, RowProfile::from_matrix(c.matrix), /*exact=*/true);
  c.plan.tail_chunks = static_cast<int>(std::ceil(tail.mean));
  c.plan.longest_tail = tail.longest;
  c.plan.shared_chunks = tiers == Tiers::shared ? tail.fullest : tiers == Tiers::mixed ? tail.fullest / 2 : 0;
  c.plan.ring_chunks = tiers == Tiers::shared ? 0 : ring_chunks;
  count_pieces(c);
  return c;
}

// Every cell and type, with 1, 2 and 4 pieces, in one pass and several, of one tile and several; with chunks of pieces,
// of rows and of both, in shared memory and streamed; stored as distances, in registers and in chunks.
inline std::vector<PlannedCase> every_cut() {
  const auto uneven = [](Cell cell, Precision precision, int batch, int lanes, int units_per_group = 2) {
    return planned_case({.cell = cell,
                         .precision = precision,
                         .batch = batch,
                         .lanes = lanes,
                         .units_per_group = units_per_group,
                         .mask = MaskKind::power_law});
  };
  const auto cut = [&](Cell cell, Precision precision, int batch, int lanes, int pieces, int units_per_group = 2) {
    return in_pieces(uneven(cell, precision, batch, lanes, units_per_group), pieces);
  };
  const auto cut_distances = [&](Cell cell, Precision precision, int batch, int lanes, int pieces) {
    return in_pieces(stored_as(Storage::packed_delta, uneven(cell, precision, batch, lanes), 5, lanes, 2), pieces);
  };
  const auto cut_merged = [&](Cell cell, Precision precision, int batch, int lanes, int pieces) {
    PlannedCase c = uneven(cell, precision, batch, lanes);
    c.plan.order = RowOrder::bank_merged;
    return in_pieces(c, pieces);
  };
  std::vector<PlannedCase> cases{
      cut(Cell::relu, Precision::fp16, 4, 8, 1),    cut(Cell::tanh, Precision::fp32, 3, 16, 2),
      cut(Cell::lstm, Precision::bf16, 5, 16, 1),   cut(Cell::gru, Precision::fp8, 16, 8, 2, 1),
      cut(Cell::lstm, Precision::fp16, 30, 32, 4),  cut(Cell::relu, Precision::fp16, 1, 4, 2, 3),
      cut(Cell::tanh, Precision::bf16, 2, 32, 4, 1)};
  cases[0].plan.order = RowOrder::natural;
  cases[1].plan.tile_rows = 2;
  cases[5].plan.tile_rows = 2;  // of three rows
  cases[4].plan.pass_planes = 1;
  for (const PlannedCase& c :
       {in_chunks(cases[0], 0, 9, Tiers::shared), in_chunks(cases[1], 1, 1, Tiers::mixed, 2),
        in_chunks(cases[2], 1, 0, Tiers::shared), in_chunks(cases[3], 1, 1, Tiers::streamed, 4),
        in_chunks(cases[4], 0, 1, Tiers::mixed), in_chunks(cases[5], 1, 1, Tiers::shared),
        cut_distances(Cell::relu, Precision::fp16, 4, 8, 1), cut_distances(Cell::gru, Precision::fp8, 5, 16, 2),
        in_chunks(cut_distances(Cell::tanh, Precision::bf16, 17, 8, 4), 0, 9, Tiers::shared),
        in_chunks(cut_distances(Cell::lstm, Precision::fp16, 3, 16, 2), 1, 1, Tiers::mixed),
        cut_merged(Cell::relu, Precision::fp16, 2, 16, 1),
        in_chunks(cut_merged(Cell::lstm, Precision::bf16, 4, 8, 2), 1, 1, Tiers::shared)}) {
    cases.push_back(c);
  }
  cases[7].plan.chunks_in_flight = cases[15].plan.chunks_in_flight = 4;
  cases[9].plan.chunks_in_flight = 2;
  return cases;
}

// The case with half of the samples exchanged while the others are computed, or a quarter, by so many exchange warps:
// loads are as narrow as that takes.
inline PlannedCase in_turns(PlannedCase c, int exchange_warps, int turns = 2, int loads_in_flight = 2) {
  c.plan.exchange_warps = exchange_warps;
  c.plan.pass_planes = 1;
  c.plan.load_bytes = std::min(kWidestLoad, unit_bytes(c.network, c.plan) / turns);
  c.plan.loads_in_flight = loads_in_flight;
  return c;
}

// Every cell and type, in two and four passes; with tails; with pieces of rows; with registers handed over from one
// kind of warps to the other (register_split), by four and by eight of them.
inline std::vector<PlannedCase> every_turn() {
  const auto shaped = [](Cell cell, Precision precision, int batch, int sms = 5) {
    return planned_case(
        {.cell = cell, .precision = precision, .batch = batch, .sms = sms, .lanes = 8, .units_per_group = 1});
  };
  std::vector<PlannedCase> cases{in_turns(shaped(Cell::relu, Precision::fp16, 4), 2, 2, 1),
                                 in_turns(shaped(Cell::tanh, Precision::fp32, 3), 3),
                                 in_turns(shaped(Cell::lstm, Precision::bf16, 5), 2),
                                 in_turns(shaped(Cell::gru, Precision::fp8, 16), 5, 2, 3),
                                 in_turns(shaped(Cell::lstm, Precision::fp16, 30), 3, 4),
                                 in_turns(planned_case({.cell = Cell::gru, .batch = 8, .lanes = 16}), 4, 2, 4),
                                 in_turns(shaped(Cell::relu, Precision::fp16, 2, 2), 4)};
  const auto split = [](int warps, int loads_in_flight) {
    return in_turns(planned_case({.hidden = 509, .batch = 8, .sms = 4, .lanes = 2, .units_per_group = 1}), warps, 2,
                    loads_in_flight);
  };
  for (const PlannedCase& c : {split(4, 4), split(4, 8), split(8, 3)}) {
    cases.push_back(c);
  }
  cases.push_back(in_turns(every_cut()[2], 3));
  cases.push_back(in_turns(every_cut()[4], 3, 4));
  cases.push_back(in_turns(every_cut()[0], 4));
  cases.push_back(in_turns(every_cut()[7], 3));
  cases.push_back(in_turns(every_cut()[9], 4));
  cases.push_back(in_turns(every_cut()[15], 3, 4));
  // Bulk copies: of two and of four passes, of one with several planes, and where registers are handed over.
  const auto in_bulk = [](PlannedCase c, int pass_planes = 1) {
    c.plan.exchange = ExchangeProtocol::bulk_copy;
    c.plan.pass_planes = pass_planes;
    return c;
  };
  for (const PlannedCase& c : {in_bulk(in_turns(shaped(Cell::relu, Precision::fp16, 4), 2)),
                               in_bulk(in_turns(shaped(Cell::lstm, Precision::bf16, 30), 3, 4)),
                               in_bulk(in_turns(shaped(Cell::gru, Precision::fp16, 64), 2, 8), 2),
                               in_bulk(in_turns(shaped(Cell::tanh, Precision::fp32, 7), 2)), in_bulk(split(4, 1))}) {
    cases.push_back(c);
  }
  cases.push_back(with_tiers(in_turns(shaped(Cell::lstm, Precision::fp16, 16, 4), 4), Tiers::shared));
  cases.push_back(with_tiers(in_turns(planned_case({.cell = Cell::tanh, .batch = 7, .lanes = 16}), 3), Tiers::shared));
  return cases;
}

// ---- dense persistent ----------------------------------------------------------------------------------------------

struct DenseShape {
  Cell cell = Cell::tanh;
  Precision precision = Precision::fp16;
  int hidden = 127, batch = 3;
  int sms = 5, threads = 128;
  double in_shared = 0.5;  // share of the tiles in shared memory
  double density = 1;
  int groups_loads = 1;  // loads in flight, in pairs of spans
  int teams = 1;
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  Storage storage = Storage::dense;  // structured_2_4: of at most half the density
};

// So many of each warp's tiles in shared memory.
inline void keep_in_shared(PlannedCase& c, int tiles) {
  c.plan.shared_tiles = tiles;
  if (c.plan.storage == Storage::bitmap) {
    c.plan.bank_words = needed_bank_words(c.network, c.plan, word_mask(c.matrix));
  }
}

inline PlannedCase dense_case(const DenseShape& shape) {
  PlannedCase c;
  const bool is_structured = shape.storage == Storage::structured_2_4;
  const double density = is_structured ? std::min(shape.density, 0.5) : shape.density;
  c.network = {shape.cell, shape.precision, shape.hidden, shape.batch, 16, density};
  c.matrix = generate_mask(c.network.rows(), shape.hidden, density, 5, shape.precision,
                           is_structured ? MaskKind::two_four : MaskKind::uniform);
  c.plan = shape_dense_plan(c.network, shape.sms, shape.threads, shape.teams, shape.storage);
  c.plan.exchange = shape.exchange;
  c.plan.loads_in_flight = shape.groups_loads * 2 * sample_tiles(c.network, c.plan);
  keep_in_shared(c, static_cast<int>(shape.in_shared * warp_tiles(c.network, c.plan)));
  return c;
}

inline const DenseShape kEveryDenseKind[] = {
    {.cell = Cell::relu, .precision = Precision::fp16, .batch = 5},
    {.cell = Cell::tanh, .precision = Precision::bf16, .batch = 3, .in_shared = 0},
    {.cell = Cell::lstm, .precision = Precision::fp16, .batch = 3, .threads = 96},
    {.cell = Cell::lstm, .precision = Precision::bf16, .batch = 1, .groups_loads = 2},
    {.cell = Cell::gru, .precision = Precision::fp16, .batch = 5, .in_shared = 1},
    {.cell = Cell::gru, .precision = Precision::bf16, .batch = 3, .threads = 256},
    // Of whole groups of four columns, each with two weights: no zero is stored, to be multiplied by infinity.
    {.cell = Cell::relu, .hidden = 132, .batch = 5, .storage = Storage::structured_2_4},
    {.cell = Cell::lstm, .precision = Precision::bf16, .hidden = 260, .storage = Storage::structured_2_4},
    {.cell = Cell::gru, .hidden = 132, .batch = 1, .threads = 96, .in_shared = 1, .storage = Storage::structured_2_4},
    {.cell = Cell::relu, .batch = 5, .threads = 96, .in_shared = 1, .density = 0.3, .storage = Storage::bitmap},
    {.cell = Cell::lstm,
     .precision = Precision::bf16,
     .hidden = 259,
     .in_shared = 0.8,
     .density = 0.1,
     .storage = Storage::bitmap},
    {.cell = Cell::gru, .hidden = 131, .batch = 1, .density = 0.6, .groups_loads = 2, .storage = Storage::bitmap},
};

// Teams, and the exchange inside clusters, of every cell, with states that spans do and do not divide.
inline const DenseShape kEveryTeam[] = {
    {.cell = Cell::relu, .batch = 1, .sms = 2, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::tanh, .hidden = 512, .batch = 4, .sms = 16, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::lstm, .precision = Precision::bf16, .batch = 5, .sms = 8, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::gru, .hidden = 259, .batch = 9, .sms = 16, .groups_loads = 2, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::lstm, .batch = 6, .sms = 4, .teams = 3, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::gru, .batch = 32, .sms = 16, .teams = 4, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::relu, .hidden = 300, .batch = 16, .sms = 16, .teams = 2, .exchange = ExchangeProtocol::cluster},
    {.cell = Cell::tanh, .precision = Precision::bf16, .batch = 4, .teams = 2},
    {.cell = Cell::lstm, .batch = 32, .teams = 4},
    {.cell = Cell::gru, .batch = 6, .teams = 6},
    {.cell = Cell::lstm,
     .hidden = 132,
     .batch = 5,
     .sms = 8,
     .exchange = ExchangeProtocol::cluster,
     .storage = Storage::structured_2_4},
    {.cell = Cell::gru,
     .precision = Precision::bf16,
     .hidden = 260,
     .batch = 18,
     .sms = 4,
     .groups_loads = 2,
     .teams = 2,
     .exchange = ExchangeProtocol::cluster,
     .storage = Storage::structured_2_4},
    {.cell = Cell::relu, .hidden = 140, .batch = 6, .teams = 2, .storage = Storage::structured_2_4},
    {.cell = Cell::lstm,
     .hidden = 133,
     .batch = 9,
     .sms = 8,
     .density = 0.3,
     .exchange = ExchangeProtocol::cluster,
     .storage = Storage::bitmap},
    {.cell = Cell::gru,
     .precision = Precision::bf16,
     .hidden = 260,
     .batch = 18,
     .sms = 4,
     .in_shared = 0.9,
     .density = 0.2,
     .groups_loads = 2,
     .teams = 2,
     .exchange = ExchangeProtocol::cluster,
     .storage = Storage::bitmap},
    {.cell = Cell::tanh, .batch = 32, .density = 0.05, .teams = 4, .storage = Storage::bitmap},
};

}  // namespace onchip
