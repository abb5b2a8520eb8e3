// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/gather_trace.hpp"

#include "model/plan/instructions.hpp"

#include <algorithm>

namespace onchip {
namespace {

// Addresses of a step's first gathers that machine code for sm_90 has ready before the barrier: 8 or 9 where a step is
// one straight line (relu and tanh, all weights in registers), about 2 with tails, gated cells or several tiles.
int addresses_before_barrier(const Plan& plan, const KernelMap& map) {
  constexpr int kStraight = 8, kElse = 2;
  return map.gates == 1 && map.tiles * map.passes == 1 && !plan.has_tail() ? kStraight : kElse;
}

}  // namespace

GatherTrace::GatherTrace(WarpWriter& writer, const WarpPlace& place)
    : out_(writer),
      place_(place),
      layout_(place.layout),
      network_(place.layout.network),
      plan_(place.layout.plan),
      map_(place.map),
      bundle_(bundle(network_, plan_)),
      before_barrier_(addresses_before_barrier(plan_, map_)) {
  for (int r = 0; plan_.has_tail() && r < plan_.all_rows(); ++r) {
    streamed_ += map_.passes * place.tables.tails[place.warp_row(r)].streamed;
  }
  used_ = kTracedStep * streamed_;
  asked_ = used_ + std::max(0, plan_.ring_chunks - 1);  // in the step before
  streamed_ += used_;
  under_way_.fill(kNoRegister);
}

void GatherTrace::begin_step() {
  if (!plan_.has_tail()) {
    return;
  }
  const std::int64_t begins =
      static_cast<std::int64_t>(map_.tails_at) + 4 * (std::int64_t{plan_.rows_per_group} * plan_.warps() + place_.warp);
  chunk_ = out_.integers(1, out_.load(4, kNoRegister, [&](int) { return begins; }));
  chunk_at_ = place_.tables.first_chunk[static_cast<std::size_t>(place_.sm * plan_.warps() + place_.warp)];
}

void GatherTrace::tile(int tile, int pass) {
  const std::uint64_t begin = chunk_at_;
  const int first = tile * map_.tile_height, end = std::min(plan_.rows_per_group, (tile + 1) * map_.tile_height);
  if (out_.as_compiled() && rows_per_load(network_, plan_) > 1) {
    rows_together(first, end, pass);
    return;
  }
  for (int r = first; r < end; ++r) {
    row({r, r % map_.tile_height, plan_.tile_rows}, pass);
  }
  if (pass + 1 < map_.passes && plan_.exchange_warps == 0) {
    chunk_at_ = begin;  // the next pass takes the same chunks again; where samples take turns, from the step's first on
  }
}

void GatherTrace::pieces(int pass) {
  const std::uint64_t begin = chunk_at_;
  for (int piece = 0; piece < plan_.pieces; ++piece) {
    row({plan_.rows_per_group + piece, map_.values + piece, plan_.pieces}, pass);
  }
  if (pass + 1 < map_.passes && plan_.exchange_warps == 0) {
    chunk_at_ = begin;  // see tile()
  }
}

void GatherTrace::row(const Row& row, int pass) {
  const bool is_piece = row.r >= plan_.rows_per_group, has_tail = plan_.has_tail(row.r);
  int chunks = kNoRegister;
  if (has_tail) {
    const std::int64_t in_table = is_piece ? row.r + 1 : row.r;  // where chunks begin stands between rows and pieces
    chunks = out_.load(4, kNoRegister, [&](int) {
      return static_cast<std::int64_t>(map_.tails_at) + 4 * (in_table * plan_.warps() + place_.warp);
    });
  }
  for (int plane = 0; plane < plan_.pass_planes; ++plane) {
    Run in_registers{row.r, 0, plan_.slots_of(row.r), {}, {}, row.first_sum, row.together};  // unpacked for every plane
    read_at_ = kNoRegister;
    run(in_registers, pass * plan_.pass_planes + plane);
  }
  if (has_tail) {
    tail(row, pass, chunks);
  }
}

// Rows that are stored dense read the same columns, which the compiler loads once for all of them.
void GatherTrace::rows_together(int begin, int end, int pass) {
  for (int plane = 0; plane < plan_.pass_planes; ++plane) {
    std::vector<Run> rows;
    for (int r = begin; r < end; ++r) {
      rows.push_back({r, 0, plan_.slots[r], {}, {}, r % map_.tile_height, plan_.tile_rows});
    }
    std::vector<std::vector<int>> partials(rows.size());
    for (int s = 0; s < *std::max_element(plan_.slots.begin() + begin, plan_.slots.begin() + end); ++s) {
      const State state = load_state(rows.front(), s, pass * plan_.pass_planes + plane, {});
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (s < rows[i].count) {
          partial_.swap(partials[i]);
          multiply(rows[i], s, pass * plan_.pass_planes + plane, prepare(rows[i], s), state);
          partial_.swap(partials[i]);
        }
      }
    }
  }
}

