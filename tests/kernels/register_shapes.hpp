// SPDX-License-Identifier: Apache-2.0
// Shapes of plans, for what the compiler makes of their registers: a list that a human chose and one drawn with a seed.
#pragma once

#include "model/chip.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace onchip {

inline constexpr std::array kArchitectures{"sm_80", "sm_90", "sm_100", "sm_120"};

// A plan without its slots.
struct Shape {
  Precision precision;
  int batch, threads, lanes_per_row = 32, rows_per_group = 1, loads_in_flight = 2;
  Storage storage = Storage::packed_pair;
  Cell cell = Cell::relu;
  int tile_rows = 1, pass_planes = 1;
  bool tail = false;
  int ring_chunks = 0;  // of the tail
  int chunks_in_flight = 1;
};

inline std::string describe(const Shape& shape) {
  return std::string(info(shape.precision).name) + " batch " + std::to_string(shape.batch) + ", " +
         std::to_string(shape.threads) + " threads, " + std::to_string(shape.lanes_per_row) + " lanes, " +
         std::to_string(shape.rows_per_group) + " rows, " + std::to_string(shape.loads_in_flight) + " loads, " +
         std::string(name(shape.storage)) + ", " + std::string(info(shape.cell).name) + ", tiles of " +
         std::to_string(shape.tile_rows) + " rows and " + std::to_string(shape.pass_planes) + " planes" +
         (shape.tail ? ", a tail, " + std::to_string(shape.chunks_in_flight) + " chunks in flight, a ring of " +
                           std::to_string(shape.ring_chunks)
                     : "");
}

struct Case {
  Network network;
  Plan plan;
};

// The largest `words` or fewer words of weights that the shape can hold, evenly over its rows; at least one slot each.
inline Case with_words(const Shape& shape, int words) {
  constexpr int kSms = 132;
  Case c;
  c.network.cell = shape.cell;
  c.network.precision = shape.precision;
  c.network.batch = shape.batch;
  c.plan.storage = shape.storage;
  c.plan.sms = kSms;
  c.plan.threads = shape.threads;
  c.plan.lanes_per_row = shape.lanes_per_row;
  c.plan.rows_per_group = shape.rows_per_group;
  c.plan.batch_padded = shape.batch;
  c.plan.loads_in_flight = shape.loads_in_flight;
  c.plan.promote_every = state_type(shape.precision) == Precision::fp16 ? 8 : 1;
  c.plan.tile_rows = shape.tile_rows;
  c.plan.pass_planes = shape.pass_planes;
  if (shape.tail) {
    c.plan.tail_chunks = c.plan.warps() * shape.rows_per_group;
    c.plan.longest_tail = shape.rows_per_group;
    c.plan.shared_chunks = shape.ring_chunks > 0 ? c.plan.tail_chunks / 2 : c.plan.tail_chunks;
    c.plan.ring_chunks = shape.ring_chunks;
    c.plan.chunks_in_flight = shape.chunks_in_flight;
  }
  c.network.hidden = kSms * c.plan.groups() * c.plan.rows_per_group / info(shape.cell).gates;
  std::fill_n(c.plan.slots.begin(), c.plan.rows_per_group, 1);
  for (int row = 0;; row = (row + 1) % c.plan.rows_per_group) {
    ++c.plan.slots[row];
    if (register_words(c.network, c.plan) > words) {
      --c.plan.slots[row];
      return c;
    }
  }
}

// Registers per thread that the compiler may use for a shape: every architecture here has the same register file.
inline int register_cap(const Shape& shape) {
  static const Chip chip = find_chip("h200").chip;
  return max_registers_per_thread(chip, shape.threads);
}

