// SPDX-License-Identifier: Apache-2.0
// Working registers of the sparse persistent kernel: what the largest of its phases needs beside the weights.
//
//   staging   base + 4 per word of the state in flight + ...
//   gather    base + the fp32 sums of a tile's pass + ...
//   finish    base + ..., of gated cells
//
// The tables began as a fit by model/fit_registers.py to what tests/kernels/probe_registers.cpp found
// (model/registers.csv): the most words of weights per thread that NVRTC 13.0 keeps in registers, with the further
// attempts that kernels/compiler.cpp makes. sm_80 and sm_100 have terms of their own, and sm_120 is as sm_100. Some
// terms were then raised by hand by 1 to 3, where plans beside those of the fit spilled: gather's tail, fp32, sm_80 and
// gated_fp8 and staging's few_words_and_tail, sm_80_few_words and sm_100_many_loads.
//
// On the 561 pairs of shape and architecture of registers.csv that the fit counts, 414 are within 8 of the compiler and
// 2 would spill; on shapes drawn anew far fewer are within 8, the others being too careful. It is no proof: the
// compiler is not monotonic, a number of weights may spill where more weights do not. The compiler's report decides,
// and a plan that spills is refused.
//
// After a change of the kernel or the compiler (this also shows what the tables miss):
//   ninja -C build probe_registers
//   build/probe_registers > chosen.csv; build/probe_registers 1 50 > drawn.csv
//   model/fit_registers.py chosen.csv drawn.csv
#include "model/footprint.hpp"

#include <algorithm>
#include <string_view>

