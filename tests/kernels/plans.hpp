// SPDX-License-Identifier: Apache-2.0
// Networks and plans for which the persistent kernels must compile, and run right: everything that a plan can say, on
// sizes that divide nothing.
#pragma once

#include "model/base/random.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/family.hpp"
#include "model/families/layout.hpp"
#include "model/sparse/family.hpp"
#include "model/training/recurrence_family.hpp"
#include "model/workload/mask.hpp"
#include "tests/overflow.hpp"
#include "tests/row_splits.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace onchip {

template <typename P>
struct PlannedCase {
  Recurrent network;
  SparseMatrix matrix;
  P plan;

  auto geometry() const { return onchip::geometry(network, plan); }
  Layout layout() const { return make_layout(network, plan, matrix); }
  std::string text() const { return describe(network) + ": " + to_string(plan); }
};
using SparseCase = PlannedCase<SparsePlan>;
using DenseCase = PlannedCase<DensePlan>;

// ---- sparse persistent ---------------------------------------------------------------------------------------------

struct Shape {
  Cell cell = Cell::tanh;
  Precision precision = Precision::fp16;
  int hidden = 127, batch = 3;
  int sms = 5, lanes = 16, units_per_group = 2;
  double density = 0.25;
  MaskKind mask = MaskKind::uniform;
};

inline SparseCase sparse_case(const Shape& shape) {
  SparseCase c;
  c.network = {shape.cell, shape.precision, shape.hidden, shape.batch, 16, shape.density};
  c.matrix = generate_mask(c.network.rows(), shape.hidden, shape.density, 5, shape.precision, shape.mask);
  c.plan = shape_sparse_plan(c.network, RowProfile::from_matrix(c.matrix), Storage::packed_pair, shape.sms, shape.lanes,
                             shape.units_per_group * info(shape.cell).gates);
  c.plan.promote_every = state_type(shape.precision) == Precision::fp16 ? 8 : 1;
  return c;
}

// The case stored otherwise, in other shapes of SMs and lanes.
inline SparseCase stored_as(Storage storage, SparseCase c, int sms, int lanes, int units_per_group) {
  const int promote_every = c.plan.promote_every;
  c.plan = shape_sparse_plan(c.network, RowProfile::from_matrix(c.matrix), storage, sms, lanes,
                             units_per_group * info(c.network.cell).gates);
  c.plan.promote_every = promote_every;
  return c;
}

inline constexpr Tiers kAllTiers[] = {Tiers::registers, Tiers::shared, Tiers::mixed, Tiers::streamed};
inline constexpr Tiers kOverflowTiers[] = {Tiers::shared, Tiers::mixed, Tiers::streamed};

// The case with the share `kept` of each row's slots in registers and the rest where `tiers` says.
inline SparseCase with_tiers(SparseCase c, Tiers tiers, int ring_chunks = 3, double kept = 0.4) {
  if (tiers == Tiers::registers) {
    return c;
  }
  c.plan = with_overflow(c.network, c.plan, RowProfile::from_matrix(c.matrix), kept);
  if (c.plan.has_overflow() && tiers != Tiers::shared) {
    c.plan.shared_chunks = tiers == Tiers::mixed ? c.plan.shared_chunks / 2 : 0;
    c.plan.ring_chunks = ring_chunks;
  }
  return c;
}

// Overflow of one plane, two and more; of each length of rings.
inline SparseCase overflow_case(Cell cell, Precision precision, Tiers tiers, bool is_small) {
  // The fewest samples of several planes, to be interpreted.
  const int several = !is_small ? 17 : info(cell).gates == 1 ? 17 : precision == Precision::fp32 ? 5 : 9;
  const int batch = tiers == Tiers::shared ? 3 : tiers == Tiers::mixed ? several : is_small ? 4 : 5;
  SparseCase c = with_tiers(sparse_case({.cell = cell,
                                         .precision = precision,
                                         .hidden = is_small ? 61 : 127,
                                         .batch = batch,
                                         .sms = is_small ? 2 : 5,
                                         .lanes = tiers == Tiers::shared ? 32 : 8,
                                         .units_per_group = tiers == Tiers::mixed ? 1 : 2}),
                            tiers, tiers == Tiers::streamed ? 2 : 4);
  c.plan.chunks_in_flight = tiers == Tiers::mixed ? 2 : 4;
  return c;
}

