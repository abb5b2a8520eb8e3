// SPDX-License-Identifier: Apache-2.0
// Every constant that a price multiplies with, beside the numbers of the chip file: one table, from which come the
// equations page, the ablations (`validate --without TERM`), and which data files are in-sample. A chip carries the
// values (Chip::cost), so that a what-if or an ablation changes them as it changes the chip's numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onchip {

enum class Cost : std::uint8_t {
  // The exchange of the state through L2, which calibration fits together with the chip's numbers.
  exchange_first_lines,
  exchange_hidden_share,
  // Bank conflicts of sparse rows.
  split_rows_filled,
  set_noise,
  delta_scale_of_words,
  delta_scale_of_pairs,
  delta_scale_of_quads,
  delta_filled_power,
  delta_reach,
  delta_shared,
  crowded_first,
  crowded_slope,
  crowded_delta_half,
  crowded_delta_width,
  // Sparse steps.
  overflow_parting,
  split_round,
  split_exposed,
  finishing_issue,
  producer_seen_share,
  bulk_fence_signals,
  producer_hand_over,
  bulk_signals,
  bulk_rate_share,
  // Instructions of a sparse step's loop, which decide whether it stays in the instruction caches.
  sparse_output_instructions,
  gated_output_instructions,
  pass_instructions,
  word_instructions,
  overflow_instructions,
  streamed_instructions,
  rest_instructions,
  split_output_instructions,
  producer_instructions,
  // Dense steps.
  dense_stores_per_cycle,
  dense_word,
  dense_shared_word,
  bitmap_tile,
  structured_product,
  dense_product_instructions,
  dense_word_instructions,
  dense_sum_instructions,
  dense_rest_instructions,
  single_warp_exposed,
  dense_look,
  squash,
  item_warp,
  row_load,
  transfers_exposed,
  cluster_first_product,
  cluster_finishing,
  cluster_item_warp,
  cluster_exposed,
  cluster_hidden_bytes,
  cluster_per_byte,
  cluster_per_segment,
  // Recurrences of training.
  training_exchange_exposed,
  training_turn,
  training_bytes_per_cycle,
  training_round_trip,
  training_products,
  training_forward_item,
  training_backward_item,
  training_split,
  training_beside,
  training_nodes,
  // Libraries.
  library_plain_node,
  library_value_bytes,
  cudnn_training_products,
  cudnn_training_persistent,
  cudnn_training_value_bytes,
  cudnn_training_multiplications,
  cudnn_lstm_barriers_few,
  cudnn_lstm_barriers,
  cudnn_gru_barriers_one,
  cudnn_gru_barriers,
  cudnn_plain_barriers_one,
  cudnn_plain_barriers_small,
  cudnn_plain_barriers,
  // The libraries in fp32, without TF32.
  fp32_products,
  fp32_unit_cycles,
  fp32_bandwidth_share,
  fp32_few_products,
  fp32_few_peak,
  cudnn_fp32_products,
  cudnn_fp32_unit_cycles,
  cudnn_fp32_peak,
  cudnn_fp32_few_bandwidth_share,
  cudnn_fp32_barriers,
  cudnn_fp32_sample_barriers,
  cudnn_fp32_persistent_peak,
  // Feed-forward networks in blocks.
  blocks_block_instructions,
  blocks_tile_instructions,
  blocks_record_instructions,
  blocks_sum_instructions,
  blocks_epilogue_instructions,
  blocks_move_slots,
  blocks_expand_slots,
  blocks_transpose_slots,
  blocks_reused_registers,
  // Intervals.
  exchange_scatter_in_step,
  end
};
inline constexpr std::size_t kCosts = static_cast<std::size_t>(Cost::end);

struct CostTerm {
  Cost cost;
  std::string_view name;  // "overflow_parting"
  double value;
  double neutral;  // with which the term has no effect: `validate --without`
  std::string_view unit;
  std::string_view scales;     // what carries it to another chip
  std::string_view meaning;    // one sentence
  std::string_view fitted_to;  // a file of experiments/data, "layouts" or "machine code"
  int points;                  // of it
};

