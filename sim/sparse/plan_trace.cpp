// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/plan_trace.hpp"

#include "model/base/error.hpp"
#include "model/sparse/instructions.hpp"
#include "sim/sparse/cell_trace.hpp"
#include "sim/sparse/gather_trace.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>

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
void publish(WarpWriter& out, const PlanTrace& trace, int sm, const Share& share) {
  const std::int64_t state = StateWords::kBytes * trace.state().all;
  for (std::int64_t first = 0; share.word(first, 0) >= 0; first += share.threads) {
    const int v = out.load(16, out.operate(Operation::integer), [&](int lane) {
      const std::int64_t word = share.word(first, lane);
      return word < 0 ? -1 : trace.geometry().memory.at(SparseRegion::outbox) + 16 * word;
    });
    const auto store = [&](int steps_later, int value) {
      out.access(Operation::global_store, 16, kNoRegister, value, [&](int lane) {
        const std::int64_t word = share.word(first, lane);
        return word < 0 ? -1 : steps_later * state + trace.state().outbox_offset(sm, static_cast<int>(word));
      });
    };
    store(1, v);
    if (trace.geometry().exchange == ExchangeProtocol::lamport) {
      store(1 + kEmptiedAhead, kNoRegister);
    }
    out.flush();
  }
  out.converge();
}

// The input of the step after the next, into the buffer that this step has used.
void fetch_input(WarpWriter& out, const WarpPlace& place) {
  constexpr int kWordBytes = 4;
  const SparseGeometry& geometry = place.geometry;
  const int element_bytes = info(geometry.network.precision).bytes;
  const int words = geometry.network.batch * (geometry.units_per_sm * geometry.gates * element_bytes / kWordBytes);
  out.branch();  // past it, where there is no such step or word
  for (int first = 0; first + kWarpLanes * place.warp < words; first += geometry.threads) {
    int at = kNoRegister;
    for (int i = 0; i < 12; ++i) {  // a division among them
      at = out.operate(Operation::integer, i % 2 ? at : kNoRegister);
    }
    out.access(Operation::async_copy, kWordBytes, kNoRegister, at, [&](int lane) {
      const int i = first + place.thread(lane);
      return i < words ? place.at(SparseRegion::input) + kWordBytes * i : -1;
    });
    out.branch();
  }
  out.converge();
  out.operate(Operation::other);  // the end of a group of copies
}

// Machine code for sm_90 has 11 to 14 between the step's barrier and its first load, where the step has so many.
constexpr int kAddressesFirst = 12;

// Passes [first, end). The first tile has the splits of rows of all of them, whose sums the tiles add to theirs.
void write_tiles(WarpWriter& out, const WarpPlace& place, int first, int end) {
  const bool has_splits = place.geometry.row_splits > 0;
  GatherTrace gather(out, place);
  CellTrace cell(out, place);
  gather.begin_step();
  for (int tile = 0; tile < place.geometry.tiles; ++tile) {
    for (int pass = first; pass < end; ++pass) {
      const bool is_first = tile == 0 && pass == first;
      std::vector<std::vector<int>> sums;  // the registers with those of each pass
      if (has_splits) {
        cell.find_splits(tile);
      }
      for (int of = first; has_splits && is_first && of < end; ++of) {
        gather.splits(of);
        sums.push_back(cell.reduce_splits());
      }
      gather.tile(tile, pass);
      cell.fetch_tile(tile, pass);
      for (std::size_t of = 0; of < sums.size(); ++of) {
        cell.store_splits(first + static_cast<int>(of), sums[of]);
      }
      if (has_splits && is_first) {
        out.barrier();
      }
      if (has_splits) {
        cell.add_splits(tile, pass);
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
    write_tiles(out, place, 0, place.geometry.passes);
  }
  out.barrier();
  out.branch();  // past it, without a word to publish
  publish(out, trace, place.sm, {0, place.state.outbox, place.geometry.threads, place.warp});
  fetch_input(out, place);
  end_step(out);
}

// What a warp that computes does in one pass.
void write_pass(WarpWriter& out, const WarpPlace& place, Traced traced, int pass) {
  out.begin_with_addresses(kAddressesFirst);
  if (traced == Traced::whole) {
    write_tiles(out, place, pass, pass + 1);
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
      return word < 0 ? -1 : trace.state().staged_at(word);
    });
  }
  out.flush();
}

void write_stage(WarpWriter& out, const PlanTrace& trace, const Share& share) {
  const std::int64_t words = share.end - share.begin;
  const int in_flight = trace.geometry().loads_in_flight;
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
          return word < 0 ? -1 : loads ? 16 * word : trace.state().staged_at(word);
        });
      }
    }
    out.flush();
  }
}

