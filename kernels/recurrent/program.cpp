// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrent/program.hpp"

#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/plan/registers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace onchip {
namespace {

std::string slots_list(const Plan& plan) {
  std::string list;
  for (int r = 0; r < plan.all_rows(); ++r) {
    list += (r ? "," : "") + std::to_string(plan.slots_of(r));
  }
  return list;
}

// ---- what a launch reads beside the weights, in owner's order -------------------------------------------------------

void check(const Layout& layout, const Biases& biases, Work work) {
  if (work == Work::captured && layout.plan.family != Family::sparse_persistent) {
    throw InputError("only sparse_persistent plans can be captured");
  }
  if (work == Work::captured && layout.plan.exchange_warps > 0) {
    throw InputError("plans with exchange warps cannot be captured");
  }
  const auto rows = static_cast<std::size_t>(layout.network.rows());
  for (const std::span<const float> bias : {biases.input, biases.recurrent}) {
    if (!bias.empty() && bias.size() != rows) {
      throw InputError("a bias has " + std::to_string(bias.size()) + " elements; expected " + std::to_string(rows));
    }
  }
}

// [gates * hidden]: all that can be added to the input beforehand.
std::vector<float> bias_of_input(const Network& network, const Biases& biases) {
  std::vector<float> sum(network.rows(), 0.0f);
  const auto add = [&](std::span<const float> bias, std::size_t rows) {
    for (std::size_t row = 0; row < std::min(rows, bias.size()); ++row) {
      sum[row] += bias[row];
    }
  };
  add(biases.input, sum.size());
  add(biases.recurrent, network.cell == Cell::gru ? 2 * static_cast<std::size_t>(network.hidden) : sum.size());
  return sum;
}

// [state units]
std::vector<float> bias_of_reset(const Layout& layout, const Biases& biases) {
  const Network& network = layout.network;
  std::vector<float> bias(state_units(network, layout.plan), 0.0f);
  if (network.cell == Cell::gru && !biases.recurrent.empty()) {
    for (int unit = 0; unit < network.hidden; ++unit) {
      bias[layout.order[unit]] = biases.recurrent[2 * static_cast<std::size_t>(network.hidden) + unit];
    }
  }
  return bias;
}

// [state units], as kernels/recurrent/cell.cuh wants them: for each gate the place of its row in the unit, for each place its
// gate. The dense kernel has the gates in their own order.
std::vector<std::uint32_t> gates_of_units(const Layout& layout) {
  if (layout.plan.family == Family::dense_persistent) {
    return {};
  }
  const int gates = info(layout.network.cell).gates;
  const std::uint32_t empty_row = gates == 3 ? 3u << 6 | 3u << 14 : 0;  // the GRU's, its fourth
  std::vector<std::uint32_t> packed(state_units(layout.network, layout.plan), empty_row);
  const std::vector<std::int32_t> places = row_places(layout);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto gate = static_cast<std::uint32_t>(row / layout.network.hidden);
    const std::uint32_t place = places[row] % gates;
    packed[places[row] / gates] |= place << (2 * gate) | gate << (8 + 2 * place);
  }
  return packed;
}

// [state units, gates]
std::vector<float> scales_of_units(const Layout& layout) {
  const Network& network = layout.network;
  const int gates = info(network.cell).gates;
  const std::vector<float> scales = row_scales(layout);
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<float> ordered(static_cast<std::size_t>(state_units(network, layout.plan)) * gates, 0.0f);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    constexpr float kWidening = 256;  // the kernel's fp16 values are 2^-8 of the stored ones
    ordered[places[row]] = scales[row] * kWidening;
  }
  return ordered;
}

// ---- what the kernels are compiled from -----------------------------------------------------------------------------

using Defines = std::vector<std::string>;

void define(Defines& defines, const char* key, std::int64_t value) {
  defines.push_back(std::string(key) + "=" + std::to_string(value));
}

