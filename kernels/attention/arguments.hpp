// SPDX-License-Identifier: Apache-2.0
// What the kernels of MLP attention (mlp_attention.cu) are given, and how a block's warps share a tile.
#pragma once

namespace onchip {

constexpr int kAttentionWarps = 8;      // of a block
constexpr int kQueriesOfWarp = 8;       // most queries that a warp has at once
constexpr int kAttentionKeys = 32;      // of a tile
constexpr int kAttentionColumns = 32;   // of a block of backward
constexpr int kPartialsThreads = 1024;  // of a block of add_partials

// Elements are of kPrecision; null gradients are not wanted.
struct AttentionArguments {
  const void* queries;                                 // [batch][query_count][hidden]
  const void* keys;                                    // [batch][key_count][hidden]
  const void* v;                                       // [hidden]
  void* scores;                                        // [batch][query_count][key_count]; only forward
  const void* score_gradients;                         // likewise; only backward
  void *query_gradients, *key_gradients, *v_gradient;  // as what they are of; only backward
  float* partials;                                     // only backward: of v, [splits][batch][hidden]; then of keys,
                                                       // [splits][batch][key_count][hidden], if there are several tiles
  int batch, query_count, key_count, hidden;
  int query_groups;     // a power of two: a tile has so many times kQueriesOfWarp queries, and the warps that have the
                        // same ones share forward the columns, backward the keys
  int splits;           // backward: blocks that share the tiles of queries of a sample
  int has_whole_words;  // rows of queries and keys begin and end at multiples of 16 bytes
};

}  // namespace onchip
