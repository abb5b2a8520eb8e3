// SPDX-License-Identifier: Apache-2.0
#include "model/training/recurrence_plan.hpp"

#include "model/base/error.hpp"
#include "model/dense/plan.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace onchip {
namespace {

constexpr int kMostOfBatch = 4096;
constexpr std::array kFields{
    number<&RecurrencePlan::batch_groups>("batch_groups", 1, kMostOfBatch)
        .option("N", "Share the samples out to this many groups of SMs, each with all weights."),
    number<&RecurrencePlan::sub_batches>("sub_batches", 1, kMostOfBatch),
    number<&RecurrencePlan::warps>("warps", 1, 16),
    number<&RecurrencePlan::split>("split", 1, 4).power_of_two(),
    number<&RecurrencePlan::shared_tiles>("shared_tiles", 0, kMostOfBatch),
    number<&RecurrencePlan::loads_in_flight>("loads_in_flight", 1, 64)
        .option("N", "Poll this many 16-byte words of the state at once per thread."),
    number<&RecurrencePlan::poll_delay>("poll_delay", 0, 100'000)
        .option("CYCLES", "Let every warp wait so long before it first polls for the next state."),
    number<&RecurrencePlan::ahead>("ahead", 4, 64).power_of_two(),
    number<&RecurrencePlan::units>("units", 8, 64),
    number<&RecurrencePlan::warp_groups>("warp_groups", 1, 4),
    number<&RecurrencePlan::launches>("launches", 1, kMostOfBatch).usually(1),
    number<&RecurrencePlan::layers>("layers", 1, kMostLayersAtOnce).usually(1),
    number<&RecurrencePlan::interleaved>("interleaved", 0, 1).usually(0)};

constexpr int ceil_divide(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

}  // namespace

std::span<const Field<RecurrencePlan>> fields(const RecurrencePlan&) {
  return kFields;
}

RecurrenceRegisters recurrence_registers(const RecurrenceShape& shape, const RecurrencePlan& plan, int registers) {
  const int sums = 4 * shape.row_tiles * shape.sample_tiles;
  const int chains = shape.row_tiles * shape.sample_tiles <= 2 ? 4 / (shape.row_tiles * shape.sample_tiles) : 1;
  // A unit's samples of a thread beyond the second: 12 at the median of 22 drawn passes that have them, NVRTC 13.0 for
  // sm_90. More would leave registers unused in half of them; the compiler's word corrects the others.
  const int items = items_of_thread(shape.samples, plan);
  return {56 + sums * chains + 4 * plan.loads_in_flight + 12 * std::max(0, items - 2),
          std::min(255, registers / shape.threads)};
}

RecurrenceShape recurrence_shape(const TrainingSize& size, const RecurrencePlan& plan, bool is_backward) {
  const auto require = [&](bool condition, std::string_view what) {
    if (!condition) {
      throw InputError("the plan '" + fields_text(plan) + "' is not possible: " + std::string(what));
    }
  };
  require(plan.batch_groups > 0 && plan.sub_batches > 0 && plan.launches > 0,
          "it needs a batch group, a sub-batch and a launch");
  require(plan.split == 1 || (is_backward && (plan.split == 2 || plan.split == 4)), "split is 1, backward also 2 or 4");
  require(plan.units >= 8 && plan.units <= 64 && plan.units % 8 == 0, "an SM has 8 to 64 units, a multiple of 8");
  require(plan.units <= 32 * plan.warps, "an SM has no more units than threads of a warp group");
  require(plan.warp_groups >= 1 && plan.warp_groups <= 4, "an SM has 1 to 4 warp groups");
  require(plan.sub_batches % plan.warp_groups == 0, "every warp group has as many sub-batches");
  require(plan.warps > 0 && plan.warps * plan.warp_groups <= 16, "an SM has 1 to 16 warps");
  require(plan.ahead >= 4 && plan.ahead <= 64 && (plan.ahead & (plan.ahead - 1)) == 0, "ahead is 4, 8, 16, 32 or 64");
  require(plan.layers == 1 || (!is_backward && size.length_bytes == 0 && plan.launches == 1),
          "only forward passes without lengths have several layers, in one launch");
  require(plan.interleaved == 0 || (!is_backward && size.length_bytes == 0),
          "only forward passes without lengths are interleaved");
  require(plan.layers >= 1 && plan.layers <= kMostLayersAtOnce,
          "1 to " + std::to_string(kMostLayersAtOnce) + " layers are on the SMs at once");
  require(plan.layers == 1 || plan.warps % 2 == 0, "of several layers, half of the warps have the input's weights");
  RecurrenceShape shape;
  const int group_threads = 32 * plan.warps;
  shape.threads = group_threads * plan.warp_groups;
  shape.sms = ceil_divide(size.hidden, plan.units * plan.split) * plan.split;
  shape.blocks = shape.sms * plan.batch_groups * plan.layers;
  const std::int64_t sub_batches = std::int64_t{plan.batch_groups} * plan.sub_batches;
  shape.samples = ceil_divide(kernel_batch(size.batch), sub_batches * plan.launches);
  shape.launch_samples = static_cast<int>(sub_batches) * shape.samples;
  constexpr int kMostOfSubBatch = 64;
  require(shape.samples <= kMostOfSubBatch, "a sub-batch has at most 64 samples");
  const int items = items_of_thread(shape.samples, plan);
  const int gates = info(size.cell).gates;
  constexpr int kStackedRows = 4;  // of a unit, of a GRU, too
  shape.row_tiles = ceil_divide(plan.units * (is_backward ? plan.split : plan.layers > 1 ? kStackedRows : gates), 16);
  shape.sample_tiles = ceil_divide(shape.samples, 8);
  require(plan.loads_in_flight > 0 && plan.loads_in_flight % (2 * shape.sample_tiles) == 0,
          "loads_in_flight is a multiple of two for each eight samples of a sub-batch");
  // As shape.cuh has them: an LSTM's gradients side by side, a GRU's one after another.
  const int planes = is_backward && size.cell == Cell::gru ? gates : 1;
  const int share_units = shape.sms / plan.split * plan.units;
  const int plane_values = is_backward ? share_units * (size.cell == Cell::lstm ? gates : 1)
                                       : std::min(share_units, ceil_divide(size.hidden, kSpanUnits) * kSpanUnits);
  shape.spans = planes * ceil_divide(plane_values, kSpanUnits);
  shape.source_warps = plan.layers > 1 ? plan.warps / 2 : plan.warps;
  shape.warp_spans = ceil_divide(shape.spans, shape.source_warps);
  shape.tiles = shape.warp_spans * 2 * shape.row_tiles;
  require(plan.shared_tiles >= 0 && plan.shared_tiles <= shape.tiles, "a warp has fewer tiles");
  shape.ragged = shape.samples % 8 != 0 && shape.spans % shape.warp_spans != 0;

  const std::size_t partials = std::size_t{4} * 8 * shape.sample_tiles * (16 * shape.row_tiles + 4);
  const std::size_t finished = std::size_t{4} * items * group_threads;  // fp32, of a sub-batch
  shape.carry_bytes = plan.sub_batches * finished;
  shape.shared_bytes =
      static_cast<std::size_t>(plan.warps) * plan.shared_tiles * kTileBytes + shape.carry_bytes +
      plan.warp_groups * (2 * plan.warps * partials + (plan.split > 1 ? 2 * plan.split * finished : 0) + 16);
  shape.packed_bytes = static_cast<std::size_t>(shape.sms) * plan.layers * plan.warps * shape.tiles * kTileBytes;
  const std::size_t state = static_cast<std::size_t>(plan.split) * shape.spans * shape.samples * kSpanUnits * 2;
  shape.ring_bytes = (state + 127) / 128 * 128 * plan.sub_batches * plan.batch_groups * 2 * plan.ahead * plan.layers;
  shape.progress_bytes = plan.layers > 1 ? sizeof(int) * shape.blocks * plan.warp_groups : 0;
  constexpr std::size_t kGradients = 4;  // of a unit, a GRU's too
  shape.bias_bytes = sizeof(float) * kGradients * size.hidden * plan.batch_groups * plan.warp_groups *
                     std::min(shape.samples, group_threads / plan.units);
  return shape;
}

RecurrencePlan with_shared_tiles(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int registers) {
  constexpr int kTileRegisters = 4;
  plan.shared_tiles = 0;
  const RecurrenceShape in_registers = recurrence_shape(size, plan, is_backward);
  const auto [others, most] = recurrence_registers(in_registers, plan, registers);
  plan.shared_tiles = std::clamp(in_registers.tiles - (most - others) / kTileRegisters, 0, in_registers.tiles);
  return plan;
}

Found<RecurrencePlan> with_room(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int sms,
                                std::size_t shared_bytes, int registers) {
  plan = with_shared_tiles(size, plan, is_backward, registers);
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const auto lacks = [&](std::int64_t takes, const std::string& what, std::int64_t has) {
    return Found<RecurrencePlan>::nothing((size.cell == Cell::lstm ? "an LSTM of " : "a GRU of ") +
                                          std::to_string(size.hidden) + " units takes " + std::to_string(takes) + ' ' +
                                          what + " with the plan '" + fields_text(plan) + "'; there are " +
                                          std::to_string(has));
  };
  if (shape.blocks > sms) {
    return lacks(
        shape.blocks,
        plan.layers == 1 ? "SMs to train on the chip" : "SMs for " + std::to_string(plan.layers) + " layers at once",
        sms);
  }
  if (const auto [others, most] = recurrence_registers(shape, plan, registers); others > most) {
    return lacks(others, "registers of a thread", most);
  }
  if (shape.shared_bytes > shared_bytes) {
    return lacks(static_cast<std::int64_t>(shape.shared_bytes), "bytes of an SM's shared memory to train on the chip",
                 static_cast<std::int64_t>(shared_bytes));
  }
  return plan;
}

}  // namespace onchip