// What a family's kernel and the translations of its sequences have in common.
Defines common_defines(const Network& network, const Plan& plan) {
  Defines defines;
  define(defines, "ONCHIP_HIDDEN", network.hidden);
  define(defines, "ONCHIP_BLOCKS", plan.sms);
  define(defines, "ONCHIP_UNITS_PER_SM", units_per_sm(network, plan));
  define(defines, "ONCHIP_LINE_WORDS", plan.line_words);
  define(defines, "ONCHIP_BATCH", network.batch);
  define(defines, "ONCHIP_BATCH_PADDED", plan.batch_padded);
  if (plan.family == Family::sparse_persistent) {
    define(defines, "ONCHIP_PLANE_UNIT_BYTES", plane_unit_bytes(network, plan));
  } else {
    define(defines, "ONCHIP_TEAMS", plan.teams);
    define(defines, "ONCHIP_STRUCTURED", plan.storage == Storage::structured_2_4);
  }
  define(defines, "ONCHIP_PRECISION", static_cast<int>(network.precision));
  define(defines, "ONCHIP_CELL", static_cast<int>(network.cell));
  return defines;
}

void add_sparse_defines(Defines& defines, const Network& network, const Plan& plan) {
  define(defines, "ONCHIP_LANES_PER_ROW", plan.lanes_per_row);
  define(defines, "ONCHIP_ROWS_PER_GROUP", plan.rows_per_group);
  define(defines, "ONCHIP_TILE_ROWS", plan.tile_rows);
  define(defines, "ONCHIP_PASS_PLANES", plan.pass_planes);
  defines.push_back("ONCHIP_SLOTS=" + slots_list(plan));
  define(defines, "ONCHIP_PIECES", plan.pieces);
  if (plan.pieces > 0 &&
      (plan.has_tail() ||
       plan.storage != Storage::packed_pair)) {  // else not defined, which keeps the text of such kernels
    define(defines, "ONCHIP_PIECES_ANYWHERE", 1);
    define(defines, "ONCHIP_ROW_CHUNKS", plan.has_tail(0));
    define(defines, "ONCHIP_PIECE_CHUNKS", plan.has_tail(plan.rows_per_group));
  }
  define(defines, "ONCHIP_HAS_TAIL", plan.has_tail());
  define(defines, "ONCHIP_CHUNKS_IN_FLIGHT", plan.chunks_in_flight);
  define(defines, "ONCHIP_CHUNK_SLOTS", chunk_slots(network, plan));
  define(defines, "ONCHIP_SHARED_CHUNKS", plan.shared_chunks);
  define(defines, "ONCHIP_RING_CHUNKS", plan.ring_chunks);
  define(defines, "ONCHIP_PROMOTE_EVERY", plan.promote_every);
  define(defines, "ONCHIP_ZERO_UNITS", zero_units(network, plan));
  define(defines, "ONCHIP_INDEX_SHIFT", index_shift(network, plan));
  define(defines, "ONCHIP_STORAGE", static_cast<int>(plan.storage));
  if (plan.exchange_warps > 0) {
    define(defines, "ONCHIP_EXCHANGE_WARPS", plan.exchange_warps);
  }
}

// 90 of "sm_90" and of "sm_90a".
int architecture_number(const std::string& architecture) {
  return std::atoi(architecture.c_str() + std::strlen("sm_"));
}

// Where exchange warps hand registers over: instructions of an architecture itself, not of all after it.
void split_registers(const Plan& plan, CompileRequest& request) {
  constexpr int kFirstThatSplits = 90;
  const auto split = register_split(plan);
  if (!split || architecture_number(request.architecture) < kFirstThatSplits) {
    return;
  }
  if (!request.architecture.ends_with('a')) {
    request.architecture += 'a';
  }
  define(request.defines, "ONCHIP_COMPUTING_REGISTERS", split->computing);
  define(request.defines, "ONCHIP_FETCHING_REGISTERS", split->fetching);
  request.careful_define = "ONCHIP_NARROW_THREAD";
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

template <typename T>
std::size_t append(std::vector<std::byte>& constants, const std::vector<T>& values) {
  const std::size_t place = constants.size();
  constants.resize(place + aligned(values.size() * sizeof(T)));
  if (!values.empty()) {
    std::memcpy(constants.data() + place, values.data(), values.size() * sizeof(T));
  }
  return place;
}

}  // namespace

