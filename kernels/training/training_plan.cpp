// SPDX-License-Identifier: Apache-2.0
#include "kernels/training/training_plan.hpp"

#include "kernels/training/training_products.hpp"
#include "model/base/error.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

namespace onchip {
namespace {

using Field = std::pair<std::string_view, int RecurrencePlan::*>;
constexpr std::array<Field, 9> kFields{{{"groups", &RecurrencePlan::batch_groups},
                                        {"turns", &RecurrencePlan::turns},
                                        {"warps", &RecurrencePlan::warps},
                                        {"split", &RecurrencePlan::split},
                                        {"shared_tiles", &RecurrencePlan::shared_tiles},
                                        {"loads_in_flight", &RecurrencePlan::loads_in_flight},
                                        {"poll_delay", &RecurrencePlan::poll_delay},
                                        {"ahead", &RecurrencePlan::ahead},
                                        {"units", &RecurrencePlan::units}}};

constexpr int kSpanUnits = 32, kTileBytes = 512, kRegisters = 65536;

constexpr int ceil_divide(std::int64_t value, std::int64_t by) {
  return static_cast<int>((value + by - 1) / by);
}

// Fewest tiles in shared memory that leave registers for the rest; the compiler has the last word.
int fewest_shared_tiles(const RecurrenceShape& shape, const RecurrencePlan& plan) {
  const int sums = 4 * shape.row_tiles * shape.sample_tiles;
  const int chains = shape.row_tiles * shape.sample_tiles <= 2 ? 4 / (shape.row_tiles * shape.sample_tiles) : 1;
  const int others = 56 + sums * chains + 4 * plan.loads_in_flight;
  const int most = std::min(255, kRegisters / shape.threads);
  return std::clamp(shape.tiles - (most - others) / 4, 0, shape.tiles);
}

std::int64_t weight_bytes(const TrainingSize& size, int units) {
  return std::int64_t{2} * info(size.cell).gates * size.hidden * units;
}

// Lays as many samples into a turn as there is room for. The causes of the other choices, on an H200:
//   split  What an SM takes of a state from L2 is a step's floor: about 40 KB/us. Adding up a cluster's sums takes 0.2
//          us a turn. Clusters of 4 fill ten elevenths of the SMs or more. 32 units need none: groups are smaller.
//   warps  16 have registers for about half of 256 KB of weights.
//   loads  64 KB an SM are on their way from L2 at once. Forward, a turn's state is no larger than half of that.
//   delay  Polls that find nothing make those that would find something wait, the longer the larger the state.
RecurrencePlan choose_with(int units, const TrainingSize& size, int sms, std::size_t shared_bytes, bool is_backward) {
  constexpr int kFewestSamples = 4, kFewSamples = 16, kMostSamples = 32, kLargeShare = 256 << 10,
                kManyWeights = 160 << 10;
  RecurrencePlan plan;
  plan.units = units;
  int loads = plan.loads_in_flight;
  const auto of_group = [&](int split) { return ceil_divide(size.hidden, plan.units * split) * split; };
  plan.batch_groups = std::clamp(ceil_divide(size.batch, kFewestSamples), 1, std::max(1, sms / of_group(1)));
  const int samples = ceil_divide(size.batch, plan.batch_groups);  // of a group
  if (is_backward) {
    const std::int64_t state_bytes = std::int64_t{2} * info(size.cell).gates * size.hidden * samples;
    plan.split = units == 16 && (size.hidden >= 1024 || state_bytes >= kLargeShare) ? 2 : 1;
    if (state_bytes / plan.split >= kLargeShare && plan.split > 1 && of_group(4) * plan.batch_groups <= sms * 10 / 11) {
      plan.split = 4;
    }
    plan.batch_groups = std::min(plan.batch_groups, std::max(1, sms / of_group(plan.split)));
    plan.warps = plan.split == 1 && weight_bytes(size, units) <= kManyWeights ? 16 : 8;
    const std::int64_t turn_bytes = state_bytes / plan.split;
    constexpr std::int64_t kDelayBytes = 205, kLeast = 160, kMost = 320;
    plan.poll_delay = samples > kFewSamples ? 0 : static_cast<int>(std::clamp(turn_bytes / kDelayBytes, kLeast, kMost));
    loads = plan.warps == 8 && (samples > kFewSamples || turn_bytes >= 64 << 10) ? 16 : 8;
  }
  for (plan.turns = samples <= kFewSamples ? 1 : std::max(2, ceil_divide(samples, kMostSamples));; plan.turns *= 2) {
    const int of_eight = 2 * ceil_divide(ceil_divide(samples, plan.turns), 8);
    plan.loads_in_flight = loads / of_eight * of_eight;
    constexpr std::size_t kLargeRing = 4u << 20;
    plan.ahead = 16;
    for (std::size_t most = kLargeRing; plan.ahead > 4 && recurrence_shape(size, plan, is_backward).ring_bytes > most;
         most = 4 * kLargeRing) {
      plan.ahead /= 2;
    }
    try {
      return with_room(size, plan, is_backward, sms, shared_bytes);
    } catch (const InputError&) {
      if (plan.turns >= ceil_divide(samples, 8)) {
        throw;
      }
    }
  }
}

// An SM takes all of a group's state from L2 in every step. With 32 units on each there are twice as many groups of
// half as many samples: taken where that leaves fewer tiles of eight samples, and room for most weights in registers.
RecurrencePlan choose(const TrainingSize& size, int sms, std::size_t shared_bytes, bool is_backward) {
  constexpr std::int64_t kMostWeights = 200 << 10;
  const auto sample_tiles = [&](const RecurrencePlan& plan) {
    return plan.turns * recurrence_shape(size, plan, is_backward).sample_tiles;
  };
  const RecurrencePlan plan = choose_with(16, size, sms, shared_bytes, is_backward);
  if (weight_bytes(size, 32) <= kMostWeights) {
    try {
      const RecurrencePlan wide = choose_with(32, size, sms, shared_bytes, is_backward);
      return sample_tiles(wide) < sample_tiles(plan) ? wide : plan;
    } catch (const InputError&) {  // no room for its sums
    }
  }
  return plan;
}

}  // namespace

std::string text(const RecurrencePlan& plan) {
  std::string words;
  for (const auto& [name, field] : kFields) {
    words += (words.empty() ? "" : " ") + std::string(name) + "=" + std::to_string(plan.*field);
  }
  return words;
}

RecurrencePlan changed(RecurrencePlan plan, const std::string& words) {
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto field = std::ranges::find(kFields, std::string_view(word).substr(0, equals), &Field::first);
    const std::string value = word.substr(std::min(equals + 1, word.size()));
    if (field == kFields.end() || value.empty() || value.size() > 6 ||
        !std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
      throw InputError("the plan has no '" + word + "'; it has " + text(plan));
    }
    plan.*field->second = std::stoi(value);
  }
  return plan;
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
  require(plan.warps > 0 && plan.warps <= 16, "an SM has 1 to 16 warps");
  require(plan.ahead >= 4 && plan.ahead <= 64 && (plan.ahead & (plan.ahead - 1)) == 0, "ahead is 4, 8, 16, 32 or 64");
  RecurrenceShape shape;
  shape.threads = 32 * plan.warps;
  shape.sms = ceil_divide(size.hidden, plan.units * plan.split) * plan.split;
  shape.blocks = shape.sms * plan.batch_groups;
  shape.samples = ceil_divide(size.batch, std::int64_t{plan.batch_groups} * plan.turns);
  constexpr int kMostSamples = 64;
  require(shape.samples <= kMostSamples, "a turn has at most 64 samples");
  const int items = ceil_divide(shape.samples * plan.units, shape.threads);  // of a thread
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
  const std::size_t finished = std::size_t{4} * items * shape.threads;  // fp32, of a turn
  shape.shared_bytes = static_cast<std::size_t>(plan.warps) * plan.shared_tiles * kTileBytes +
                       2 * plan.warps * partials + plan.turns * finished +
                       (plan.split > 1 ? 2 * plan.split * finished : 0) + 16;
  shape.packed_bytes = static_cast<std::size_t>(shape.sms) * plan.warps * shape.tiles * kTileBytes;
  const std::size_t state = static_cast<std::size_t>(plan.split) * shape.spans * shape.samples * kSpanUnits * 2;
  shape.ring_bytes = (state + 127) / 128 * 128 * plan.turns * plan.batch_groups * 2 * plan.ahead;
  constexpr std::size_t kGradients = 4;  // of a unit, a GRU's too
  shape.bias_bytes = sizeof(float) * kGradients * size.hidden * plan.batch_groups *
                     std::min(shape.samples, shape.threads / plan.units);
  return shape;
}

