// SPDX-License-Identifier: Apache-2.0
// From a layout's fragments to the words that the kernel loads (kernels/dense/multiply.cuh).
#include "model/base/numeric.hpp"
#include "model/dense/bitmap.hpp"
#include "model/dense/fragments.hpp"
#include "model/dense/layout.hpp"

#include <algorithm>

namespace onchip {
namespace {

// Bitmap storage: the words of the tiles in shared memory, behind those in registers, and the metadata behind both, in
// `encoded.weights`, which has sm_words for each SM.
void pack_words(const DenseLayout& layout, std::size_t sm_words, Encoded& encoded) {
  const DenseGeometry& geometry = layout.geometry;
  const Precision precision = layout.geometry.network.precision;
  const int tiles = geometry.warp_tiles, metadata = geometry.metadata_words;
  std::vector<int> in_shared;
  for (int tile = 0; tile < tiles; ++tile) {
    if (is_in_shared(tile, geometry.shared_tiles, tiles)) {
      in_shared.push_back(tile);
    }
  }
  std::vector<int> lengths(geometry.threads);
  std::vector<std::uint32_t> begins(geometry.threads);
  for (int sm = 0; sm < geometry.sms && metadata > 0; ++sm) {
    const auto tile_of = [&](int thread, int i) {
      const std::size_t warp = static_cast<std::size_t>(sm) * geometry.warps() + thread / kWarp;
      return layout.value.data() + (warp * tiles + in_shared[i]) * kTileElements;
    };
    std::uint32_t* const words =
        encoded.weights.data() + sm * sm_words +
        static_cast<std::size_t>(geometry.threads) * kLaneWords * (tiles - geometry.shared_tiles);
    std::uint32_t* const metadata_of_sm = words + static_cast<std::size_t>(kWarp) * geometry.bank_words;
    const auto metadata_of = [&](int thread, int i) -> std::uint32_t& {
      return metadata_of_sm[(thread / kWarp * metadata + i) * kWarp + thread % kWarp];
    };
    std::fill(lengths.begin(), lengths.end(), 0);
    for (int thread = 0; thread < geometry.threads; ++thread) {
      for (int i = 0; i < geometry.shared_tiles; ++i) {
        for (int k = 0; k < kLaneWords; ++k) {
          const std::uint32_t has = has_word(tile_of(thread, i), thread % kWarp, k);
          metadata_of(thread, i / kTilesOfBitmap) |= has << (kLaneWords * (i % kTilesOfBitmap) + k);
          lengths[thread] += static_cast<int>(has);
        }
      }
    }
    assign_streams(lengths, begins);
    for (int thread = 0; thread < geometry.threads; ++thread) {
      metadata_of(thread, metadata - 1) = begins[thread];
      std::size_t at = begins[thread] / sizeof(std::uint32_t);
      for (int i = 0; i < geometry.shared_tiles; ++i) {
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

}  // namespace

Encoded encode(const DenseLayout& layout) {
  const DenseGeometry& geometry = layout.geometry;
  const Precision precision = layout.geometry.network.precision;
  constexpr int kTileWords = kTileElements / 2;
  const int tiles = geometry.warp_tiles;
  const int in_registers = tiles - geometry.shared_tiles;
  const std::size_t sm_tiles = static_cast<std::size_t>(geometry.warps()) * tiles;
  Encoded encoded;
  const std::size_t sm_metadata = static_cast<std::size_t>(geometry.warps()) * geometry.metadata_words * kWarp;
  const bool is_compact = geometry.storage == Storage::bitmap;
  const std::size_t tile_words = is_compact ? std::size_t{kTileWords} * geometry.warps() * in_registers +
                                                  static_cast<std::size_t>(kWarp) * geometry.bank_words
                                            : sm_tiles * kTileWords;
  const std::size_t sm_words = tile_words + sm_metadata;
  encoded.weights.resize(geometry.sms * sm_words);
  if (is_compact) {
    pack_words(layout, sm_words, encoded);
  }
  for (std::size_t i = 0; i < geometry.sms * sm_tiles; ++i) {
    const std::size_t sm = i / sm_tiles, warp = i % sm_tiles / tiles;
    const int tile = static_cast<int>(i % tiles);
    const int before = shared_tiles_before(tile, geometry.shared_tiles, tiles);
    const bool in_shared = is_in_shared(tile, geometry.shared_tiles, tiles);
    const std::size_t place =
        in_shared ? static_cast<std::size_t>(geometry.warps()) * in_registers + warp * geometry.shared_tiles + before
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
  for (int sm = 0; sm < geometry.sms && !layout.metadata.empty(); ++sm) {
    std::copy_n(layout.metadata.begin() + static_cast<std::ptrdiff_t>(sm * sm_metadata), sm_metadata,
                encoded.weights.begin() + static_cast<std::ptrdiff_t>(sm * sm_words + tile_words));
  }
  return encoded;
}

}  // namespace onchip
