// SPDX-License-Identifier: Apache-2.0
// From a layout's slots, or its fragments, to the words that the kernel loads (kernels/sparse/gather.cuh,
// kernels/dense/multiply.cuh).
#include "model/dense/bitmap.hpp"
#include "model/base/error.hpp"
#include "model/dense/fragments.hpp"
#include "model/plan/layout.hpp"
#include "model/base/numeric.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr int kWarp = 32;

// Writes slots of one thread's rows as words.
class SlotEncoder {
 public:
  explicit SlotEncoder(const Layout& layout)
      : layout_(layout),
        bundle_(bundle(layout.network, layout.plan)),
        stride_(plane_unit_bytes(layout.network, layout.plan)),
        shift_(index_shift(layout.network, layout.plan)),
        packed_(layout.plan.storage == Storage::packed_pair),
        deltas_(layout.plan.storage == Storage::packed_delta),
        scales_(row_scales(layout)) {}

  // Slots [begin, end) of a warp's row: slot begin + s goes to the s-th of the words at(0), at(1), ..., which are zero.
  template <typename At>
  void encode(std::size_t warp_row, std::int32_t row, int lane, int begin, int end, At&& at) const {
    const Precision precision = layout_.network.precision;
    if (deltas_) {
      return encode_deltas(warp_row, row, lane, begin, end, at);
    }
    for (int s = 0; s < end - begin; ++s) {
      const std::size_t entry = layout_.entry(warp_row, begin + s, lane);
      const float value = layout_.value[entry];
      const auto index = static_cast<std::uint32_t>(layout_.place[entry]) * stride_ >> shift_;
      const int first = s / bundle_.slots * bundle_.words;
      const int i = s % bundle_.slots;
      if (precision == Precision::fp8) {
        at(first) |= fp8_code(row, value) << fp8_shift(i);
        if (packed_) {
          at(first + 1 + i / 2) |= index << (i % 2 * 16);
        }
      } else if (info(precision).weight_bits == 32) {
        at(first + (packed_ ? 1 + i : 0)) = to_bits(precision, value);
        if (packed_) {
          at(first) |= index << (i * 16);
        }
      } else if (packed_) {
        at(first) = to_bits(precision, value) << 16 | index;
      } else {
        at(first) |= to_bits(precision, value) << (i * 16);
      }
    }
  }

  // Where the first slot of a lane reads: bytes in a plane of the state.
  std::uint32_t start(std::size_t warp_row, int lane) const {
    return layout_.slots(warp_row) > 0
               ? static_cast<std::uint32_t>(layout_.place[layout_.entry(warp_row, 0, lane)]) * stride_
               : 0;
  }

 private:
  // A bundle: four distances from the slot before, a byte each, and then the values.
  template <typename At>
  void encode_deltas(std::size_t warp_row, std::int32_t row, int lane, int begin, int end, At&& at) const {
    for (int s = 0; s < end - begin; ++s) {
      const std::size_t entry = layout_.entry(warp_row, begin + s, lane);
      const std::int32_t before = begin + s == 0 ? layout_.place[entry] : layout_.place[entry - kWarp];
      const auto delta = static_cast<std::uint8_t>(layout_.place[entry] - before);
      const int first = s / bundle_.slots * bundle_.words;
      const int i = s % bundle_.slots;
      at(first) |= std::uint32_t{delta} << (8 * i);
      if (layout_.network.precision == Precision::fp8) {
        at(first + 1) |= fp8_code(row, layout_.value[entry]) << fp8_shift(i);
      } else {
        at(first + 1 + i / 2) |= to_bits(layout_.network.precision, layout_.value[entry]) << (i % 2 * 16);
      }
    }
  }

  std::uint32_t fp8_code(std::int32_t row, float value) const { return to_e4m3(row < 0 ? 0.0f : value / scales_[row]); }
  // Values 0, 2 and 1, 3 of a bundle stand in the low and the high bytes of the two halves.
  static int fp8_shift(int i) { return i % 2 * 8 + i / 2 * 16; }

  const Layout& layout_;
  Bundle bundle_;
  int stride_, shift_;
  bool packed_, deltas_;
  std::vector<float> scales_;
};

