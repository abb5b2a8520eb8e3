// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: what the largest of its phases needs beside the weights.
//
//   staging   4 per word of the state in flight  + registers * fact + ...
//   gather    the fp32 sums of a tile's pass     + registers * fact + ...
//   finish    the same sums                      + registers * fact + ...
//
// The tables are a fit by model/fit_registers.py to what tests/kernels/probe_registers.cpp found (model/registers.csv):
// the most words of weights per thread that NVRTC 13.0 keeps in registers, with the further attempts that
// kernels/compiler.cpp makes; most rows are of shapes chosen by hand or drawn, 277 of plans. sm_120 is as sm_100.
//
// Of 80 plans that the planner chose for networks drawn at random and that the tables had not seen (20 of each
// architecture), 50 are within 8 words of the compiler, 8 would spill and 22 are too careful; of the 838 pairs of plan
// and architecture of registers.csv that the fit counts, 503, 12 and 323. The need hangs on what no sum of terms
// sees: between plans that differ only in whether the units fill the groups, or the words of the state the threads, it
// was seen to move by 8 to 25 registers, while with such things equal it does not move at all.
// It is no proof: the compiler is not monotonic, a number of weights may spill where more weights do not. The
// compiler's report decides, and a plan that spills is refused.
//
// After a change of the kernel or the compiler (the last also shows what the tables miss):
//   ninja -C build probe_registers
//   rm model/registers.csv; build/probe_registers model/registers.csv 12345 300
//   model/fit_registers.py model/registers.csv
#include "model/footprint.hpp"

#include <algorithm>
#include <span>
#include <string_view>