inline constexpr std::array<CostTerm, kCosts> kCostTerms{{
    {Cost::exchange_first_lines, "exchange_first_lines", 256, 0, "lines", "as is",
     "lines of L2 that arrive in part while the last SM's are on their way", "h200/microbench.csv", 101},
    {Cost::exchange_hidden_share, "exchange_hidden_share", 0.5, 0, "share", "as is", "of these lines that is hidden",
     "h200/microbench.csv", 101},
    {Cost::split_rows_filled, "split_rows_filled", 0.9, 1, "share", "as is",
     "of the slots of split rows that hold a non-zero", "layouts", 12},
    {Cost::set_noise, "set_noise", 0.5, 0, "deviations", "as is",
     "scatter of the fullest set of banks over the warps, of that over the sets", "layouts", 40},
    {Cost::delta_scale_of_words, "delta_scale_of_words", 2.7, 0, "wavefronts", "as is",
     "conflicts of rows stored as distances, loads of 4 bytes", "layouts", 40},
    {Cost::delta_scale_of_pairs, "delta_scale_of_pairs", 1.64, 0, "wavefronts", "as is", "the same of 8 bytes",
     "layouts", 40},
    {Cost::delta_scale_of_quads, "delta_scale_of_quads", 0.74, 0, "wavefronts", "as is", "the same of 16 bytes",
     "layouts", 40},
    {Cost::delta_filled_power, "delta_filled_power", 7.6, 0, "power", "as is", "how the share of filled slots enters",
     "layouts", 40},
    {Cost::delta_reach, "delta_reach", 6.9, 0, "", "as is", "how the non-zeros within reach enter", "layouts", 40},
    {Cost::delta_shared, "delta_shared", 2.5, 0, "", "as is", "words that several rows need", "layouts", 40},
    {Cost::crowded_first, "crowded_first", 0.915, 1, "share", "as is",
     "of filled slots and sets, from which on lanes find no free bank", "layouts", 40},
    {Cost::crowded_slope, "crowded_slope", 3.2, 0, "wavefronts", "as is", "how many more from there", "layouts", 40},
    {Cost::crowded_delta_half, "crowded_delta_half", 1.02, 10, "share", "as is",
     "the same of distances: where half of the slots conflict", "layouts", 12},
    {Cost::crowded_delta_width, "crowded_delta_width", 0.012, 0.012, "share", "as is", "and how sharply", "layouts",
     12},
    {Cost::overflow_parting, "overflow_parting", 300, 0, "cycles", "sm.clock",
     "of a row and pass in which only some warps have overflow and its loop is beyond the instruction cache",
     "h200/validation.csv", 128},
    {Cost::split_round, "split_round", 18, 0, "cycles", "sm.clock", "a further round of adding the splits of a row",
     "h100_sxm/row_splits.csv", 18},
    {Cost::split_exposed, "split_exposed", 0.5, 1, "share", "as is",
     "of what splits take that pipelined samples do not hide", "h200/pipelined.csv", 40},
    {Cost::finishing_issue, "finishing_issue", 140, 0, "cycles", "sm.clock",
     "that a partition issues for a warp's worth of outputs beside the cell's functions", "h200/validation.csv", 343},
    {Cost::producer_seen_share, "producer_seen_share", 0.5, 1, "share", "as is",
     "of the latency of an exchange that passes before the reader's part", "h200/pipelined.csv", 222},
    {Cost::bulk_fence_signals, "bulk_fence_signals", 1.5, 0, "signals", "exchange.signal",
     "that the publishing warp waits for a fence before each flag", "h200/bulk_copy.csv", 36},
    {Cost::producer_hand_over, "producer_hand_over", 230, 0, "cycles", "sm.clock",
     "from producer warps to warps that compute, a step", "h200/pipelined.csv", 222},
    {Cost::bulk_signals, "bulk_signals", 6.5, 0, "signals", "exchange.signal",
     "the way of a bulk copy: fence, flag, copy, and what orders them", "h200/bulk_copy.csv", 36},
    {Cost::bulk_rate_share, "bulk_rate_share", 0.74, 1, "share", "as is", "of the rate of words that bulk copies get",
     "h200/bulk_copy.csv", 36},
    {Cost::sparse_output_instructions, "sparse_output_instructions", 17, 17, "instructions", "as is",
     "a lane's output, cells without gates", "machine code", 839},
    {Cost::gated_output_instructions, "gated_output_instructions", 50, 50, "instructions", "as is",
     "a lane's output, gated cells", "machine code", 839},
    {Cost::pass_instructions, "pass_instructions", 20, 20, "instructions", "as is", "a pass over a tile",
     "machine code", 839},
    {Cost::word_instructions, "word_instructions", 12, 12, "instructions", "as is",
     "a 16-byte word that a thread polls", "machine code", 839},
    {Cost::overflow_instructions, "overflow_instructions", 72, 72, "instructions", "as is", "the overflow of a row",
     "machine code", 839},
    {Cost::streamed_instructions, "streamed_instructions", 55, 55, "instructions", "as is", "its streamed part",
     "machine code", 839},
    {Cost::rest_instructions, "rest_instructions", 50, 50, "instructions", "as is", "the rest of the loop",
     "machine code", 839},
    {Cost::split_output_instructions, "split_output_instructions", 20, 20, "instructions", "as is",
     "an output with splits", "machine code", 839},
    {Cost::producer_instructions, "producer_instructions", 300, 300, "instructions", "as is",
     "the loops of producer warps", "machine code", 839},
    {Cost::dense_stores_per_cycle, "dense_stores_per_cycle", 9, 1e9, "stores/cycle", "sm.clock",
     "of all SMs, that L2 takes", "h200/dense_shapes.csv", 437},
    {Cost::dense_word, "dense_word", 36, 0, "cycles", "sm.clock", "a 16-byte word asked for by all lanes of a warp",
     "h200/dense_shapes.csv", 437},
    {Cost::dense_shared_word, "dense_shared_word", 87, 0, "cycles", "sm.clock",
     "a word of several SMs, which is found half there", "h200/dense_shapes.csv", 437},
    {Cost::bitmap_tile, "bitmap_tile", 22, 0, "cycles", "sm.clock", "expanding a tile, of a partition",
     "h200/bitmap.csv", 27},
    {Cost::structured_product, "structured_product", 1.5, 1, "factor", "as is",
     "a product of 2:4 weights over a dense one", "h200/structured.csv", 21},
    {Cost::dense_product_instructions, "dense_product_instructions", 1.2, 1.2, "instructions", "as is",
     "a product of tiles", "machine code", 839},
    {Cost::dense_word_instructions, "dense_word_instructions", 15, 15, "instructions", "as is",
     "a 16-byte word of the state", "machine code", 839},
    {Cost::dense_sum_instructions, "dense_sum_instructions", 13, 13, "instructions", "as is", "a tile of sums",
     "machine code", 839},
    {Cost::dense_rest_instructions, "dense_rest_instructions", 150, 150, "instructions", "as is",
     "the rest of the loop", "machine code", 839},
    {Cost::single_warp_exposed, "single_warp_exposed", 200, 0, "cycles", "sm.clock",
     "where a partition has one warp, of looks and products that wait for each other", "h200/dense_shapes.csv", 437},
    {Cost::dense_look, "dense_look", 40, 0, "cycles", "sm.clock", "from one group of spans to asking for the next",
     "h200/dense_shapes.csv", 437},
    {Cost::squash, "squash", 18, 0, "cycles", "sm.clock",
     "of a warp, a tanh or sigmoid beside its special instructions", "h200/dense_shapes.csv", 437},
    {Cost::item_warp, "item_warp", 239, 0, "cycles", "sm.clock", "of a partition, to finish a warp of items",
     "h200/dense_shapes.csv", 437},
    {Cost::row_load, "row_load", 4, 0, "cycles", "sm.clock", "of a warp's sums of a GRU, each further row",
     "h200/dense_shapes.csv", 437},
    {Cost::transfers_exposed, "transfers_exposed", 0.5, 0, "share", "as is",
     "of the transfers of sums that is not beside what other warps do", "h200/dense_shapes.csv", 437},
    {Cost::cluster_first_product, "cluster_first_product", 125, 0, "cycles", "sm.clock",
     "in a cluster, to the first product beyond the first load", "h200/families.csv", 40},
    {Cost::cluster_finishing, "cluster_finishing", 20, 0, "instructions", "timing.arithmetic_latency",
     "from the last sum of an item to its store", "machine code", 1},
    {Cost::cluster_item_warp, "cluster_item_warp", 80, 0, "cycles", "sm.clock",
     "in a cluster, a warp of items beside another", "h100_sxm/clusters.csv", 104},
    {Cost::cluster_exposed, "cluster_exposed", 1.0 / 3, 1, "share", "as is",
     "of the copying in a cluster that is not hidden", "h200/families.csv", 40},
    {Cost::cluster_hidden_bytes, "cluster_hidden_bytes", 64 << 10, 1e12, "bytes", "as is",
     "that all SMs of a cluster receive without waiting", "h200/families.csv", 40},
    {Cost::cluster_per_byte, "cluster_per_byte", 0.0055, 0, "cycles", "sm.clock", "each byte beyond",
     "h200/families.csv", 40},
    {Cost::cluster_per_segment, "cluster_per_segment", 0.4, 0, "cycles", "sm.clock",
     "each further segment of a sample's units that are no whole sectors", "h100_sxm/clusters.csv", 104},
    {Cost::training_exchange_exposed, "training_exchange_exposed", 0.48, 0, "share", "exchange.signal",
     "of a signal, where a warp group has one turn", "h200/training_lstm.csv", 106},
    {Cost::training_turn, "training_turn", 541, 0, "cycles", "sm.clock", "of each turn, beside what is counted",
     "h200/training_lstm.csv", 106},
    {Cost::training_bytes_per_cycle, "training_bytes_per_cycle", 101, 1e12, "bytes", "sm.clock",
     "of a state that an SM is seen to get from L2 in a cycle; the rest is beside other work", "h200/training_lstm.csv",
     106},
    {Cost::training_round_trip, "training_round_trip", 253, 0, "cycles", "sm.clock",
     "of each group of spans that is asked for late", "h200/training_lstm.csv", 106},
    {Cost::training_products, "training_products", 1.19, 1, "times", "tensor cores", "what their products take",
     "h200/training_lstm.csv", 106},
    {Cost::training_forward_item, "training_forward_item", 493, 0, "cycles", "sm.clock",
     "of a partition, to finish a warp of units", "h200/training_lstm.csv", 106},
    {Cost::training_backward_item, "training_backward_item", 547, 0, "cycles", "sm.clock", "the same backward",
     "h200/training_lstm.csv", 106},
    {Cost::training_split, "training_split", 671, 0, "cycles", "sm.clock",
     "to add up the sums of SMs that split columns", "h200/training_lstm.csv", 106},
    {Cost::training_beside, "training_beside", 1.58, 1, "times", "as is",
     "what a turn takes while another warp group has one", "h200/training_lstm.csv", 106},
    {Cost::training_nodes, "training_nodes", 10.6, 0, "nodes", "library.node",
     "of an iteration beside its recurrences: packing, empty rings, sums of biases, gaps", "h200/training_lstm.csv",
     106},
    {Cost::library_plain_node, "library_plain_node", 0.65, 1, "share", "as is",
     "of library.node where cells have no gates", "h200/families.csv", 540},
    {Cost::library_value_bytes, "library_value_bytes", 24, 0, "bytes", "as is",
     "through L2 for every row and sample of cuDNN", "h200/families.csv", 540},
    {Cost::cudnn_training_products, "cudnn_training_products", 5.5, 0, "products", "library.product",
     "of library.product: what cuDNN waits in a step of training", "h100_sxm/training_cudnn.csv", 52},
    {Cost::cudnn_training_persistent, "cudnn_training_persistent", 2, 0, "products", "library.product",
     "the same with its persistent algorithm", "h100_sxm/training_cudnn.csv", 4},
    {Cost::cudnn_training_value_bytes, "cudnn_training_value_bytes", 80, 0, "bytes", "as is",
     "through L2 for every gate and sample of a step of training", "h100_sxm/training_cudnn.csv", 52},
    {Cost::cudnn_training_multiplications, "cudnn_training_multiplications", 4.3, 0, "times", "tensor cores",
     "of what the products of W and all samples take, for all six of them", "h100_sxm/training_cudnn.csv", 52},
    {Cost::cudnn_lstm_barriers_few, "cudnn_lstm_barriers_few", 1.3, 0, "barriers", "timing.grid_barrier",
     "of cuDNN's persistent LSTM, up to 8 samples", "h200/families.csv", 540},
    {Cost::cudnn_lstm_barriers, "cudnn_lstm_barriers", 3, 0, "barriers", "timing.grid_barrier", "of more samples",
     "h200/families.csv", 540},
    {Cost::cudnn_gru_barriers_one, "cudnn_gru_barriers_one", 1, 0, "barriers", "timing.grid_barrier",
     "of its GRU, one sample", "h200/families.csv", 540},
    {Cost::cudnn_gru_barriers, "cudnn_gru_barriers", 2.5, 0, "barriers", "timing.grid_barrier", "of more samples",
     "h200/families.csv", 540},
    {Cost::cudnn_plain_barriers_one, "cudnn_plain_barriers_one", 1, 0, "barriers", "timing.grid_barrier",
     "of cells without gates, one sample", "h200/families.csv", 540},
    {Cost::cudnn_plain_barriers_small, "cudnn_plain_barriers_small", 1.4, 0, "barriers", "timing.grid_barrier",
     "of more samples, up to 256 units", "h200/families.csv", 540},
    {Cost::cudnn_plain_barriers, "cudnn_plain_barriers", 2, 0, "barriers", "timing.grid_barrier", "of more units",
     "h200/families.csv", 540},
    {Cost::fp32_products, "fp32_products", 2.71, 0, "products", "library.product",
     "of library.product: a product of more than 8 samples", "h100_sxm/drawn.csv", 20},
    {Cost::fp32_unit_cycles, "fp32_unit_cycles", 5.2, 0, "cycles", "sm.clock",
     "each unit, of a thread that sums over all", "h100_sxm/drawn.csv", 20},
    {Cost::fp32_bandwidth_share, "fp32_bandwidth_share", 0.39, 1, "share", "library.l2_bandwidth",
     "of library.l2_bandwidth, in which the weights come", "h100_sxm/drawn.csv", 20},
    {Cost::fp32_few_products, "fp32_few_products", 2.09, 0, "products", "library.product",
     "of library.product: a product of up to 8 samples", "h100_sxm/drawn.csv", 14},
    {Cost::fp32_few_peak, "fp32_few_peak", 9.9, 0, "times", "fp32 peak", "of what its multiplications take all SMs",
     "h100_sxm/drawn.csv", 14},
    {Cost::cudnn_fp32_products, "cudnn_fp32_products", 2.56, 0, "products", "library.product",
     "of library.product: a step of cuDNN of more than 12 samples", "h100_sxm/drawn.csv", 19},
    {Cost::cudnn_fp32_unit_cycles, "cudnn_fp32_unit_cycles", 17.9, 0, "cycles", "sm.clock", "each unit",
     "h100_sxm/drawn.csv", 19},
    {Cost::cudnn_fp32_peak, "cudnn_fp32_peak", 4.1, 0, "times", "fp32 peak", "of what its multiplications take all SMs",
     "h100_sxm/drawn.csv", 19},
    {Cost::cudnn_fp32_few_bandwidth_share, "cudnn_fp32_few_bandwidth_share", 0.186, 1, "share", "library.l2_bandwidth",
     "of library.l2_bandwidth, of fewer samples", "h100_sxm/drawn.csv", 6},
    {Cost::cudnn_fp32_barriers, "cudnn_fp32_barriers", 0.51, 0, "barriers", "timing.grid_barrier",
     "of its persistent algorithm, which takes up to 8 samples and 20 MB of weights", "h100_sxm/drawn.csv", 7},
    {Cost::cudnn_fp32_sample_barriers, "cudnn_fp32_sample_barriers", 0.56, 0, "barriers", "timing.grid_barrier",
     "each sample of it", "h100_sxm/drawn.csv", 7},
    {Cost::cudnn_fp32_persistent_peak, "cudnn_fp32_persistent_peak", 9.2, 0, "times", "fp32 peak",
     "of what its multiplications take all SMs", "h100_sxm/drawn.csv", 7},
    {Cost::blocks_block_instructions, "blocks_block_instructions", 4, 4, "instructions", "as is",
     "of a warp for an output block, beside its tiles and sums", "machine code", 12},
    {Cost::blocks_tile_instructions, "blocks_tile_instructions", 13, 13, "instructions", "as is",
     "for a weight tile: addresses, loads, products", "machine code", 12},
    {Cost::blocks_record_instructions, "blocks_record_instructions", 50, 0, "instructions", "as is",
     "for 32 weights outside of tiles: two tiles made of them, beside inputs and products", "machine code", 4},
    {Cost::blocks_sum_instructions, "blocks_sum_instructions", 16, 16, "instructions", "as is",
     "for 8 images and a word of an output block: bias, clip, rounding, store", "machine code", 12},
    {Cost::blocks_epilogue_instructions, "blocks_epilogue_instructions", 5, 0, "instructions",
     "timing.arithmetic_latency", "one after another from the last product to the store", "machine code", 12},
    {Cost::blocks_move_slots, "blocks_move_slots", 62, 0, "issue slots", "as is",
     "a warp's 32 words of 8 images to or from device memory", "machine code", 12},
    {Cost::blocks_expand_slots, "blocks_expand_slots", 31, 0, "issue slots", "as is",
     "a warp's 32 places of 8 images from their bits", "machine code", 12},
    {Cost::blocks_transpose_slots, "blocks_transpose_slots", 290, 0, "issue slots", "as is",
     "a warp's 32 words of 8 bitmaps, from rows of bits to columns", "machine code", 12},
    {Cost::blocks_reused_registers, "blocks_reused_registers", 8, 8, "registers", "as is",
     "of a thread that the compiler uses twice", "machine code", 12},
    {Cost::exchange_scatter_in_step, "exchange_scatter_in_step", 2, 1, "factor", "as is",
     "of exchange.scatter, because in a step the SMs do not all come at once", "h200/validation.csv", 343},
}};

