// SPDX-License-Identifier: Apache-2.0
#include "sim/plan_trace.hpp"

#include "model/footprint.hpp"
#include "sim/list_schedule.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace onchip {
namespace {

constexpr int kWarp = 32;

// ---- what the generator asks of a layout, and all of it ------------------------------------------------------------

// Slots of the r-th row that a warp works on.
int row_slots(const Layout& layout, int sm, int r, int warp) {
  return layout.done[(static_cast<std::size_t>(sm) * layout.plan.rows_per_group + r) * layout.plan.warps() + warp];
}
// Slots that it has done before slot s behind a branch, beyond which no load is made ahead.
bool starts_chunk(const Plan& plan, int r, int slot) {
  int chunk = plan.least_slots[r];
  while (chunk < slot) {
    chunk = next_chunk(chunk);
  }
  return chunk == slot && slot < plan.slots[r];
}
// The place in the state that a thread's slot reads; `first_slot`: of the row, over all rows.
std::int32_t place(const Layout& layout, int sm, int first_slot, int slot, int thread) {
  return layout.place[layout.entry(sm, first_slot + slot, thread)];
}

// ---- one warp's instructions ---------------------------------------------------------------------------------------

// Registers by what they hold; only dependences matter, not their numbers.
constexpr int kSums = 96, kTemporaries = 144;  // sums: 0 to 95; temporaries after them, in turn

class WarpGenerator {
 public:
  WarpGenerator(const Layout& layout, const KernelMap& map, const CompilerView& view, Traced traced, int sm, int warp)
      : layout_(layout),
        network_(layout.network),
        plan_(layout.plan),
        map_(map),
        view_(view),
        traced_(traced),
        sm_(sm),
        warp_(warp),
        tiers_(quad_tiers(layout.network, layout.plan)) {
    for (int lane = 0; lane < kWarp; ++lane) {
      lanes_[lane] = group_lane_of(network_, plan_, 32 * warp + lane);
    }
  }

  WarpTrace stage();
  WarpTrace body();

 private:
  int thread(int lane) const { return kWarp * warp_ + lane; }
  int temporary(int count = 1) {
    next_ = next_ + count > kTemporaries ? 0 : next_;
    const int first = kSums + next_;
    next_ += count;
    return first;
  }
  static int sum(int value) { return value % kSums; }

  // Returns the destination. Lanes that are not in the mask have no address.
  int operate(Operation operation, int destination, std::array<int, 4> sources) {
    Instruction instruction;
    instruction.operation = operation;
    instruction.destination = static_cast<std::uint8_t>(destination);
    std::ranges::transform(sources, instruction.sources.begin(), [](int r) { return static_cast<std::uint8_t>(r); });
    line_.add(instruction);
    return destination;
  }
  int operate(Operation operation, int a = kNoRegister, int b = kNoRegister, int c = kNoRegister) {
    return operate(operation, temporary(), {a, b, c, kNoRegister});
  }
  template <typename Address>  // of a lane; negative: not active
  void access(Operation operation, int width, int destination, int source, Address&& address) {
    Instruction instruction;
    instruction.operation = operation;
    instruction.width = static_cast<std::uint8_t>(width);
    instruction.destination = static_cast<std::uint8_t>(destination);
    instruction.sources[0] = static_cast<std::uint8_t>(source);
    instruction.mask = 0;
    std::array<std::uint64_t, kWarp> addresses;
    std::size_t active = 0;
    for (int lane = 0; lane < kWarp; ++lane) {
      if (const std::int64_t at = address(lane); at >= 0) {
        instruction.mask |= 1u << lane;
        addresses[active++] = static_cast<std::uint64_t>(at);
      }
    }
    if (active > 0) {
      line_.add(instruction, {addresses.data(), active});
    }
  }
  template <typename Address>
  int load(int width, int source, Address&& address) {
    const int destination = temporary(std::max(1, width / 4));
    access(Operation::shared_load, width, destination, source, address);
    return destination;
  }

  // What has been written down so far, in the compiler's order.
  void flush() {
    for (const std::uint32_t i : list_schedule(line_.instructions, view_)) {
      const Instruction& instruction = line_.instructions[i];
      trace_.add(instruction, line_.addresses_of(instruction));
    }
    line_ = {};
  }
  void barrier() {
    flush();
    Instruction instruction;
    instruction.operation = Operation::barrier;
    trace_.add(instruction);
  }

