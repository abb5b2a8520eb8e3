// SPDX-License-Identifier: Apache-2.0
#include "sim/dense/dense_trace.hpp"

#include "model/base/error.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/fragments.hpp"
#include "model/dense/layout.hpp"
#include "sim/dense/products.hpp"
#include "sim/machine/warp_writer.hpp"
#include "sim/trace/step_shape.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace onchip {
namespace {

Partials partials_of(const DenseGeometry& geometry) {
  return {geometry.memory.at(DenseRegion::partials), geometry.row_tiles, geometry.sample_tiles};
}

// From the warps' sums to the next state, as kernels/dense/combine.cuh does it: what a thread needs of its items, the
// sums of the warps that have spans, the cell, the word that is published, the input of a later step.
class Items {
 public:
  Items(WarpWriter& out, const DenseLayout& layout, const StepShape& step, int sm, int warp)
      : out_(out),
        geometry_(layout.geometry),
        step_(step),
        sm_(sm % layout.geometry.sms),
        group_(sm / layout.geometry.sms),
        warp_(warp),
        gated_(layout.geometry.gates > 1),
        item_rows_(gated_ ? layout.geometry.gates : 2),
        input_bytes_(gated_ ? 8 : 4) {}

  // A thread's items follow one another at a distance of all threads.
  int rounds() const {
    return (geometry_.finished_items - warp_ * kWarpLanes + geometry_.threads - 1) / geometry_.threads;
  }

  // Registers of what is loaded before the barrier.
  struct Prepared {
    int input = kNoRegister, place = kNoRegister, carry = kNoRegister, bias = kNoRegister;
  };
  Prepared prepare(int round) const {
    Prepared result;
    if (!has(round)) {
      return result;
    }
    const auto load = [&](DenseRegion region, int bytes) {
      return out_.load(bytes, kNoRegister, [&](int lane) { return at(region, bytes, round, lane); });
    };
    result.place = load(DenseRegion::items, 16);
    result.input = load(DenseRegion::input, input_bytes_);
    result.carry = gated_ ? load(DenseRegion::carry, 4) : kNoRegister;
    if (geometry_.network.cell == Cell::gru) {
      result.bias = load(DenseRegion::bias, 4);
      result.input = out_.integer(result.input, result.input + 1);  // the odd unit's are elsewhere
    }
    return result;
  }

  void finish(int round, const Prepared& prepared) const {
    if (!has(round)) {
      return;
    }
    const int busy = (geometry_.spans + geometry_.warp_spans - 1) / geometry_.warp_spans;
    const std::vector<int> sums = add_partials(out_, 0, busy, item_rows_, [&](int warp, int lane, int row) {
      const Item of = item(number(round, lane));
      const bool is_item = number(round, lane) < geometry_.finished_items;
      return is_item ? partials_of(geometry_).at(warp, of.sample, of.unit * geometry_.gates + row) : -1;
    });
    int carry = prepared.carry, word = kNoRegister;
    for (int unit = 0; unit < item_rows_ / geometry_.gates; ++unit) {
      const int h = cell(sums, unit * geometry_.gates, prepared, carry);
      word = out_.conversion(h, word);
    }
    word = gated_ ? out_.integer(word, out_.operate(Operation::shuffle, word)) : word;
    const int at_state = out_.integer(out_.integer(prepared.place));
    const std::int64_t state = step_.word_bytes * step_.state_words;
    const auto publish = [&](int steps_later, int value) {
      out_.access(Operation::global_store, 4, kNoRegister, value, [&](int lane) {
        const Item of = item(number(round, lane));
        if (!of.exists || (gated_ && of.unit % 2 != 0)) {
          return std::int64_t{-1};
        }
        const int unit = sm_ * geometry_.units_per_sm + of.unit / 2 * 2;
        const std::int64_t index = (std::int64_t{unit / kSpanUnits} * geometry_.group_batch + of.sample) * kSpanUnits +
                                   place_in_span(geometry_.storage, unit);
        return steps_later * state + step_.word_bytes * group_ * step_.group_words +
               info(geometry_.network.precision).bytes * index;
      });
    };
    publish(1, out_.integer(word, at_state));
    if (geometry_.exchange == ExchangeProtocol::lamport) {
      publish(1 + kEmptiedAhead, kNoRegister);
    }
    if (gated_) {
      out_.access(Operation::shared_store, 4, kNoRegister, carry,
                  [&](int lane) { return at(DenseRegion::carry, 4, round, lane); });
      out_.integer(prepared.place);  // whether this was the sample's last step
    }
    out_.flush();
  }