// Every cell and type, with 1, 2 and 4 splits, in one pass and several, of one tile and several; with chunks of splits,
// of rows and of both, in shared memory and streamed; stored as distances, in registers and in chunks.
inline std::vector<SparseCase> every_split() {
  const auto uneven = [](Cell cell, Precision precision, int batch, int lanes, int units_per_group = 2) {
    return sparse_case({.cell = cell,
                        .precision = precision,
                        .batch = batch,
                        .lanes = lanes,
                        .units_per_group = units_per_group,
                        .mask = MaskKind::power_law});
  };
  const auto pairs = [&](Cell cell, Precision precision, int batch, int lanes, int splits, int units_per_group = 2) {
    return in_splits(uneven(cell, precision, batch, lanes, units_per_group), splits);
  };
  const auto distances = [&](Cell cell, Precision precision, int batch, int lanes, int splits) {
    return in_splits(stored_as(Storage::packed_delta, uneven(cell, precision, batch, lanes), 5, lanes, 2), splits);
  };
  const auto merged = [&](Cell cell, Precision precision, int batch, int lanes, int splits) {
    SparseCase c = uneven(cell, precision, batch, lanes);
    c.plan.order = RowOrder::bank_merged;
    return in_splits(c, splits);
  };
  std::vector<SparseCase> cases{
      pairs(Cell::relu, Precision::fp16, 4, 8, 1),    pairs(Cell::tanh, Precision::fp32, 3, 16, 2),
      pairs(Cell::lstm, Precision::bf16, 5, 16, 1),   pairs(Cell::gru, Precision::fp8, 16, 8, 2, 1),
      pairs(Cell::lstm, Precision::fp16, 30, 32, 4),  pairs(Cell::relu, Precision::fp16, 1, 4, 2, 3),
      pairs(Cell::tanh, Precision::bf16, 2, 32, 4, 1)};
  cases[0].plan.order = RowOrder::natural;
  cases[1].plan.tile_rows = 2;
  cases[5].plan.tile_rows = 2;  // of three rows
  cases[4].plan.pass_planes = 1;
  for (const SparseCase& c :
       {in_chunks(cases[0], 0, 9, Tiers::shared), in_chunks(cases[1], 1, 1, Tiers::mixed, 2),
        in_chunks(cases[2], 1, 0, Tiers::shared), in_chunks(cases[3], 1, 1, Tiers::streamed, 4),
        in_chunks(cases[4], 0, 1, Tiers::mixed), in_chunks(cases[5], 1, 1, Tiers::shared),
        distances(Cell::relu, Precision::fp16, 4, 8, 1), distances(Cell::gru, Precision::fp8, 5, 16, 2),
        in_chunks(distances(Cell::tanh, Precision::bf16, 17, 8, 4), 0, 9, Tiers::shared),
        in_chunks(distances(Cell::lstm, Precision::fp16, 3, 16, 2), 1, 1, Tiers::mixed),
        merged(Cell::relu, Precision::fp16, 2, 16, 1),
        in_chunks(merged(Cell::lstm, Precision::bf16, 4, 8, 2), 1, 1, Tiers::shared)}) {
    cases.push_back(c);
  }
  cases[7].plan.chunks_in_flight = cases[15].plan.chunks_in_flight = 4;
  cases[9].plan.chunks_in_flight = 2;
  return cases;
}

// The case in so many passes, of which one is exchanged by the producer warps while another is computed: loads are as
// narrow as that takes.
inline SparseCase pipelined(SparseCase c, int producer_warps, int passes = 2, int loads_in_flight = 2) {
  c.plan.producer_warps = producer_warps;
  c.plan.pass_planes = 1;
  c.plan.load_bytes = std::min(kWidestLoad, c.geometry().unit_bytes / passes);
  c.plan.loads_in_flight = loads_in_flight;
  return c;
}

