// SPDX-License-Identifier: Apache-2.0
// The gathers of one warp, as kernels/sparse/gather.cuh does them: row after row, the slots in registers plane by
// plane, then the row's overflow, chunk by chunk behind branches: first from shared memory, then through the ring.
#pragma once

#include "model/sparse/instructions.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/sparse/warp_place.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace onchip {

// Of a launch, from 0: the ring is where the chunks of the steps before have left it. The one that kernels capture.
inline constexpr int kTracedStep = 2;

// Addresses of a step's first gathers that machine code for sm_90 has ready before the barrier: 8 or 9 where a step is
// one straight line (relu and tanh, all weights in registers), about 2 with overflow, gated cells or several tiles.
inline int addresses_before_barrier(const SparseGeometry& geometry) {
  constexpr int kStraight = 8, kElse = 2;
  const bool is_straight = geometry.gates == 1 && geometry.tiles * geometry.passes == 1 && !geometry.has_overflow();
  return is_straight ? kStraight : kElse;
}

class GatherTrace {
 public:
  GatherTrace(WarpWriter& writer, const WarpPlace& place)
      : out_(writer),
        place_(place),
        geometry_(place.geometry),
        unit_words_((place.geometry.plane_unit_bytes + 3) / 4),
        half_sums_(sums_in_half(place.geometry)),
        before_barrier_(addresses_before_barrier(place.geometry)) {
    for (int r = 0; geometry_.has_overflow() && r < geometry_.all_rows(); ++r) {
      streamed_ += geometry_.passes * place.tables.overflow[place.warp_row(r)].streamed;
    }
    used_ = kTracedStep * streamed_;
    asked_ = used_ + std::max(0, geometry_.ring_chunks - 1);  // in the step before
    streamed_ += used_;
    under_way_.fill(kNoRegister);
  }

  void begin_step() {
    if (!geometry_.has_overflow()) {
      return;
    }
    const std::int64_t begins = place_.at(SparseRegion::overflow) +
                                4 * (std::int64_t{geometry_.rows_per_group} * geometry_.warps() + place_.warp);
    chunk_ = out_.integers(1, out_.load(4, kNoRegister, [&](int) { return begins; }));
    chunk_at_ = place_.tables.first_chunk[static_cast<std::size_t>(place_.sm * geometry_.warps() + place_.warp)];
  }

  void tile(int tile, int pass) {
    const std::int64_t begin = chunk_at_;
    const int first = tile * geometry_.tile_height,
              end = std::min(geometry_.rows_per_group, (tile + 1) * geometry_.tile_height);
    if (out_.as_compiled() && rows_per_load(geometry_) > 1) {
      rows_together(first, end, pass);
      return;
    }
    for (int r = first; r < end; ++r) {
      row({r, r % geometry_.tile_height, geometry_.tile_rows}, pass);
    }
    if (pass + 1 < geometry_.passes && geometry_.producer_warps == 0) {
      chunk_at_ =
          begin;  // the next pass takes the same chunks again; where passes are pipelined, from the step's first on
    }
  }

  // The group's splits of rows; their sums are those that follow a tile's, [samples of the pass][splits].
  void splits(int pass) {
    const std::int64_t begin = chunk_at_;
    for (int split = 0; split < geometry_.row_splits; ++split) {
      row({geometry_.rows_per_group + split, place_.values() + split, geometry_.row_splits}, pass);
    }
    if (pass + 1 < geometry_.passes && geometry_.producer_warps == 0) {
      chunk_at_ = begin;  // see tile()
    }
  }

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

  void row(const Row& row, int pass) {
    const bool is_split = row.r >= geometry_.rows_per_group, has_overflow = geometry_.has_overflow(row.r);
    int chunks = kNoRegister;
    if (has_overflow) {
      const std::int64_t in_table = is_split ? row.r + 1 : row.r;  // where chunks begin stands between rows and splits
      chunks = out_.load(4, kNoRegister, [&](int) {
        return place_.at(SparseRegion::overflow) + 4 * (in_table * geometry_.warps() + place_.warp);
      });
    }
    for (int plane = 0; plane < geometry_.pass_planes; ++plane) {
      Run in_registers{row.r,         0,           geometry_.slots_of(row.r), {}, {},
                       row.first_sum, row.together};  // unpacked for every plane
      read_at_ = kNoRegister;
      run(in_registers, pass * geometry_.pass_planes + plane);
    }
    if (has_overflow) {
      overflow(row, pass, chunks);
    }
  }