// ---- tails ----------------------------------------------------------------------------------------------------------

// `chunks`: the register with their number.
void GatherTrace::tail(const Row& row, int pass, int chunks) {
  const TailChunks& of_row = place_.tables.tails[place_.warp_row(row.r)];
  int first = plan_.slots_of(row.r);
  int left = of_row.shared;
  int counter = out_.integers(1, chunks);  // the half of the number that counts these
  for (int together = plan_.chunks_in_flight; together > 0; together /= 2) {
    out_.branch(counter);
    for (; left >= together; left -= together) {
      gather_chunks(row, pass, first, together, chunk_at_, chunk_);
      chunk_at_ += static_cast<std::uint64_t>(together * map_.chunk_bytes);
      first += together * map_.chunk_slots;
      chunk_ = out_.integers(1, chunk_);
      if (plan_.storage == Storage::dense) {
        out_.integers(1);  // the offset in the state
      }
      counter = out_.integers(1, counter);
      out_.branch(counter);
    }
    out_.converge();
  }
  if (plan_.ring_chunks > 0) {
    stream(row, pass, first, of_row.streamed, out_.integers(1, chunks));
  }
}

// `left`: the register with the number of chunks.
void GatherTrace::stream(const Row& row, int pass, int first, int count, int left) {
  out_.branch(left);
  for (int i = 0; i < count; ++i, first += map_.chunk_slots) {
    const int at = used_++ % plan_.ring_chunks;
    out_.operate(Operation::other, kNoRegister, {under_way_[at], kNoRegister, kNoRegister, kNoRegister});  // waits
    out_.operate(Operation::other);  // brings the warp together
    out_.flush();
    fetch_chunk();
    const auto address =
        map_.ring_at + static_cast<std::uint64_t>((place_.warp * plan_.ring_chunks + at) * map_.chunk_bytes);
    gather_chunks(row, pass, first, 1, address, kNoRegister);
    out_.integers(3);  // the ring's next place
    left = out_.integers(1, left);
    out_.branch(left);
  }
  out_.converge();
}

// The next chunk that is not under way, to the place of the one that was used before this.
void GatherTrace::fetch_chunk() {
  const int to = asked_ % plan_.ring_chunks;
  const int place = out_.integers(3);                        // in the ring, and round it
  const int from = out_.operate(Operation::integer, place);  // the address of the list's next
  out_.integers(3);                                          // the number of the one after
  const bool in_this_step = asked_++ < streamed_;
  under_way_[to] = in_this_step ? kFirstCopyRegister + 4 * to : kNoRegister;
  out_.access(Operation::async_copy, 16, under_way_[to], from, [&](int lane) {
    const int offset = (place_.warp * plan_.ring_chunks + to) * map_.chunk_bytes + 16 * lane;
    return 16 * lane < map_.chunk_bytes ? static_cast<std::int64_t>(map_.ring_at) + offset : -1;
  });
  out_.operate(Operation::other);  // the end of a group of copies
}

// `count` neighbouring chunks at `at`, whose address the register `source` holds, for all planes of the pass.
void GatherTrace::gather_chunks(const Row& row, int pass, int first, int count, std::uint64_t at, int source) {
  std::vector<int> words;
  for (int i = 0; i < count; ++i, at += static_cast<std::uint64_t>(map_.chunk_bytes)) {
    const bool wide = map_.chunk_words % 2 == 0;
    const int width = wide ? 4 * map_.chunk_words : 4;
    for (int word = 0; word < map_.chunk_words; word += width / 4) {
      const int loaded =
          out_.load(width, source, [&](int lane) { return static_cast<std::int64_t>(at) + 128 * word + width * lane; });
      for (int k = 0; k < width / 4; ++k) {
        words.push_back(loaded + k);
      }
    }
  }
  Run chunk{row.r, first, count * map_.chunk_slots, words, {}, row.first_sum, row.together};
  for (int plane = 0; plane < plan_.pass_planes; ++plane) {
    run(chunk, pass * plan_.pass_planes + plane);
  }
}

// ---- products -------------------------------------------------------------------------------------------------------

void GatherTrace::run(Run& run, int plane) {
  for (int s = 0; s < run.count; ++s) {
    if (run.words.empty() || s == static_cast<int>(run.operands.size())) {
      run.operands.push_back(prepare(run, s));
    }
    const Operands& slot = run.operands[static_cast<std::size_t>(s)];
    multiply(run, s, plane, slot, load_state(run, s, plane, slot));
  }
}