  void gather(int r, int plane);
  void slot(int r, int plane, int first_slot, int s, bool starts_sum, bool ends_sum);
  int quad_of_word(int tile, int word);
  int offset(int quad);
  void multiply_wide(int r, int plane, int state, int quad);
  void reduce(std::vector<int> values);
  int squash(int value);
  void fetch_outputs(int tile, int pass);
  void finish();
  void emit();
  void fetch_input();
  void begin_step();

  struct Output {
    std::array<int, kWarp> unit, sample, gate;
    std::array<bool, kWarp> writes;
    int x = 0, carry = 0, bias = 0;  // registers
  };

  const Layout& layout_;
  const Network& network_;
  const Plan& plan_;
  const KernelMap& map_;
  const CompilerView& view_;
  Traced traced_;
  int sm_, warp_;
  std::vector<Tier> tiers_;  // of every quad
  std::array<GroupLane, kWarp> lanes_;
  WarpTrace line_, trace_;
  int next_ = 0;
  int loads_ = 0;                // gathers so far
  int quad_ = 0;                 // of the tile's first word
  int held_quad_ = kNoRegister;  // the register of the quad that is in use
  std::vector<int> partial_;     // fp16 sums of the slots since the last promotion
  std::vector<Output> outputs_;
  std::vector<int> results_;  // of the reduction: registers
};

// Quads lie in order of use. Streamed ones come through the ring: waited for, asked for, read.
int WarpGenerator::quad_of_word(int tile, int word) {
  const int words = tile_words(network_, plan_, tile);
  const int quad = word / 4;
  if (quad >= words / 4 || tiers_[quad_ + quad] == Tier::registers) {
    return kNoRegister;
  }
  if (word % 4 != 0) {
    return held_quad_;
  }
  const bool streamed = tiers_[quad_ + quad] == Tier::streamed;
  std::uint64_t at = streamed ? map_.ring_at : map_.weights_at;
  if (streamed) {
    for (int i = 0; i < 4; ++i) {
      operate(Operation::integer);  // the ring's next places
    }
    access(Operation::async_copy, 16, kNoRegister, kNoRegister,
           [&](int lane) { return static_cast<std::int64_t>(map_.ring_at + 16ull * thread(lane)); });
  } else {
    const auto before = std::count(tiers_.begin(), tiers_.begin() + quad_ + quad, Tier::shared_memory);
    at += 16ull * static_cast<std::uint64_t>(before) * static_cast<std::uint64_t>(plan_.threads);
  }
  held_quad_ = load(16, kNoRegister, [&](int lane) { return static_cast<std::int64_t>(at + 16ull * thread(lane)); });
  return held_quad_;
}

// The register with the byte offset of what a slot reads. The first ones of a step are computed before the barrier.
int WarpGenerator::offset(int quad) {
  if (plan_.storage == Storage::dense) {
    return kNoRegister;  // in the instruction
  }
  const int operations = index_shift(network_, plan_) > 0 ? 2 : 1;  // mask or shift the index, scale it
  int at = quad;
  for (int i = 0; i < operations && loads_ >= view_.loads_ahead; ++i) {
    at = operate(Operation::integer, at);
  }
  return at;
}

// Products that are not summed in fp16: state and value to fp32, then multiply-adds. bf16 is widened by shifts, which
// run on the fp32 pipe as multiplications, and by masks.
void WarpGenerator::multiply_wide(int r, int plane, int state, int quad) {
  const bool is_bf16 = network_.precision == Precision::bf16, is_fp32 = network_.precision == Precision::fp32;
  int value = quad;
  if (!is_fp32) {
    value = operate(is_bf16 ? Operation::integer : Operation::conversion, quad);
  }
  for (int b = 0; b < map_.plane_samples; ++b) {
    int h = state + (is_fp32 ? b : b / 2);
    if (!is_fp32) {
      h = operate(!is_bf16 ? Operation::conversion : b % 2 ? Operation::integer : Operation::fp32, h);
    }
    const int total =
        sum((plane % plan_.pass_planes * map_.plane_samples + b) * plan_.tile_rows + r % map_.tile_height);
    operate(Operation::fp32, total, {total, h, value, kNoRegister});
  }
}

void WarpGenerator::slot(int r, int plane, int first_slot, int s, bool starts_sum, bool ends_sum) {
  const Bundle unit = bundle(network_, plan_);
  const int row_begin = [&] {
    int words = 0;
    for (int row = r / map_.tile_height * map_.tile_height; row < r; ++row) {
      words += row_words(network_, plan_, plan_.slots[row]);
    }
    return words;
  }();
  int quad = kNoRegister;
  for (int k = 0; s % unit.slots == 0 && k < unit.words; ++k) {
    const int word = s / unit.slots * unit.words + k;
    if (word < row_words(network_, plan_, plan_.slots[r])) {
      quad = quad_of_word(r / map_.tile_height, row_begin + word);
    }
  }
  if (network_.precision == Precision::fp8) {
    for (int i = s % 2; i < 2; ++i) {
      quad = operate(Operation::integer, quad);  // three for two values: shift, masks
    }
  }
  const int state = load(map_.plane_unit_bytes, offset(quad), [&](int lane) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(plane) * map_.plane_bytes +
                                     static_cast<std::uint64_t>(place(layout_, sm_, first_slot, s, thread(lane))) *
                                         static_cast<std::uint64_t>(map_.plane_unit_bytes));
  });
  ++loads_;
  if (!map_.half2_sums) {
    multiply_wide(r, plane, state, quad);
    return;
  }
  if (starts_sum) {
    partial_.clear();
  }
  for (int i = 0; i < map_.unit_words; ++i) {
    if (starts_sum) {
      partial_.push_back(operate(Operation::half2, state + i, quad));
    } else {
      operate(Operation::half2, partial_[i], {partial_[i], state + i, quad, kNoRegister});
    }
  }
  for (int b = 0; ends_sum && b < map_.plane_samples; ++b) {
    const int total =
        sum((plane % plan_.pass_planes * map_.plane_samples + b) * plan_.tile_rows + r % map_.tile_height);
    operate(Operation::fp32, total, {total, operate(Operation::conversion, partial_[b / 2]), kNoRegister, kNoRegister});
  }
}