// Every cell and type, in two and four passes; with overflow; with row splits; with registers given from one kind of
// warps to the other (register_split), by four and by eight of them; with bulk copies.
inline std::vector<SparseCase> every_pipeline() {
  const auto shaped = [](Cell cell, Precision precision, int batch, int sms = 5) {
    return sparse_case(
        {.cell = cell, .precision = precision, .batch = batch, .sms = sms, .lanes = 8, .units_per_group = 1});
  };
  const auto with_split_registers = [](int warps, int loads_in_flight) {
    return pipelined(sparse_case({.hidden = 509, .batch = 8, .sms = 4, .lanes = 2, .units_per_group = 1}), warps, 2,
                     loads_in_flight);
  };
  // Bulk copies: of two and of four passes, of one with several planes, and where registers are given away.
  const auto in_bulk = [](SparseCase c, int pass_planes = 1) {
    c.plan.exchange = ExchangeProtocol::bulk_copy;
    c.plan.pass_planes = pass_planes;
    return c;
  };
  const std::vector<SparseCase> split = every_split();
  return {pipelined(shaped(Cell::relu, Precision::fp16, 4), 2, 2, 1),
          pipelined(shaped(Cell::tanh, Precision::fp32, 3), 3),
          pipelined(shaped(Cell::lstm, Precision::bf16, 5), 2),
          pipelined(shaped(Cell::gru, Precision::fp8, 16), 5, 2, 3),
          pipelined(shaped(Cell::lstm, Precision::fp16, 30), 3, 4),
          pipelined(sparse_case({.cell = Cell::gru, .batch = 8, .lanes = 16}), 4, 2, 4),
          pipelined(shaped(Cell::relu, Precision::fp16, 2, 2), 4),
          with_split_registers(4, 4),
          with_split_registers(4, 8),
          with_split_registers(8, 3),
          pipelined(split[2], 3),
          pipelined(split[4], 3, 4),
          pipelined(split[0], 4),
          pipelined(split[7], 3),
          pipelined(split[9], 4),
          pipelined(split[15], 3, 4),
          in_bulk(pipelined(shaped(Cell::relu, Precision::fp16, 4), 2)),
          in_bulk(pipelined(shaped(Cell::lstm, Precision::bf16, 30), 3, 4)),
          in_bulk(pipelined(shaped(Cell::gru, Precision::fp16, 64), 2, 8), 2),
          in_bulk(pipelined(shaped(Cell::tanh, Precision::fp32, 7), 2)),
          in_bulk(with_split_registers(4, 1)),
          with_tiers(pipelined(shaped(Cell::lstm, Precision::fp16, 16, 4), 4), Tiers::shared),
          with_tiers(pipelined(sparse_case({.cell = Cell::tanh, .batch = 7, .lanes = 16}), 3), Tiers::shared)};
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
  int batch_groups = 1;
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  Storage storage = Storage::dense;  // structured_2_4: of at most half the density
};

inline constexpr auto kLamport = ExchangeProtocol::lamport, kCluster = ExchangeProtocol::cluster;
inline constexpr auto kStructured = Storage::structured_2_4, kBitmap = Storage::bitmap;

// So many of each warp's tiles in shared memory.
inline void keep_in_shared(DenseCase& c, int tiles) {
  c.plan.shared_tiles = tiles;
  if (c.plan.storage == Storage::bitmap) {
    c.plan.bank_words = needed_bank_words(c.geometry(), word_mask(c.matrix));
  }
}

inline DenseCase dense_case(const DenseShape& shape) {
  DenseCase c;
  const bool is_structured = shape.storage == Storage::structured_2_4;
  const double density = is_structured ? std::min(shape.density, 0.5) : shape.density;
  c.network = {shape.cell, shape.precision, shape.hidden, shape.batch, 16, density};
  c.matrix = generate_mask(c.network.rows(), shape.hidden, density, 5, shape.precision,
                           is_structured ? MaskKind::two_four : MaskKind::uniform);
  c.plan = shape_dense_plan(c.network, shape.sms, shape.threads, shape.batch_groups, shape.storage);
  c.plan.exchange = shape.exchange;
  c.plan.loads_in_flight = shape.groups_loads * 2 * c.geometry().sample_tiles;
  keep_in_shared(c, static_cast<int>(shape.in_shared * c.geometry().warp_tiles));
  return c;
}

