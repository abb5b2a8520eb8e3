// SPDX-License-Identifier: Apache-2.0
#include "sim/dense/dense_trace.hpp"

#include "model/base/error.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/fragments.hpp"
#include "sim/dense/items.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

namespace onchip {
namespace {

constexpr int kPartTileSamples = 8;  // of a tile of samples
constexpr int kWordBytes = 4, kLoadBytes = 16;

// Registers beside the sums: of tiles from shared memory that are ahead, and of what was asked for of the state.
constexpr int kTileRegisters = kSumRegisters, kMostAhead = 4;
constexpr int kStateRegisters = kTileRegisters + 4 * kMostAhead, kMostOfGroup = 14;

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

// What one warp multiplies, as kernels/dense/multiply.cuh does it.
class Products {
 public:
  Products(WarpWriter& out, const DenseTrace& trace, int sm, int warp)
      : out_(out),
        trace_(trace),
        geometry_(trace.layout().geometry),
        sm_(sm % geometry_.sms),
        warp_(warp),
        group_bytes_(kWordBytes * (sm / geometry_.sms) * trace.step()->group_words),
        ahead_(std::min(geometry_.shared_tiles, geometry_.storage == Storage::bitmap ? kMostAhead : 2)) {
    if (geometry_.storage == Storage::bitmap) {
      const auto first = static_cast<std::ptrdiff_t>((sm_ * geometry_.warps() + warp_) * kWarpLanes);
      std::copy_n(trace.begins().begin() + first, kWarpLanes, at_.begin());
    }
  }

  int groups() const { return (geometry_.warp_spans + group_spans(geometry_) - 1) / group_spans(geometry_); }

  void poll(int group) {
    for (int i = 0; i < group_loads(group); ++i) {
      const int span = group * group_spans(geometry_) + i / geometry_.sample_tiles;
      const int place = warp_ * geometry_.warp_spans + span;
      out_.access(Operation::global_load, kLoadBytes, state_register(group, i), kNoRegister, [&](int lane) {
        const int sample = i % geometry_.sample_tiles * kPartTileSamples + lane / 4;
        const bool is_there = place < geometry_.spans && sample < geometry_.group_batch;
        return !is_there ? -1
                         : group_bytes_ + std::int64_t{kWordBytes} * span_words(geometry_) * place +
                               kLoadBytes * (4 * sample + lane % 4);
      });
    }
  }

  // The first tiles are on their way before the words are there.
  void fetch_first() {
    for (int tile = 0; tile < ahead_; ++tile) {
      fetch(tile);
    }
  }

  // All groups, of which the first two are there.
  void multiply() {
    fetched_ = ahead_;
    for (int i = 0; i < ahead_; ++i) {
      skip(i);
    }
    for (int group = 0; group < groups(); ++group) {
      if (group > 0) {
        look(group);
        if (group + 1 < groups()) {
          poll(group + 1);
        }
      }
      const int of_group = group_spans(geometry_) * geometry_.span_tiles * geometry_.row_tiles;
      for (int tile = group * of_group; tile < std::min((group + 1) * of_group, geometry_.warp_tiles); ++tile) {
        multiply(tile);
      }
    }
    out_.flush();
  }

  int sum(int chain, int row, int samples) const {
    return WarpWriter::sum((chain * geometry_.row_tiles + row) * geometry_.sample_tiles + samples);
  }

 private:
  int group_loads(int group) const {
    return std::min(group_spans(geometry_), geometry_.warp_spans - group * group_spans(geometry_)) *
           geometry_.sample_tiles;
  }
  static int state_register(int group, int load) {
    return kStateRegisters + 4 * (group % 2 * kMostOfGroup + load % kMostOfGroup);
  }
  static int tile_register(int shared_tile) { return kTileRegisters + 4 * (shared_tile % kMostAhead); }

  // The largest of all words, but not before the last products of the group before have begun; a vote.
  void look(int group) {
    const int row = std::max(0, group * group_spans(geometry_) * geometry_.span_tiles - geometry_.product_chains);
    int largest = sum(row % geometry_.product_chains, 0, 0);
    for (int i = 0; i < group_loads(group); ++i) {
      int of_word = largest;
      for (int word = 0; word < kLoadBytes / kWordBytes; ++word) {
        of_word = out_.operate(Operation::integer, of_word, group < 2 ? kNoRegister : state_register(group, i) + word);
      }
      largest = i == 0 ? of_word : out_.operate(Operation::integer, largest, of_word);
    }
    out_.branch(out_.operate(Operation::other, largest));
  }