// Writes one chunk of a warp's row, of four words a lane [32][4], of two [32][2], else [words][32].
void encode_chunk(const Layout& layout, const SlotEncoder& encoder, int sm, int r, int warp, int chunk,
                  std::uint32_t* to) {
  const Plan& plan = layout.plan;
  const int words = chunk_words(layout.network, plan);
  const int slots = chunk_slots(layout.network, plan);
  const int begin = plan.slots_of(r) + chunk * slots;
  for (int lane = 0; lane < kWarp; ++lane) {
    const std::int32_t row = layout.row(sm, r, group_lane_of(layout.network, plan, warp * kWarp + lane).group);
    encoder.encode(layout.warp_row(sm, r, warp), row, lane, begin, begin + slots,
                   [&](int i) -> std::uint32_t& { return to[words % 2 ? i * kWarp + lane : lane * words + i]; });
  }
}

}  // namespace

std::vector<TailChunks> split_tails(const Layout& layout) {
  const Plan& plan = layout.plan;
  const int per_chunk = chunk_slots(layout.network, plan);
  std::vector<TailChunks> tails(static_cast<std::size_t>(plan.sms) * plan.all_rows() * plan.warps());
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::int64_t all = 0;
    const auto chunks = [&](int r, int warp) {
      return (layout.slots(layout.warp_row(sm, r, warp)) - plan.slots_of(r)) / per_chunk;
    };
    for (int r = 0; r < plan.all_rows(); ++r) {
      for (int warp = 0; warp < plan.warps(); ++warp) {
        all += chunks(r, warp);
      }
    }
    const std::int64_t streamed = std::max<std::int64_t>(0, all - plan.shared_chunks);
    if (streamed > 0 && plan.ring_chunks == 0) {
      throw InputError("SM " + std::to_string(sm) + " has " + std::to_string(all) +
                       " chunks of weights beyond its registers, the plan has room for " +
                       std::to_string(plan.shared_chunks) + " in shared memory");
    }
    // Spread evenly over the warps and their rows, so that what is streamed is asked for at all times of a step.
    for (int warp = 0; warp < plan.warps(); ++warp) {
      std::int64_t seen = 0;
      for (int before = 0; before < warp; ++before) {
        for (int r = 0; r < plan.all_rows(); ++r) {
          seen += chunks(r, before);
        }
      }
      for (int i = 0; i < plan.all_rows(); ++i) {
        const int r = plan.tail_row(i), count = chunks(r, warp);
        const auto streamed_before = [&](std::int64_t n) { return all > 0 ? n * streamed / all : 0; };
        const auto of_row = static_cast<int>(streamed_before(seen + count) - streamed_before(seen));
        tails[layout.warp_row(sm, r, warp)] = {count - of_row, of_row};
        seen += count;
      }
    }
  }
  return tails;
}

