// SPDX-License-Identifier: Apache-2.0
#include "model/training/training_plan.hpp"

#include "model/base/error.hpp"
#include "model/dense/plan.hpp"
#include "model/training/plan_words.hpp"

#include <algorithm>
#include <utility>

namespace onchip {
namespace {

constexpr PlanWords<RecurrencePlan, 10> kFields{{{"groups", &RecurrencePlan::batch_groups},
                                                 {"turns", &RecurrencePlan::turns},
                                                 {"warps", &RecurrencePlan::warps},
                                                 {"split", &RecurrencePlan::split},
                                                 {"shared_tiles", &RecurrencePlan::shared_tiles},
                                                 {"loads_in_flight", &RecurrencePlan::loads_in_flight},
                                                 {"poll_delay", &RecurrencePlan::poll_delay},
                                                 {"ahead", &RecurrencePlan::ahead},
                                                 {"units", &RecurrencePlan::units},
                                                 {"warp_groups", &RecurrencePlan::warp_groups}}};

constexpr int kRegisters = 65536;

constexpr int ceil_divide(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

// Registers of a thread that are left for tiles of weights; the compiler has the last word.
int registers_for_tiles(const RecurrenceShape& shape, const RecurrencePlan& plan) {
  const int sums = 4 * shape.row_tiles * shape.sample_tiles;
  const int chains = shape.row_tiles * shape.sample_tiles <= 2 ? 4 / (shape.row_tiles * shape.sample_tiles) : 1;
  const int others = 56 + sums * chains + 4 * plan.loads_in_flight;
  const int most = std::min(255, kRegisters / shape.threads);
  return most - others;
}

}  // namespace

std::string text(const RecurrencePlan& plan) {
  return words_of(plan, kFields);
}

RecurrencePlan changed(RecurrencePlan plan, const std::string& words) {
  return with_words(plan, words, kFields);
}

RecurrenceShape recurrence_shape(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  const auto require = [&](bool condition, const char* what) {
    if (!condition) {
      throw InputError("the plan '" + text(plan) + "' is not possible: " + what);
    }
  };
  require(plan.batch_groups > 0 && plan.turns > 0, "it needs a group and a turn");
  require(plan.split == 1 || (is_backward && (plan.split == 2 || plan.split == 4)), "split is 1, backward also 2 or 4");
  require(plan.units == 16 || plan.units == 32, "an SM has 16 or 32 units");
  require(plan.warp_groups >= 1 && plan.warp_groups <= 4, "an SM has 1 to 4 warp groups");
  require(plan.turns % plan.warp_groups == 0, "every warp group has as many turns");
  require(plan.warps > 0 && plan.warps * plan.warp_groups <= 16, "an SM has 1 to 16 warps");
  require(plan.ahead >= 4 && plan.ahead <= 64 && (plan.ahead & (plan.ahead - 1)) == 0, "ahead is 4, 8, 16, 32 or 64");
  RecurrenceShape shape;
  const int group_threads = 32 * plan.warps;
  shape.threads = group_threads * plan.warp_groups;
  shape.sms = ceil_divide(size.hidden, plan.units * plan.split) * plan.split;
  shape.blocks = shape.sms * plan.batch_groups;
  shape.samples = ceil_divide(size.batch, std::int64_t{plan.batch_groups} * plan.turns);
  constexpr int kMostOfTurn = 64;
  require(shape.samples <= kMostOfTurn, "a turn has at most 64 samples");
  const int items = ceil_divide(shape.samples * plan.units, group_threads);  // of a thread
  const int gates = info(size.cell).gates;
  shape.row_tiles = plan.units * (is_backward ? plan.split : gates) / 16;
  shape.sample_tiles = ceil_divide(shape.samples, 8);
  require(plan.loads_in_flight > 0 && plan.loads_in_flight % (2 * shape.sample_tiles) == 0,
          "loads_in_flight is a multiple of two for each eight samples of a turn");
  // As shape.cuh has them: an LSTM's gradients side by side, a GRU's one after another.
  const int planes = is_backward && size.cell == Cell::gru ? gates : 1;
  const int plane_values = shape.sms / plan.split * plan.units * (is_backward && size.cell == Cell::lstm ? gates : 1);
  shape.spans = planes * ceil_divide(plane_values, kSpanUnits);
  shape.warp_spans = ceil_divide(shape.spans, plan.warps);
  shape.tiles = shape.warp_spans * 2 * shape.row_tiles;
  require(plan.shared_tiles >= 0 && plan.shared_tiles <= shape.tiles, "a warp has fewer tiles");
  shape.ragged = shape.samples % 8 != 0 && shape.spans % shape.warp_spans != 0;

  const std::size_t partials = std::size_t{4} * 8 * shape.sample_tiles * (16 * shape.row_tiles + 4);
  const std::size_t finished = std::size_t{4} * items * group_threads;  // fp32, of a turn
  shape.shared_bytes =
      static_cast<std::size_t>(plan.warps) * plan.shared_tiles * kTileBytes + plan.turns * finished +
      plan.warp_groups * (2 * plan.warps * partials + (plan.split > 1 ? 2 * plan.split * finished : 0) + 16);
  shape.packed_bytes = static_cast<std::size_t>(shape.sms) * plan.warps * shape.tiles * kTileBytes;
  const std::size_t state = static_cast<std::size_t>(plan.split) * shape.spans * shape.samples * kSpanUnits * 2;
  shape.ring_bytes = (state + 127) / 128 * 128 * plan.turns * plan.batch_groups * 2 * plan.ahead;
  constexpr std::size_t kGradients = 4;  // of a unit, a GRU's too
  shape.bias_bytes = sizeof(float) * kGradients * size.hidden * plan.batch_groups * plan.warp_groups *
                     std::min(shape.samples, group_threads / plan.units);
  return shape;
}

RecurrencePlan with_room(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int sms,
                         std::size_t shared_bytes) {
  plan.shared_tiles = 0;
  const RecurrenceShape in_registers = recurrence_shape(size, plan, is_backward);
  const int registers = registers_for_tiles(in_registers, plan);
  plan.shared_tiles = std::clamp(in_registers.tiles - registers / 4, 0, in_registers.tiles);
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const std::string takes =
      (size.cell == Cell::lstm ? "an LSTM of " : "a GRU of ") + std::to_string(size.hidden) + " units takes ";
  if (registers < 0) {
    throw InputError(takes + std::to_string(-registers) + " registers of a thread more than there are with the plan '" +
                     text(plan) + "'");
  }
  if (shape.blocks > sms) {
    throw InputError(takes + std::to_string(shape.blocks) + " SMs to train on the chip with the plan '" + text(plan) +
                     "'; there are " + std::to_string(sms));
  }
  if (shape.shared_bytes > shared_bytes) {
    throw InputError(takes + std::to_string(shape.shared_bytes) +
                     " bytes of shared memory to train on the chip with the plan '" + text(plan) +
                     "'; a block may have " + std::to_string(shared_bytes));
  }
  return plan;
}

bool gains_by_alignment(const TrainingSize& size) {
  constexpr std::int64_t kFewest = std::int64_t{1}
                                   << 27;  // multiplications of a product: about 5 us at a third of the rate
  return (size.input % 8 != 0 || size.hidden % 8 != 0) &&
         size.steps * size.batch * 4 * size.hidden * std::max(size.input, size.hidden) >= kFewest;
}

}  // namespace onchip
