// SPDX-License-Identifier: Apache-2.0
#include "sim/sparse/plan_trace.hpp"

#include "model/base/error.hpp"
#include "model/sparse/instructions.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/sparse/gather_trace.hpp"
#include "sim/sparse/warp_place.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {
namespace {

// From a warp's sums of a tile to the next state, as kernels/sparse/cell.cuh does it: fetch what the cell needs, find
// the gates, reduce, finish.
class CellTrace {
 public:
  CellTrace(WarpWriter& writer, const WarpPlace& place)
      : out_(writer),
        place_(place),
        geometry_(place.geometry),
        state_bytes_(info(place.geometry.network.precision).bytes) {}

  // What the lanes need beside their sums of a tile in one pass; and what they do with both.
  void fetch_tile(int tile, int pass) {
    outputs_.clear();
    const int count = std::max(1, place_.values() / geometry_.lanes_per_row);
    for (int i = 0; i < count; ++i) {
      const bool same_row = i > 0 && geometry_.lanes_per_row % geometry_.tile_rows == 0;
      outputs_.push_back(fetch(tile, pass, i, same_row ? &outputs_.front() : nullptr));
    }
    gates_ = geometry_.gates > 1 ? find_gates(tile) : kNoRegister;
  }

  void finish_tile() {
    std::vector<int> values;
    for (int value = 0; value < place_.values(); ++value) {
      values.push_back(WarpWriter::sum(value));
    }
    const std::vector<int> sums = reduce(std::move(values));
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      finish(outputs_[i], sums[i], gates_);
    }
  }

  // Splits of rows: their sums reduced; the registers that hold them of each pass.
  std::vector<int> reduce_splits() {
    std::vector<int> values;
    for (int value = 0; value < geometry_.row_splits * geometry_.pass_samples; ++value) {
      values.push_back(WarpWriter::sum(place_.values() + value));
    }
    return reduce(std::move(values));
  }