  // Of the step after the next, into the buffer that this step has used.
  void fetch_input() const {
    out_.branch();
    for (int round = 0; has(round); ++round) {
      const int place = out_.load(4, kNoRegister, [&](int lane) {
        const std::int64_t byte = at(DenseRegion::items, 16, round, lane);
        return byte < 0 ? byte : byte + 8;
      });
      const int from = out_.integer(out_.integer(place));
      const int copies = geometry_.network.cell == Cell::gru ? 2 : 1;  // three gates in two words
      for (int i = 0; i < copies; ++i) {
        out_.access(Operation::async_copy, input_bytes_ / copies, kNoRegister, from, [&](int lane) {
          const std::int64_t byte = at(DenseRegion::input, input_bytes_, round, lane);
          return byte < 0 ? byte : byte + 4 * i;
        });
      }
      out_.branch();
    }
    out_.operate(Operation::other);  // the end of a group of copies
  }

 private:
  // Of an SM.
  struct Item {
    int unit, sample;
    bool exists;
  };
  // The pairs of one span after another, sample by sample; the first and the last span may be of several SMs.
  Item item(int i) const {
    const int pairs_of_sm = geometry_.units_per_sm / 2, samples = geometry_.group_batch;
    const int pair = gated_ ? i / 2 : i;
    const bool exists = pair < pairs_of_sm * samples;
    const int place = exists ? pair : 0;
    constexpr int kSpanPairs = kSpanUnits / 2;
    const int before = sm_ * pairs_of_sm % kSpanPairs;
    const int in_first = std::min(kSpanPairs - before, pairs_of_sm);
    const bool is_first = place < in_first * samples;
    const int beyond = place - in_first * samples;
    const int span = is_first ? 0 : beyond / (kSpanPairs * samples);
    const int pairs = is_first ? in_first : std::min(kSpanPairs, pairs_of_sm - in_first - kSpanPairs * span);
    const int in_span = is_first ? place : beyond - kSpanPairs * samples * span;
    const int pair_of_sm = (is_first ? 0 : in_first + kSpanPairs * span) + in_span % pairs;
    return {2 * pair_of_sm + (gated_ ? i % 2 : 0), in_span / pairs, exists};
  }

  int number(int round, int lane) const { return round * geometry_.threads + warp_ * kWarpLanes + lane; }
  bool has(int round) const { return number(round, 0) < geometry_.finished_items; }
  // The byte of the lane's item in a region with as many for each.
  std::int64_t at(DenseRegion region, int bytes, int round, int lane) const {
    const int i = number(round, lane);
    return i < geometry_.finished_items ? geometry_.memory.at(region) + std::int64_t{bytes} * i : -1;
  }

  // The next h of the unit whose gates' sums are [first, first + gates).
  int cell(const std::vector<int>& sums, int first, const Prepared& prepared, int& carry) const {
    const auto of = [&](int gate) { return sums[static_cast<std::size_t>(first + gate)]; };
    const auto x = [&](int) { return out_.conversion(prepared.input); };
    const auto total = [&](int gate) { return out_.fp32(of(gate), x(gate)); };
    switch (geometry_.network.cell) {
      case Cell::relu: {
        const int h = total(0);
        return out_.integer(out_.integer(h), h);
      }
      case Cell::tanh:
        return out_.tanh(total(0));
      case Cell::lstm: {
        const int added = out_.fp32(out_.logistic(total(0)), out_.tanh(total(2)));
        carry = out_.fp32(out_.logistic(total(1)), carry, added);
        return out_.fp32(out_.logistic(total(3)), out_.tanh(carry));
      }
      case Cell::gru: {
        const int reset = out_.logistic(total(0)), update = out_.logistic(total(1));
        const int biased = out_.fp32(of(2), prepared.bias);
        const int candidate = out_.tanh(out_.fp32(reset, biased, x(2)));
        carry = out_.fp32(update, out_.fp32(carry, candidate), candidate);
        return carry;
      }
    }
    return kNoRegister;
  }

  WarpWriter& out_;
  const DenseGeometry& geometry_;
  const StepShape& step_;
  int sm_, group_, warp_;
  bool gated_;
  int item_rows_, input_bytes_;  // of an item
};

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
      out.integer(out.integer());  // is it there, and where is the next one
      out.access(Operation::shared_load, kWordBytes, to + k, kNoRegister, [&, of = tile, &at = at](int lane) {
        return has(of, lane, k) ? first + std::exchange(at[lane], at[lane] + kBankRowBytes) : -1;
      });
    }
    out.fp32();  // words that are not there: two of them at once
    out.fp32();
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
    products.store_partials(partials_of(geometry));
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