// Up to two words of a thread have their address from before the first poll. More are addressed anew in every poll, in
// the registers that the weights leave: a comparison whose predicate guards an addition, whose carry goes into the
// upper half of the address, of which the load is made. Where in shared memory a word goes is a constant beside its
// thread's, or where the state lies in planes a comparison, for more than two a division.
StepShape step_shape(const SparseGeometry& geometry, const StateWords& state) {
  constexpr int kMostKept = 2, kAddress = 4;
  const int passes = geometry.pipelined_passes(), planes = geometry.planes / passes;
  StepShape shape;
  shape.threads = geometry.threads;
  shape.fetching_threads = geometry.fetching_threads();
  shape.passes = passes;
  shape.is_pipelined = geometry.producer_warps > 0;
  shape.is_bulk_copied = geometry.exchange == ExchangeProtocol::bulk_copy;
  shape.word_bytes = StateWords::kBytes;
  shape.state_words = state.all;
  shape.line_words = geometry.line_words;
  shape.loads_in_flight = geometry.loads_in_flight;
  shape.poll_delay = geometry.poll_delay;
  const bool keeps = geometry.loads_in_flight <= kMostKept || shape.body_words() <= kMostKept * shape.fetching_threads;
  shape.address_instructions = keeps ? 0 : kAddress;
  shape.placing_instructions = planes == 1 ? 0 : planes == 2 ? 4 : 8;
  shape.plane_words = state.plane;
  shape.outbox_plane_words = state.outbox_plane;
  return shape;
}

}  // namespace

SparseLayout replayable(Layout layout) {
  if (auto* const sparse = std::get_if<SparseLayout>(&layout)) {
    return std::move(*sparse);
  }
  throw InputError("the addresses of " + std::string(SparsePlan::kName) + " plans are known, not those of " +
                   std::string(family_name(plan_of(layout))));
}

PlanTrace::PlanTrace(SparseLayout layout, int spare_registers, Traced traced, Issued issued)
    : layout_(std::move(layout)),
      state_(layout_.geometry),
      tables_(layout_),
      traced_(traced),
      step_(step_shape(layout_.geometry, state_)) {
  // The working registers hold a few loads in flight; what is left over holds more, with their addresses. In machine
  // code for sm_90 of 14 kernels that fill their registers 4 or 5 other loads stand between a load and its use, at the
  // median.
  constexpr int kAtLeast = 5;
  const int unit_words = (geometry().plane_unit_bytes + 3) / 4;
  view_.loads_ahead = std::clamp(kAtLeast + spare_registers / (unit_words + 1), kAtLeast, view_.loads_ahead);
  view_.reorders = issued == Issued::as_compiled;
}

template <typename Write>
void PlanTrace::add_warp(BlockTrace& block, Write&& write) const {
  WarpWriter writer(view_);
  write(writer);
  block.warps.push_back(writer.take());
}

template <typename Write>
void PlanTrace::add_computing_warps(BlockTrace& block, int sm, Write&& write) const {
  for (int warp = 0; warp < geometry().warps(); ++warp) {
    const WarpPlace place(layout_, state_, tables_, sm, warp);
    add_warp(block, [&](WarpWriter& out) { write(out, place); });
  }
}

// The warp that publishes comes after those that fetch.
void PlanTrace::add_producer_warps(BlockTrace& block, int sm) const {
  const int threads = geometry().fetching_threads();
  const int barriers = 2 + (geometry().row_splits > 0 ? bodies() : 0);  // those of the warps that compute, too
  for (int warp = 0; warp < threads / kWarpLanes; ++warp) {
    add_warp(block, [&](WarpWriter& out) {
      const bool in_bulk = geometry().exchange == ExchangeProtocol::bulk_copy;  // which no warp's instructions write
      for (int pass = 0; pass < bodies() && !in_bulk; ++pass) {
        write_stage(out, *this, {pass * body_words(), (pass + 1) * body_words(), threads, warp});
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
    const int words = published_words();
    for (int pass = 0; pass < bodies(); ++pass) {
      publish(out, *this, sm, {pass * words, (pass + 1) * words, kWarpLanes, 0});
    }
  });
}

BlockTrace PlanTrace::block(int sm) const {
  BlockTrace block;
  add_computing_warps(block, sm, [&](WarpWriter& out, const WarpPlace& place) {
    if (geometry().producer_warps == 0) {
      write_stage(out, *this, {0, state_.all, geometry().threads, place.warp});
      out.barrier();
      write_body(out, *this, place, traced_);
      return;
    }
    out.barrier();
    for (int pass = 0; pass < bodies(); ++pass) {
      write_pass(out, place, traced_, pass);
    }
    out.barrier();
    end_step(out);
  });
  if (geometry().producer_warps > 0) {
    add_producer_warps(block, sm);
  }
  return block;
}

BlockTrace PlanTrace::body(int sm, int pass) const {
  BlockTrace block;
  add_computing_warps(block, sm, [&](WarpWriter& out, const WarpPlace& place) {
    if (geometry().producer_warps == 0) {
      write_body(out, *this, place, traced_);
    } else {
      write_pass(out, place, traced_, pass);
    }
  });
  const int fetching = geometry().producer_warps > 0 ? geometry().fetching_threads() : 0;
  for (int warp = 0; warp < fetching / kWarpLanes; ++warp) {
    add_warp(block, [&](WarpWriter& out) {
      const Share share{pass * body_words(), (pass + 1) * body_words(), fetching, warp};
      if (geometry().exchange == ExchangeProtocol::bulk_copy) {
        write_copies(out, *this, share);
      } else {
        write_stage(out, *this, share);
      }
    });
  }
  block.loop_instructions = step_instructions(geometry());
  return block;
}

}  // namespace onchip