  void store_splits(int pass, const std::vector<int>& sums) {
    const int values = geometry_.row_splits * geometry_.pass_samples;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      out_.access(Operation::shared_store, 4, kNoRegister, sums[i], [&](int lane) {
        const auto& [group, of_group] = place_.lanes[lane];
        const int value = (of_group & (values - 1)) + static_cast<int>(i) * geometry_.lanes_per_row;
        const int number = value % geometry_.row_splits * geometry_.groups() + group;
        const int sample = pass * geometry_.pass_samples + value / geometry_.row_splits;
        return of_group < values ? place_.at(SparseRegion::split_sums) + 4 * (number * geometry_.batch_padded + sample)
                                 : -1;
      });
    }
  }

  // Where the splits of a tile's rows are; and their sums added to the tile's, once all warps have stored theirs.
  void find_splits(int tile) {
    const auto load = [&](int width, int row) {
      return out_.load(width, kNoRegister, [&](int lane) {
        const int place = table_place(lane, tile, row);
        const int without_unit = geometry_.gates == 1 ? 0 : row;  // who has none looks there
        return place_.at(SparseRegion::split_table) + 4 * (place < 0 ? without_unit : place);
      });
    };
    constexpr int kTogether = 4;  // rows that are neighbours in the table: one load, of the compiler's
    if (out_.as_compiled() && geometry_.gates == kTogether) {
      const int loaded = load(16, 0);
      for (int row = 0; row < kTogether; ++row) {
        out_.integers(2, loaded + row);
      }
      return;
    }
    for (int row = 0; row < geometry_.tile_height; ++row) {
      out_.integers(2, load(4, row));
    }
  }

  void add_splits(int tile, int pass) {
    // Of each row of the tile, of every lane's group: the first split, and how many.
    std::array<std::array<std::int32_t, kWarpLanes>, kMaxTileRows> of{};
    std::array<int, kWarpLanes> most{};
    const std::size_t first_place = static_cast<std::size_t>(place_.sm) * geometry_.units_per_sm * geometry_.gates;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      for (int row = 0; row < geometry_.tile_height; ++row) {
        const int place = table_place(lane, tile, row);
        of[row][lane] = place < 0 ? 0 : place_.tables.splits[first_place + place];
        most[lane] = std::max(most[lane], of[row][lane] >> 16);
      }
    }
    const int all = *std::max_element(most.begin(), most.end());
    const int width = geometry_.pass_samples >= 4 ? 16 : 4;
    int first = 0;
    do {
      for (int row = 0; row < geometry_.tile_height; ++row) {
        const int at = out_.integers(3);
        for (int b = 0; b < geometry_.pass_samples; b += width / 4) {
          const int loaded = out_.load(width, at, [&](int lane) {
            const int i = first + place_.lanes[lane].lane, count = of[row][lane] >> 16;
            const int number = (of[row][lane] & 0xffff) + i;
            const int sample = pass * geometry_.pass_samples + b;
            return i < count ? place_.at(SparseRegion::split_sums) + 4 * (number * geometry_.batch_padded + sample)
                             : -1;
          });
          for (int k = 0; k < width / 4; ++k) {
            const int total = WarpWriter::sum((b + k) * geometry_.tile_rows + row);
            out_.operate(Operation::fp32, total, {total, loaded + k, kNoRegister, kNoRegister});
          }
        }
      }
      out_.branch(out_.integers(1));
      first += geometry_.lanes_per_row;
    } while (first < all);
    out_.converge();
  }

 private:
  struct Output {
    std::array<int, kWarpLanes> unit, sample, place;
    std::array<bool, kWarpLanes> writes;
    int x = kNoRegister, scale = kNoRegister, carry = kNoRegister, length = kNoRegister, bias = kNoRegister;
  };

  Output fetch(int tile, int pass, int number, const Output* same_row) {
    Output out;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      const auto& [group, of_group] = place_.lanes[lane];
      const int value = (of_group & (place_.values() - 1)) + number * geometry_.lanes_per_row;
      const int row = value % geometry_.tile_rows;
      const int unit = (geometry_.gates == 1 ? tile * geometry_.tile_rows + row : tile) * geometry_.groups() + group;
      const bool owned =
          unit < geometry_.units_per_sm &&
          (geometry_.gates > 1 ? row < geometry_.gates : tile * geometry_.tile_rows + row < geometry_.rows_per_group);
      out.sample[lane] = pass * geometry_.pass_samples + value / geometry_.tile_rows;
      const bool has_empty_row = geometry_.network.cell == Cell::gru;
      out.unit[lane] = has_empty_row ? std::min(unit, geometry_.units_per_sm - 1) : owned ? unit : 0;
      out.place[lane] = (has_empty_row ? row < geometry_.gates : owned && geometry_.gates > 1) ? row : 0;
      out.writes[lane] = owned && of_group < place_.values();
    }
    const int at = out_.integers(2);
    const auto load = [&](SparseRegion region, auto&& index) {
      return out_.load(4, at, [&](int lane) { return place_.at(region) + 4 * std::int64_t{index(lane)}; });
    };
    const int x = out_.load(state_bytes_, at, [&](int lane) {
      const int sample = out.sample[lane] < geometry_.network.batch ? out.sample[lane] : 0;
      const int index = (sample * geometry_.units_per_sm + out.unit[lane]) * geometry_.gates + out.place[lane];
      return place_.at(SparseRegion::input) + index * state_bytes_;
    });
    out.x = state_bytes_ == 4 ? x : out_.conversion(x);
    if (geometry_.network.precision == Precision::fp8) {
      const auto index = [&](int lane) { return out.unit[lane] * geometry_.gates + out.place[lane]; };
      out.scale = same_row ? same_row->scale : load(SparseRegion::scales, index);
    }
    if (geometry_.gates > 1) {
      out.carry = load(SparseRegion::carry,
                       [&](int lane) { return out.unit[lane] * geometry_.batch_padded + out.sample[lane]; });
      out.length = load(SparseRegion::lengths, [&](int lane) { return out.sample[lane]; });
    }
    if (geometry_.network.cell == Cell::gru) {
      out.bias = same_row ? same_row->bias : load(SparseRegion::bias, [&](int lane) { return out.unit[lane]; });
    }
    return out;
  }

  // From a unit's packed places to the lanes that hold its gates: for each, the two bits and what they are worth.
  // Machine code for sm_90 has about three operations for a gate.
  int find_gates(int tile) {
    const int packed = out_.load(4, kNoRegister, [&](int lane) {
      const int unit = tile * geometry_.groups() + place_.lanes[lane].group;
      return place_.at(SparseRegion::gates) + 4 * std::int64_t{unit < geometry_.units_per_sm ? unit : 0};
    });
    out_.integers(2, packed);  // this lane's own gate
    int lane = kNoRegister;
    for (int gate = 0; gate < geometry_.gates; ++gate) {
      lane = out_.integers(3, packed);
    }
    return lane;
  }

  // While a lane has several values it gives half of them away.
  std::vector<int> reduce(std::vector<int> values) {
    for (int mask = 1; mask < geometry_.lanes_per_row; mask *= 2) {
      if (values.size() == 1) {
        values[0] = out_.fp32(values[0], out_.operate(Operation::shuffle, values[0]));
        continue;
      }
      std::vector<int> half;
      for (std::size_t i = 0; i < values.size() / 2; ++i) {
        const int keep = out_.integer(values[2 * i], values[2 * i + 1]);
        const int give = out_.integer(values[2 * i], values[2 * i + 1]);
        half.push_back(out_.fp32(keep, out_.operate(Operation::shuffle, give)));
      }
      values = std::move(half);
    }
    return values;
  }

  // This lane's row of the tile, of whose splits the table has as many; none: -1.
  int table_place(int lane, int tile, int row) const {
    const int unit = (geometry_.gates == 1 ? tile * geometry_.tile_rows + row : tile) * geometry_.groups() +
                     place_.lanes[lane].group;
    const bool exists = unit < geometry_.units_per_sm && tile * geometry_.tile_height + row < geometry_.rows_per_group;
    return exists ? unit * geometry_.gates + (geometry_.gates == 1 ? 0 : row) : -1;
  }

  // The logistic function or tanh, as the lane's gate says.
  int squash(int value) {
    const int y = out_.logistic(out_.integer(out_.fp32(value), value));
    return out_.integer(y, out_.fp32(y));
  }

  // `gates`: the register with the lanes that hold the unit's gates.
  void finish(const Output& out, int sum, int gates) {
    const int product = out.scale == kNoRegister ? sum : out_.fp32(sum, out.scale);
    const int total = out_.fp32(product, out.x);
    const auto of_gate = [&](int y) { return out_.operate(Operation::shuffle, y, gates); };
    int h = total, next = kNoRegister, writing_gate = 0;
    switch (geometry_.network.cell) {
      case Cell::relu:
        h = out_.integer(out_.integer(total), total);
        break;
      case Cell::tanh:
        h = out_.tanh(total);
        break;
      case Cell::lstm: {
        const int y = squash(total);
        const int input = of_gate(y), candidate = of_gate(y), forget = of_gate(y), output = of_gate(y);
        next = out_.fp32(forget, out.carry, out_.fp32(input, candidate));
        h = out_.fp32(output, out_.tanh(next));
        break;
      }
      case Cell::gru: {
        const int y = out_.logistic(total);
        const int reset = of_gate(y), update = of_gate(y);
        const int biased = out_.fp32(product, out.bias);
        const int candidate = out_.tanh(out_.fp32(reset, biased, out.x));
        next = h = out_.fp32(update, out_.fp32(out.carry, candidate), candidate);
        writing_gate = 2;
        break;
      }
    }
    const auto writes = [&](int lane) {
      const std::size_t unit = static_cast<std::size_t>(place_.sm * geometry_.units_per_sm + out.unit[lane]);
      const std::size_t place =
          unit * static_cast<std::size_t>(geometry_.gates) + static_cast<std::size_t>(out.place[lane]);
      return out.writes[lane] && place_.tables.gates[place] == writing_gate;
    };
    if (next != kNoRegister) {
      out_.access(Operation::shared_store, 4, kNoRegister, next, [&](int lane) {
        const int index = out.unit[lane] * geometry_.batch_padded + out.sample[lane];
        return writes(lane) ? place_.at(SparseRegion::carry) + 4 * index : -1;
      });
      out_.integer(out.length);  // whether this was the sample's last step
    }
    h = state_bytes_ == 4 ? h : out_.conversion(h);
    out_.access(Operation::shared_store, state_bytes_, kNoRegister, h, [&](int lane) {
      const std::int64_t index = place_.state.outbox_index(out.unit[lane], out.sample[lane]);
      return writes(lane) ? place_.at(SparseRegion::outbox) + index * state_bytes_ : -1;
    });
  }

  WarpWriter& out_;
  const WarpPlace& place_;
  const SparseGeometry& geometry_;
  int state_bytes_;              // of an element
  std::vector<Output> outputs_;  // of the tile
  int gates_ = kNoRegister;      // the register with the lanes that hold its gates
};

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
    const int v = out.load(16, out.integer(), [&](int lane) {
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
      at = out.integer(i % 2 ? at : kNoRegister);
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