RecurrencePlan with_room(const TrainingSize& size, RecurrencePlan plan, bool is_backward, int sms,
                         std::size_t shared_bytes) {
  plan.shared_tiles = 0;
  plan.shared_tiles = fewest_shared_tiles(recurrence_shape(size, plan, is_backward), plan);
  const RecurrenceShape shape = recurrence_shape(size, plan, is_backward);
  const std::string takes =
      (size.cell == Cell::lstm ? "an LSTM of " : "a GRU of ") + std::to_string(size.hidden) + " units takes ";
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

TrainingPlan choose_training_plan(const TrainingSize& size, int sms, std::size_t shared_bytes) {
  const auto plan_on = [&](int of_sms, bool beside) {
    return TrainingPlan{choose(size, of_sms, shared_bytes, false), choose(size, of_sms, shared_bytes, true),
                        gains_by_alignment(size), beside};
  };
  if (size.directions == 2) {
    // Half of the SMs gain as long as they need no more turns: then a step takes about as long as on all.
    try {
      if (const TrainingPlan halves = plan_on(sms / 2, true); halves.forward.turns == 1 && halves.backward.turns == 1) {
        return halves;
      }
    } catch (const InputError&) {
    }
  }
  return plan_on(sms, false);
}

}  // namespace onchip
