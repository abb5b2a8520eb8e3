// SPDX-License-Identifier: Apache-2.0
#include "sim/dense/dense_trace.hpp"

#include "model/base/error.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/fragments.hpp"
#include "sim/dense/items.hpp"
#include "sim/dense/products.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

constexpr int kWordBytes = 4, kLoadBytes = 16;

int group_spans(const DenseGeometry& geometry) {
  return geometry.loads_in_flight / (2 * geometry.sample_tiles);
}
int span_words(const DenseGeometry& geometry) {
  return geometry.group_batch * kSpanUnits * info(geometry.network.precision).bytes / kWordBytes;
}

StepShape step_shape(const DenseGeometry& geometry) {
  const int polled_spans = std::min(2 * group_spans(geometry), geometry.warp_spans);
  StepShape shape;
  shape.threads = shape.fetching_threads = geometry.threads;
  shape.word_bytes = kWordBytes;
  shape.line_words = geometry.line_words * (kLoadBytes / kWordBytes);
  shape.loads_in_flight = polled_spans * geometry.sample_tiles;
  shape.poll_delay = geometry.poll_delay;
  shape.polled_words = polled_spans * span_words(geometry);
  shape.warp_words = geometry.warp_spans * span_words(geometry);
  const std::int64_t words = geometry.spans * span_words(geometry);
  shape.group_words = (words + shape.line_words - 1) / shape.line_words * shape.line_words;
  shape.group_sms = geometry.sms;
  shape.state_words = geometry.batch_groups * shape.group_words;
  return shape;
}

ProductShape product_shape(const DenseGeometry& geometry) {
  return {.samples = geometry.group_batch,
          .sample_tiles = geometry.sample_tiles,
          .spans = geometry.spans,
          .warp_spans = geometry.warp_spans,
          .group_spans = group_spans(geometry),
          .span_tiles = geometry.span_tiles,
          .row_tiles = geometry.row_tiles,
          .tiles = geometry.warp_tiles,
          .shared_tiles = geometry.shared_tiles,
          .tiles_ahead = std::min(geometry.shared_tiles, geometry.storage == Storage::bitmap ? 4 : 2),
          .chains = geometry.product_chains};
}

// Of bitmap storage, whose words each lane has in a row of its own, word after word.
class BitmapTiles {
 public:
  BitmapTiles(const DenseTrace& trace, int sm, int warp)
      : trace_(trace), first_((sm * trace.layout().geometry.warps() + warp) * kWarpLanes) {
    const DenseGeometry& geometry = trace.layout().geometry;
    std::array<std::uint32_t, kWarpLanes> at;
    std::copy_n(trace.begins().begin() + first_, kWarpLanes, at.begin());
    for (int tile = 0; tile < geometry.warp_tiles; ++tile) {
      if (is_in_shared(tile, geometry.shared_tiles, geometry.warp_tiles)) {
        tiles_.push_back({tile, at});
        for (int lane = 0; lane < kWarpLanes; ++lane) {
          for (int k = 0; k < kLaneWords; ++k) {
            at[lane] += has(tile, lane, k) ? kBankRowBytes : 0;
          }
        }
      }
    }
  }

  void fetch(WarpWriter& out, int i, int to) const {
    auto [tile, at] = tiles_[static_cast<std::size_t>(i)];
    const std::int64_t first = trace_.layout().geometry.memory.at(DenseRegion::tiles);
    for (int k = 0; k < kLaneWords; ++k) {
      out.operate(Operation::integer, out.operate(Operation::integer));  // is it there, and where is the next one
      out.access(Operation::shared_load, kWordBytes, to + k, kNoRegister, [&, of = tile, &at = at](int lane) {
        return has(of, lane, k) ? first + std::exchange(at[lane], at[lane] + kBankRowBytes) : -1;
      });
    }
    out.operate(Operation::fp32);  // words that are not there: two of them at once
    out.operate(Operation::fp32);
  }

 private:
  struct Tile {
    int of_all;
    std::array<std::uint32_t, kWarpLanes> begins;  // each lane's first word
  };
  bool has(int tile, int lane, int k) const {
    const std::size_t of_all =
        static_cast<std::size_t>(first_ / kWarpLanes) * trace_.layout().geometry.warp_tiles + tile;
    return has_word(trace_.layout().value.data() + of_all * kTileElements, lane, k);
  }

  const DenseTrace& trace_;
  int first_;                // of all SMs' lanes, the warp's
  std::vector<Tile> tiles_;  // in shared memory
};