namespace onchip {
namespace {

constexpr int kPerLoadInFlight = 4;
// More for several of more than two planes in one pass. There the compiler follows no rule: between 31 and 86, and once
// 142, registers beside the weights in shapes that are much alike.
constexpr int kTogetherOfMany = 40;

struct Staging {
  int base = 0;
  int two_planes = 0, many_planes = 0, per_load_of_many_planes = 0;
  int gated = 0, tail = 0, ring = 0;
  int few_words = 0, few_words_and_tail = 0;  // the addresses of the state are kept from step to step
  int shifted_index = 0;                      // the state reaches further than 16 bits
  int many_rounds = 0;                        // more than three, of many words
  int tall_tile = 0;
  int sm_80 = 0, sm_80_few_words = 0;
  int sm_100 = 0, sm_100_ring = 0, sm_100_many_loads = 0;  // sm_120 is as sm_100
};
struct Gather {
  int base = 0;
  int several_planes = 0;
  int together_half = 0, dense_together = 0, tail_together = 0;  // planes in one pass; of 16-bit elements
  int gated = 0, tail = 0, ring = 0, gated_tail = 0, gated_ring = 0, gated_fp8 = 0, gated_ring_fp8 = 0;
  int fp32 = 0, tall_tile = 0, shifted_index = 0;
  int sm_80 = 0, sm_80_gated = 0, sm_80_together = 0, sm_100 = 0, sm_100_gated_ring = 0;
};
struct Finish {
  int base = 0;
  int gru = 0, many_tiles = 0, fp8 = 0;
};

constexpr Staging kStaging{.base = 12,
                           .two_planes = 8,
                           .many_planes = 10,
                           .per_load_of_many_planes = 1,
                           .gated = 6,
                           .ring = 7,
                           .few_words = 9,
                           .few_words_and_tail = 3,
                           .shifted_index = 6,
                           .many_rounds = 6,
                           .tall_tile = 4,
                           .sm_80 = -3,
                           .sm_80_few_words = -2,
                           .sm_100 = 1,
                           .sm_100_ring = 5,
                           .sm_100_many_loads = 3};
constexpr Gather kGather{.base = 17,
                         .several_planes = 7,
                         .together_half = 19,
                         .dense_together = 6,
                         .tail_together = -8,
                         .gated = 3,
                         .tail = 8,
                         .ring = 7,
                         .gated_tail = -4,
                         .gated_ring = 8,
                         .gated_fp8 = 3,
                         .gated_ring_fp8 = 5,
                         .fp32 = 0,
                         .tall_tile = -2,
                         .shifted_index = 2,
                         .sm_80 = 0,
                         .sm_80_gated = 6,
                         .sm_80_together = 5,
                         .sm_100 = 2,
                         .sm_100_gated_ring = 6};
constexpr Finish kFinish{.base = 23, .gru = 2, .many_tiles = 6, .fp8 = 1};

enum class Compiled { sm_80, sm_90, sm_100 };

int on(Compiled architecture, const Network& network, const Plan& plan) {
  const bool is_sm_80 = architecture == Compiled::sm_80, is_sm_100 = architecture == Compiled::sm_100;
  constexpr int kManyRounds = 3, kManyLoads = 4, kSomeLoads = 3;
  const auto words = static_cast<int>(exchange_bytes(network, plan) / 16);
  const int words_per_thread = (words + plan.threads - 1) / plan.threads;
  const int loads = std::min(plan.loads_in_flight, words_per_thread);
  const int all_planes = planes(network, plan), row_tiles = tiles(network, plan);
  const int sums = plan.tile_rows * plan.pass_planes * plan.batch_padded / all_planes;
  const bool gated = info(network.cell).gates > 1, tail = plan.has_tail(), ring = plan.ring_chunks > 0;
  const bool fp32 = network.precision == Precision::fp32, fp8 = network.precision == Precision::fp8;
  const bool many_planes = all_planes > 2, many_tiles = row_tiles > 2, together = plan.pass_planes > 1;
  const bool dense = plan.storage == Storage::dense;
  const bool tall_tile = !gated && plan.tile_rows > 1;
  // kManyAddresses in kernels/sparse_persistent.cu is the opposite.
  const bool few_words = words <= plan.threads * plan.loads_in_flight && !many_planes && !many_tiles;
  const bool shifted_index = index_shift(network, plan) > 0;
  const bool many_rounds = plan.loads_in_flight > kManyLoads && words_per_thread > kManyRounds * plan.loads_in_flight;
  const auto if_so = [](bool condition, int registers) { return condition ? registers : 0; };

  const Staging& s = kStaging;
  const int staging = s.base + kPerLoadInFlight * loads + if_so(all_planes == 2, s.two_planes) +
                      if_so(many_planes, s.many_planes + s.per_load_of_many_planes * loads) + if_so(gated, s.gated) +
                      if_so(tail, s.tail) + if_so(ring, s.ring) + if_so(few_words, s.few_words) +
                      if_so(few_words && tail, s.few_words_and_tail) + if_so(shifted_index, s.shifted_index) +
                      if_so(many_rounds, s.many_rounds) + if_so(tall_tile, s.tall_tile) + if_so(is_sm_80, s.sm_80) +
                      if_so(is_sm_80 && few_words, s.sm_80_few_words) + if_so(is_sm_100, s.sm_100) +
                      if_so(is_sm_100 && ring, s.sm_100_ring) +
                      if_so(is_sm_100 && loads > kSomeLoads, s.sm_100_many_loads);
  const Gather& g = kGather;
  const int gather =
      g.base + sums + if_so(all_planes > 1, g.several_planes) + if_so(together && !fp32, g.together_half) +
      if_so(together && many_planes, kTogetherOfMany) + if_so(together && dense, g.dense_together) +
      if_so(together && tail, g.tail_together) + if_so(gated, g.gated) + if_so(tail, g.tail) + if_so(ring, g.ring) +
      if_so(gated && tail, g.gated_tail) + if_so(gated && ring, g.gated_ring) + if_so(gated && fp8, g.gated_fp8) +
      if_so(gated && ring && fp8, g.gated_ring_fp8) + if_so(fp32, g.fp32) + if_so(tall_tile, g.tall_tile) +
      if_so(shifted_index, g.shifted_index) + if_so(is_sm_80, g.sm_80) + if_so(is_sm_80 && gated, g.sm_80_gated) +
      if_so(is_sm_100, g.sm_100) + if_so(is_sm_100 && gated && ring, g.sm_100_gated_ring) +
      if_so(is_sm_80 && together, g.sm_80_together);
  const Finish& f = kFinish;
  const int finish =
      f.base + if_so(network.cell == Cell::gru, f.gru) + if_so(many_tiles, f.many_tiles) + if_so(fp8, f.fp8);
  return std::max({staging, gather, gated ? finish : 0});
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