// `count` shapes like those that the planner looks at, each kind about as often.
inline std::vector<Shape> random_shapes(std::uint32_t seed, std::size_t count) {
  constexpr int kMostCode = 512;     // planes times registers: of a kernel that compiles within a second
  constexpr int kMostUnits = 65000;  // that an index of 16 bits tells apart
  const Chip chip = find_chip("h200").chip;
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto power_to = [&](int most) { return 1 << below(std::bit_width(static_cast<unsigned>(most))); };
  std::vector<Shape> shapes;
  while (shapes.size() < count) {
    Shape s{};
    s.precision = static_cast<Precision>(below(4));
    s.cell = static_cast<Cell>(below(4));
    const int gates = info(s.cell).gates;
    s.batch = power_to(32);
    s.threads = 32 * std::max(4 + below(29), 4 + below(29));
    s.lanes_per_row = 32 >> below(4);
    const int some = below(4);
    s.rows_per_group = gates > 1 ? gates * (1 + some) : 1 + some * below(3);
    s.storage = below(8) == 0 ? Storage::dense : Storage::packed_pair;
    s.tile_rows = gates > 1 ? 4 : power_to(std::bit_ceil(static_cast<unsigned>(s.rows_per_group)));
    s.tail = below(2) == 0;
    s.ring_chunks = s.tail ? 2 * below(3) : 0;
    s.chunks_in_flight = s.tail ? power_to(4) : 1;
    Case c = with_words(s, 8 * s.rows_per_group);
    s.pass_planes = c.plan.pass_planes = power_to(planes(c.network, c.plan));
    const std::int64_t words = exchange_bytes(c.network, c.plan) / 16;
    s.loads_in_flight = c.plan.loads_in_flight =
        1 + below(std::min<int>(8, static_cast<int>((words + s.threads - 1) / s.threads)));
    const int sums = s.tile_rows * s.batch * s.pass_planes / planes(c.network, c.plan);
    if (register_cap(s) - 24 - std::max(6 * s.loads_in_flight, sums) >= 8 + 4 * s.rows_per_group &&
        static_cast<double>(shared_bytes(c.network, c.plan)) <= chip.smem_bytes_per_block &&
        planes(c.network, c.plan) * register_cap(s) <= kMostCode && state_units(c.network, c.plan) < kMostUnits) {
      shapes.push_back(s);
    }
  }
  return shapes;
}

inline constexpr auto fp16 = Precision::fp16, bf16 = Precision::bf16, fp32 = Precision::fp32, fp8 = Precision::fp8;
inline constexpr auto packed = Storage::packed_pair, dense = Storage::dense;

