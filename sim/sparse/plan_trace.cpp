// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/plan_trace.hpp"

#include "model/plan/footprint.hpp"
#include "model/plan/instructions.hpp"
#include "sim/sparse/cell_trace.hpp"
#include "sim/sparse/gather_trace.hpp"

#include <algorithm>
#include <array>

namespace onchip {
namespace {

// 16-byte words, and the threads that move them, one after another; a warp of these has number `warp`.
struct Share {
  std::int64_t begin, end;
  int threads, warp;

  std::int64_t word(std::int64_t first, int lane) const {
    const std::int64_t i = begin + first + kWarpLanes * warp + lane;
    return i < end ? i : -1;
  }
};

// Words of the outbox of SM `sm`.
void emit(WarpWriter& out, const PlanTrace& trace, int sm, const Share& share) {
  const KernelMap& map = trace.map();
  const auto state = static_cast<std::int64_t>(16 * map.state_words);
  for (std::int64_t first = 0; share.word(first, 0) >= 0; first += share.threads) {
    const int v = out.load(16, out.operate(Operation::integer), [&](int lane) {
      const std::int64_t word = share.word(first, lane);
      return word < 0 ? -1 : static_cast<std::int64_t>(map.outbox_at) + 16 * word;
    });
    const auto store = [&](int steps_later, int value) {
      out.access(Operation::global_store, 16, kNoRegister, value, [&](int lane) {
        const std::int64_t word = share.word(first, lane);
        return word < 0
                   ? -1
                   : steps_later * state + static_cast<std::int64_t>(map.outbox_offset(sm, static_cast<int>(word)));
      });
    };
    store(1, v);
    if (trace.layout().plan.exchange == ExchangeProtocol::lamport) {
      store(1 + kEmptiedAhead, kNoRegister);
    }
    out.flush();
  }
  out.converge();
}

// The input of the step after the next, into the buffer that this step has used.
void fetch_input(WarpWriter& out, const WarpPlace& place) {
  const KernelMap& map = place.map;
  const int pieces = place.layout.network.batch * map.input_pieces;
  out.branch();  // past it, where there is no such step or piece
  for (int first = 0; first + kWarpLanes * place.warp < pieces; first += place.layout.plan.threads) {
    int at = kNoRegister;
    for (int i = 0; i < 12; ++i) {  // a division among them
      at = out.operate(Operation::integer, i % 2 ? at : kNoRegister);
    }
    out.access(Operation::async_copy, 4, kNoRegister, at, [&](int lane) {
      const int i = first + place.thread(lane);
      return i < pieces ? static_cast<std::int64_t>(map.input_at) + 4 * i : -1;
    });
    out.branch();
  }
  out.converge();
  out.operate(Operation::other);  // the end of a group of copies
}

// This warp's pieces of rows in passes [first, end); the registers with their sums, of each pass.
std::vector<std::vector<int>> reduced_pieces(GatherTrace& gather, CellTrace& cell, const WarpPlace& place, int first,
                                             int end) {
  std::vector<std::vector<int>> sums;
  for (int pass = first; place.layout.plan.pieces > 0 && pass < end; ++pass) {
    gather.pieces(pass);
    sums.push_back(cell.reduce_pieces());
  }
  return sums;
}

// Machine code for sm_90 has 11 to 14 between the step's barrier and its first load, where the step has so many.
constexpr int kAddressesFirst = 12;

void write_tiles(WarpWriter& out, const WarpPlace& place) {
  GatherTrace gather(out, place);
  CellTrace cell(out, place);
  gather.begin_step();
  for (int tile = 0; tile < place.map.tiles; ++tile) {
    for (int pass = 0; pass < place.map.passes; ++pass) {
      const bool has_pieces = place.layout.plan.pieces > 0;
      if (has_pieces) {
        cell.find_pieces(tile);
      }
      const bool is_first = tile == 0 && pass == 0;
      const std::vector<std::vector<int>> sums =
          is_first ? reduced_pieces(gather, cell, place, 0, place.map.passes) : std::vector<std::vector<int>>{};
      gather.tile(tile, pass);
      cell.fetch_tile(tile, pass);
      for (std::size_t of_pass = 0; has_pieces && of_pass < sums.size(); ++of_pass) {
        cell.store_pieces(static_cast<int>(of_pass), sums[of_pass]);
      }
      if (has_pieces && is_first) {
        out.barrier();
      }
      if (has_pieces) {
        cell.add_pieces(tile, pass);
      }
      cell.finish_tile();
    }
  }
}

void end_step(WarpWriter& out) {
  out.fill(kLoopInstructions);
  out.branch();
}

void write_body(WarpWriter& out, const PlanTrace& trace, const WarpPlace& place, Traced traced) {
  out.begin_with_addresses(kAddressesFirst);
  if (traced == Traced::whole) {
    write_tiles(out, place);
  }
  out.barrier();
  out.branch();  // past it, without a word to emit
  emit(out, trace, place.sm, {0, place.map.outbox_words, place.layout.plan.threads, place.warp});
  fetch_input(out, place);
  end_step(out);
}

// What a warp that computes does in one turn.
void write_turn(WarpWriter& out, const WarpPlace& place, Traced traced, int turn) {
  out.begin_with_addresses(kAddressesFirst);
  if (traced == Traced::whole) {
    GatherTrace gather(out, place);
    CellTrace cell(out, place);
    gather.begin_step();
    const bool has_pieces = place.layout.plan.pieces > 0;
    for (int tile = 0; tile < place.map.tiles; ++tile) {
      if (has_pieces) {
        cell.find_pieces(tile);
      }
      const std::vector<std::vector<int>> sums =
          tile == 0 ? reduced_pieces(gather, cell, place, turn, turn + 1) : std::vector<std::vector<int>>{};
      gather.tile(tile, turn);
      cell.fetch_tile(tile, turn);
      if (has_pieces && tile == 0) {
        cell.store_pieces(turn, sums.front());
        out.barrier();
      }
      if (has_pieces) {
        cell.add_pieces(tile, turn);
      }
      cell.finish_tile();
    }
  }
  for (int announced = 0; announced < 2; ++announced) {  // that it is computed, that its state has been read
    out.operate(Operation::other);
  }
  out.flush();
}

// What the copy engine writes to shared memory, as a warp's stores that wait for nothing.
void write_copies(WarpWriter& out, const PlanTrace& trace, const Share& share) {
  for (std::int64_t first = 0; first < share.end - share.begin; first += share.threads) {
    out.access(Operation::shared_store, 16, kNoRegister, kNoRegister, [&](int lane) {
      const std::int64_t word = share.word(first, lane);
      return word < 0 ? -1 : static_cast<std::int64_t>(trace.map().staged_at(word));
    });
  }
  out.flush();
}

void write_stage(WarpWriter& out, const PlanTrace& trace, const Share& share) {
  const std::int64_t words = share.end - share.begin;
  const int in_flight = trace.layout().plan.loads_in_flight;
  for (std::int64_t done = 0; done < words; done += std::int64_t{in_flight} * share.threads) {
    const auto round = std::min<std::int64_t>(in_flight, (words - done + share.threads - 1) / share.threads);
    std::vector<int> fetched;
    out.fill(4 + 6 * static_cast<int>(round));  // of each word: four empty ones, a comparison and an address
    for (const Operation operation : {Operation::global_load, Operation::shared_store}) {
      for (std::int64_t k = 0; k < round; ++k) {
        const bool loads = operation == Operation::global_load;
        if (loads) {
          fetched.push_back(out.temporary(4));
        }
        const int reg = fetched[static_cast<std::size_t>(k)];
        out.access(operation, 16, loads ? reg : kNoRegister, loads ? kNoRegister : reg, [&](int lane) {
          const std::int64_t word = share.word(done + k * share.threads, lane);
          return word < 0 ? -1 : loads ? 16 * word : static_cast<std::int64_t>(trace.map().staged_at(word));
        });
      }
    }
    out.flush();
  }
}

}  // namespace

PlanTrace::PlanTrace(Layout layout, int spare_registers, Traced traced, Issued issued)
    : layout_(std::move(layout)), map_(layout_.network, layout_.plan), tables_(layout_, map_), traced_(traced) {
  // The working registers hold a few loads in flight; what is left over holds more, with their addresses. In machine
  // code for sm_90 of 14 kernels that fill their registers 4 or 5 other loads stand between a load and its use, at the
  // median.
  constexpr int kAtLeast = 5;
  view_.loads_ahead = std::clamp(kAtLeast + spare_registers / (map_.unit_words + 1), kAtLeast, view_.loads_ahead);
  view_.reorders = issued == Issued::as_compiled;
}

int PlanTrace::turns() const {
  return layout_.plan.exchange_warps > 0 ? map_.passes : 1;
}

std::int64_t PlanTrace::turn_words() const {
  return map_.state_words / turns();
}

template <typename Write>
void PlanTrace::add_warp(BlockTrace& block, Write&& write) const {
  WarpWriter writer(view_);
  write(writer);
  block.warps.push_back(writer.take());
}

template <typename Write>
void PlanTrace::add_computing_warps(BlockTrace& block, int sm, Write&& write) const {
  for (int warp = 0; warp < layout_.plan.warps(); ++warp) {
    const WarpPlace place(layout_, map_, tables_, sm, warp);
    add_warp(block, [&](WarpWriter& out) { write(out, place); });
  }
}

// The warp that hands out comes after those that fetch.
void PlanTrace::add_exchange_warps(BlockTrace& block, int sm) const {
  const int threads = layout_.plan.fetching_threads();
  const int barriers = 2 + (layout_.plan.pieces > 0 ? turns() : 0);  // those of the warps that compute, too
  for (int warp = 0; warp < threads / kWarpLanes; ++warp) {
    add_warp(block, [&](WarpWriter& out) {
      const bool in_bulk = layout_.plan.exchange == ExchangeProtocol::bulk_copy;  // which no warp's instructions write
      for (int turn = 0; turn < turns() && !in_bulk; ++turn) {
        write_stage(out, *this, {turn * turn_words(), (turn + 1) * turn_words(), threads, warp});
      }
      for (int i = 0; i < barriers; ++i) {
        out.barrier();
      }
    });
  }
  add_warp(block, [&](WarpWriter& out) {
    for (int i = 0; i < barriers; ++i) {
      out.barrier();
    }
    const int words = map_.outbox_words / turns();
    for (int turn = 0; turn < turns(); ++turn) {
      emit(out, *this, sm, {turn * words, (turn + 1) * words, kWarpLanes, 0});
    }
  });
}

BlockTrace PlanTrace::block(int sm) const {
  const Plan& plan = layout_.plan;
  BlockTrace block;
  add_computing_warps(block, sm, [&](WarpWriter& out, const WarpPlace& place) {
    if (plan.exchange_warps == 0) {
      write_stage(out, *this, {0, map_.state_words, plan.threads, place.warp});
      out.barrier();
      write_body(out, *this, place, traced_);
      return;
    }
    out.barrier();
    for (int turn = 0; turn < turns(); ++turn) {
      write_turn(out, place, traced_, turn);
    }
    out.barrier();
    end_step(out);
  });
  if (plan.exchange_warps > 0) {
    add_exchange_warps(block, sm);
  }
  return block;
}

BlockTrace PlanTrace::body(int sm, int turn) const {
  const Plan& plan = layout_.plan;
  BlockTrace block;
  add_computing_warps(block, sm, [&](WarpWriter& out, const WarpPlace& place) {
    if (plan.exchange_warps == 0) {
      write_body(out, *this, place, traced_);
    } else {
      write_turn(out, place, traced_, turn);
    }
  });
  const int fetching = plan.exchange_warps > 0 ? plan.fetching_threads() : 0;
  for (int warp = 0; warp < fetching / kWarpLanes; ++warp) {
    add_warp(block, [&](WarpWriter& out) {
      const Share share{turn * turn_words(), (turn + 1) * turn_words(), fetching, warp};
      if (plan.exchange == ExchangeProtocol::bulk_copy) {
        write_copies(out, *this, share);
      } else {
        write_stage(out, *this, share);
      }
    });
  }
  block.loop_instructions = cached_instructions(layout_.network, plan);
  return block;
}

}  // namespace onchip