CompileRequest compile_request(const Network& network, const Plan& plan, const std::string& architecture, Work work) {
  if (is_library(plan.family)) {
    throw InputError("a plan of " + std::string(name(plan.family)) +
                     " has no kernel to compile: the library has its own");
  }
  if (plan.exchange == ExchangeProtocol::bulk_copy && architecture_number(architecture) < 10 * kFirstThatCopiesInBulk) {
    throw InputError("the bulk_copy exchange needs sm_90 or later, not " + architecture);
  }
  const bool is_dense = plan.family == Family::dense_persistent;
  CompileRequest request{name(plan.family), is_dense ? kDensePersistentSource : kSparsePersistentSource, architecture,
                         common_defines(network, plan)};
  Defines& defines = request.defines;
  define(defines, "ONCHIP_THREADS", plan.threads);
  if (is_dense) {
    define(defines, "ONCHIP_SHARED_TILES", plan.shared_tiles);
    define(defines, "ONCHIP_BITMAP", plan.storage == Storage::bitmap);
    define(defines, "ONCHIP_BANK_WORDS", plan.bank_words);
    if (plan.storage != Storage::bitmap && has_part_tile(network, plan) && has_uneven_spans(network, plan)) {
      define(defines, "ONCHIP_RAGGED", 1);
    }
  } else {
    add_sparse_defines(defines, network, plan);
    split_registers(plan, request);
  }
  define(defines, "ONCHIP_EXCHANGE_ONLY", work == Work::exchange_only);
  define(defines, "ONCHIP_CLOCKS", work == Work::clocked);
  if (work == Work::captured) {
    define(defines, "ONCHIP_CAPTURED_ACCESSES", capture_size(network, plan).accesses);
    define(defines, "ONCHIP_CAPTURED_STEP", kCapturedStep);
  }
  define(defines, "ONCHIP_LOADS_IN_FLIGHT", plan.loads_in_flight);
  define(defines, "ONCHIP_AHEAD", kEmptiedAhead);
  define(defines, "ONCHIP_FIRST_LOOK", plan.first_look);
  define(defines, "ONCHIP_EXCHANGE", static_cast<int>(plan.exchange));
  define(defines, "ONCHIP_SHARED_BYTES", shared_bytes(network, plan));
  return request;
}

CompileRequest compile_order_request(const Network& network, const Plan& plan, const std::string& architecture) {
  CompileRequest request{"state_order", kStateOrderSource, architecture, common_defines(network, plan)};
  define(request.defines, "ONCHIP_DENSE", plan.family == Family::dense_persistent);
  return request;
}

Program make_uncompiled_program(const Layout& layout, const Biases& biases, Work work) {
  check(layout, biases, work);
  Program program;
  program.network = layout.network;
  program.plan = layout.plan;
  program.work = work;
  program.has_input_bias = !biases.input.empty() || !biases.recurrent.empty();
  const std::vector<float> input_bias = bias_of_input(layout.network, biases);
  const Encoded encoded = encode(layout);
  std::vector<std::byte>& constants = program.constants;
  program.places = {.weights = append(constants, encoded.weights),
                    .streamed = append(constants, encoded.streamed),
                    .tails = append(constants, encoded.tails),
                    .gates = append(constants, gates_of_units(layout)),
                    .order = append(constants, layout.order),
                    .row_places = append(constants, row_places(layout)),
                    .input_bias = append(constants, input_bias),
                    .recurrent_bias = append(constants, bias_of_reset(layout, biases)),
                    .scales = append(constants, scales_of_units(layout))};
  return program;
}

