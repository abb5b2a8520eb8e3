// SPDX-License-Identifier: Apache-2.0
// Rows that the products read: copies that are aligned, and with lengths packed.
//
//   position  0        1      2   ranks, the longest first; a row is offsets[position] + rank
//   rows      0 1 2 3  4 5 6  7
#pragma once

#include "kernels/training/device/item.cuh"

using onchip::RowCopy, onchip::RowMap;

__device__ __forceinline__ long long given_length(const Arguments& a, int sample) {
  return kLengthBytes == 8 ? static_cast<const long long*>(a.lengths)[sample] : static_cast<const int*>(a.lengths)[sample];
}
__device__ __forceinline__ int length_of(const Arguments& a, int sample) {
  const long long length = given_length(a, sample);
  return static_cast<int>(length < 1 ? 1 : length > a.steps ? a.steps : length);
}

#if ONCHIP_LENGTH_BYTES > 0
// Before all else that knows lengths: a thread for each rank and each offset. Where the lengths are not those of a packed
// sequence of so many rows, all are 1, so that nothing is written behind them.
extern "C" __global__ void rank_samples(const Arguments a) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int position = i - a.batch;
  if (position > a.steps) {
    return;
  }
  const int length = i < a.batch ? length_of(a, i) : 0;
  int rank = 0;
  long long before = 0, all = 0;  // rows of positions before this one, and of all
#pragma unroll 4
  for (int other = 0; other < a.batch; ++other) {
    const int of_other = length_of(a, other);
    rank += of_other > length || (of_other == length && other < i) ? 1 : 0;
    before += min(of_other, position);
    all += of_other;
  }
  const bool fits = a.packed_rows < 0 || all == a.packed_rows;
  if (i < a.batch) {
    a.ranks[rank] = {i, fits ? length : 1};
    if (given_length(a, i) != length || !fits || (a.packed_rows > 0 && rank != i)) {
      *a.status = 2;
    }
  } else {
    offsets(a)[position] = static_cast<int>(fits ? before : min(position, 1) * a.batch);
  }
}
#endif

// A position of a sample: rows of it. Where its sample has ended, its packed row is one behind the last.
struct PositionRows {
  int rank, sample, position;
  bool is_there;
  long long packed;
  __device__ __forceinline__ long long of_caller(const Arguments& a, int of_position, long long packed_row) const {
    return a.packed_rows > 0 ? packed_row : of_position * static_cast<long long>(a.batch) + sample;
  }
};
__device__ __forceinline__ PositionRows position_rows(const Arguments& a, long long index) {
  const int position = static_cast<int>(static_cast<u32>(index) / a.batch), rank = static_cast<int>(index) - position * a.batch;
  const onchip::Ranked ranked = a.ranks[rank];
  const bool is_there = position < ranked.length;
  const long long packed = is_there ? offsets(a)[position] + rank : offsets(a)[a.steps] + index - offsets(a)[position + 1];
  return {rank, ranked.sample, position, is_there, packed};
}
// Behind the last that products read.
__device__ __forceinline__ long long end_of_products(const Arguments& a) {
  const int rows = offsets(a)[a.steps], unit = -a.packed_rows;
  return unit > 0 ? (rows + unit - 1ll) / unit * unit : rows;
}

