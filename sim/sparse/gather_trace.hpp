// SPDX-License-Identifier: Apache-2.0
// The gathers of one warp, as kernels/sparse/gather.cuh does them: row after row, the slots in registers plane by
// plane, then the row's overflow, chunk by chunk behind branches: first from shared memory, then through the ring.
#pragma once

#include "sim/sparse/warp_place.hpp"

#include <array>
#include <span>
#include <vector>

namespace onchip {

// Of a launch, from 0: the ring is where the chunks of the steps before have left it. The one that kernels capture.
inline constexpr int kTracedStep = 2;

class GatherTrace {
 public:
  GatherTrace(WarpWriter& writer, const WarpPlace& place);

  void begin_step();
  void tile(int tile, int pass);
  // The group's splits of rows; their sums are those that follow a tile's, [samples of the pass][splits].
  void splits(int pass);

 private:
  // A slot's registers: the byte offset of what it reads, and its value.
  struct Operands {
    int offset = kNoRegister, value = kNoRegister;
  };
  // Of one unit: the first register of what was loaded; and, where products are not summed in fp16, each sample in
  // fp32.
  struct State {
    int first;
    std::vector<int> wide;
  };
  // Slots [first, first + count) of a row; `words`: their registers, none if they are weights that stay there.
  struct Run {
    int r, first, count;
    std::span<const int> words;
    std::vector<Operands> operands;  // prepared once for all planes
    int first_sum = 0, rows = 1;     // of the sums [samples of the pass][rows] this row's first
  };

  // A row or a split: of the sums [samples of the pass][rows that are reduced together] its first.
  struct Row {
    int r, first_sum, together;
  };

  void row(const Row& row, int pass);
  void rows_together(int begin, int end, int pass);
  void overflow(const Row& row, int pass, int chunks);
  void stream(const Row& row, int pass, int first, int count, int left);
  void gather_chunks(const Row& row, int pass, int first, int count, std::int64_t at, int source);
  void fetch_chunk();
  void run(Run& run, int plane);
  State load_state(const Run& run, int s, int plane, const Operands& slot);
  void multiply(const Run& run, int s, int plane, const Operands& slot, const State& state);
  Operands prepare(const Run& run, int s);
  int value_of(int word);
  int index(int word);
  void multiply_half(const Operands& slot, int state, bool starts_sum);
  void promote(int first_sum, const Run& run);
  std::vector<int> widen(int state);
  void multiply_wide(const Operands& slot, const std::vector<int>& wide, int first_sum, const Run& run);

  WarpWriter& out_;
  const WarpPlace& place_;
  const SparseGeometry& geometry_;
  int unit_words_;             // 32-bit words that one load fetches
  bool half_sums_;             // products are summed in fp16 first
  int before_barrier_;         // of the step's first slots: their addresses are computed before its barrier
  int loads_ = 0;              // gathers so far
  int read_at_ = kNoRegister;  // packed_delta: the register with where the slot before reads, if it was computed
  std::vector<int> partial_;   // fp16 sums since the last promotion
  int chunk_ = kNoRegister;    // the register with the address of the next chunk in shared memory
  std::int64_t chunk_at_ = 0;  // that address
  int streamed_ = 0, asked_ = 0, used_ = 0;       // chunks of the ring, so far: at the step's end; now
  std::array<int, kMostRingChunks> under_way_{};  // [ring places]: the register of a copy, if it is of this step
};

}  // namespace onchip
