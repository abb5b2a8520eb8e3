// SPDX-License-Identifier: Apache-2.0
// Streams: a stack of LSTMs or GRUs whose kernel stays on the chip, all weights in registers, and does a step for each
// request of the host, from input to answer (stream.cu).
#pragma once

#include "model/base/found.hpp"
#include "model/chip/chip.hpp"
#include "model/plan/choices.hpp"
#include "model/plan/field.hpp"
#include "model/workload/recurrent.hpp"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip {

inline constexpr int kMostStreamLayers = 16, kMostStreams = 16, kMostOfStream = 8;

struct StreamSize {
  Cell cell = Cell::lstm;
  Precision precision = Precision::fp16;
  int layers = 1, input = 0, hidden = 0;
  int batch = 1;    // samples of a request, of kMostOfStream at most
  int streams = 1;  // in one kernel, each with states, mailboxes and SMs of its own
  int slots = 8;    // of a mailbox: requests that wait
};
// Throws InputError for what has no kernel.
void check(const StreamSize& size);

struct StreamPlan {
  static constexpr std::string_view kName = "stream";

  int tiles = 1;         // of an SM: 4 units of a layer
  int spans = 1;         // of a warp: 16 columns of the input or of the state
  int poll_delay = 600;  // cycles from an answer to looking for the next request

  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};
std::span<const Field<StreamPlan>> fields(const StreamPlan&);

// What follows from size and plan.
struct StreamShape {
  int input_warps = 0, state_warps = 0;
  int layer_blocks = 0, blocks = 0;  // of a layer of a stream; of all, with one for each mailbox
  int samples = 0;                   // that there is room for
  int registers = 0;                 // of a thread, about
  int shared_bytes = 0;              // about
  int warps() const { return input_warps + state_warps; }
  int threads() const { return 32 * warps(); }
};
StreamShape stream_shape(const StreamSize& size, const StreamPlan& plan);

// Of a request while nothing else waits, from the first word that the host writes to the last that it reads. It may
// come at any moment between two reads of the host's memory, each of which takes about half of host.mailbox: `low_us`
// is without such a wait, `high_us` with two reads in vain.
struct StreamPrice {
  double us = 0, low_us = 0, high_us = 0;
  std::vector<std::pair<std::string, double>> terms;  // their sum: mailbox, reads, broadcast, exchange, products, cells
};
StreamPrice stream_price(const Chip& chip, const StreamSize& size, const StreamPlan& plan);

// The plan of the least price; or nothing, with what it lacks.
Found<StreamPlan> choose_stream(const Chip& chip, const StreamSize& size);

// "stream tiles=2 spans=4". Throws InputError for another text, and for a plan that the chip has no room for.
StreamPlan parse_stream_plan(const Chip& chip, const StreamSize& size, std::string_view text);

}  // namespace onchip