Program make_program(const Layout& layout, const Biases& biases, const std::string& architecture, Work work) {
  check(layout, biases, work);  // before what takes long
  CompiledKernel kernel = compile(compile_request(layout.network, layout.plan, architecture, work));
  const ResourceReport& resources = kernel.resources;
  if (work != Work::captured && resources.spills()) {
    throw DoesNotFit("the kernel of plan '" + to_string(layout.plan) + "' spills " +
                     std::to_string(resources.spill_bytes) + " bytes of registers; a persistent kernel must not");
  }
  std::vector<char> order_cubin = compile(compile_order_request(layout.network, layout.plan, architecture)).cubin;
  Program program = make_uncompiled_program(layout, biases, work);
  program.kernel = std::move(kernel);
  program.order_cubin = std::move(order_cubin);
  return program;
}

CaptureSize capture_size(const Network& network, const Plan& plan) {
  const int slots = plan.slots_total() + plan.longest_tail * chunk_slots(network, plan);
  const int tail_words = plan.longest_tail * (chunk_words(network, plan) + 1) + plan.all_rows();
  const int passes = planes(network, plan) / std::max(1, plan.pass_planes);
  const auto of_threads = [&](std::int64_t pieces) { return static_cast<int>(pieces / plan.threads) + 1; };
  constexpr int kOfCell = 8;  // at most, for each value that a lane finishes
  int of_pieces = 0;          // the tiles' table, sums that are added, sums that are stored
  if (plan.pieces > 0) {
    const int rounds = plan.most_pieces / plan.lanes_per_row + 1, pass_samples = plan.batch_padded / passes;
    of_pieces = tiles(network, plan) * passes * tile_height(network, plan) * (1 + rounds * pass_samples) +
                passes * plan.pieces * pass_samples;
  }
  const int finished = plan.tile_rows * plan.batch_padded / plan.lanes_per_row + passes;
  return {planes(network, plan) * slots + passes * tail_words + tiles(network, plan) * finished * kOfCell + of_pieces +
          of_threads(exchange_bytes(network, plan) / 16) + of_threads(input_bytes(network, plan) / 4) + 16};
}

std::size_t record_words(const Program& program, std::int64_t steps_per_launch) {
  const std::size_t warps = static_cast<std::size_t>(program.plan.sms) * program.plan.warps();
  return program.work == Work::clocked    ? static_cast<std::size_t>(steps_per_launch) * warps * kStepMarks.size()
         : program.work == Work::captured ? warps * capture_size(program.network, program.plan).words()
                                          : 0;
}

ScratchPlaces scratch_places(const Program& program, std::int64_t most_steps) {
  if (most_steps < 1) {
    throw InputError("the largest number of steps " + std::to_string(most_steps) +
                     " is out of range: expected 1 or more");
  }
  const Network& network = program.network;
  const Plan& plan = program.plan;
  const std::int64_t state = state_stride(network, plan), input = input_bytes(network, plan);
  ScratchPlaces places;
  places.steps_per_launch = std::clamp<std::int64_t>(kMostLaunchBytes / (state + input), 1, most_steps);
  std::size_t end = program.constants.size();
  const auto take = [&](std::int64_t bytes) {
    const std::size_t place = end;
    end += aligned(static_cast<std::size_t>(bytes));
    return place;
  };
  const std::int64_t carry = std::int64_t{4} * state_units(network, plan) * plan.batch_padded;
  places.input = take(places.steps_per_launch * input);
  places.states = take((places.steps_per_launch + 1) * state);
  places.carry = take(carry);
  places.final_carry = take(carry);
  places.lengths = take(4 * plan.batch_padded);
  places.barrier = take(barrier_bytes(network, plan));
  places.status = take(4);
  places.record = take(4 * static_cast<std::int64_t>(record_words(program, places.steps_per_launch)));
  places.bytes = end;
  return places;
}

}  // namespace onchip
