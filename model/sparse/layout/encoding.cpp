// SPDX-License-Identifier: Apache-2.0
// From a layout's slots to the words that the kernel loads (kernels/sparse/gather.cuh).
#include "model/banks/bank_rule.hpp"
#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/sparse/layout/layout.hpp"

#include <algorithm>

namespace onchip {
namespace {

// Writes slots of one thread's rows as words.
class SlotEncoder {
 public:
  explicit SlotEncoder(const SparseLayout& layout)
      : layout_(layout),
        bundle_(layout.geometry.bundle),
        stride_(layout.geometry.plane_unit_bytes),
        shift_(layout.geometry.index_shift),
        packed_(layout.geometry.storage == Storage::packed_pair),
        deltas_(layout.geometry.storage == Storage::packed_delta),
        scales_(row_scales(layout)) {}

  // Slots [begin, end) of a warp's row: slot begin + s goes to the s-th of the words at(0), at(1), ..., which are zero.
  template <typename At>
  void encode(std::size_t warp_row, std::int32_t row, int lane, int begin, int end, At&& at) const {
    const Precision precision = layout_.geometry.network.precision;
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
      const std::int32_t before = begin + s == 0 ? layout_.place[entry] : layout_.place[entry - kWarpLanes];
      const auto delta = static_cast<std::uint8_t>(layout_.place[entry] - before);
      const int first = s / bundle_.slots * bundle_.words;
      const int i = s % bundle_.slots;
      at(first) |= std::uint32_t{delta} << (8 * i);
      if (layout_.geometry.network.precision == Precision::fp8) {
        at(first + 1) |= fp8_code(row, layout_.value[entry]) << fp8_shift(i);
      } else {
        at(first + 1 + i / 2) |= to_bits(layout_.geometry.network.precision, layout_.value[entry]) << (i % 2 * 16);
      }
    }
  }

  std::uint32_t fp8_code(std::int32_t row, float value) const { return to_e4m3(row < 0 ? 0.0f : value / scales_[row]); }
  // Values 0, 2 and 1, 3 of a bundle stand in the low and the high bytes of the two halves.
  static int fp8_shift(int i) { return i % 2 * 8 + i / 2 * 16; }

  const SparseLayout& layout_;
  Bundle bundle_;
  int stride_, shift_;
  bool packed_, deltas_;
  std::vector<float> scales_;
};

// Writes one chunk of a warp's row, of four words a lane [32][4], of two [32][2], else [words][32].
void encode_chunk(const SparseLayout& layout, const SlotEncoder& encoder, int sm, int r, int warp, int chunk,
                  std::uint32_t* to) {
  const SparseGeometry& geometry = layout.geometry;
  const int words = geometry.chunk_words;
  const int slots = geometry.chunk_slots;
  const int begin = geometry.slots_of(r) + chunk * slots;
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    const std::int32_t row = layout.row(sm, r, geometry.group_lane_of(warp * kWarpLanes + lane).group);
    encoder.encode(layout.warp_row(sm, r, warp), row, lane, begin, begin + slots,
                   [&](int i) -> std::uint32_t& { return to[words % 2 ? i * kWarpLanes + lane : lane * words + i]; });
  }
}

}  // namespace

std::vector<OverflowChunks> split_overflow(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const int per_chunk = geometry.chunk_slots;
  std::vector<OverflowChunks> overflow(static_cast<std::size_t>(geometry.sms) * geometry.all_rows() * geometry.warps());
  for (int sm = 0; sm < geometry.sms; ++sm) {
    std::int64_t all = 0;
    const auto chunks = [&](int r, int warp) {
      return (layout.slots(layout.warp_row(sm, r, warp)) - geometry.slots_of(r)) / per_chunk;
    };
    for (int r = 0; r < geometry.all_rows(); ++r) {
      for (int warp = 0; warp < geometry.warps(); ++warp) {
        all += chunks(r, warp);
      }
    }
    const std::int64_t streamed = std::max<std::int64_t>(0, all - geometry.shared_chunks);
    if (streamed > 0 && geometry.ring_chunks == 0) {
      throw InputError("SM " + std::to_string(sm) + " has " + std::to_string(all) +
                       " chunks of weights beyond its registers, the plan has room for " +
                       std::to_string(geometry.shared_chunks) + " in shared memory");
    }
    // Spread evenly over the warps and their rows, so that what is streamed is asked for at all times of a step.
    for (int warp = 0; warp < geometry.warps(); ++warp) {
      std::int64_t seen = 0;
      for (int before = 0; before < warp; ++before) {
        for (int r = 0; r < geometry.all_rows(); ++r) {
          seen += chunks(r, before);
        }
      }
      for (int i = 0; i < geometry.all_rows(); ++i) {
        const int r = geometry.overflow_row(i), count = chunks(r, warp);
        const auto streamed_before = [&](std::int64_t n) { return all > 0 ? n * streamed / all : 0; };
        const auto of_row = static_cast<int>(streamed_before(seen + count) - streamed_before(seen));
        overflow[layout.warp_row(sm, r, warp)] = {count - of_row, of_row};
        seen += count;
      }
    }
  }
  return overflow;
}