namespace {

// The tails of one SM: shared memory's chunks to `shared`, the others behind `encoded.streamed`.
void encode_tails(const Layout& layout, const SlotEncoder& encoder, const std::vector<TailChunks>& tails, int sm,
                  std::uint32_t* shared, Encoded& encoded) {
  const Network& network = layout.network;
  const Plan& plan = layout.plan;
  const int words = kWarp * chunk_words(network, plan);
  const int height = tile_height(network, plan);
  const int passes = planes(network, plan) / plan.pass_planes;
  const std::size_t table = encoded.tails.size();
  encoded.tails.resize(table + static_cast<std::size_t>(plan.all_rows() + 3) * plan.warps());
  const auto entry = [&](int i, int warp) -> std::int32_t& { return encoded.tails[table + i * plan.warps() + warp]; };
  const int begins = plan.rows_per_group, streamed = plan.all_rows() + 1;
  int in_shared = 0;
  for (int warp = 0; warp < plan.warps(); ++warp) {
    const std::size_t first_streamed = encoded.streamed.size() / words;
    entry(begins, warp) =
        static_cast<std::int32_t>(state_bytes(network, plan)) + in_shared * chunk_bytes(network, plan);
    entry(streamed, warp) = static_cast<std::int32_t>(first_streamed);
    for (int i = 0; i < plan.all_rows(); ++i) {
      const int r = plan.tail_row(i);
      const TailChunks& tail = tails[layout.warp_row(sm, r, warp)];
      entry(r < begins ? r : r + 1, warp) = tail.shared | tail.streamed << 16;
      for (int chunk = 0; chunk < tail.shared; ++chunk) {
        encode_chunk(layout, encoder, sm, r, warp, chunk, shared + static_cast<std::size_t>(in_shared++) * words);
      }
    }
    const auto stream = [&](int r) {
      const TailChunks& tail = tails[layout.warp_row(sm, r, warp)];
      for (int i = 0; i < tail.streamed; ++i) {
        encoded.streamed.resize(encoded.streamed.size() + words);
        encode_chunk(layout, encoder, sm, r, warp, tail.shared + i,
                     encoded.streamed.data() + encoded.streamed.size() - words);
      }
    };
    for (int pass = 0; pass < passes; ++pass) {
      for (int r = plan.rows_per_group; r < plan.all_rows(); ++r) {
        stream(r);
      }
    }
    for (int tile = 0; tile < tiles(network, plan); ++tile) {
      for (int pass = 0; pass < passes; ++pass) {
        for (int r = tile * height; r < std::min(plan.rows_per_group, (tile + 1) * height); ++r) {
          stream(r);
        }
      }
    }
    entry(streamed + 1, warp) = static_cast<std::int32_t>(encoded.streamed.size() / words - first_streamed);
  }
}

// Bitmap storage: the words of the tiles in shared memory, behind those in registers, and the metadata behind both, in
// `encoded.weights`, which has sm_words for each SM.
void pack_words(const Layout& layout, std::size_t sm_words, Encoded& encoded) {
  const Plan& plan = layout.plan;
  const Precision precision = layout.network.precision;
  const int tiles = warp_tiles(layout.network, plan), metadata = metadata_words(layout.network, plan);
  std::vector<int> in_shared;
  for (int tile = 0; tile < tiles; ++tile) {
    if (is_in_shared(tile, plan.shared_tiles, tiles)) {
      in_shared.push_back(tile);
    }
  }
  std::vector<int> lengths(plan.threads);
  std::vector<std::uint32_t> begins(plan.threads);
  for (int sm = 0; sm < plan.sms && metadata > 0; ++sm) {
    const auto tile_of = [&](int thread, int i) {
      const std::size_t warp = static_cast<std::size_t>(sm) * plan.warps() + thread / kWarp;
      return layout.value.data() + (warp * tiles + in_shared[i]) * kTileElements;
    };
    std::uint32_t* const words = encoded.weights.data() + sm * sm_words +
                                 static_cast<std::size_t>(plan.threads) * kLaneWords * (tiles - plan.shared_tiles);
    std::uint32_t* const metadata_of_sm = words + static_cast<std::size_t>(kWarp) * plan.bank_words;
    const auto metadata_of = [&](int thread, int i) -> std::uint32_t& {
      return metadata_of_sm[(thread / kWarp * metadata + i) * kWarp + thread % kWarp];
    };
    std::fill(lengths.begin(), lengths.end(), 0);
    for (int thread = 0; thread < plan.threads; ++thread) {
      for (int i = 0; i < plan.shared_tiles; ++i) {
        for (int k = 0; k < kLaneWords; ++k) {
          const std::uint32_t has = has_word(tile_of(thread, i), thread % kWarp, k);
          metadata_of(thread, i / kTilesOfBitmap) |= has << (kLaneWords * (i % kTilesOfBitmap) + k);
          lengths[thread] += static_cast<int>(has);
        }
      }
    }
    deal_streams(lengths, begins);
    for (int thread = 0; thread < plan.threads; ++thread) {
      metadata_of(thread, metadata - 1) = begins[thread];
      std::size_t at = begins[thread] / sizeof(std::uint32_t);
      for (int i = 0; i < plan.shared_tiles; ++i) {
        for (int k = 0; k < kLaneWords; ++k) {
          if (const float* const tile = tile_of(thread, i); has_word(tile, thread % kWarp, k)) {
            const float* const pair = tile + 8 * (thread % kWarp) + 2 * k;
            words[at] = to_bits(precision, pair[0]) | to_bits(precision, pair[1]) << 16;
            at += kWarp;
          }
        }
      }
    }
  }
}

// Dense persistent.
Encoded encode_fragments(const Layout& layout) {
  const Plan& plan = layout.plan;
  const Precision precision = layout.network.precision;
  constexpr int kTileWords = kTileElements / 2;
  const int tiles = warp_tiles(layout.network, plan);
  const int in_registers = tiles - plan.shared_tiles;
  const std::size_t sm_tiles = static_cast<std::size_t>(plan.warps()) * tiles;
  Encoded encoded;
  const std::size_t sm_metadata = static_cast<std::size_t>(plan.warps()) * metadata_words(layout.network, plan) * kWarp;
  const bool is_compact = plan.storage == Storage::bitmap;
  const std::size_t tile_words = is_compact ? std::size_t{kTileWords} * plan.warps() * in_registers +
                                                  static_cast<std::size_t>(kWarp) * plan.bank_words
                                            : sm_tiles * kTileWords;
  const std::size_t sm_words = tile_words + sm_metadata;
  encoded.weights.resize(plan.sms * sm_words);
  if (is_compact) {
    pack_words(layout, sm_words, encoded);
  }
  for (std::size_t i = 0; i < plan.sms * sm_tiles; ++i) {
    const std::size_t sm = i / sm_tiles, warp = i % sm_tiles / tiles;
    const int tile = static_cast<int>(i % tiles);
    const int before = shared_tiles_before(tile, plan.shared_tiles, tiles);
    const bool in_shared = is_in_shared(tile, plan.shared_tiles, tiles);
    const std::size_t place =
        in_shared ? static_cast<std::size_t>(plan.warps()) * in_registers + warp * plan.shared_tiles + before
                  : warp * in_registers + (tile - before);
    if (is_compact && in_shared) {
      continue;
    }
    const float* const from = layout.value.data() + i * kTileElements;
    std::uint32_t* const to = encoded.weights.data() + sm * sm_words + place * kTileWords;
    for (int word = 0; word < kTileWords; ++word) {
      to[word] = to_bits(precision, from[2 * word]) | to_bits(precision, from[2 * word + 1]) << 16;
    }
  }
  for (int sm = 0; sm < plan.sms && !layout.metadata.empty(); ++sm) {
    std::copy_n(layout.metadata.begin() + static_cast<std::ptrdiff_t>(sm * sm_metadata), sm_metadata,
                encoded.weights.begin() + static_cast<std::ptrdiff_t>(sm * sm_words + tile_words));
  }
  return encoded;
}

}  // namespace

