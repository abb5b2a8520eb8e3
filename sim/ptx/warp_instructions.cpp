// SPDX-License-Identifier: Apache-2.0
// Instructions in which the lanes of a warp give each other something: shuffles, votes, reductions, matrix products.
#include "sim/ptx/lanes.hpp"
#include "sim/ptx/memory_instructions.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace onchip::ptx {
namespace {

enum class Shuffle { up, down, butterfly, index };

// d[|p], a, b, c, lanes. Throws LaneFault if a lane reads from one that takes no part.
template <Shuffle kHow, bool kPredicate>
void shuffle(Warp& warp, const Instruction& i, u32 lanes) {
  constexpr int kFrom = kPredicate ? 2 : 1;
  const u32* const a = warp.lanes<u32>(i.at[kFrom]);
  u32 values[kLanes] = {}, inside = 0;
  for_lanes(lanes, [&](int lane) {
    const int b = static_cast<int>(warp.lanes<u32>(i.at[kFrom + 1])[lane] & 31);
    const int c = static_cast<int>(warp.lanes<u32>(i.at[kFrom + 2])[lane]);
    const int segment = c >> 8 & 31, clamp = c & 31;
    const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int from = kHow == Shuffle::up          ? lane - b
               : kHow == Shuffle::down      ? lane + b
               : kHow == Shuffle::butterfly ? lane ^ b
                                            : first | (b & ~segment);
    const bool is_inside = kHow == Shuffle::up ? from >= last : from <= last;
    if (!is_inside) {
      from = lane;
    }
    if ((lanes >> from & 1) == 0) {
      throw LaneFault{lane, "reads from lane " + std::to_string(from) + ", which takes no part"};
    }
    values[lane] = a[from];
    inside |= u32{is_inside} << lane;
  });
  write_lanes(warp.lanes<u32>(i.at[0]), values, lanes);
  if constexpr (kPredicate) {
    write_predicate(warp, i.at[1], inside, lanes);
  }
}

// The same value for all lanes.
template <typename T>
void give(Warp& warp, const Instruction& i, u32 lanes, T value) {
  for_lanes(lanes, [&](int lane) { warp.lanes<T>(i.at[0])[lane] = value; });
}

void ballot(Warp& warp, const Instruction& i, u32 lanes) {
  give(warp, i, lanes, *warp.lanes<u32>(i.at[1]) & lanes);
}

// kOf: of the lanes whose predicate holds, and all.
template <auto kOf>
void vote(Warp& warp, const Instruction& i, u32 lanes) {
  write_predicate(warp, i.at[0], kOf(*warp.lanes<u32>(i.at[1]) & lanes, lanes) ? lanes : 0, lanes);
}
constexpr auto kAny = [](u32 votes, u32) { return votes != 0; };
constexpr auto kAll = [](u32 votes, u32 lanes) { return votes == lanes; };
constexpr auto kUniform = [](u32 votes, u32 lanes) { return votes == 0 || votes == lanes; };

template <typename T, auto kOf>
void reduce(Warp& warp, const Instruction& i, u32 lanes) {
  const T* const values = warp.lanes<T>(i.at[1]);
  T result = values[std::countr_zero(lanes)];
  for_lanes(lanes & (lanes - 1), [&](int lane) { result = kOf(result, values[lane]); });
  give(warp, i, lanes, result);
}

template <bool kIsBf16>
float element(u32 word, int half) {
  const auto bits = static_cast<u16>(half == 0 ? word : word >> 16);
  return kIsBf16 ? bf16_to_float(bits) : half_to_float(bits);
}

// mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}.{f16,bf16}.f32: products are exact; each is added to the sum in
// fp32, to nearest even, k from 0 to 15. (Hardware adds several at once, with fewer roundings, in an order that is not
// documented.) Fragments, PTX ISA "Matrix Fragments for mma.m16n8k16 with floating point type": lane = 4 * group +
// member.
template <bool kIsBf16>
void multiply_16x8x16(Warp& warp, const Instruction& i, u32) {
  float a[16][16], b[16][8], sums[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int group = lane / 4, member = lane % 4;
    for (int k = 0; k < 4; ++k) {
      sums[group + k / 2 * 8][member * 2 + k % 2] = as_float(warp.lanes<u32>(i.at[10 + k])[lane]);
      for (int half = 0; half < 2; ++half) {
        a[group + k % 2 * 8][member * 2 + half + k / 2 * 8] =
            element<kIsBf16>(warp.lanes<u32>(i.at[4 + k])[lane], half);
        if (k < 2) {
          b[member * 2 + half + k * 8][group] = element<kIsBf16>(warp.lanes<u32>(i.at[8 + k])[lane], half);
        }
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) {
        sums[row][column] += a[row][k] * b[k][column];  // the product is exact, so that fusing changes nothing
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 4; ++k) {
      warp.lanes<u32>(i.at[k])[lane] = float_bits(sums[lane / 4 + k / 2 * 8][lane % 4 * 2 + k % 2]);
    }
  }
}

// mma.sp::ordered_metadata.sync.aligned.m16n8k32, of the same types: of A's 16 x 32 elements those that the metadata
// names, k ascending as above; the others are not multiplied. Throws LaneFault for metadata or a selector that the ISA
// leaves undefined: two places of a group that do not ascend, selectors beyond 1.
//
// Fragments, PTX ISA "Matrix Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types": A as above, two values for
// every four columns; B as above, with 32 rows. The metadata of row g and, in its upper half, of row g + 8 comes from
// lane 4 g + 2 * selector for columns 0 to 15 and from the next one for columns 16 to 31, 4 bits for each group.
template <bool kIsBf16>
void multiply_sparse_16x8x32(Warp& warp, const Instruction& i, u32) {
  const u32* const metadata = warp.lanes<u32>(i.at[16]);
  const u32 selector = *warp.lanes<u32>(i.at[17]);
  if (selector > 1) {
    throw LaneFault{0, "the sparsity selector of m16n8k32 is 0 or 1, not " + std::to_string(selector)};
  }
  float b[32][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 4; ++k) {
      for (int half = 0; half < 2; ++half) {
        b[lane % 4 * 2 + half + k * 8][lane / 4] = element<kIsBf16>(warp.lanes<u32>(i.at[8 + k])[lane], half);
      }
    }
  }
  float sums[16][8];
  for (int row = 0; row < 16; ++row) {
    const int first_lane = row % 8 * 4;  // of those with this row
    for (int column = 0; column < 8; ++column) {
      sums[row][column] = as_float(warp.lanes<u32>(i.at[12 + row / 8 * 2 + column % 2])[first_lane + column / 2]);
    }
    for (int group = 0; group < 8; ++group) {
      const int source = first_lane + 2 * static_cast<int>(selector) + group / 4;
      const u32 places = metadata[source] >> (row / 8 * 16 + group % 4 * 4);
      if ((places & 3) >= (places >> 2 & 3)) {
        throw LaneFault{source, "the metadata's places " + std::to_string(places & 3) + " and " +
                                    std::to_string(places >> 2 & 3) + " of a group do not ascend"};
      }
      const u32 word = warp.lanes<u32>(i.at[4 + row / 8 + group / 4 * 2])[first_lane + group % 4];
      for (int half = 0; half < 2; ++half) {
        const u32 k = 4 * static_cast<u32>(group) + (places >> (2 * half) & 3);
        const float a = element<kIsBf16>(word, half);
        for (int column = 0; column < 8; ++column) {
          sums[row][column] += a * b[k][column];
        }
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int k = 0; k < 4; ++k) {
      warp.lanes<u32>(i.at[k])[lane] = float_bits(sums[lane / 4 + k / 2 * 8][lane % 4 * 2 + k % 2]);
    }
  }
}

constexpr int kMatrixRows = 8;
constexpr std::size_t kMatrixRowBytes = 16;

template <int kMatrices, typename Row>
void for_matrix_rows(Warp& warp, const Instruction& i, int address, bool writes, Row row) {
  for (int lane = 0; lane < kMatrices * kMatrixRows; ++lane) {
    row(lane / kMatrixRows, lane % kMatrixRows,
        at_place(warp, Space::shared, lane, address_of(warp, i, address, 0, lane), kMatrixRowBytes, writes));
  }
}

// ldmatrix and stmatrix of 8 x 8 elements of 16 bits, PTX ISA "Warp-level matrix load instruction: ldmatrix": lane
// 8 k + r gives the address of row r of matrix k; a lane gets elements 2 m and 2 m + 1 of row g, or with .trans of
// column g, where lane = 4 g + m.
template <int kMatrices, bool kTransposed>
void load_matrices(Warp& warp, const Instruction& i, u32) {
  u16 elements[kMatrices][kMatrixRows][kMatrixRows];
  for_matrix_rows<kMatrices>(warp, i, kMatrices, false, [&](int matrix, int row, const std::byte* place) {
    std::memcpy(elements[matrix][row], place, kMatrixRowBytes);
  });
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int group = lane / 4, first = lane % 4 * 2;
      const auto& of = elements[matrix];
      const u16 low = kTransposed ? of[first][group] : of[group][first];
      const u16 high = kTransposed ? of[first + 1][group] : of[group][first + 1];
      warp.lanes<u32>(i.at[matrix])[lane] = u32{high} << 16 | low;
    }
  }
}