void WarpGenerator::gather(int r, int plane) {
  int first_slot = 0;
  for (int row = 0; row < r; ++row) {
    first_slot += plan_.slots[row];
  }
  const int slots = row_slots(layout_, sm_, r, warp_);
  int since = 0;  // slots since the last promotion
  for (int s = 0; s < slots; ++s) {
    const bool branch = plan_.skips() && starts_chunk(plan_, r, s);
    if (branch) {
      operate(Operation::other);
      flush();
      since = 0;
    }
    const bool ends =
        since + 1 == plan_.promote_every || s + 1 == slots || (plan_.skips() && starts_chunk(plan_, r, s + 1));
    slot(r, plane, first_slot, s, since == 0, ends);
    since = ends ? 0 : since + 1;
  }
  if (slots < plan_.slots[r]) {
    operate(Operation::other);
    flush();
  }
}

// See reduce() in the kernel: while a lane has several values it gives half of them away.
void WarpGenerator::reduce(std::vector<int> values) {
  for (int mask = 1; mask < plan_.lanes_per_row; mask *= 2) {
    if (values.size() == 1) {
      values[0] = operate(Operation::fp32, values[0], operate(Operation::shuffle, values[0]));
      continue;
    }
    std::vector<int> half;
    for (std::size_t i = 0; i < values.size() / 2; ++i) {
      const int keep = operate(Operation::integer, values[2 * i], values[2 * i + 1]);
      const int give = operate(Operation::integer, values[2 * i], values[2 * i + 1]);
      half.push_back(operate(Operation::fp32, keep, operate(Operation::shuffle, give)));
    }
    values = std::move(half);
  }
  results_ = std::move(values);
}

void WarpGenerator::fetch_outputs(int tile, int pass) {
  outputs_.clear();
  for (int i = 0; i < map_.outputs; ++i) {
    Output out;
    for (int lane = 0; lane < kWarp; ++lane) {
      const int value = (lanes_[lane].lane & (map_.values - 1)) + i * plan_.lanes_per_row;
      const int row = value % plan_.tile_rows;
      out.sample[lane] = pass * map_.pass_samples + value / plan_.tile_rows;
      out.gate[lane] = map_.gates == 1 ? 0 : row;
      out.unit[lane] = (map_.gates == 1 ? tile * plan_.tile_rows + row : tile) * plan_.groups() + lanes_[lane].group;
      const bool owned = out.unit[lane] < map_.units_per_sm && out.gate[lane] < map_.gates &&
                         (map_.gates > 1 || tile * plan_.tile_rows + row < plan_.rows_per_group);
      out.writes[lane] = owned && lanes_[lane].lane < map_.values;
      out.unit[lane] = owned ? out.unit[lane] : 0;
      out.gate[lane] = owned ? out.gate[lane] : 0;
    }
    const int at = operate(Operation::integer, operate(Operation::integer));
    const auto cell = [&](std::uint64_t base, auto&& index) {
      return load(4, at, [&](int lane) {
        return static_cast<std::int64_t>(base + 4ull * static_cast<std::uint64_t>(index(lane)));
      });
    };
    const int x = load(map_.element_bytes, at, [&](int lane) {
      const int sample = out.sample[lane] < network_.batch ? out.sample[lane] : 0;
      const int index = (sample * map_.units_per_sm + out.unit[lane]) * map_.gates + out.gate[lane];
      return static_cast<std::int64_t>(map_.input_at) + index * map_.element_bytes;
    });
    out.x = map_.element_bytes == 4 ? x : operate(Operation::conversion, x);
    if (network_.precision == Precision::fp8) {
      cell(map_.scale_at, [&](int lane) { return out.unit[lane] * map_.gates + out.gate[lane]; });
    }
    if (map_.gates > 1) {
      out.carry = cell(map_.carry_at, [&](int lane) { return out.unit[lane] * plan_.batch_padded + out.sample[lane]; });
      cell(map_.lengths_at, [&](int lane) { return out.sample[lane]; });
    }
    if (network_.cell == Cell::gru) {
      out.bias = cell(map_.bias_at, [&](int lane) { return out.unit[lane]; });
    }
    outputs_.push_back(out);
  }
}

