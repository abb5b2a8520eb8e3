// SPDX-License-Identifier: Apache-2.0
#include "kernels/sparse/program.hpp"

#include "kernels/runtime/sources.hpp"
#include "model/base/error.hpp"
#include "model/sparse/registers.hpp"

#include <algorithm>

namespace onchip {
namespace {

std::string slots_list(const SparsePlan& plan) {
  std::string list;
  for (int r = 0; r < plan.all_rows(); ++r) {
    list += (r ? "," : "") + std::to_string(plan.slots_of(r));
  }
  return list;
}

// Where producer warps give registers away: instructions of an architecture itself, not of all after it.
void split_registers(const SparsePlan& plan, CompileRequest& request) {
  constexpr int kFirstThatSplits = 90;
  const auto split = register_split(plan);
  if (!split || architecture_number(request.architecture) < kFirstThatSplits) {
    return;
  }
  if (!request.architecture.ends_with('a')) {
    request.architecture += 'a';
  }
  define(request.defines, "computing_registers", split->computing);
  define(request.defines, "fetching_registers", split->fetching);
  request.careful_define = "ONCHIP_NARROW_THREAD";
}

}  // namespace

void define_gather(Defines& defines, const SparseGeometry& geometry) {
  define_fields(defines, static_cast<const SparsePlan&>(geometry));
  defines.push_back("ONCHIP_SLOTS=" + slots_list(geometry));
  define(defines, "has_overflow", geometry.has_overflow());
  define(defines, "rows_overflow", geometry.has_overflow(0));
  define(defines, "splits_overflow", geometry.row_splits > 0 && geometry.has_overflow(geometry.rows_per_group));
  define(defines, "plane_unit_bytes", geometry.plane_unit_bytes);
  define(defines, "zero_units", geometry.zero_units);
  define(defines, "index_shift", geometry.index_shift);
  define(defines, "chunk_slots", geometry.chunk_slots);
}

CompileRequest compile_request(const SparseGeometry& geometry, const std::string& architecture, Work work) {
  if (geometry.exchange == ExchangeProtocol::bulk_copy &&
      architecture_number(architecture) < 10 * kFirstThatCopiesInBulk) {
    throw InputError("the bulk_copy exchange needs sm_90 or later, not " + architecture);
  }
  CompileRequest request{SparsePlan::kName, kSparsePersistentSource, architecture, state_defines(geometry)};
  Defines& defines = request.defines;
  define_gather(defines, geometry);
  define_regions(defines, geometry.memory, kSparseRegionNames);
  define_work(defines, work);
  if (work == Work::captured) {
    define(defines, "captured_accesses", capture_size(geometry).accesses);
    define(defines, "captured_step", kCapturedStep);
  }
  split_registers(geometry, request);
  return request;
}

CompileRequest compile_order_request(const SparseGeometry& geometry, const std::string& architecture) {
  CompileRequest request{"state_order", kStateOrderSource, architecture, state_defines(geometry)};
  define(request.defines, "line_words", geometry.line_words);
  define(request.defines, "caller_batch", geometry.network.batch);
  define(request.defines, "plane_unit_bytes", geometry.plane_unit_bytes);
  define(request.defines, "state_in_spans", 0);
  return request;
}

LaunchShape launch_shape(const SparseGeometry& geometry) {
  return {.kernel = SparsePlan::kName,
          .blocks = geometry.blocks,
          .threads = geometry.block_threads(),
          .shared_bytes = geometry.shared_bytes(),
          .exchange = geometry.exchange,
          .recorded_sms = geometry.sms,
          .recorded_warps = geometry.warps(),
          .staged_bytes = geometry.exchange_bytes};  // its units lie far apart
}

std::int64_t state_element(const SparseGeometry& geometry, int place, int sample) {
  const std::int64_t unit = std::int64_t{sample / geometry.plane_samples} * geometry.state_units + place;
  return in_l2(unit * geometry.plane_samples + sample % geometry.plane_samples, geometry.network.precision,
               geometry.line_words);
}

CaptureSize capture_size(const SparseGeometry& geometry) {
  if (geometry.producer_warps > 0) {
    throw InputError("plans with producer warps cannot be captured");
  }
  const int slots = geometry.slots_total() + geometry.longest_overflow * geometry.chunk_slots;
  const int overflow_words = geometry.longest_overflow * (geometry.chunk_words + 1) + geometry.all_rows();
  const auto of_threads = [&](std::int64_t words) { return static_cast<int>(words / geometry.threads) + 1; };
  constexpr int kOfCell = 8;  // at most, for each value that a lane finishes
  int of_splits = 0;          // the tiles' table, sums that are added, sums that are stored
  if (geometry.row_splits > 0) {
    const int rounds = geometry.most_splits / geometry.lanes_per_row + 1;
    of_splits = geometry.tiles * geometry.passes * geometry.tile_height * (1 + rounds * geometry.pass_samples) +
                geometry.passes * geometry.row_splits * geometry.pass_samples;
  }
  const int finished = geometry.tile_rows * geometry.batch_padded / geometry.lanes_per_row + geometry.passes;
  return {geometry.planes * slots + geometry.passes * overflow_words + geometry.tiles * finished * kOfCell + of_splits +
          of_threads(geometry.exchange_bytes / 16) + of_threads(geometry.input_bytes / 4) + 16};
}

std::vector<std::uint32_t> gates_of_units(const SparseLayout& layout) {
  const int gates = layout.geometry.gates;
  const std::uint32_t empty_row = gates == 3 ? 3u << 6 | 3u << 14 : 0;  // the GRU's, its fourth
  std::vector<std::uint32_t> packed(layout.geometry.state_units, empty_row);
  const std::vector<std::int32_t> places = row_places(layout);
  for (std::size_t row = 0; row < places.size(); ++row) {
    const auto gate = static_cast<std::uint32_t>(row / layout.geometry.network.hidden);
    const std::uint32_t place = places[row] % gates;
    packed[places[row] / gates] |= place << (2 * gate) | gate << (8 + 2 * place);
  }
  return packed;
}

std::vector<float> scales_of_units(const SparseLayout& layout) {
  const std::vector<float> scales = row_scales(layout);
  const std::vector<std::int32_t> places = row_places(layout);
  std::vector<float> ordered(static_cast<std::size_t>(layout.geometry.state_units) * layout.geometry.gates, 0.0f);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    constexpr float kWidening = 256;  // the kernel's fp16 values are 2^-8 of the stored ones
    ordered[places[row]] = scales[row] * kWidening;
  }
  return ordered;
}

}  // namespace onchip
