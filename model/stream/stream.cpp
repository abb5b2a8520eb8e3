// SPDX-License-Identifier: Apache-2.0
#include "model/stream/stream.hpp"

#include "model/base/error.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/plan/plan_text.hpp"
#include "model/training/planner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace onchip {
namespace {

constexpr int kTileUnits = 4, kTileRows = 16, kSpanColumns = 16;
constexpr int kMostTiles = 8, kMostSpans = 32;
constexpr int kStaticShared = 48 * 1024;  // of a block, without asking for more

constexpr std::array kFields{number<&StreamPlan::tiles>("tiles", 1, kMostTiles).define(),
                             number<&StreamPlan::spans>("spans", 1, kMostSpans).define(),
                             number<&StreamPlan::poll_delay>("poll_delay", 0, 100'000).define()};

constexpr int ceil_divide(int value, int by) {
  return (value + by - 1) / by;
}

// What a plan needs more than the chip has, or "".
std::string what_lacks(const Chip& chip, const StreamShape& shape) {
  const auto lacks = [](int needed, double there, std::string_view what) {
    return needed > there
               ? std::to_string(needed) + " " + std::string(what) + " of " + std::to_string(static_cast<int>(there))
               : "";
  };
  for (const std::string& lack :
       {lacks(shape.blocks, chip.sm_count, "SMs"), lacks(shape.threads(), chip.max_threads_per_block, "threads"),
        lacks(shape.registers, std::min(chip.registers_per_thread.value, chip.registers_per_sm / shape.threads()),
              "registers of a thread"),
        lacks(shape.shared_bytes, kStaticShared, "bytes of shared memory")}) {
    if (!lack.empty()) {
      return lack;
    }
  }
  return "";
}

}  // namespace

std::span<const Field<StreamPlan>> fields(const StreamPlan&) {
  return kFields;
}

void check(const StreamSize& size) {
  const auto require = [](bool condition, const std::string& what) {
    if (!condition) {
      throw InputError("a stream takes " + what);
    }
  };
  const auto within = [&](int value, int most, const std::string& what) {
    require(value >= 1 && value <= most,
            "1 to " + std::to_string(most) + " " + what + "; it has " + std::to_string(value));
  };
  require(size.cell == Cell::lstm || size.cell == Cell::gru, "an LSTM or a GRU");
  require(size.precision == Precision::fp16 || size.precision == Precision::bf16, "fp16 or bf16");
  within(size.layers, kMostStreamLayers, "layers");
  within(size.streams, kMostStreams, "streams");
  within(size.batch, kMostOfStream, "samples of a request");
  within(size.hidden, 4096, "units");
  within(size.input, 4096, "elements of an input");
}

StreamShape stream_shape(const StreamSize& size, const StreamPlan& plan) {
  StreamShape shape;
  const auto warps = [&](int columns) { return ceil_divide(ceil_divide(columns, kSpanColumns), plan.spans); };
  shape.input_warps = warps(size.layers > 1 ? std::max(size.input, size.hidden) : size.input);
  shape.state_warps = warps(size.hidden);
  shape.layer_blocks = ceil_divide(size.hidden, kTileUnits * plan.tiles);
  shape.blocks = size.streams * (1 + size.layers * shape.layer_blocks);
  shape.samples = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size.batch)));
  const int items = ceil_divide(plan.spans * 4 * shape.samples, 32);
  shape.registers = 4 * plan.tiles * plan.spans + 4 * plan.tiles + 4 * items + 60;
  shape.shared_bytes =
      4 * plan.tiles * (2 * shape.warps() * shape.samples * kTileRows + kTileRows + 2 * kTileUnits * size.batch);
  return shape;
}