// An exponential and a reciprocal, with the arithmetic around them.
int WarpGenerator::squash(int value) {
  const int scaled = operate(Operation::fp32, operate(Operation::fp32, value));
  const int e = operate(Operation::fp32, operate(Operation::special, scaled));
  return operate(Operation::fp32, operate(Operation::special, e));
}

void WarpGenerator::finish() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Output& out = outputs_[i];
    const int total = operate(Operation::fp32, results_[i], out.x);
    int h = total;
    int writing_gate = 0;
    int next = kNoRegister;
    switch (network_.cell) {
      case Cell::relu:
        h = operate(Operation::integer, operate(Operation::integer, total), total);
        break;
      case Cell::tanh:
        h = squash(total);
        break;
      case Cell::lstm: {
        const int y = squash(total);
        const int across = operate(Operation::shuffle, y);
        const int added = operate(Operation::shuffle, operate(Operation::fp32, y, across));
        next = operate(Operation::fp32, y, out.carry, added);
        h = operate(Operation::fp32, across, squash(next));
        writing_gate = 1;
        break;
      }
      case Cell::gru: {
        const int y = squash(total);
        const int reset = operate(Operation::shuffle, y), update = operate(Operation::shuffle, y);
        const int biased = operate(Operation::fp32, results_[i], out.bias);
        const int candidate = squash(operate(Operation::fp32, reset, biased, out.x));
        next = h = operate(Operation::fp32, update, operate(Operation::fp32, out.carry, candidate), candidate);
        writing_gate = 2;
        break;
      }
    }
    const auto writes = [&](int lane) { return out.writes[lane] && out.gate[lane] == writing_gate; };
    if (next != kNoRegister) {
      access(Operation::shared_store, 4, kNoRegister, next, [&](int lane) {
        const int index = out.unit[lane] * plan_.batch_padded + out.sample[lane];
        return writes(lane) ? static_cast<std::int64_t>(map_.carry_at) + 4 * index : -1;
      });
    }
    h = map_.element_bytes == 4 ? h : operate(Operation::conversion, h);
    access(Operation::shared_store, map_.element_bytes, kNoRegister, h, [&](int lane) {
      const std::int64_t index = map_.outbox_index(out.unit[lane], out.sample[lane]);
      return writes(lane) ? static_cast<std::int64_t>(map_.outbox_at) + index * map_.element_bytes : -1;
    });
  }
}

void WarpGenerator::emit() {
  const auto state = static_cast<std::int64_t>(16 * map_.state_words);
  for (int first = 0; first < map_.outbox_words; first += plan_.threads) {
    if (first + kWarp * warp_ >= map_.outbox_words) {
      break;
    }
    const auto word = [&](int lane) { return first + thread(lane); };
    const int v = load(16, operate(Operation::integer), [&](int lane) {
      return word(lane) < map_.outbox_words ? static_cast<std::int64_t>(map_.outbox_at) + 16 * word(lane) : -1;
    });
    const auto store = [&](int steps_later, int value) {
      access(Operation::global_store, 16, kNoRegister, value, [&](int lane) {
        return word(lane) < map_.outbox_words
                   ? steps_later * state + static_cast<std::int64_t>(map_.outbox_offset(sm_, word(lane)))
                   : -1;
      });
    };
    store(1, v);
    if (plan_.exchange == ExchangeProtocol::lamport) {
      store(1 + kEmptiedAhead, kNoRegister);
    }
    flush();
  }
}

