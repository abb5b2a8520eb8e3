// SPDX-License-Identifier: Apache-2.0
// Before a recurrence, on the device: the fragments of W or its transpose as the SMs load them, and an empty ring; with
// lengths, the samples' ranks, and zeros beyond their ends, where the products read.
//
//   packed   [kSms] of [kWarps][kRegisterTiles], then [kWarps][kSharedTiles] tiles of [32 lanes] 16 bytes

// The weight in an SM's row and column; zero where there is none.
__device__ __forceinline__ u32 weight(const void* weights, int sm, int row, int column) {
  long long index;
  bool exists;
  if constexpr (kIsBackward) {
    const int plane = column / (kPlaneSpans * kSpanUnits), in_plane = column % (kPlaneSpans * kSpanUnits);
    const int value = sm % kSplit * kPlaneValues + in_plane, gate = kPlanes == 1 ? value % kUnitValues : plane;
    const int unit = sm / kSplit * kUnitsPerSm + row, from = value / kUnitValues;
    exists = unit < kHidden && from < kHidden && in_plane < kPlaneValues;
    index = (gate * static_cast<long long>(kHidden) + from) * kHidden + unit;
  } else {
    const int unit = sm * kUnits + row / kGates;
    exists = unit < kHidden && column < kHidden;
    index = (row % kGates * static_cast<long long>(kHidden) + unit) * kHidden + column;
  }
  return exists ? load_element(weights, index) : 0;
}
__device__ __forceinline__ u32 weight_pair(const void* weights, int sm, int row, int column) {
  return weight(weights, sm, row, column) | weight(weights, sm, row, column + 1) << 16;
}

// Lane 4 g + q has of a tile, which is half a span, rows 2 g and 2 g + 1, and four columns from 8 q on, or 8 q + 4.
__device__ __forceinline__ void pack_tile(const Arguments& a, int sm, int warp, int tile, int lane) {
  const int span = warp * kWarpSpans + tile / (kSpanTiles * kRowTiles);
  const int row = tile % kRowTiles * 16 + lane / 4 * 2;
  const int column = span * kSpanUnits + lane % 4 * 8 + tile / kRowTiles % kSpanTiles * 4;
  Word v{};
  if (span < kSpans && row < kRows) {
    v = {weight_pair(a.weights, sm, row, column), weight_pair(a.weights, sm, row + 1, column),
         weight_pair(a.weights, sm, row, column + 2), weight_pair(a.weights, sm, row + 1, column + 2)};
  }
  const int before = shared_before(tile);
  const int place =
      in_shared(tile) ? kWarps * kRegisterTiles + warp * kSharedTiles + before : warp * kRegisterTiles + tile - before;
  reinterpret_cast<Word*>(a.packed)[(static_cast<long long>(sm) * kWarps * kTiles + place) * 32 + lane] = v;
}

__device__ __forceinline__ long long given_length(const Arguments& a, int sample) {
  return kLengthBytes == 8 ? static_cast<const long long*>(a.lengths)[sample] : static_cast<const int*>(a.lengths)[sample];
}
__device__ __forceinline__ int length_of(const Arguments& a, int sample) {
  const long long length = given_length(a, sample);
  return static_cast<int>(length < 1 ? 1 : length > a.steps ? a.steps : length);
}

__device__ __forceinline__ void rank_samples(const Arguments& a, long long first, long long threads) {
#pragma unroll 1
  for (int i = static_cast<int>(first); i < kBatch; i += static_cast<int>(threads)) {
    const int length = length_of(a, i);
    int rank = 0;
#pragma unroll 4
    for (int other = 0; other < kBatch; ++other) {
      const int of_other = length_of(a, other);
      rank += of_other > length || (of_other == length && other < i) ? 1 : 0;
    }
    a.ranks[rank] = {i, length};
    if (given_length(a, i) != length) {
      *a.status = 2;
    }
  }
}

