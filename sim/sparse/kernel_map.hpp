// SPDX-License-Identifier: Apache-2.0
// Sizes and shared-memory addresses of kernels/sparse/sparse_persistent.cu for one network and plan: the same names, the same
// formulas. Addresses count from the first byte of dynamic shared memory. And what stands in the tables that the kernel
// reads there: how many chunks a row has, or which pieces, which gate a row of a unit is.
#pragma once

#include "model/plan/layout.hpp"

#include <cstdint>
#include <vector>

namespace onchip {

struct KernelMap {
  KernelMap(const Network& network, const Plan& plan);

  int gates, element_bytes, units_per_sm, plane_unit_bytes, planes, plane_samples, pass_samples;
  int tile_height, tiles, passes, values, outputs;
  std::int64_t plane_words, state_words;  // 16-byte words of the state
  int outbox_plane_words, outbox_words, input_pieces;
  int unit_words;   // 32-bit words that one load fetches
  bool half2_sums;  // products are summed in fp16 first
  int chunk_slots, chunk_words, chunk_bytes;
  std::uint64_t plane_bytes, outbox_at, input_at, carry_at, lengths_at, gates_at, bias_at, scale_at, tails_at,
      partials_at, piece_table_at, chunks_at;
  std::uint64_t ring_at;  // [warps][ring_chunks] chunks
  std::uint64_t end;

  // Where word i of the state goes in shared memory.
  std::uint64_t staged_at(std::int64_t word) const;
  // Element index of (unit, sample) in the outbox.
  std::int64_t outbox_index(int unit, int sample) const;
  // Where word i of an SM's outbox belongs in the state, in bytes.
  std::uint64_t outbox_offset(int sm, int word) const;

 private:
  std::uint64_t zero_bytes_;  // of one plane
};

struct KernelTables {
  KernelTables(const Layout& layout, const KernelMap& map);

  std::vector<TailChunks> tails;           // see split_tails(); empty without tails
  std::vector<std::uint64_t> first_chunk;  // [sms * warps]: where the warp's chunks begin in shared memory
  std::vector<std::int32_t> pieces;        // see pieces_of_rows()
  std::vector<std::uint8_t> gates;         // [state units, gates]: the gate of the unit's row of that place
};

}  // namespace onchip