inline constexpr Shape kChosenShapes[] = {
    {fp16, 1, 512},
    {fp32, 1, 576},
    {fp16, 1, 1024},
    {fp16, 2, 576},
    {fp16, 4, 384},
    {fp16, 4, 576},
    {fp16, 4, 704},
    {fp16, 4, 1024},
    {fp16, 8, 512},
    {fp16, 8, 576},
    {fp16, 8, 1024},
    {bf16, 4, 512},
    {bf16, 8, 704},
    {fp32, 4, 704},
    {fp32, 8, 512},
    {fp16, 16, 512},
    {fp16, 16, 704},
    {bf16, 16, 512},
    {fp32, 16, 512, 32, 1, 4},
    {fp16, 32, 512, 32, 1, 4},
    {fp32, 32, 512, 32, 1, 8},
    {fp16, 4, 512, 8},
    {fp16, 8, 512, 4},
    {fp16, 16, 512, 4},
    {fp16, 4, 576, 32, 2},
    {fp16, 16, 576, 32, 2},
    {fp16, 4, 512, 16, 4},
    {fp16, 4, 576, 32, 1, 1},
    {fp16, 4, 512, 32, 1, 4},
    {fp16, 4, 512, 32, 1, 8},
    {fp16, 4, 576, 32, 1, 2, dense},
    {bf16, 4, 576, 32, 1, 2, packed},
    {fp32, 4, 576, 32, 1, 2, packed},
    {fp8, 4, 512, 32, 1, 2, packed},
    {fp16, 4, 512, 32, 1, 2, packed, Cell::tanh},
    {fp16, 4, 512, 16, 4, 2, packed, Cell::tanh, 4},
    {fp16, 16, 512, 32, 2, 4, packed, Cell::relu, 1, 2},
    {fp16, 4, 512, 32, 4, 2, packed, Cell::lstm, 4},
    {fp8, 4, 512, 16, 6, 2, packed, Cell::gru, 4},
    {fp16, 4, 576, 32, 1, 2, packed, Cell::relu, 1, 1, true},
    {fp16, 4, 576, 32, 1, 2, packed, Cell::relu, 1, 1, true, 0, 2},
    {fp16, 4, 576, 32, 1, 2, packed, Cell::relu, 1, 1, true, 0, 4},
    {fp16, 4, 576, 32, 1, 2, packed, Cell::relu, 1, 1, true, 2},
    {fp16, 4, 576, 32, 1, 2, packed, Cell::relu, 1, 1, true, 4},
    {fp16, 1, 1024, 32, 1, 2, packed, Cell::relu, 1, 1, true},
    {fp16, 16, 512, 32, 2, 4, packed, Cell::relu, 1, 2, true},
    {fp16, 16, 512, 32, 2, 4, packed, Cell::relu, 1, 1, true, 4},
    {bf16, 8, 704, 32, 1, 2, packed, Cell::relu, 1, 1, true, 4},
    {fp32, 4, 704, 32, 1, 2, packed, Cell::relu, 1, 1, true, 0, 4},
    {fp32, 4, 576, 16, 2, 2, packed, Cell::tanh, 2, 1, true, 4},
    {fp8, 4, 512, 32, 1, 2, packed, Cell::relu, 1, 1, true},
    {fp8, 4, 512, 16, 4, 2, packed, Cell::tanh, 4, 1, true, 4, 4},
    {fp16, 4, 576, 32, 1, 2, dense, Cell::relu, 1, 1, true, 4},
    {fp16, 4, 512, 32, 4, 2, packed, Cell::lstm, 4, 1, true},
    {fp16, 4, 512, 16, 8, 2, packed, Cell::lstm, 4, 1, true, 4, 2},
    {fp8, 4, 512, 16, 6, 2, packed, Cell::gru, 4, 1, true},
    {bf16, 16, 384, 16, 9, 4, packed, Cell::gru, 4, 1, true, 4},
    {fp16, 4, 288, 16, 1, 4},
    {fp16, 4, 352, 8, 4, 5, packed, Cell::lstm, 4},
    {fp16, 4, 256, 16, 4, 4, packed, Cell::lstm, 4},
    {fp16, 4, 288, 16, 4, 4, packed, Cell::lstm, 4},
    {fp16, 8, 288, 16, 4, 4, packed, Cell::lstm, 4},
    {fp16, 8, 256, 16, 4, 4, packed, Cell::lstm, 4, 1},
    {bf16, 8, 256, 16, 4, 4, packed, Cell::lstm, 4},
    {fp32, 4, 256, 16, 3, 4, packed, Cell::gru, 4},
    {fp32, 4, 288, 16, 6, 4, packed, Cell::gru, 4},
    {fp16, 1, 256, 16, 12, 4, packed, Cell::lstm, 4},
    {fp16, 4, 192, 16, 12, 8, packed, Cell::lstm, 4},
    {fp16, 16, 256, 32, 4, 8, packed, Cell::lstm, 4},
    {fp16, 16, 256, 32, 4, 8, packed, Cell::lstm, 4, 2},
    {fp16, 2, 256, 16, 1, 4},
    {fp16, 4, 256, 8, 2, 4, packed, Cell::relu, 2},
    {fp16, 4, 256, 8, 4, 4, packed, Cell::relu, 4},
    {fp16, 4, 256, 8, 8, 4, packed, Cell::relu, 8},
    {fp16, 4, 256, 8, 8, 4, packed, Cell::relu, 1},
    {fp16, 4, 128, 8, 8, 4, packed, Cell::relu, 4},
    {fp16, 8, 256, 8, 2, 4, packed, Cell::relu, 2},
    {fp16, 32, 256, 16, 1, 8, packed, Cell::relu, 1},
    {fp16, 32, 256, 16, 1, 8, packed, Cell::relu, 1, 2},
    {fp16, 4, 352, 4, 1, 6, packed, Cell::relu, 1, 1, true, 4},
    {fp16, 4, 352, 8, 4, 5, packed, Cell::lstm, 4, 1, true, 4},
    {fp16, 4, 256, 16, 12, 5, packed, Cell::lstm, 4, 1, true, 4},
    {fp16, 4, 192, 32, 1, 4, packed, Cell::relu, 1, 1, true},
    {fp16, 8, 256, 16, 4, 4, packed, Cell::lstm, 4, 1, true},
    {fp16, 8, 256, 16, 4, 4, packed, Cell::lstm, 4, 1, true, 4},
    {bf16, 4, 256, 16, 4, 4, packed, Cell::lstm, 4, 1, true, 4},
    {fp32, 4, 352, 8, 3, 5, packed, Cell::gru, 4, 1, true, 4},
    {fp32, 8, 256, 8, 3, 5, packed, Cell::gru, 4, 1, true, 4},
    {fp32, 8, 256, 8, 3, 5, packed, Cell::gru, 4, 2, true, 4},
    {fp8, 8, 256, 8, 4, 5, packed, Cell::lstm, 4, 1, true, 4},
    {fp16, 4, 256, 16, 4, 4, packed, Cell::relu, 4, 1, true},
    {fp16, 4, 256, 16, 8, 4, packed, Cell::relu, 8, 1, true},
    {fp16, 4, 256, 16, 3, 4, dense, Cell::gru, 4, 1, true},
    {fp16, 1, 256, 16, 3, 4, packed, Cell::gru, 4, 1, true},
    {fp16, 16, 256, 32, 4, 8, packed, Cell::lstm, 4, 2, true},
    {fp16, 32, 256, 16, 1, 8, packed, Cell::relu, 1, 4, true},
    {fp16, 32, 512, 32, 1, 4, packed, Cell::relu, 1, 2},
    {fp16, 32, 384, 32, 1, 4, packed, Cell::relu, 1, 4},
    {bf16, 32, 384, 16, 1, 4, packed, Cell::relu, 1, 2},
    {fp32, 16, 512, 32, 1, 4, packed, Cell::tanh, 1, 2},
    {fp32, 32, 704, 32, 1, 4, packed, Cell::relu, 1, 4},
    {fp32, 16, 512, 16, 3, 4, packed, Cell::gru, 4, 2},
};

}  // namespace onchip
