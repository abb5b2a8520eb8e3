// SPDX-License-Identifier: Apache-2.0
// Shapes of every kind, drawn at random: three of four picks of the planner near their limit, the others anything.
#include "experiments/registers/shape.hpp"
#include "experiments/registers/verbs.hpp"
#include "model/footprint.hpp"
#include "model/occupancy.hpp"
#include "model/planner.hpp"
#include "model/registers.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

namespace onchip::registers {
namespace {

// What the kernel is made of, as far as its registers may depend on it: shapes alike in this are one shape.
std::string key_of(const Shape& shape) {
  const Network& n = shape.network;
  const Plan& p = shape.plan;
  const auto words = static_cast<int>((exchange_bytes(n, p) / 16 + p.threads - 1) / p.threads);
  std::string key(info(n.cell).name);
  key += info(n.precision).name;
  for (const int value :
       {n.batch, max_registers_per_thread(find_chip("h200").chip, p.threads), p.lanes_per_row, p.rows_per_group,
        static_cast<int>(p.storage), p.tile_rows, p.pass_planes, p.batch_padded, p.load_bytes, p.loads_in_flight, words,
        static_cast<int>(p.has_tail()), p.ring_chunks, p.chunks_in_flight}) {
    key += "," + std::to_string(value);
  }
  return key;
}

constexpr std::array kCellsTried{Cell::relu, Cell::tanh, Cell::lstm, Cell::gru};
constexpr std::array kPrecisionsTried{Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp8};

Network any_network(std::mt19937& random) {
  Network network;
  network.cell = one_of(random, kCellsTried);
  network.precision = one_of(random, kPrecisionsTried);
  network.batch = one_of(random, kBatches);
  return network;
}

// A pick of the planner that fills the registers, or one that has a tail.
bool pick(std::mt19937& random, const std::vector<Chip>& chips, Shape& shape) {
  const Chip& chip = chips[random() % chips.size()];
  shape.network = any_network(random);
  shape.network.density = one_of(random, std::array{0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0});
  shape.network.hidden = 256 << random() % 6;
  shape.network.hidden += shape.network.hidden / 32 * static_cast<int>(random() % 32);
  PlanWishes wishes;
  wishes.family = Family::sparse_persistent;
  if (random() % 3 == 0 && shape.network.precision != Precision::fp32) {
    wishes.storage = Storage::packed_delta;
  }
  const PlannedNetwork planned = choose_plan(chip, shape.network, RowProfile::uniform(shape.network), wishes);
  shape.plan = planned.plan;
  constexpr double kNear = 0.85;
  return planned.prediction.footprint.fits &&
         (shape.plan.has_tail() || planned.prediction.footprint.resources[0].share() > kNear);
}

// Anything that a kernel can be built from.
bool draw(std::mt19937& random, const std::vector<Chip>& chips, Shape& shape) {
  Network& network = shape.network = any_network(random);
  Plan& plan = shape.plan = {};
  const int gates = info(network.cell).gates;
  plan.sms = 132;
  plan.threads = 32 * (8 + static_cast<int>(random() % 25));
  plan.lanes_per_row = one_of(random, std::array{32, 32, 16, 16, 8, 4});
  plan.rows_per_group = gates * (1 + static_cast<int>(random() % (gates > 1 ? 3 : 8)));
  plan.batch_padded = network.batch;
  constexpr std::array kStorages{Storage::packed_pair, Storage::dense, Storage::packed_delta};
  plan.storage = one_of(random, kStorages);
  if (plan.storage == Storage::packed_delta && network.precision == Precision::fp32) {
    plan.storage = Storage::packed_pair;
  }
  plan.promote_every = state_type(network.precision) == Precision::fp16 ? 8 : 1;
  plan.tile_rows = gates > 1 ? 4 : 1 << random() % 4;
  while (plan.tile_rows >= 2 * plan.rows_per_group) {
    plan.tile_rows /= 2;
  }
  plan.pass_planes = std::min(planes(network, plan), 1 << random() % 3);
  if (random() % 2) {
    plan.tail_chunks = plan.warps() * plan.rows_per_group;
    plan.longest_tail = plan.rows_per_group;
    plan.ring_chunks = one_of(random, std::array{0, 2, 3, 4});
    plan.shared_chunks = plan.ring_chunks > 0 ? plan.tail_chunks / 2 : plan.tail_chunks;
    plan.chunks_in_flight = 1 << random() % 3;
  }
  const int most = plan.sms * plan.groups() * plan.rows_per_group / gates;
  network.hidden = most - most / 8 * static_cast<int>(random() % 5);
  plan.line_words = best_line_words(network, plan);
  const auto words = static_cast<int>((exchange_bytes(network, plan) / 16 + plan.threads - 1) / plan.threads);
  plan.loads_in_flight = 1 + static_cast<int>(random() % std::min(8, words));
  constexpr int kMostSums = 64;
  return static_cast<double>(shared_bytes(network, plan)) <= chips[1].smem_bytes_per_block &&
         network.hidden <= kMaxHidden &&
         plan.tile_rows * plan.pass_planes * plan.batch_padded / planes(network, plan) <= kMostSums &&
         room(shape) - working_registers(chips[1], network, plan) > 2 * plan.rows_per_group;
}

// The larger a kernel, the longer it takes to compile, up to ten seconds: few of the large ones.
bool is_quick(std::mt19937& random, const Shape& shape) {
  constexpr int kSmall = 128, kLarge = 184;
  return room(shape) <= kSmall || (room(shape) <= kLarge && random() % 4 == 0);
}

}  // namespace

int print_shapes(int number) {
  std::vector<Chip> chips;
  for (const char* name : kChips) {
    chips.push_back(find_chip(name).chip);
  }
  std::mt19937 random(1);
  std::set<std::string> known;
  std::puts(kShapeHeader);
  for (int made = 0; made < number;) {
    Shape shape;
    if ((made % 4 == 3 ? draw(random, chips, shape) : pick(random, chips, shape)) && is_quick(random, shape) &&
        known.insert(key_of(shape)).second) {
      std::puts(text_of(shape).c_str());
      std::fflush(stdout);
      ++made;
    }
  }
  return 0;
}

}  // namespace onchip::registers