Products products_of(WarpWriter& out, const DenseTrace& trace, int sm, int warp) {
  const DenseGeometry& geometry = trace.layout().geometry;
  const std::int64_t group_bytes = kWordBytes * (sm / geometry.sms) * trace.step()->group_words;
  const auto state = [group_bytes, span_bytes = std::int64_t{kWordBytes} * span_words(geometry)](int span, int sample) {
    return group_bytes + span_bytes * span + std::int64_t{4 * kLoadBytes} * sample;
  };
  if (geometry.storage == Storage::bitmap) {
    return {out, product_shape(geometry), warp, state,
            [&out, tiles = BitmapTiles(trace, sm % geometry.sms, warp)](int i, int to) { tiles.fetch(out, i, to); }};
  }
  const std::int64_t first =
      geometry.memory.at(DenseRegion::tiles) + std::int64_t{kTileBytes} * warp * geometry.shared_tiles;
  return {out, product_shape(geometry), warp, state, [&out, first](int i, int to) {
            out.access(Operation::shared_load, kLoadBytes, to, kNoRegister,
                       [&](int lane) { return first + std::int64_t{kTileBytes} * i + kLoadBytes * lane; });
          }};
}

}  // namespace

DenseTrace::DenseTrace(DenseLayout layout) : layout_(std::move(layout)), step_(step_shape(layout_.geometry)) {
  const DenseGeometry& geometry = layout_.geometry;
  if (geometry.exchange == ExchangeProtocol::cluster) {
    throw InputError(
        "the simulator knows no exchange inside a cluster in which SMs store into each other's shared "
        "memory: simulate the plan with --exchange lamport");
  }
  if (geometry.storage == Storage::bitmap) {
    std::vector<int> lengths(static_cast<std::size_t>(geometry.sms) * geometry.threads);
    for (std::size_t i = 0; i < lengths.size() * geometry.warp_tiles; ++i) {
      const std::size_t tile = i / kWarpLanes % geometry.warp_tiles, lane = i % kWarpLanes;
      const std::size_t warp = i / kWarpLanes / geometry.warp_tiles;
      if (is_in_shared(static_cast<int>(tile), geometry.shared_tiles, geometry.warp_tiles)) {
        for (int k = 0; k < kLaneWords; ++k) {
          lengths[warp * kWarpLanes + lane] += has_word(
              layout_.value.data() + (warp * geometry.warp_tiles + tile) * kTileElements, static_cast<int>(lane), k);
        }
      }
    }
    begins_.resize(lengths.size());
    for (std::size_t first = 0; first < lengths.size(); first += geometry.threads) {
      const auto threads = static_cast<std::size_t>(geometry.threads);
      assign_streams(std::span(lengths).subspan(first, threads), std::span(begins_).subspan(first, threads));
    }
  }
}

BlockTrace DenseTrace::block(int sm) const {
  return write(sm, /*polls=*/true);
}
BlockTrace DenseTrace::body(int sm, int) const {
  return write(sm, /*polls=*/false);
}

BlockTrace DenseTrace::write(int sm, bool polls) const {
  const DenseGeometry& geometry = layout_.geometry;
  BlockTrace block;
  for (int warp = 0; warp < geometry.warps(); ++warp) {
    WarpWriter out{CompilerView{}};
    const Products products = products_of(out, *this, sm, warp);
    if (polls) {
      products.ask();
    }
    products.multiply();
    out.branch();  // whether to look at the count of polls
    const Items items(out, layout_, step_, sm, warp);
    out.operate(Operation::other);  // the copies of this step's input
    const Items::Prepared prepared = items.prepare(0);
    products.store_partials(
        [partials = Partials(geometry), warp](int row, int sample) { return partials.at(warp, sample, row); });
    out.barrier();
    out.branch();  // warps without items
    items.finish(0, prepared);
    for (int round = 1; round < items.rounds(); ++round) {
      items.finish(round, items.prepare(round));
      out.branch();
    }
    out.barrier();
    items.fetch_input();
    out.fill(kLoopInstructions + 2 * geometry.row_tiles * geometry.sample_tiles * geometry.product_chains);
    out.branch();
    products.fetch_first();
    block.warps.push_back(out.take());
  }
  // All is unrolled.
  for (const WarpTrace& warp : block.warps) {
    block.loop_instructions = std::max(block.loop_instructions, static_cast<double>(warp.instructions.size()));
  }
  return block;
}

}  // namespace onchip
