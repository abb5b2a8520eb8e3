// SPDX-License-Identifier: Apache-2.0
// The names of the cost terms, whose rows are in cost_terms.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onchip {

enum class Cost : std::uint8_t {
  // The exchange of the state through L2, which calibration fits together with the chip's numbers.
  exchange_first_lines,
  exchange_hidden_share,
  // Bank conflicts of sparse rows.
  split_rows_filled,
  delta_conflicts,
  delta_filled_power,
  delta_reach,
  delta_shared,
  // Sparse steps.
  split_round,
  finishing_issue,
  bulk_fence_signals,
  producer_hand_over,
  bulk_signals,
  bulk_rate_share,
  product_operands,
  // Instructions of the loop of a step or a layer, which decide whether it stays in the instruction caches.
  output_instructions,
  word_instructions,
  overflow_instructions,
  tile_sum_instructions,
  rest_instructions,
  // Dense steps.
  dense_stores_per_cycle,
  dense_word,
  dense_shared_word,
  bitmap_tile,
  structured_product,
  single_warp_exposed,
  dense_look,
  squash,
  item_warp,
  row_load,
  transfers_exposed,
  cluster_finishing,
  cluster_per_segment,
  // Recurrences of training.
  training_exchange_exposed,
  training_turn,
  training_bytes_per_cycle,
  training_round_trip,
  training_products,
  training_item_warp,
  training_beside,
  training_nodes,
  sparse_training_turn,
  sparse_training_tile,
  // Libraries.
  library_plain_node,
  library_value_bytes,
  cudnn_training_products,
  cudnn_training_persistent,
  cudnn_training_value_bytes,
  cudnn_training_multiplications,
  cudnn_barriers_few,
  cudnn_gated_barriers,
  cudnn_plain_barriers,
  // The libraries in fp32, without TF32.
  fp32_products,
  fp32_unit_cycles,
  fp32_bandwidth_share,
  fp32_few_peak,
  cudnn_fp32_unit_cycles,
  cudnn_fp32_peak,
  cudnn_fp32_few_bandwidth_share,
  cudnn_fp32_sample_barriers,
  // Feed-forward networks in blocks, and what others have in common with them.
  blocks_block_instructions,
  blocks_tile_instructions,
  blocks_record_instructions,
  blocks_epilogue_instructions,
  blocks_move_slots,
  blocks_expand_slots,
  transpose_slots,
  blocks_reused_registers,
  blocks_ring_wavefronts,
  inference_nodes,
  // Feed-forward networks streamed through L2.
  streamed_product_instructions,
  streamed_tile_instructions,
  streamed_block_instructions,
  l2_write,
  l2_scattered_store,
  // Unstructured feed-forward networks.
  unstructured_step_instructions,
  unstructured_entry_instructions,
  unstructured_item_instructions,
  unstructured_output_instructions,
  unstructured_second_output,
  unstructured_bit_slots,
  unstructured_copy_wavefronts,
  unstructured_store_conflicts,
  unstructured_pipe_share,
  unstructured_nodes,
  // The method of 2020.
  staged_slots,
  staged_image_slots,
  staged_output_slots,
  staged_host_round_trip,
  staged_host_image,
  staged_host_bandwidth,
  // A sequence of a whole network, beside its steps and products.
  sequence_launch,
  sequence_input_order,
  sequence_output_order,
  // Intervals.
  exchange_scatter_in_step,
  other_banks_scatter,
  end
};
inline constexpr std::size_t kCosts = static_cast<std::size_t>(Cost::end);

}  // namespace onchip