// A case of sizes that divide nothing, another with every batch; a small one to be interpreted.
inline DenseCase awkward_dense_case(Cell cell, Precision precision, Storage storage, int batch, bool is_small) {
  const bool is_dense = storage == Storage::dense, is_structured = storage == kStructured;
  DenseShape shape{.cell = cell, .precision = precision, .batch = batch, .storage = storage};
  shape.hidden = batch == 1 ? (is_small ? 127 : 257) : is_small ? 61 : 127;
  if (batch == 3 && !is_dense) {  // spans that end in the middle of a pair of units, and of a group of four columns
    shape.hidden = is_small ? 230 : is_structured ? 126 : 127;  // on two SMs: more would spill
  }
  shape.sms = batch == 3 ? 2 : is_small && is_dense ? 3 : 7;
  shape.threads = batch != 8 ? 96 : is_small ? 64 : 256;
  shape.groups_loads = batch == 3 && !is_dense ? 2 : 1;
  // Of bitmaps: of a warp one tile in shared memory, some, and more than the bits of a word are of.
  shape.in_shared = storage == kBitmap ? (batch == 8 ? 0.3 : 0.9) : batch == (is_dense ? 9 : 8) ? 0 : 0.4;
  const bool is_sparser = batch == (is_dense ? 17 : 20);
  shape.density = is_dense        ? (is_sparser ? 0.3 : 1)
                  : is_structured ? (is_sparser ? 0.3 : 0.5)
                                  : (is_sparser    ? (is_small ? 0.05 : 0.01)
                                     : batch == 32 ? 0.6
                                                   : 0.2);
  return dense_case(shape);
}

// cell, type, units, batch, SMs, threads, share in shared memory, density, loads, batch groups, exchange, storage
inline const DenseShape kEveryDenseKind[] = {
    {Cell::relu, Precision::fp16, 127, 5},
    {Cell::tanh, Precision::bf16, 127, 3, 5, 128, 0},
    {Cell::lstm, Precision::fp16, 127, 3, 5, 96},
    {Cell::lstm, Precision::bf16, 127, 1, 5, 128, 0.5, 1, 2},
    {Cell::gru, Precision::fp16, 127, 5, 5, 128, 1},
    {Cell::gru, Precision::bf16, 127, 3, 5, 256},
    // Of whole groups of four columns, each with two weights: no zero is stored, to be multiplied by infinity.
    {Cell::relu, Precision::fp16, 132, 5, 5, 128, 0.5, 1, 1, 1, kLamport, kStructured},
    {Cell::lstm, Precision::bf16, 260, 3, 5, 128, 0.5, 1, 1, 1, kLamport, kStructured},
    {Cell::gru, Precision::fp16, 132, 1, 5, 96, 1, 1, 1, 1, kLamport, kStructured},
    {Cell::relu, Precision::fp16, 127, 5, 5, 96, 1, 0.3, 1, 1, kLamport, kBitmap},
    {Cell::lstm, Precision::bf16, 259, 3, 5, 128, 0.8, 0.1, 1, 1, kLamport, kBitmap},
    {Cell::gru, Precision::fp16, 131, 1, 5, 128, 0.5, 0.6, 2, 1, kLamport, kBitmap},
};

