// SPDX-License-Identifier: Apache-2.0
#include "sim/plan_trace.hpp"

#include "model/footprint.hpp"
#include "model/instructions.hpp"
#include "sim/cell_trace.hpp"
#include "sim/gather_trace.hpp"

#include <algorithm>
#include <array>

namespace onchip {
namespace {

void emit(WarpWriter& out, const WarpPlace& place) {
  const KernelMap& map = place.map;
  const Plan& plan = place.layout.plan;
  const auto state = static_cast<std::int64_t>(16 * map.state_words);
  out.branch();  // past it, without a word to emit
  for (int first = 0; first + kWarpLanes * place.warp < map.outbox_words; first += plan.threads) {
    const auto word = [&](int lane) { return first + place.thread(lane); };
    const int v = out.load(16, out.operate(Operation::integer), [&](int lane) {
      return word(lane) < map.outbox_words ? static_cast<std::int64_t>(map.outbox_at) + 16 * word(lane) : -1;
    });
    const auto store = [&](int steps_later, int value) {
      out.access(Operation::global_store, 16, kNoRegister, value, [&](int lane) {
        return word(lane) < map.outbox_words
                   ? steps_later * state + static_cast<std::int64_t>(map.outbox_offset(place.sm, word(lane)))
                   : -1;
      });
    };
    store(1, v);
    if (plan.exchange == ExchangeProtocol::lamport) {
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

// This warp's pieces of rows; the registers with their sums, of each pass.
std::vector<std::vector<int>> reduced_pieces(GatherTrace& gather, CellTrace& cell, const WarpPlace& place) {
  std::vector<std::vector<int>> sums;
  for (int pass = 0; place.layout.plan.pieces > 0 && pass < place.map.passes; ++pass) {
    gather.pieces(pass);
    sums.push_back(cell.reduce_pieces());
  }
  return sums;
}

void write_body(WarpWriter& out, const WarpPlace& place, Traced traced) {
  // Machine code for sm_90 has 11 to 14 between the step's barrier and its first load, where the step has so many.
  constexpr int kAddressesFirst = 12;
  out.begin_with_addresses(kAddressesFirst);
  if (traced == Traced::whole) {
    GatherTrace gather(out, place);
    CellTrace cell(out, place);
    gather.begin_step();
    for (int tile = 0; tile < place.map.tiles; ++tile) {
      for (int pass = 0; pass < place.map.passes; ++pass) {
        if (place.layout.plan.pieces > 0) {
          cell.find_pieces(tile);
        }
        const bool is_first = tile == 0 && pass == 0;
        const std::vector<std::vector<int>> sums =
            is_first ? reduced_pieces(gather, cell, place) : std::vector<std::vector<int>>{};
        gather.tile(tile, pass);
        cell.fetch_tile(tile, pass);
        if (place.layout.plan.pieces > 0) {
          for (std::size_t of_pass = 0; of_pass < sums.size(); ++of_pass) {
            cell.store_pieces(static_cast<int>(of_pass), sums[of_pass]);
          }
          if (is_first) {
            out.barrier();
          }
          cell.add_pieces(tile, pass);
        }
        cell.finish_tile();
      }
    }
  }
  out.barrier();
  emit(out, place);
  fetch_input(out, place);
  out.fill(kLoopInstructions);
  out.branch();
}

void write_stage(WarpWriter& out, const WarpPlace& place) {
  const Plan& plan = place.layout.plan;
  const std::int64_t words = place.map.state_words, threads = plan.threads;
  for (std::int64_t done = 0; done < words; done += plan.loads_in_flight * threads) {
    const auto round = std::min<std::int64_t>(plan.loads_in_flight, (words - done + threads - 1) / threads);
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
          const std::int64_t word = done + k * threads + place.thread(lane);
          return word >= words ? -1 : loads ? 16 * word : static_cast<std::int64_t>(place.map.staged_at(word));
        });
      }
    }
    out.flush();
  }
  out.barrier();
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

BlockTrace PlanTrace::trace(int sm, bool staging) const {
  BlockTrace block;
  for (int warp = 0; warp < layout_.plan.warps(); ++warp) {
    const WarpPlace place(layout_, map_, tables_, sm, warp);
    WarpWriter writer(view_);
    if (staging) {
      write_stage(writer, place);
    }
    write_body(writer, place, traced_);
    block.warps.push_back(writer.take());
  }
  return block;
}

BlockTrace PlanTrace::block(int sm) const {
  return trace(sm, true);
}

BlockTrace PlanTrace::body(int sm) const {
  BlockTrace block = trace(sm, false);
  block.loop_instructions = step_instructions(layout_.network, layout_.plan);
  return block;
}

}  // namespace onchip