// What slot `s` reads.
GatherTrace::State GatherTrace::load_state(const Run& run, int s, int plane, const Operands& slot) {
  const bool dense = plan_.storage == Storage::dense;
  const int state = out_.load(map_.plane_unit_bytes, slot.offset, [&](int lane) {
    const std::int64_t unit = dense ? (run.first + s) * plan_.lanes_per_row + place_.lanes[lane].lane
                                    : layout_.place[layout_.entry(place_.warp_row(run.r), run.first + s, lane)];
    return plane * static_cast<std::int64_t>(map_.plane_bytes) + unit * map_.plane_unit_bytes;
  });
  ++loads_;
  return {state, map_.half2_sums ? std::vector<int>{} : widen(state)};
}

void GatherTrace::multiply(const Run& run, int s, int plane, const Operands& slot, const State& state) {
  const int first_sum = plane % plan_.pass_planes * map_.plane_samples * run.rows + run.first_sum;
  if (!map_.half2_sums) {
    multiply_wide(slot, state.wide, first_sum, run);
    return;
  }
  multiply_half(slot, state.first, s % plan_.promote_every == 0);
  if (s % plan_.promote_every == plan_.promote_every - 1 || s + 1 == run.count) {
    promote(first_sum, run);
  }
}

// See bundle_offset() and bundle_value() in the kernel.
GatherTrace::Operands GatherTrace::prepare(const Run& run, int s) {
  const int bundle_first = s / bundle_.slots * bundle_.words, i = s % bundle_.slots;
  const bool packed = plan_.storage == Storage::packed_pair, deltas = plan_.storage == Storage::packed_delta;
  const bool is_fp8 = network_.precision == Precision::fp8, is_fp32 = network_.precision == Precision::fp32;
  const auto word = [&](int k) {
    return run.words.empty() ? kNoRegister : run.words[static_cast<std::size_t>(bundle_first + k)];
  };
  Operands slot;
  slot.value = word(packed && is_fp32 ? 1 + i : deltas && !is_fp8 ? 1 + i / 2 : deltas ? 1 : 0);
  if (deltas) {
    // The distance with its sign, scaled and added to where the slot before reads; of every five such additions machine
    // code for sm_90 has two as multiplications, which another pipe takes.
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
int GatherTrace::value_of(int word) {
  const bool is_narrow = network_.precision != Precision::fp32;
  const Operation widen = network_.precision == Precision::bf16 ? Operation::integer : Operation::conversion;
  return is_narrow && !map_.half2_sums ? out_.operate(widen, word) : word;
}

// The byte offset of what a slot reads. Those of a step's first slots in registers are computed before the barrier.
int GatherTrace::index(int word) {
  const bool before_barrier = word == kNoRegister && loads_ < before_barrier_;
  const int operations = index_shift(network_, plan_) > 0 ? 2 : 1;  // mask or shift the index, scale it
  return out_.integers(before_barrier ? 0 : operations, word);
}

void GatherTrace::multiply_half(const Operands& slot, int state, bool starts_sum) {
  if (starts_sum) {
    partial_.clear();
  }
  for (int i = 0; i < map_.unit_words; ++i) {
    if (starts_sum) {
      partial_.push_back(out_.operate(Operation::half2, state + i, slot.value));
    } else {
      const int partial = partial_[static_cast<std::size_t>(i)];
      out_.operate(Operation::half2, partial, {partial, state + i, slot.value, kNoRegister});
    }
  }
}

void GatherTrace::promote(int first_sum, const Run& run) {
  for (int b = 0; b < map_.plane_samples; ++b) {
    const int total = WarpWriter::sum(first_sum + b * run.rows);
    const int single = out_.operate(Operation::conversion, partial_[static_cast<std::size_t>(b / 2)]);
    out_.operate(Operation::fp32, total, {total, single, kNoRegister, kNoRegister});
  }
}

// Of products that are not summed in fp16: the state in fp32. bf16 is widened by shifts, which run on the fp32 pipe as
// multiplications, and by masks.
std::vector<int> GatherTrace::widen(int state) {
  const bool is_bf16 = network_.precision == Precision::bf16, is_fp32 = network_.precision == Precision::fp32;
  std::vector<int> wide;
  for (int b = 0; b < map_.plane_samples; ++b) {
    const Operation shift = !is_bf16 ? Operation::conversion : b % 2 ? Operation::integer : Operation::fp32;
    wide.push_back(is_fp32 ? state + b : out_.operate(shift, state + b / 2));
  }
  return wide;
}

void GatherTrace::multiply_wide(const Operands& slot, const std::vector<int>& wide, int first_sum, const Run& run) {
  for (int b = 0; b < map_.plane_samples; ++b) {
    const int total = WarpWriter::sum(first_sum + b * run.rows);
    out_.operate(Operation::fp32, total, {total, wide[static_cast<std::size_t>(b)], slot.value, kNoRegister});
  }
}

}  // namespace onchip
