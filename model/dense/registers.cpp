// SPDX-License-Identifier: Apache-2.0
#include "model/dense/registers.hpp"

#include "model/chip/occupancy.hpp"

#include <algorithm>
#include <bit>

namespace onchip {
namespace {

constexpr int kDenseBase = 24;
constexpr int kStructuredBase = 16, kUneven = 13, kFewSpans = 3, kOfPartBefore90 = 8;
constexpr int kTilesAhead = 2;  // kernels/dense/multiply.cuh
constexpr int kDecoding = 2, kDecodingBefore90 = 6, kAskingForSpans = 20, kAndSamples = 20;

}  // namespace

// Dense persistent: sums, words and tiles from shared memory in flight, and what the addresses and the cells take. For
// structured_2_4 with few spans in a group a fit of its own, to the most tiles, of four words, that NVRTC 13.0 compiles
// without a spill in 60 shapes, most of them on all four architectures: nowhere too many, in most at most two too few.
// Where the spans are uneven over warps that are no power of two, or over any and batches leave a tile of samples in
// part empty, it takes up to 13 registers more; why is not known. On sm_80 such batches take some with even spans, too:
// of 110 plans drawn at random (`measure --compile-only`) these were the three that spilled; of 60 more three spilled
// 1, 7 and 9 words, for which `measure` takes other plans. Bitmaps: looked for in about 80 plans on four architectures.
// Where warps ask at run time which spans they have, and lanes which samples, the compiler takes more, up to so many
// registers, and not always. Before sm_90 the further tiles that are expanded ahead take some in few plans: one of
// LSTM, batch 8, spilled 16 bytes.
int working_registers(const Chip& chip, const DenseGeometry& geometry) {
  const int products = geometry.row_tiles * geometry.sample_tiles;
  const int sums = 4 * products * geometry.product_chains;
  const int loads = std::min(geometry.loads_in_flight, (geometry.warp_spans + 1) * geometry.sample_tiles);
  const int others = sums + 4 * std::min(geometry.shared_tiles, kTilesAhead);
  if (geometry.storage == Storage::structured_2_4) {
    const bool has_part = geometry.has_part_tile;
    const bool is_uneven =
        geometry.has_uneven_spans && (has_part || !std::has_single_bit(static_cast<unsigned>(geometry.warps())));
    const bool has_few = geometry.loads_in_flight <= 2 * kFewSpans * geometry.sample_tiles;
    const int asking = is_uneven ? kUneven : has_part && chip.compute_capability_major < 9 ? kOfPartBefore90 : 0;
    return others + (has_few ? kStructuredBase + (8 * loads + 2) / 3 : kDenseBase + 4 * loads) + asking;
  }
  const bool decodes = geometry.storage == Storage::bitmap && geometry.shared_tiles > 0;
  const bool is_uneven = geometry.has_uneven_spans;
  const bool has_part = geometry.group_batch % 8 != 0;
  const int uneven = is_uneven ? kAskingForSpans + (has_part ? kAndSamples * geometry.sample_tiles : 0) : 0;
  const int decoding = chip.compute_capability_major < 9 ? kDecodingBefore90 : kDecoding;
  return kDenseBase + others + 4 * loads + (decodes ? decoding + uneven : 0);
}

int registers_available(const Chip& chip, const DensePlan& plan) {
  return max_registers_per_thread(chip, plan.threads);
}

}  // namespace onchip