// Of y or of the gradients of the gates; a warp for each row.
__device__ __forceinline__ void clear_beyond_ends(const Arguments& a, long long first, long long threads) {
  constexpr int kElements = kIsBackward ? 4 * kHidden : kHidden, kStride = kIsBackward ? kElements : kOutputStride;
  constexpr bool kIsWhole = kHidden % 8 == 0;  // rows of whole words
  u16* const rows = static_cast<u16*>(kIsBackward ? a.gates : a.output);
#pragma unroll 1
  for (u32 row = static_cast<u32>(first / 32); row < a.steps * kBatch; row += static_cast<u32>(threads / 32)) {
    if (row / kBatch < length_of(a, static_cast<int>(row % kBatch))) {
      continue;
    }
    u16* const elements = rows + static_cast<long long>(row) * kStride;
#pragma unroll 1
    for (int i = static_cast<int>(first % 32); i < kElements / (kIsWhole ? 8 : 1); i += 32) {
      if constexpr (kIsWhole) {
        reinterpret_cast<Word*>(elements)[i] = {0, 0, 0, 0};
      } else {
        elements[i] = 0;
      }
    }
  }
}

// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate. A warp copies a row,
// neighbouring lanes neighbouring elements, several of which are asked for before the first is stored.
__device__ __forceinline__ void copy_row(const RowCopy& copy, long long row, int lane) {
  constexpr int kElements = 8;
  const long long from = row * copy.from_stride, to = row * copy.to_stride;
#pragma unroll 1
  for (int first = lane; first < copy.written_columns; first += 32 * kElements) {
    u32 bits[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int column = first + 32 * k;
      bits[k] = column < copy.columns ? load_element(copy.from, from + column) : 0;
    }
    if (copy.adds) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int column = first + 32 * k;
        const u32 there = column < copy.columns ? load_element(copy.to, to + column) : 0;
        bits[k] = to_bits(to_float(bits[k]) + to_float(there));
      }
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      if (const int column = first + 32 * k; column < copy.written_columns) {
        store_element(copy.to, to + column, bits[k]);
      }
    }
  }
}

// Rows of all copies side by side.
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
  const long long rows = a.copies[0].rows + a.copies[1].rows + a.copies[2].rows;
#pragma unroll 1
  for (long long i = first / 32; i < rows; i += threads / 32) {
    long long row = i;
#pragma unroll
    for (int which = 0; which < kMostCopies; ++which) {
      if (row >= 0 && row < a.copies[which].rows) {
        copy_row(a.copies[which], row, first % 32);
      }
      row -= a.copies[which].rows;
    }
  }
}

extern "C" __global__ void prepare(const Arguments a) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (long long i = first; i < static_cast<long long>(kSms) * kWarps * kTiles * 32; i += threads) {
    const int tile = static_cast<int>(i / 32);
    pack_tile(a, tile / (kWarps * kTiles), tile / kTiles % kWarps, tile % kTiles, static_cast<int>(i % 32));
  }
  // What is nobody's stays zero; a word of the rest is all ones until it is published.
  constexpr int kWordValues = 16 / kElementBytes;
#pragma unroll 1
  for (long long i = first; i < static_cast<long long>(kRingSlots) * kRingStride / 16; i += threads) {
    const int in_state = static_cast<int>(i % (kStateStride / 16));
    const int span = in_state / (kSpanBytes / 16);
    const int value = span % kPlaneSpans * kSpanUnits + in_state % (kSpanUnits / kWordValues) * kWordValues;
    const u32 empty = span < kSplit * kSpans && value < kPlaneValues ? ~0u : 0;
    reinterpret_cast<Word*>(a.ring)[i] = {empty, empty, empty, empty};
  }
  copy_all_rows(a, static_cast<int>(first), static_cast<int>(threads));
  if constexpr (kHasLengths) {
    rank_samples(a, first, threads);
    clear_beyond_ends(a, first, threads);
  }
}

// Behind the products.
extern "C" __global__ void copy_back(const Arguments a) {
  copy_all_rows(a, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), static_cast<int>(gridDim.x * blockDim.x));
}