// The input of the step after the next, into the buffer that this step has used.
void WarpGenerator::fetch_input() {
  const int pieces = network_.batch * map_.input_pieces;
  for (int first = 0; first + kWarp * warp_ < pieces; first += plan_.threads) {
    int at = kNoRegister;
    for (int i = 0; i < 12; ++i) {  // a division among them
      at = operate(Operation::integer, i % 2 ? at : kNoRegister);
    }
    access(Operation::async_copy, 4, kNoRegister, at, [&](int lane) {
      const int i = first + thread(lane);
      return i < pieces ? static_cast<std::int64_t>(map_.input_at) + 4 * i : -1;
    });
    operate(Operation::other);
    flush();
  }
}

// The loop's own instructions, and those before the first look: four empty words, a comparison and an address for each
// word in flight.
void WarpGenerator::begin_step() {
  const int words = static_cast<int>((map_.state_words + plan_.threads - 1) / plan_.threads);
  for (int i = 0; i < 12 + 6 * std::min(plan_.loads_in_flight, words); ++i) {
    operate(i % 2 ? Operation::integer : Operation::fp32);
  }
  flush();
}

WarpTrace WarpGenerator::body() {
  for (int tile = 0; tile < map_.tiles && traced_ == Traced::whole; ++tile) {
    for (int pass = 0; pass < map_.passes; ++pass) {
      for (int part = 0; part < plan_.pass_planes * map_.tile_height; ++part) {
        const int r = tile * map_.tile_height + part % map_.tile_height;
        if (r < plan_.rows_per_group) {
          gather(r, pass * plan_.pass_planes + part / map_.tile_height);
        }
      }
      fetch_outputs(tile, pass);
      std::vector<int> values;
      for (int value = 0; value < map_.values; ++value) {
        values.push_back(sum(value));
      }
      reduce(std::move(values));
      finish();
    }
    quad_ += tile_words(network_, plan_, tile) / 4;
  }
  barrier();
  emit();
  fetch_input();
  begin_step();
  return std::move(trace_);
}

WarpTrace WarpGenerator::stage() {
  const std::int64_t words = map_.state_words, threads = plan_.threads;
  for (std::int64_t done = 0; done < words; done += plan_.loads_in_flight * threads) {
    const auto round = std::min<std::int64_t>(plan_.loads_in_flight, (words - done + threads - 1) / threads);
    std::vector<int> fetched;
    for (const Operation operation : {Operation::global_load, Operation::shared_store}) {
      for (std::int64_t k = 0; k < round; ++k) {
        const bool loads = operation == Operation::global_load;
        if (loads) {
          fetched.push_back(temporary(4));
        }
        const int reg = fetched[static_cast<std::size_t>(k)];
        access(operation, 16, loads ? reg : kNoRegister, loads ? kNoRegister : reg, [&](int lane) {
          const std::int64_t word = done + k * threads + thread(lane);
          return word >= words ? -1 : loads ? 16 * word : static_cast<std::int64_t>(map_.staged_at(word));
        });
      }
    }
    flush();
  }
  barrier();
  return std::move(trace_);
}

void append(WarpTrace& to, const WarpTrace& from) {
  for (const Instruction& instruction : from.instructions) {
    to.add(instruction, from.addresses_of(instruction));
  }
}

}  // namespace

PlanTrace::PlanTrace(Layout layout, int registers_per_thread, Traced traced)
    : layout_(std::move(layout)), map_(layout_.network, layout_.plan), traced_(traced) {
  // The working registers hold a few loads in flight; what is left over holds more, with their addresses.
  constexpr int kAtLeast = 3;
  const Plan& plan = layout_.plan;
  const int left =
      registers_per_thread - register_words(layout_.network, plan) - working_registers(layout_.network, plan);
  loads_ahead_ = std::clamp(kAtLeast + left / (map_.unit_words + 1), kAtLeast, CompilerView().loads_ahead);
}

BlockTrace PlanTrace::body(int sm) const {
  CompilerView view;
  view.loads_ahead = loads_ahead_;
  BlockTrace block;
  for (int warp = 0; warp < layout_.plan.warps(); ++warp) {
    block.warps.push_back(WarpGenerator(layout_, map_, view, traced_, sm, warp).body());
  }
  return block;
}

BlockTrace PlanTrace::block(int sm) const {
  CompilerView view;
  view.loads_ahead = loads_ahead_;
  BlockTrace block = body(sm);
  for (int warp = 0; warp < layout_.plan.warps(); ++warp) {
    WarpTrace whole = WarpGenerator(layout_, map_, view, traced_, sm, warp).stage();
    append(whole, block.warps[warp]);
    block.warps[warp] = std::move(whole);
  }
  return block;
}

}  // namespace onchip