namespace {

// The overflow of one SM: shared memory's chunks to `shared`, the others behind `encoded.streamed`.
void encode_overflow(const SparseLayout& layout, const SlotEncoder& encoder, const std::vector<OverflowChunks>& all,
                     int sm, std::uint32_t* shared, Encoded& encoded) {
  const SparseGeometry& geometry = layout.geometry;
  const int words = kWarpLanes * geometry.chunk_words;
  const int height = geometry.tile_height;
  const int passes = geometry.planes / geometry.pass_planes;
  const std::size_t table = encoded.overflow.size();
  encoded.overflow.resize(table + static_cast<std::size_t>(geometry.all_rows() + 3) * geometry.warps());
  const auto entry = [&](int i, int warp) -> std::int32_t& {
    return encoded.overflow[table + i * geometry.warps() + warp];
  };
  const int begins = geometry.rows_per_group, streamed = geometry.all_rows() + 1;
  int in_shared = 0;
  for (int warp = 0; warp < geometry.warps(); ++warp) {
    const std::size_t first_streamed = encoded.streamed.size() / words;
    entry(begins, warp) =
        static_cast<std::int32_t>(geometry.bytes_without_weights()) + in_shared * geometry.chunk_bytes;
    entry(streamed, warp) = static_cast<std::int32_t>(first_streamed);
    for (int i = 0; i < geometry.all_rows(); ++i) {
      const int r = geometry.overflow_row(i);
      const OverflowChunks& overflow = all[layout.warp_row(sm, r, warp)];
      entry(r < begins ? r : r + 1, warp) = overflow.shared | overflow.streamed << 16;
      for (int chunk = 0; chunk < overflow.shared; ++chunk) {
        encode_chunk(layout, encoder, sm, r, warp, chunk, shared + static_cast<std::size_t>(in_shared++) * words);
      }
    }
    const auto stream = [&](int r) {
      const OverflowChunks& overflow = all[layout.warp_row(sm, r, warp)];
      for (int i = 0; i < overflow.streamed; ++i) {
        encoded.streamed.resize(encoded.streamed.size() + words);
        encode_chunk(layout, encoder, sm, r, warp, overflow.shared + i,
                     encoded.streamed.data() + encoded.streamed.size() - words);
      }
    };
    for (int pass = 0; pass < passes; ++pass) {
      for (int r = geometry.rows_per_group; r < geometry.all_rows(); ++r) {
        stream(r);
      }
    }
    for (int tile = 0; tile < geometry.tiles; ++tile) {
      for (int pass = 0; pass < passes; ++pass) {
        for (int r = tile * height; r < std::min(geometry.rows_per_group, (tile + 1) * height); ++r) {
          stream(r);
        }
      }
    }
    entry(streamed + 1, warp) = static_cast<std::int32_t>(encoded.streamed.size() / words - first_streamed);
  }
}

}  // namespace

Encoded encode(const SparseLayout& layout) {
  const SparseGeometry& geometry = layout.geometry;
  const SlotEncoder encoder(layout);
  const std::size_t register_end = static_cast<std::size_t>(geometry.register_words) * geometry.threads;
  const std::size_t sm_words =
      register_end + static_cast<std::size_t>(geometry.shared_chunks) * kWarpLanes * geometry.chunk_words;
  Encoded encoded;
  encoded.weights.resize(geometry.sms * sm_words);
  for (int sm = 0; sm < geometry.sms; ++sm) {
    std::uint32_t* const words = encoded.weights.data() + sm * sm_words;
    for (int thread = 0; thread < geometry.threads; ++thread) {
      int first_word = 0;
      for (int r = 0; r < geometry.all_rows(); ++r) {
        const std::int32_t row = layout.row(sm, r, geometry.group_lane_of(thread).group);
        const std::size_t warp_row = layout.warp_row(sm, r, thread / kWarpLanes);
        for (int i = 0; i < geometry.start_words; ++i, ++first_word) {
          words[first_word * geometry.threads + thread] = encoder.start(warp_row, thread % kWarpLanes);
        }
        const auto at = [&](int i) -> std::uint32_t& { return words[(first_word + i) * geometry.threads + thread]; };
        encoder.encode(warp_row, row, thread % kWarpLanes, 0, geometry.slots_of(r), at);
        first_word += geometry.words_of(r);
      }
    }
  }
  if (geometry.has_overflow()) {
    const std::vector<OverflowChunks> overflow = split_overflow(layout);
    for (int sm = 0; sm < geometry.sms; ++sm) {
      encode_overflow(layout, encoder, overflow, sm, encoded.weights.data() + sm * sm_words + register_end, encoded);
    }
  }
  const std::vector<std::int32_t> splits = splits_of_rows(layout);
  encoded.overflow.insert(encoded.overflow.end(), splits.begin(), splits.end());
  return encoded;
}

}  // namespace onchip