template <int kMatrices>
void store_matrices(Warp& warp, const Instruction& i, u32) {
  for_matrix_rows<kMatrices>(warp, i, 0, true, [&](int matrix, int row, std::byte* place) {
    for (int member = 0; member < 4; ++member) {
      std::memcpy(place + 4 * member, &warp.lanes<u32>(i.at[1 + matrix])[4 * row + member], 4);
    }
  });
}

void active_mask(Warp& warp, const Instruction& i, u32 lanes) {
  give(warp, i, lanes, lanes);
}
void trap(Warp&, const Instruction&, u32 lanes) {
  throw LaneFault{std::countr_zero(lanes), "the kernel stops with a trap"};
}
// %clock: the warp's instructions so far. They count when a warp's turn ends, so whoever reads the clock in a loop sees
// it go on by its reading.
template <typename T>
void read_clock(Warp& warp, const Instruction& i, u32 lanes) {
  constexpr u64 kCyclesPerRead = 64;
  Counts& counts = warp.block.grid.counts;
  give(warp, i, lanes, static_cast<T>(counts.warp_instructions + kCyclesPerRead * ++counts.clock_reads));
}

Meaning whole_warp(std::string form, Execute execute) {
  Meaning meaning = as(std::move(form), execute, Flow::warp_sync);
  meaning.needs_warp = true;
  return meaning;
}

}  // namespace