// Copies of matrices whose rows are not whole 16 bytes: cuBLAS multiplies them at a third of its rate. A warp copies a row,
// neighbouring lanes neighbouring elements, several of which are asked for before the first is stored.
__device__ __forceinline__ void copy_row(const RowCopy& copy, long long from_row, long long to_row, int lane) {
  constexpr int kElements = 8;
  const long long from = from_row * copy.from_stride, to = to_row * copy.to_stride;
#pragma unroll 1
  for (int first = lane; first < copy.written_columns; first += 32 * kElements) {
    u32 bits[kElements];
#pragma unroll
    for (int k = 0; k < kElements; ++k) {
      const int column = first + 32 * k;
      bits[k] = column >= copy.columns ? 0
                : copy.is_fp32         ? to_bits(static_cast<const float*>(copy.from)[from + column])
                                       : load_element(copy.from, from + column);
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

// Likewise, of rows of whole words.
__device__ __forceinline__ void copy_words(const RowCopy& copy, long long from_row, long long to_row, int lane) {
  constexpr int kWordElements = 16 / kElementBytes, kWords = 4;
  const Word* const from = reinterpret_cast<const Word*>(static_cast<const u16*>(copy.from) + from_row * copy.from_stride);
  Word* const to = reinterpret_cast<Word*>(static_cast<u16*>(copy.to) + to_row * copy.to_stride);
#pragma unroll 1
  for (int first = lane; first < copy.written_columns / kWordElements; first += 32 * kWords) {
    Word words[kWords]{};
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (const int i = first + 32 * k; i < copy.columns / kWordElements) {
        words[k] = from[i];
      }
    }
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if (const int i = first + 32 * k; i < copy.written_columns / kWordElements) {
        to[i] = words[k];
      }
    }
  }
}
__device__ __forceinline__ void copy_mapped(const RowCopy& copy, long long from_row, long long to_row, int lane) {
  const int elements = copy.from_stride | copy.to_stride | copy.columns | copy.written_columns;
  const bool is_whole = elements % 8 == 0 && (reinterpret_cast<unsigned long long>(copy.from) |
                                              reinterpret_cast<unsigned long long>(copy.to)) % 16 == 0;
  if (is_whole && !copy.adds) {
    copy_words(copy, from_row, to_row, lane);
  } else {
    copy_row(copy, from_row, to_row, lane);
  }
}
__device__ __forceinline__ void clear_row(void* rows, int stride, int columns, long long row, int lane) {
  copy_mapped({nullptr, rows, 1, 0, stride, 0, columns, 0, RowMap::same}, 0, row, lane);
}

// Of all positions and ranks, one.
__device__ __forceinline__ void copy_mapped_row(const Arguments& a, RowCopy copy, long long index, int lane) {
  const PositionRows rows = position_rows(a, index);
  const long long of_caller = rows.of_caller(a, rows.position, rows.packed);
  if (copy.map == RowMap::from_packed) {
    copy.columns = rows.is_there ? copy.columns : 0;
    if (rows.is_there || !copy.adds) {
      copy_mapped(copy, rows.packed, of_caller, lane);
    }
    return;
  }
  if (rows.packed >= end_of_products(a)) {
    return;
  }
  long long from = of_caller;
  if (copy.map == RowMap::to_later) {
    const int before = rows.position + (a.descends ? -1 : 1);  // a backward recurrence descends where the forward one ascends
    if (before >= 0 && before < a.ranks[rows.rank].length) {
      from = rows.of_caller(a, before, offsets(a)[before] + rows.rank);
    } else {
      copy.from = a.initial;
      copy.from_stride = kHidden;
      from = rows.sample;
      copy.columns = a.initial == nullptr ? 0 : copy.columns;
    }
  }
  copy.columns = rows.is_there ? copy.columns : 0;
  copy_mapped(copy, from, rows.packed, lane);
}

// Before forward, zeros where nothing else writes: y beyond ends, and behind the last packed row c and gates, over which backward's
// products may go. So what forward leaves has the same bits every time.
__device__ __forceinline__ void clear_beyond_ends(const Arguments& a, long long first, long long threads) {
  if (a.packed_rows > 0) {
    return;
  }
#pragma unroll 1
  for (long long i = first / 32; i < a.steps * a.batch; i += threads / 32) {
    const PositionRows rows = position_rows(a, i);
    const int lane = static_cast<int>(first % 32);
    if (rows.is_there) {
      continue;
    }
    clear_row(a.output, kOutputStride, kHidden, rows.of_caller(a, rows.position, 0), lane);
    if (!a.keeps) {
      continue;
    }
    const int written = rows.packed < end_of_products(a) ? kCellGates * kGateColumns : 0;  // by products of zeros
    clear_row(static_cast<u16*>(a.gates) + written, 4 * kGateColumns, 4 * kGateColumns - written, rows.packed, lane);
    if constexpr (kCell == kLstm) {
      clear_row(a.cells, kHidden, kHidden, rows.packed, lane);
    }
  }
}

// Behind a GRU's q, too, whose product is not that of W_ih.
__device__ __forceinline__ void clear_behind_q(const Arguments& a, long long first, long long threads) {
  const long long rows = a.packed_rows > 0 ? a.packed_rows : a.steps * a.batch;
  if constexpr (kCell == kGru && kGateColumns > kHidden) {
#pragma unroll 1
    for (long long row = first; row < rows; row += threads) {
#pragma unroll
      for (int i = kHidden; i < kGateColumns; ++i) {
        store_element(a.gates, (row * 4 + 3) * kGateColumns + i, 0);
      }
    }
  }
}

// Of those that have as many rows with lengths: `row` is the one that is written.
__device__ __forceinline__ void copy_own_row(RowCopy copy, int row, int lane) {
  const int unit = row % kGateColumns;
  switch (copy.map) {
    case RowMap::to_gates:
      copy.columns = unit < kHidden ? copy.columns : 0;
      copy_row(copy, row / kGateColumns * kHidden + unit, row, lane);
      break;
    case RowMap::from_gates:
      copy_row(copy, row / kHidden * kGateColumns + row % kHidden, row, lane);
      break;
    default:
      copy_row(copy, row, row, lane);
  }
}

// Rows of all copies side by side.
__device__ __forceinline__ void copy_all_rows(const Arguments& a, int first, int threads) {
  long long rows = 0;
#pragma unroll
  for (const RowCopy& copy : a.copies) {
    rows += copy.rows;
  }
#pragma unroll 1
  for (long long i = first / 32; i < rows; i += threads / 32) {
    long long row = i;
#pragma unroll
    for (int which = 0; which < onchip::kMostCopies; ++which) {
      if (row >= 0 && row < a.copies[which].rows) {
        if (kHasLengths && a.copies[which].map >= RowMap::to_packed) {
          copy_mapped_row(a, a.copies[which], row, first % 32);
        } else {
          copy_own_row(a.copies[which], static_cast<int>(row), first % 32);
        }
      }
      row -= a.copies[which].rows;
    }
  }
}