  // Rows that are stored dense read the same columns, which the compiler loads once for all of them.
  void rows_together(int begin, int end, int pass) {
    for (int plane = 0; plane < geometry_.pass_planes; ++plane) {
      std::vector<Run> rows;
      for (int r = begin; r < end; ++r) {
        rows.push_back({r, 0, geometry_.slots[r], {}, {}, r % geometry_.tile_height, geometry_.tile_rows});
      }
      std::vector<std::vector<int>> partials(rows.size());
      for (int s = 0; s < *std::max_element(geometry_.slots.begin() + begin, geometry_.slots.begin() + end); ++s) {
        const State state = load_state(rows.front(), s, pass * geometry_.pass_planes + plane, {});
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (s < rows[i].count) {
            partial_.swap(partials[i]);
            multiply(rows[i], s, pass * geometry_.pass_planes + plane, prepare(rows[i], s), state);
            partial_.swap(partials[i]);
          }
        }
      }
    }
  }

  // `chunks`: the register with their number.
  void overflow(const Row& row, int pass, int chunks) {
    const OverflowChunks& of_row = place_.tables.overflow[place_.warp_row(row.r)];
    int first = geometry_.slots_of(row.r);
    int left = of_row.shared;
    int counter = out_.integers(1, chunks);  // the half of the number that counts these
    for (int together = geometry_.chunks_in_flight; together > 0; together /= 2) {
      out_.branch(counter);
      for (; left >= together; left -= together) {
        gather_chunks(row, pass, first, together, chunk_at_, chunk_);
        chunk_at_ += together * geometry_.chunk_bytes;
        first += together * geometry_.chunk_slots;
        chunk_ = out_.integers(1, chunk_);
        if (geometry_.storage == Storage::dense) {
          out_.integers(1);  // the offset in the state
        }
        counter = out_.integers(1, counter);
        out_.branch(counter);
      }
      out_.converge();
    }
    if (geometry_.ring_chunks > 0) {
      stream(row, pass, first, of_row.streamed, out_.integers(1, chunks));
    }
  }

  // `left`: the register with the number of chunks.
  void stream(const Row& row, int pass, int first, int count, int left) {
    out_.branch(left);
    for (int i = 0; i < count; ++i, first += geometry_.chunk_slots) {
      const int at = used_++ % geometry_.ring_chunks;
      out_.operate(Operation::other, kNoRegister, {under_way_[at], kNoRegister, kNoRegister, kNoRegister});  // waits
      out_.operate(Operation::other);  // brings the warp together
      out_.flush();
      fetch_chunk();
      const auto address = place_.at(SparseRegion::ring) +
                           std::int64_t{place_.warp * geometry_.ring_chunks + at} * geometry_.chunk_bytes;
      gather_chunks(row, pass, first, 1, address, kNoRegister);
      out_.integers(3);  // the ring's next place
      left = out_.integers(1, left);
      out_.branch(left);
    }
    out_.converge();
  }

  // `count` neighbouring chunks at `at`, whose address the register `source` holds, for all planes of the pass.
  void gather_chunks(const Row& row, int pass, int first, int count, std::int64_t at, int source) {
    std::vector<int> words;
    for (int i = 0; i < count; ++i, at += geometry_.chunk_bytes) {
      const bool wide = geometry_.chunk_words % 2 == 0;
      const int width = wide ? 4 * geometry_.chunk_words : 4;
      for (int word = 0; word < geometry_.chunk_words; word += width / 4) {
        const int loaded = out_.load(width, source, [&](int lane) { return at + 128 * word + width * lane; });
        for (int k = 0; k < width / 4; ++k) {
          words.push_back(loaded + k);
        }
      }
    }
    Run chunk{row.r, first, count * geometry_.chunk_slots, words, {}, row.first_sum, row.together};
    for (int plane = 0; plane < geometry_.pass_planes; ++plane) {
      run(chunk, pass * geometry_.pass_planes + plane);
    }
  }

  // The next chunk that is not under way, to the place of the one that was used before this.
  void fetch_chunk() {
    const int to = asked_ % geometry_.ring_chunks;
    const int place = out_.integers(3);    // in the ring, and round it
    const int from = out_.integer(place);  // the address of the list's next
    out_.integers(3);                      // the number of the one after
    const bool in_this_step = asked_++ < streamed_;
    under_way_[to] = in_this_step ? kFirstCopyRegister + 4 * to : kNoRegister;
    out_.access(Operation::async_copy, 16, under_way_[to], from, [&](int lane) {
      const int offset = (place_.warp * geometry_.ring_chunks + to) * geometry_.chunk_bytes + 16 * lane;
      return 16 * lane < geometry_.chunk_bytes ? place_.at(SparseRegion::ring) + offset : -1;
    });
    out_.operate(Operation::other);  // the end of a group of copies
  }

  void run(Run& run, int plane) {
    for (int s = 0; s < run.count; ++s) {
      if (run.words.empty() || s == static_cast<int>(run.operands.size())) {
        run.operands.push_back(prepare(run, s));
      }
      const Operands& slot = run.operands[static_cast<std::size_t>(s)];
      multiply(run, s, plane, slot, load_state(run, s, plane, slot));
    }
  }

  // What slot `s` reads.
  State load_state(const Run& run, int s, int plane, const Operands& slot) {
    const bool dense = geometry_.storage == Storage::dense;
    const int state = out_.load(geometry_.plane_unit_bytes, slot.offset, [&](int lane) {
      const std::int64_t unit =
          dense ? (run.first + s) * geometry_.lanes_per_row + place_.lanes[lane].lane
                : place_.layout.place[place_.layout.entry(place_.warp_row(run.r), run.first + s, lane)];
      return plane * place_.state.plane_bytes + unit * geometry_.plane_unit_bytes;
    });
    ++loads_;
    return {state, half_sums_ ? std::vector<int>{} : widen(state)};
  }

  void multiply(const Run& run, int s, int plane, const Operands& slot, const State& state) {
    const int first_sum = plane % geometry_.pass_planes * geometry_.plane_samples * run.rows + run.first_sum;
    if (!half_sums_) {
      multiply_wide(slot, state.wide, first_sum, run);
      return;
    }
    multiply_half(slot, state.first, s % geometry_.promote_every == 0);
    if (s % geometry_.promote_every == geometry_.promote_every - 1 || s + 1 == run.count) {
      promote(first_sum, run);
    }
  }

  // See bundle_offset() and bundle_value() in the kernel.
  Operands prepare(const Run& run, int s) {
    const int bundle_first = s / geometry_.bundle.slots * geometry_.bundle.words, i = s % geometry_.bundle.slots;
    const bool packed = geometry_.storage == Storage::packed_pair, deltas = geometry_.storage == Storage::packed_delta;
    const bool is_fp8 = geometry_.network.precision == Precision::fp8,
               is_fp32 = geometry_.network.precision == Precision::fp32;
    const auto word = [&](int k) {
      return run.words.empty() ? kNoRegister : run.words[static_cast<std::size_t>(bundle_first + k)];
    };
    Operands slot;
    slot.value = word(packed && is_fp32 ? 1 + i : deltas && !is_fp8 ? 1 + i / 2 : deltas ? 1 : 0);
    if (deltas) {
      // The distance with its sign, scaled and added to where the slot before reads; of every five such additions
      // machine code for sm_90 has two as multiplications, which another pipe takes.
      const Operation add = s % 5 == 1 || s % 5 == 3 ? Operation::fp32 : Operation::integer;
      slot.offset = read_at_ = out_.operate(add, out_.integers(1, word(0)), read_at_);
    } else if (packed) {
      slot.offset = index(word(is_fp8 ? 1 + i / 2 : 0));
    }
    if (is_fp8) {
      slot.value = out_.integers(i % 2 == 0 ? 2 : 1, slot.value);  // two shifts and a mask for two values
    }
    slot.value = value_of(slot.value);
    return slot;
  }

  // A slot's value as it is multiplied: of narrow values whose products are not summed in fp16 in fp32.
  int value_of(int word) {
    const bool is_narrow = geometry_.network.precision != Precision::fp32;
    const Operation widen = geometry_.network.precision == Precision::bf16 ? Operation::integer : Operation::conversion;
    return is_narrow && !half_sums_ ? out_.operate(widen, word) : word;
  }

  // The byte offset of what a slot reads. Those of a step's first slots in registers are computed before the barrier.
  int index(int word) {
    const bool before_barrier = word == kNoRegister && loads_ < before_barrier_;
    const int operations = geometry_.index_shift > 0 ? 2 : 1;  // mask or shift the index, scale it
    return out_.integers(before_barrier ? 0 : operations, word);
  }

  void multiply_half(const Operands& slot, int state, bool starts_sum) {
    if (starts_sum) {
      partial_.clear();
    }
    for (int i = 0; i < unit_words_; ++i) {
      if (starts_sum) {
        partial_.push_back(out_.operate(Operation::half2, state + i, slot.value));
      } else {
        const int partial = partial_[static_cast<std::size_t>(i)];
        out_.operate(Operation::half2, partial, {partial, state + i, slot.value, kNoRegister});
      }
    }
  }

  void promote(int first_sum, const Run& run) {
    for (int b = 0; b < geometry_.plane_samples; ++b) {
      const int total = WarpWriter::sum(first_sum + b * run.rows);
      const int single = out_.conversion(partial_[static_cast<std::size_t>(b / 2)]);
      out_.operate(Operation::fp32, total, {total, single, kNoRegister, kNoRegister});
    }
  }

  // Of products that are not summed in fp16: the state in fp32. bf16 is widened by shifts, which run on the fp32 pipe
  // as multiplications, and by masks.
  std::vector<int> widen(int state) {
    const bool is_bf16 = geometry_.network.precision == Precision::bf16,
               is_fp32 = geometry_.network.precision == Precision::fp32;
    std::vector<int> wide;
    for (int b = 0; b < geometry_.plane_samples; ++b) {
      const Operation shift = !is_bf16 ? Operation::conversion : b % 2 ? Operation::integer : Operation::fp32;
      wide.push_back(is_fp32 ? state + b : out_.operate(shift, state + b / 2));
    }
    return wide;
  }

  void multiply_wide(const Operands& slot, const std::vector<int>& wide, int first_sum, const Run& run) {
    for (int b = 0; b < geometry_.plane_samples; ++b) {
      const int total = WarpWriter::sum(first_sum + b * run.rows);
      out_.operate(Operation::fp32, total, {total, wide[static_cast<std::size_t>(b)], slot.value, kNoRegister});
    }
  }

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
