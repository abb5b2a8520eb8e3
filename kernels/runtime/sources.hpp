// SPDX-License-Identifier: Apache-2.0
// The texts of the CUDA sources, embedded at build time (embed.cmake) for the run-time compiler.
#pragma once

#include <string_view>

namespace onchip {

extern const std::string_view kMlpAttentionSource;        // attention/mlp_attention.cu
extern const std::string_view kSparsePersistentSource;    // sparse/sparse_persistent.cu
extern const std::string_view kDensePersistentSource;     // dense/dense_persistent.cu
extern const std::string_view kStateOrderSource;          // recurrent/state_order.cu
extern const std::string_view kGraphSwitchSource;         // training/device/graph_switch.cu
extern const std::string_view kOutcomeSource;             // training/device/outcome.cu
extern const std::string_view kStreamSource;              // stream/device/stream.cu
extern const std::string_view kSingleStepSource;          // training/device/single_step.cu
extern const std::string_view kTrainingRecurrenceSource;  // training/device/training_recurrence.cu
extern const std::string_view kSparseRecurrenceSource;    // training/device/sparse_recurrence.cu
extern const std::string_view kSparseWeightsSource;       // training/device/sparse_weights.cu

extern const std::string_view kFeedForwardBlocksSource;        // feed_forward/device/feed_forward_blocks.cu
extern const std::string_view kFeedForwardExactSource;         // feed_forward/device/feed_forward_exact.cu
extern const std::string_view kFeedForwardStreamedSource;      // feed_forward/device/feed_forward_streamed.cu
extern const std::string_view kFeedForwardCompactSource;       // feed_forward/device/feed_forward_compact.cu
extern const std::string_view kFeedForwardLayerwiseSource;     // feed_forward/device/feed_forward_layerwise.cu
extern const std::string_view kFeedForwardStagedSource;        // feed_forward/device/feed_forward_staged.cu
extern const std::string_view kFeedForwardUnstructuredSource;  // feed_forward/device/feed_forward_unstructured.cu

extern const std::string_view kArithmeticSource;    // microbench/arithmetic.cu
extern const std::string_view kBarrierSource;       // microbench/barrier.cu
extern const std::string_view kClusterSource;       // microbench/cluster.cu
extern const std::string_view kClusterSumsSource;   // microbench/cluster_sums.cu
extern const std::string_view kExchangeSource;      // microbench/exchange.cu
extern const std::string_view kMailboxSource;       // microbench/mailbox.cu
extern const std::string_view kInstructionsSource;  // microbench/instructions.cu
extern const std::string_view kSharedSource;        // microbench/shared.cu
extern const std::string_view kShuffleSource;       // microbench/shuffle.cu

}  // namespace onchip