Encoded encode(const Layout& layout) {
  if (layout.plan.family == Family::dense_persistent) {
    return encode_fragments(layout);
  }
  const Network& network = layout.network;
  const Plan& plan = layout.plan;
  const SlotEncoder encoder(layout);
  const std::size_t register_end = static_cast<std::size_t>(register_words(network, plan)) * plan.threads;
  const std::size_t sm_words =
      register_end + static_cast<std::size_t>(plan.shared_chunks) * kWarp * chunk_words(network, plan);
  Encoded encoded;
  encoded.weights.resize(plan.sms * sm_words);
  for (int sm = 0; sm < plan.sms; ++sm) {
    std::uint32_t* const words = encoded.weights.data() + sm * sm_words;
    for (int thread = 0; thread < plan.threads; ++thread) {
      int first_word = 0;
      for (int r = 0; r < plan.all_rows(); ++r) {
        const std::int32_t row = layout.row(sm, r, group_lane_of(network, plan, thread).group);
        const std::size_t warp_row = layout.warp_row(sm, r, thread / kWarp);
        for (int i = 0; i < start_words(plan); ++i, ++first_word) {
          words[first_word * plan.threads + thread] = encoder.start(warp_row, thread % kWarp);
        }
        const auto at = [&](int i) -> std::uint32_t& { return words[(first_word + i) * plan.threads + thread]; };
        encoder.encode(warp_row, row, thread % kWarp, 0, plan.slots_of(r), at);
        first_word += words_of(network, plan, r);
      }
    }
  }
  if (plan.has_tail()) {
    const std::vector<TailChunks> tails = split_tails(layout);
    for (int sm = 0; sm < plan.sms; ++sm) {
      encode_tails(layout, encoder, tails, sm, encoded.weights.data() + sm * sm_words + register_end, encoded);
    }
  }
  const std::vector<std::int32_t> pieces = pieces_of_rows(layout);
  encoded.tails.insert(encoded.tails.end(), pieces.begin(), pieces.end());
  return encoded;
}

}  // namespace onchip