// NOLINTBEGIN: one instruction in a line
// clang-format off
std::vector<InstructionRow> warp_rows() {
  constexpr Flow sync = Flow::warp_sync;
  return {
      {"shfl.sync.up.b32", as("Wwwww", shuffle<Shuffle::up, false>, sync)}, {"shfl.sync.up.b32", as("W|Pwwww", shuffle<Shuffle::up, true>, sync)},
      {"shfl.sync.down.b32", as("Wwwww", shuffle<Shuffle::down, false>, sync)}, {"shfl.sync.down.b32", as("W|Pwwww", shuffle<Shuffle::down, true>, sync)},
      {"shfl.sync.bfly.b32", as("Wwwww", shuffle<Shuffle::butterfly, false>, sync)}, {"shfl.sync.bfly.b32", as("W|Pwwww", shuffle<Shuffle::butterfly, true>, sync)},
      {"shfl.sync.idx.b32", as("Wwwww", shuffle<Shuffle::index, false>, sync)}, {"shfl.sync.idx.b32", as("W|Pwwww", shuffle<Shuffle::index, true>, sync)},
      {"vote.sync.any.pred", as("Ppw", vote<kAny>, sync)}, {"vote.sync.all.pred", as("Ppw", vote<kAll>, sync)},
      {"vote.sync.uni.pred", as("Ppw", vote<kUniform>, sync)}, {"vote.sync.ballot.b32", as("Wpw", ballot, sync)},
      {"redux.sync.add.u32 redux.sync.add.s32", as("Www", reduce<u32, kAdded>, sync)},
      {"redux.sync.min.u32", as("Www", reduce<u32, kSmaller>, sync)}, {"redux.sync.min.s32", as("Www", reduce<s32, kSmaller>, sync)},
      {"redux.sync.max.u32", as("Www", reduce<u32, kLarger>, sync)}, {"redux.sync.max.s32", as("Www", reduce<s32, kLarger>, sync)},
      {"redux.sync.and.b32", as("Www", reduce<u32, kBoth>, sync)}, {"redux.sync.or.b32", as("Www", reduce<u32, kEither>, sync)},
      {"redux.sync.xor.b32", as("Www", reduce<u32, kDiffer>, sync)},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", whole_warp("{WWWW}{wwww}{ww}{wwww}", multiply_16x8x16<false>)},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", whole_warp("{WWWW}{wwww}{ww}{wwww}", multiply_16x8x16<true>)},
      {"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", whole_warp("{WWWW}{wwww}{wwww}{wwww}w#", multiply_sparse_16x8x32<false>)},
      {"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", whole_warp("{WWWW}{wwww}{wwww}{wwww}w#", multiply_sparse_16x8x32<true>)},
      {"ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", accessing(whole_warp("{WW}[", load_matrices<2, true>), Access::matrix_load, 2)},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", accessing(whole_warp("{WWWW}[", load_matrices<4, true>), Access::matrix_load, 4)},
      {"ldmatrix.sync.aligned.m8n8.x2.shared.b16", accessing(whole_warp("{WW}[", load_matrices<2, false>), Access::matrix_load, 2)},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", accessing(whole_warp("{WWWW}[", load_matrices<4, false>), Access::matrix_load, 4)},
      {"stmatrix.sync.aligned.m8n8.x2.shared.b16", accessing(whole_warp("[{ww}", store_matrices<2>), Access::matrix_store, 2)},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", accessing(whole_warp("[{wwww}", store_matrices<4>), Access::matrix_store, 4)},
      {"activemask.b32", as("W", active_mask)},
      {"trap", as("", trap)},
      {"mov.u32", as("Wc", read_clock<u32>)}, {"mov.u64", as("Qc", read_clock<u64>)},
  };
}
// clang-format on
// NOLINTEND

}  // namespace onchip::ptx