// Batch groups, and the exchange inside clusters, of every cell, with states that spans do and do not divide.
inline const DenseShape kEveryBatchGroup[] = {
    {Cell::relu, Precision::fp16, 127, 1, 2, 128, 0.5, 1, 1, 1, kCluster},
    {Cell::tanh, Precision::fp16, 512, 4, 16, 128, 0.5, 1, 1, 1, kCluster},
    {Cell::lstm, Precision::bf16, 127, 5, 8, 128, 0.5, 1, 1, 1, kCluster},
    {Cell::gru, Precision::fp16, 259, 9, 16, 128, 0.5, 1, 2, 1, kCluster},
    {Cell::lstm, Precision::fp16, 127, 6, 4, 128, 0.5, 1, 1, 3, kCluster},
    {Cell::gru, Precision::fp16, 127, 32, 16, 128, 0.5, 1, 1, 4, kCluster},
    {Cell::relu, Precision::fp16, 300, 16, 16, 128, 0.5, 1, 1, 2, kCluster},
    {Cell::tanh, Precision::bf16, 127, 4, 5, 128, 0.5, 1, 1, 2},
    {Cell::lstm, Precision::fp16, 127, 32, 5, 128, 0.5, 1, 1, 4},
    {Cell::gru, Precision::fp16, 127, 6, 5, 128, 0.5, 1, 1, 6},
    {Cell::lstm, Precision::fp16, 132, 5, 8, 128, 0.5, 1, 1, 1, kCluster, kStructured},
    {Cell::gru, Precision::bf16, 260, 18, 4, 128, 0.5, 1, 2, 2, kCluster, kStructured},
    {Cell::relu, Precision::fp16, 140, 6, 5, 128, 0.5, 1, 1, 2, kLamport, kStructured},
    {Cell::lstm, Precision::fp16, 133, 9, 8, 128, 0.5, 0.3, 1, 1, kCluster, kBitmap},
    {Cell::gru, Precision::bf16, 260, 18, 4, 128, 0.9, 0.2, 2, 2, kCluster, kBitmap},
    {Cell::tanh, Precision::fp16, 127, 32, 5, 128, 0.5, 0.05, 1, 4, kLamport, kBitmap},
};

// ---- dense pipelined -----------------------------------------------------------------------------------------------

using PipelinedCase = PlannedCase<RecurrencePlan>;

// Drawn: of any cell, type, size, and any of the plan's fields; few samples, too, which the family leaves to others.
inline PipelinedCase pipelined_case(std::uint64_t seed, int most_hidden, int most_batch) {
  Random random(seed, 0);
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random.below(all.size())];
  };
  PipelinedCase c;
  c.network = {.cell = one_of(Cell::lstm, Cell::gru),
               .precision = one_of(Precision::fp16, Precision::bf16),
               .hidden = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_hidden))),
               .batch = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most_batch))),
               .steps = 16,
               .density = one_of(0.3, 1.0)};
  const Recurrent& network = c.network;
  c.matrix = generate_mask(network.rows(), network.hidden, network.density, seed, network.precision);
  RecurrencePlan& plan = c.plan;
  plan.units = one_of(16, 32);
  plan.warp_groups = one_of(1, 2);
  plan.warps = one_of(2, 4, 8) / plan.warp_groups;
  plan.batch_groups = std::min(one_of(1, 2, 3), network.batch);
  plan.ahead = one_of(4, 8, 16);
  plan.launches = std::min(one_of(1, 1, 3), network.batch);
  const TrainingSize size = training_size(network);
  const int parts = plan.batch_groups * plan.launches;
  const int of_group = (kernel_batch(network.batch) + parts - 1) / parts;
  const int wanted = (of_group + 23) / one_of(8, 24);  // sub-batches, of all warp groups
  plan.sub_batches = std::max(1, (wanted + plan.warp_groups - 1) / plan.warp_groups) * plan.warp_groups;
  plan.loads_in_flight = 2 * (((of_group + plan.sub_batches - 1) / plan.sub_batches + 7) / 8) * one_of(1, 2);
  constexpr int kDeviceSms = 132;
  constexpr std::size_t kDeviceSharedBytes = 227 << 10;
  const auto is_too_large = [&] {
    const RecurrenceShape shape = recurrence_shape(size, with_shared_tiles(size, plan, false), false);
    return shape.blocks > kDeviceSms || shape.shared_bytes > kDeviceSharedBytes;
  };
  if (is_too_large()) {
    plan.units = 16;
    plan.batch_groups = 1;
  }
  const int tiles = recurrence_shape(size, plan, false).tiles;
  plan.shared_tiles = std::max(with_shared_tiles(size, plan, false).shared_tiles,
                               static_cast<int>(random.below(static_cast<std::uint64_t>(tiles) + 1)));
  while (recurrence_shape(size, plan, false).shared_bytes > kDeviceSharedBytes) {
    --plan.shared_tiles;
  }
  return c;
}

}  // namespace onchip