  void multiply(int tile) {
    const int shared = shared_tiles_before(tile, geometry_.shared_tiles, geometry_.warp_tiles);
    const bool in_shared = is_in_shared(tile, geometry_.shared_tiles, geometry_.warp_tiles);
    const int weights = in_shared ? tile_register(shared) : kNoRegister;
    const int chain = tile / geometry_.row_tiles % geometry_.product_chains;
    for (int j = 0; j < geometry_.sample_tiles; ++j) {
      const int to = sum(chain, tile % geometry_.row_tiles, j);
      out_.operate(Operation::tensor, to,
                   {to, weights, weights == kNoRegister ? kNoRegister : weights + 3, kNoRegister});
    }
    if (in_shared && fetched_ < geometry_.shared_tiles) {
      fetch(fetched_++);
    }
  }

  // Tile i of those in shared memory.
  void fetch(int i) {
    if (geometry_.storage != Storage::bitmap) {
      const std::int64_t first =
          geometry_.memory.at(DenseRegion::tiles) + std::int64_t{kTileBytes} * (warp_ * geometry_.shared_tiles + i);
      out_.access(Operation::shared_load, kLoadBytes, tile_register(i), kNoRegister,
                  [&](int lane) { return first + kLoadBytes * lane; });
      return;
    }
    for (int k = 0; k < kLaneWords; ++k) {
      out_.operate(Operation::integer, out_.operate(Operation::integer));  // is it there, and where is the next one
      out_.access(Operation::shared_load, kWordBytes, tile_register(i) + k, kNoRegister, [&](int lane) {
        return has(i, lane, k)
                   ? geometry_.memory.at(DenseRegion::tiles) + std::exchange(at_[lane], at_[lane] + kBankRowBytes)
                   : -1;
      });
    }
    out_.operate(Operation::fp32);  // words that are not there: two of them at once
    out_.operate(Operation::fp32);
  }
  // As if it had been fetched.
  void skip(int i) {
    for (int lane = 0; geometry_.storage == Storage::bitmap && lane < kWarpLanes; ++lane) {
      for (int k = 0; k < kLaneWords; ++k) {
        at_[lane] += has(i, lane, k) ? kBankRowBytes : 0;
      }
    }
  }
  bool has(int shared_tile, int lane, int k) const {
    int tile = 0;
    while (!is_in_shared(tile, geometry_.shared_tiles, geometry_.warp_tiles) ||
           shared_tiles_before(tile, geometry_.shared_tiles, geometry_.warp_tiles) != shared_tile) {
      ++tile;
    }
    const std::size_t of_all = static_cast<std::size_t>(sm_ * geometry_.warps() + warp_) * geometry_.warp_tiles + tile;
    return has_word(trace_.layout().value.data() + of_all * kTileElements, lane, k);
  }

  WarpWriter& out_;
  const DenseTrace& trace_;
  const DenseGeometry& geometry_;
  int sm_, warp_;
  std::int64_t group_bytes_;  // of the states of the batch groups before
  int ahead_, fetched_ = 0;
  std::array<std::uint32_t, kWarpLanes> at_{};  // bitmap: each lane's next word
};

// The warp's sums, of all chains.
void store_partials(WarpWriter& out, const DenseGeometry& geometry, const Products& products, int warp) {
  const Partials partials(geometry);
  for (int row = 0; row < geometry.row_tiles; ++row) {
    for (int j = 0; j < geometry.sample_tiles; ++j) {
      int total = products.sum(0, row, j);
      for (int chain = 1; chain < geometry.product_chains; ++chain) {
        for (int k = 0; k < 4; ++k) {
          const int added = out.operate(Operation::fp32, total, products.sum(chain, row, j));
          total = k == 3 ? added : total;
        }
      }
      for (int k = 0; k < 2; ++k) {
        out.access(Operation::shared_store, 8, kNoRegister, total, [&](int lane) {
          return partials.at(warp, lane % 4 * 2 + kPartTileSamples * j + k, lane / 4 * 2 + 16 * row);
        });
      }
    }
  }
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
    Products products(out, *this, sm, warp);
    for (int group = 0; polls && group < std::min(2, products.groups()); ++group) {
      products.poll(group);
    }
    products.multiply();
    out.branch();  // whether to look at the count of polls
    const Items items(out, layout_, step_, sm, warp);
    out.operate(Operation::other);  // the copies of this step's input
    const Items::Prepared prepared = items.prepare(0);
    store_partials(out, geometry, products, warp);
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
    Products(out, *this, sm, warp).fetch_first();
    block.warps.push_back(out.take());
  }
  // All is unrolled.
  for (const WarpTrace& warp : block.warps) {
    block.loop_instructions = std::max(block.loop_instructions, static_cast<double>(warp.instructions.size()));
  }
  return block;
}

}  // namespace onchip
