// SPDX-License-Identifier: Apache-2.0
// What the formula of working registers (registers.hpp) adds up, one table: numbers of the compiler, which stand in for
// it where there is none. They are no cost terms: no price multiplies with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class RegisterCost : std::uint8_t {
  base,
  two_tiles,
  more_tiles,
  staged_planes,
  staged_ring,
  loaded_word,
  output,
  ring,
  dense_overflow,
  lstm,
  gru,
  kept_addresses,
  kept_per_word,
  several_planes,
  gated_pass,
  chunk_word_together,
  unpacked_together,
  more_together,
  wide_together,
  together_pass,
  half_pair,
  shared_loads,
  shared_loads_of_lstm,
  row_splits,
  pairs_together,
  gru_of_many_passes,
  end
};
inline constexpr std::size_t kRegisterCostCount = static_cast<std::size_t>(RegisterCost::end);

inline constexpr std::array<std::string_view, 4> kRegisterArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};

struct RegisterCostRow {
  RegisterCost cost;
  std::string_view name;
  std::array<double, kRegisterArchitectures.size()> registers;  // of a thread
  std::string_view meaning, source;
};

// The most weights that NVRTC 13.0 compiles without a spill in 480 random shapes of sparse plans on these architectures
// (docs/notebook/registers.md): nothing too little, the least that is too much.
inline constexpr std::string_view kSpills = "480 shapes";

inline constexpr std::array<RegisterCostRow, kRegisterCostCount> kRegisterCosts{{
    {RegisterCost::base, "base", {17.75, 17.5, 17.25, 16.25}, "kept, with one tile", kSpills},
    {RegisterCost::two_tiles, "two_tiles", {7.75, 5.25, 3, 5.5}, "kept, in addition, with two tiles", kSpills},
    {RegisterCost::more_tiles, "more_tiles", {4.75, 1.5, 5.5, 6}, "kept, in addition, with more tiles", kSpills},
    {RegisterCost::staged_planes,
     "staged_planes",
     {0.25, 0, 0.75, 2.75},
     "staging, beside the words in flight, where the state has several planes",
     kSpills},
    {RegisterCost::staged_ring,
     "staged_ring",
     {1.5, 1.75, 1.25, 1.5},
     "staging, in addition, where chunks are streamed",
     kSpills},
    {RegisterCost::loaded_word,
     "loaded_word",
     {0, 0.25, 1.25, 1},
     "gather, of narrow values, each word that a load fetches",
     kSpills},
    {RegisterCost::output,
     "output",
     {4.75, 7.5, 3.75, 3.5},
     "gather, each output that a lane finishes after the first",
     kSpills},
    {RegisterCost::ring, "ring", {9.5, 10.25, 9.25, 10.5}, "gather, where chunks are streamed", kSpills},
    {RegisterCost::dense_overflow,
     "dense_overflow",
     {3, 2.5, 2.75, 2},
     "gather, overflow of rows stored dense",
     kSpills},
    {RegisterCost::lstm, "lstm", {5.5, 1.75, 10.75, 10}, "gather, of an LSTM", kSpills},
    {RegisterCost::gru, "gru", {5.25, 5.75, 6.75, 9.25}, "gather, of a GRU", kSpills},
    {RegisterCost::kept_addresses,
     "kept_addresses",
     {3.25, 7.75, 0.25, 3.75},
     "gather, where addresses are kept",
     kSpills},
    {RegisterCost::kept_per_word,
     "kept_per_word",
     {1.25, 0.25, 2.75, 2},
     "gather, where addresses are kept, each word in flight",
     kSpills},
    {RegisterCost::several_planes,
     "several_planes",
     {9.25, 13.75, 3.75, 5.75},
     "gather, of narrow values, where the state has several planes",
     kSpills},
    {RegisterCost::gated_pass,
     "gated_pass",
     {23.25, 19.25, 4.25, 4.5},
     "gather, of narrow values and gated cells, each pass after the second",
     kSpills},
    {RegisterCost::chunk_word_together,
     "chunk_word_together",
     {1.5, 0.75, 2.25, 1.5},
     "gather of several planes together, each word of the chunks in flight; or, where that is more:",
     kSpills},
    {RegisterCost::unpacked_together,
     "unpacked_together",
     {18.5, 18.75, 15.75, 15.25},
     "narrow values, if the compiler unpacks once for all planes",
     kSpills},
    {RegisterCost::more_together,
     "more_together",
     {23.5, 22, 26.25, 0.75},
     "narrow values, each two planes after the first two",
     kSpills},
    {RegisterCost::wide_together, "wide_together", {0, 19.75, 16, 0}, "fp32, more than two planes", kSpills},
    {RegisterCost::together_pass,
     "together_pass",
     {0.5, 1, 6.5, 2.25},
     "narrow values of cells without gates, each pass after the first",
     kSpills},
    {RegisterCost::half_pair,
     "half_pair",
     {10, 10, 10, 10},
     "fp32 pairs of which only one is there, more than two planes together",
     "one shape: spills from 110 words on, others from 117 to 126"},
    {RegisterCost::shared_loads,
     "shared_loads",
     {34, 34, 34, 34},
     "rows stored dense whose loads the compiler shares, with the words of several at once",
     "about a dozen shapes on sm_90, eight on others"},
    {RegisterCost::shared_loads_of_lstm,
     "shared_loads_of_lstm",
     {60, 60, 60, 60},
     "the same of LSTMs in fp16 with four samples a plane on sm_90",
     "as the row before"},
    {RegisterCost::row_splits,
     "row_splits",
     {6, 6, 6, 6},
     "splits of rows, beside their sums and numbers",
     "plans with splits in validation.csv on sm_90, four others on each architecture"},
    {RegisterCost::pairs_together,
     "pairs_together",
     {20, 20, 20, 20},
     "several planes together, of cells without gates whose rows are pairs in registers",
     "765 shapes: without it 86 are allowed too much, with it 7"},
    {RegisterCost::gru_of_many_passes,
     "gru_of_many_passes",
     {74, 74, 74, 74},
     "a GRU of four pipelined passes or more",
     "one shape: with 224 registers 45 words of weights spill, 42 do not"},
}};

namespace detail {
constexpr bool are_register_costs_in_order() {
  for (std::size_t i = 0; i < kRegisterCostCount; ++i) {
    if (kRegisterCosts[i].cost != static_cast<RegisterCost>(i)) {
      return false;
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::are_register_costs_in_order(), "a row for each, in the order of the enumeration");

// Those of an architecture.
struct RegisterCosts {
  std::size_t architecture = 0;  // of kRegisterArchitectures
  constexpr double operator[](RegisterCost cost) const {
    return kRegisterCosts[static_cast<std::size_t>(cost)].registers[architecture];
  }
};

}  // namespace onchip