constexpr const CostTerm& info(Cost cost) {
  return kCostTerms[static_cast<std::size_t>(cost)];
}

// The parts of the enumeration, by the first term of each.
struct CostGroup {
  Cost first;
  std::string_view name;
};
inline constexpr std::array kCostGroups{
    CostGroup{Cost::exchange_first_lines, "exchange"},
    CostGroup{Cost::split_rows_filled, "bank conflicts"},
    CostGroup{Cost::overflow_parting, "sparse steps"},
    CostGroup{Cost::sparse_output_instructions, "sparse instructions"},
    CostGroup{Cost::dense_stores_per_cycle, "dense steps"},
    CostGroup{Cost::training_turn, "recurrences of training"},
    CostGroup{Cost::library_plain_node, "libraries"},
    CostGroup{Cost::blocks_block_instructions, "feed-forward blocks"},
    CostGroup{Cost::exchange_scatter_in_step, "intervals"},
};
constexpr std::string_view group_of(Cost cost) {
  std::string_view name;
  for (const CostGroup& group : kCostGroups) {
    if (group.first <= cost) {
      name = group.name;
    }
  }
  return name;
}

// Files by whose steps it was chosen which terms there are; nothing was fitted to them.
inline constexpr std::array<std::string_view, 2> kTermsChosenBy{"h100_sxm/drawn.csv", "h100_sxm/drawn_third.csv"};

// Whether a measured file, ".../h200/validation.csv", had a say in the terms: their values, or which there are.
constexpr bool is_in_sample(std::string_view file) {
  const auto is = [file](std::string_view name) {
    return file.ends_with(name) && (file.size() == name.size() || file[file.size() - name.size() - 1] == '/');
  };
  for (const CostTerm& term : kCostTerms) {
    if (is(term.fitted_to)) {
      return true;
    }
  }
  for (const std::string_view chosen_by : kTermsChosenBy) {
    if (is(chosen_by)) {
      return true;
    }
  }
  return false;
}

namespace detail {
constexpr bool are_in_order() {
  for (std::size_t i = 0; i < kCosts; ++i) {
    if (kCostTerms[i].cost != static_cast<Cost>(i)) {
      return false;
    }
  }
  return true;
}
}  // namespace detail
static_assert(detail::are_in_order(), "a row for each term, in the order of the enumeration");

}  // namespace onchip