namespace onchip {
namespace {

// What the number of registers follows from: 0 or 1, or a count.
struct Facts {
  int one = 1;
  int loads = 0, sums = 0;
  int two_planes = 0, several_planes = 0, many_planes = 0;  // many: more than two
  int loads_of_many_planes = 0;
  int together_half = 0, together_dense = 0, together_tail = 0, together_many = 0;  // planes in one pass
  int gated = 0, lstm = 0, gru = 0, fp8 = 0, fp32 = 0, bf16 = 0, gated_fp8 = 0;
  int tail = 0, ring = 0, gated_tail = 0, gated_ring = 0;
  int chunk_words = 0;                        // of a tail, in flight beyond the first chunk
  int few_words = 0, few_words_and_tail = 0;  // the addresses of the state are kept from step to step
  int shifted_index = 0;                      // the state reaches further than 16 bits
  int many_rounds = 0;                        // more than three, of many words
  int tall_tile = 0, many_tiles = 0;
  int more_outputs = 0, gated_more_outputs = 0;  // that a lane finishes beyond the first
  int sm_80 = 0, sm_80_few_words = 0, sm_80_gated = 0, sm_80_together = 0, sm_80_more_outputs = 0;
  int sm_100 = 0, sm_100_gated = 0, sm_100_tail = 0, sm_100_ring = 0;
  int sm_100_more_loads = 0;  // than three
};

struct Term {
  int Facts::*fact;
  int registers;
};

constexpr Term kStaging[]{{&Facts::one, 15},
                          {&Facts::loads_of_many_planes, 1},
                          {&Facts::two_planes, 9},
                          {&Facts::many_planes, 7},
                          {&Facts::gated, 3},
                          {&Facts::gru, 1},
                          {&Facts::tail, -1},
                          {&Facts::ring, 5},
                          {&Facts::few_words, 6},
                          {&Facts::few_words_and_tail, 1},
                          {&Facts::shifted_index, 5},
                          {&Facts::many_rounds, 4},
                          {&Facts::tall_tile, -2},
                          {&Facts::fp32, 2},
                          {&Facts::fp8, 3},
                          {&Facts::sm_80, -4},
                          {&Facts::sm_80_few_words, 1},
                          {&Facts::sm_80_gated, 2},
                          {&Facts::sm_100, -1},
                          {&Facts::sm_100_gated, 1},
                          {&Facts::sm_100_tail, 3},
                          {&Facts::sm_100_ring, 4},
                          {&Facts::sm_100_more_loads, 1}};
constexpr Term kGather[]{{&Facts::one, 18},
                         {&Facts::several_planes, 5},
                         {&Facts::together_half, 27},
                         {&Facts::together_dense, -1},
                         {&Facts::together_tail, -12},
                         {&Facts::gated, 4},
                         {&Facts::tail, 5},
                         {&Facts::ring, 9},
                         {&Facts::gated_tail, -5},
                         {&Facts::gated_ring, 7},
                         {&Facts::gated_fp8, 4},
                         {&Facts::fp8, -1},
                         {&Facts::fp32, -2},
                         {&Facts::bf16, 1},
                         {&Facts::tall_tile, -1},
                         {&Facts::shifted_index, 3},
                         {&Facts::sm_80, -2},
                         {&Facts::sm_80_gated, 4},
                         {&Facts::sm_80_together, 7},
                         {&Facts::sm_100, 2},
                         {&Facts::sm_100_gated, 4},
                         {&Facts::sm_100_ring, -3}};
constexpr Term kFinish[]{{&Facts::one, 4},           {&Facts::gated_more_outputs, 14},
                         {&Facts::lstm, 1},          {&Facts::gru, -2},
                         {&Facts::tail, 5},          {&Facts::ring, -12},
                         {&Facts::fp8, 10},          {&Facts::sm_80_more_outputs, 2},
                         {&Facts::sm_100_gated, -10}};

// Against what the tables miss: a plan that spills is refused, one that could hold more is but slower.
constexpr int kMargin = 2;

// More for several of more than two planes in one pass. There the compiler follows no rule: between 31 and 86, and once
// 142, registers beside the weights in shapes that are much alike.
constexpr int kTogetherOfMany = 40;

enum class Compiled { sm_80, sm_90, sm_100 };

Facts facts_of(Compiled architecture, const Network& network, const Plan& plan) {
  constexpr int kManyRounds = 3, kManyLoads = 4, kSomeLoads = 3;
  const auto words = static_cast<int>(exchange_bytes(network, plan) / 16);
  const int words_per_thread = (words + plan.threads - 1) / plan.threads;
  const int all_planes = planes(network, plan), row_tiles = tiles(network, plan);
  const bool dense = plan.storage == Storage::dense, together = plan.pass_planes > 1;
  const bool sm_80 = architecture == Compiled::sm_80, sm_100 = architecture == Compiled::sm_100;
  Facts f;
  f.loads = std::min(plan.loads_in_flight, words_per_thread);
  f.sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / all_planes;
  f.two_planes = all_planes == 2;
  f.several_planes = all_planes > 1;
  f.many_planes = all_planes > 2;
  f.loads_of_many_planes = f.many_planes * f.loads;
  f.gated = info(network.cell).gates > 1;
  f.lstm = network.cell == Cell::lstm;
  f.gru = network.cell == Cell::gru;
  f.fp8 = network.precision == Precision::fp8;
  f.fp32 = network.precision == Precision::fp32;
  f.bf16 = network.precision == Precision::bf16;
  f.gated_fp8 = f.gated && f.fp8;
  f.together_half = together && !f.fp32;
  f.together_dense = together && dense;
  f.together_tail = together && plan.has_tail();
  f.together_many = together && f.many_planes;
  f.tail = plan.has_tail();
  f.ring = plan.ring_chunks > 0;
  f.gated_tail = f.gated && f.tail;
  f.gated_ring = f.gated && f.ring;
  f.chunk_words = f.tail * (plan.chunks_in_flight - 1) * chunk_words(network, plan);
  // kManyAddresses in kernels/sparse_persistent.cu is the opposite.
  f.few_words = words <= plan.threads * plan.loads_in_flight && !f.many_planes && row_tiles <= 2;
  f.few_words_and_tail = f.few_words && f.tail;
  f.shifted_index = index_shift(network, plan) > 0;
  f.many_rounds = f.loads > kManyLoads && words_per_thread > kManyRounds * f.loads;
  f.tall_tile = !f.gated && plan.tile_rows > 1;
  f.many_tiles = row_tiles > 2;
  f.more_outputs = std::max(1, f.sums / plan.lanes_per_row) - 1;
  f.gated_more_outputs = f.gated * f.more_outputs;
  f.sm_80 = sm_80;
  f.sm_80_few_words = sm_80 && f.few_words;
  f.sm_80_gated = sm_80 && f.gated;
  f.sm_80_together = sm_80 && together;
  f.sm_80_more_outputs = sm_80 ? f.more_outputs : 0;
  f.sm_100 = sm_100;
  f.sm_100_gated = sm_100 && f.gated;
  f.sm_100_tail = sm_100 && f.tail;
  f.sm_100_ring = sm_100 && f.ring;
  f.sm_100_more_loads = sm_100 ? std::max(0, f.loads - kSomeLoads) : 0;
  return f;
}

int sum(std::span<const Term> terms, const Facts& facts) {
  int registers = 0;
  for (const Term& term : terms) {
    registers += term.registers * facts.*term.fact;
  }
  return registers;
}

int on(Compiled architecture, const Network& network, const Plan& plan) {
  constexpr int kPerLoadInFlight = 4;
  const Facts facts = facts_of(architecture, network, plan);
  const int staging = kPerLoadInFlight * facts.loads + sum(kStaging, facts);
  const int gather = facts.sums + sum(kGather, facts) + kTogetherOfMany * facts.together_many;
  const int finish = facts.sums + sum(kFinish, facts);
  return std::max({staging, gather, finish}) + kMargin;
}

constexpr int kDenseBase = 24;
constexpr int kTilesAhead = 2;  // kernels/multiply.cuh

// Dense persistent: sums, words and tiles from shared memory in flight, and what the addresses and the cells take.
int dense_working_registers(const Network& network, const Plan& plan) {
  const int products = row_tiles(network, plan) * sample_tiles(network, plan);
  const int sums = 4 * products * product_chains(network, plan);
  const int words = 4 * std::min(plan.loads_in_flight, (warp_spans(network, plan) + 1) * sample_tiles(network, plan));
  return kDenseBase + sums + words + 4 * std::min(plan.shared_tiles, kTilesAhead);
}

}  // namespace

int working_registers(const Network& network, const Plan& plan, std::string_view architecture) {
  if (plan.family == Family::dense_persistent) {
    return dense_working_registers(network, plan);
  }
  if (architecture == "sm_80") {
    return on(Compiled::sm_80, network, plan);
  }
  if (architecture == "sm_90") {
    return on(Compiled::sm_90, network, plan);
  }
  const int latest = on(Compiled::sm_100, network, plan);
  return architecture == "sm_100" || architecture == "sm_120"
             ? latest
             : std::max({on(Compiled::sm_80, network, plan), on(Compiled::sm_90, network, plan), latest});
}

}  // namespace onchip