StreamPrice stream_price(const Chip& chip, const StreamSize& size, const StreamPlan& plan) {
  const StreamShape shape = stream_shape(size, plan);
  const double us = 1e6 / chip.clock_hz;
  const int partitions = static_cast<int>(chip.partitions.value), items = plan.spans * 4 * shape.samples;  // of a warp
  const auto hop_us = [&](int stores) {
    const ExchangeCycles hop =
        direct_exchange_cycles(chip, {.threads = shape.threads(),
                                      .warps_per_partition = static_cast<double>(shape.input_warps) / partitions,
                                      .stores = static_cast<double>(stores),
                                      .words = static_cast<double>(ceil_divide(items, 32)),
                                      .lanes = std::min(1.0, items / 32.0)});
    return (hop.latency + hop.copying) * us;
  };
  const double mailbox = chip.mailbox_seconds * 1e6, read = mailbox / 2;
  // The input warps multiply when the layer below is there; a chain for each tile, in four partitions.
  const double chain = plan.spans * chip.tensor_latency_cycles;
  const double issue = plan.spans * plan.tiles * ceil_divide(shape.input_warps, partitions) * chip.tensor_issue_cycles;
  const double products = std::max(chain, issue) + 2 * chip.shuffle_latency_cycles;
  const double sums = 2 * chip.lds_latency_cycles + shape.warps() * chip.arithmetic_latency_cycles;
  const double cells = chip.shuffle_latency_cycles + 2 * chip.tanh_latency_cycles;
  constexpr int kHostLineWords = 16;  // of the host's memory, each of a unit
  const double writers = std::max(1.0, static_cast<double>(kHostLineWords) / (kTileUnits * plan.tiles));  // of a line
  StreamPrice price;
  price.terms = {{"mailbox", mailbox + chip.cost[Cost::answer_line_writer] * (writers - 1)},
                 {"reads", read},
                 {"broadcast", hop_us(size.batch * ceil_divide(size.input, kTileUnits))},
                 {"exchange", (size.layers - 1) * hop_us(size.batch * ceil_divide(size.hidden, kTileUnits))},
                 {"products", size.layers * products * us},
                 {"cells", size.layers * (sums + cells) * us}};
  for (const auto& [name, term] : price.terms) {
    price.us += term;
  }
  price.low_us = price.us - read;
  price.high_us = price.us + read;
  return price;
}

Found<StreamPlan> choose_stream(const Chip& chip, const StreamSize& size) {
  check(size);
  if (!has_tensor_cores(chip)) {
    return Found<StreamPlan>::nothing("a stream multiplies with mma.m16n8k16, which '" + chip.name + "' lacks");
  }
  std::optional<StreamPlan> best;
  double least = 0;
  std::string lacking;
  for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
    for (int spans = 1; spans <= kMostSpans; ++spans) {
      const StreamPlan plan{tiles, spans};
      if (std::string lacks = what_lacks(chip, stream_shape(size, plan)); !lacks.empty()) {
        lacking = std::move(lacks);
        continue;
      }
      if (const double us = stream_price(chip, size, plan).us; !best || us < least) {
        best = plan;
        least = us;
      }
    }
  }
  return best ? Found<StreamPlan>(*best)
              : Found<StreamPlan>::nothing("the weights of " + std::to_string(size.layers) + " layers of " +
                                           std::to_string(size.hidden) + " units are no stream on '" + chip.name +
                                           "': the last of its plans takes " + lacking);
}

StreamPlan parse_stream_plan(const Chip& chip, const StreamSize& size, std::string_view text) {
  StreamPlan plan;
  const std::string_view family = text.substr(0, text.find(' '));
  if (family != StreamPlan::kName) {
    throw InputError("plan: expected 'stream' and its fields, found '" + std::string(text) + "'");
  }
  take_words(plan, text.substr(family.size()));
  check_ranges(plan);
  if (const std::string lacks = what_lacks(chip, stream_shape(size, plan)); !lacks.empty()) {
    throw InputError("the plan '" + plan_text(plan) + "' takes " + lacks);
  }
  return plan;
}

}  // namespace onchip
