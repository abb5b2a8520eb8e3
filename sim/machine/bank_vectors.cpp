// SPDX-License-Identifier: Apache-2.0
// The bank model's count in 512-bit vectors, for processors that have AVX-512 with the extensions below (Intel from Ice
// Lake, AMD from Zen 4), found out at run time. The granules of a warp's halves are two vectors.
//
//   first to ask  VPCONFLICTD compares the lanes of a half; all turns of the lower half are compared with the upper one
//   counts        1 << set of each lane that is first to ask: the transpose of these 32 x 32 bits has the lanes of each
//                 set, of which the bits are counted
//   wavefronts    the largest count of each phase, added up
//
// Sets are numbered on from phase to phase, which makes all phases one transpose.
#include "sim/machine/banks.hpp"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#if !defined(__clang__)  // false alarms on the undefined operands inside of intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define ONCHIP_VECTORS gnu::target("avx512f,avx512bw,avx512cd,avx512vl,avx512vbmi,avx512bitalg,gfni,popcnt")

namespace onchip {
namespace {

constexpr int kHalf = kWarpLanes / 2;

template <typename Value, std::size_t kCount, typename Of>
constexpr std::array<Value, kCount> make_table(Of of) {
  std::array<Value, kCount> values{};
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<Value>(of(static_cast<int>(i)));
  }
  return values;
}

// [lanes of a half]: those of the same phase, a bit each; the first of its phase.
template <int kLanes>
constexpr auto kSamePhase = make_table<std::uint32_t, kHalf>([](int lane) {
  return ~0u >> (kWarpLanes - std::min(kLanes, kHalf)) << lane / kLanes * kLanes;
});
template <int kLanes>
constexpr auto kPhaseBegin = make_table<std::uint32_t, kHalf>([](int lane) { return lane / kLanes * kLanes; });

// Where to take the bytes of a half's 16 words, for those of equal rank in 8 neighbouring lanes to become neighbours.
constexpr auto kByteColumns = make_table<std::uint8_t, 64>([](int i) { return i / 32 * 32 + i % 8 * 4 + i / 8 % 4; });

// The lower halves of 64-bit words.
constexpr auto kLowWords = make_table<std::uint32_t, kHalf>([](int i) { return 2 * i; });

template <typename Table>
[[ONCHIP_VECTORS, gnu::always_inline]] inline __m512i load(const Table& table) {
  static_assert(sizeof(table) == sizeof(__m512i));
  return _mm512_loadu_si512(table.data());
}

// The lanes of `upper` that ask for the same as some lane of `lower`. Four chains of comparisons, because each waits
// for the mask of the one before.
template <std::size_t... kTurns>
[[ONCHIP_VECTORS, gnu::always_inline]] inline std::uint32_t asked_below(__m512i lower, __m512i upper,
                                                                        std::index_sequence<kTurns...>) {
  std::array<__mmask16, 4> differ{0xffff, 0xffff, 0xffff, 0xffff};
  ((differ[kTurns % 4] = _mm512_mask_cmpneq_epi32_mask(
        differ[kTurns % 4], _mm512_alignr_epi32(lower, lower, static_cast<int>(kTurns)), upper)),
   ...);
  return ~static_cast<std::uint32_t>(differ[0] & differ[1] & differ[2] & differ[3]) & 0xffffu;
}

// The lanes whose granule a lower one of the same phase and half has.
template <int kLanes>
[[ONCHIP_VECTORS, gnu::always_inline]] inline std::uint32_t asked_before(__m512i granules) {
  return _mm512_test_epi32_mask(_mm512_conflict_epi32(granules), load(kSamePhase<kLanes>));
}

// [2, 32]: how many of 8 neighbouring lanes, as far as they are in `lanes`, have which set; those of the half's first
// phase begin at `begin`.
template <int kLanes>
[[ONCHIP_VECTORS, gnu::always_inline]] inline __m512i count_sets(__m512i granules, int sets, std::uint32_t lanes,
                                                                 int begin) {
  const __m512i set = _mm512_and_si512(granules, _mm512_set1_epi32(sets - 1));
  const __m512i slot = _mm512_add_epi32(_mm512_add_epi32(set, load(kPhaseBegin<kLanes>)), _mm512_set1_epi32(begin));
  const __m512i bit = _mm512_maskz_sllv_epi32(static_cast<__mmask16>(lanes), _mm512_set1_epi32(1), slot);
  // The product of the identity and 8 x 8 bits, which this instruction takes transposed: the order in which it puts the
  // lanes does not matter to a count.
  const __m512i identity = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201u));
  const __m512i columns = _mm512_permutexvar_epi8(load(kByteColumns), bit);
  return _mm512_popcnt_epi8(_mm512_gf2p8affine_epi64_epi8(identity, columns, 0));
}

// The sum over all phases of the largest of their bytes.
template <int kLanes>
[[ONCHIP_VECTORS, gnu::always_inline]] inline int add_largest(__m256i bytes) {
  if constexpr (kLanes >= 32) {
    bytes = _mm256_max_epu8(bytes, _mm256_permute4x64_epi64(bytes, 0x4e));
  }
  if constexpr (kLanes >= 16) {
    bytes = _mm256_max_epu8(bytes, _mm256_shuffle_epi32(bytes, 0x4e));
  }
  if constexpr (kLanes >= 8) {
    bytes = _mm256_max_epu8(bytes, _mm256_srli_epi64(bytes, 32));
  }
  if constexpr (kLanes >= 4) {
    bytes = _mm256_max_epu8(bytes, _mm256_srli_epi64(bytes, 16));
  }
  if constexpr (kLanes >= 2) {
    bytes = _mm256_max_epu8(bytes, _mm256_srli_epi64(bytes, 8));
  }
  constexpr __mmask32 kFirstOfPhase = ~0u / (~0u >> (kWarpLanes - kLanes));  // every kLanes-th
  const __m256i largest = _mm256_maskz_mov_epi8(kFirstOfPhase, bytes);
  const __m256i quarters = _mm256_sad_epu8(largest, _mm256_setzero_si256());
  const __m128i halves = _mm_add_epi64(_mm256_castsi256_si128(quarters), _mm256_extracti128_si256(quarters, 1));
  return _mm_cvtsi128_si32(halves) + _mm_extract_epi32(halves, 2);
}

template <int kLanes>
[[ONCHIP_VECTORS, gnu::always_inline]] inline PhaseCount count_phases(__m512i lower, __m512i upper, std::uint32_t mask,
                                                                      int sets, std::uint8_t* of_set) {
  std::uint32_t repeated = asked_before<kLanes>(lower) | asked_before<kLanes>(upper) << kHalf;
  if constexpr (kLanes > kHalf) {
    repeated |= asked_below(lower, upper, std::make_index_sequence<kHalf>()) << kHalf;
  }
  const std::uint32_t first = mask & ~repeated;
  const __m512i eighths = _mm512_add_epi8(count_sets<kLanes>(lower, sets, first, 0),
                                          count_sets<kLanes>(upper, sets, first >> kHalf, kLanes > kHalf ? 0 : kHalf));
  const __m256i counts = _mm256_add_epi8(_mm512_castsi512_si256(eighths), _mm512_extracti64x4_epi64(eighths, 1));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(of_set), counts);
  int active = kWarpLanes / kLanes;
  if (mask != ~0u) {
    active = 0;
    for (int begin = 0; begin < kWarpLanes; begin += kLanes) {
      active += (mask >> begin & ~0u >> (kWarpLanes - kLanes)) != 0 ? 1 : 0;
    }
  }
  return {add_largest<kLanes>(counts), active, std::popcount(first)};
}

// All there is to 16 addresses: shared memory ends below 2^32.
[[ONCHIP_VECTORS, gnu::always_inline]] inline __m512i low_words(__m512i a, __m512i b) {
  return _mm512_permutex2var_epi32(a, load(kLowWords), b);
}

// Whether some active lanes i and i ^ kApart ask for different addresses.
template <int kApart>
[[ONCHIP_VECTORS, gnu::always_inline]] inline bool pairs_differ(__m512i lower, __m512i upper, std::uint32_t mask) {
  constexpr auto kPartners = kApart == 1 ? _MM_PERM_CDAB : _MM_PERM_BADC;
  const std::uint32_t unlike = _mm512_cmpneq_epi32_mask(lower, _mm512_shuffle_epi32(lower, kPartners)) |
                               _mm512_cmpneq_epi32_mask(upper, _mm512_shuffle_epi32(upper, kPartners)) << kHalf;
  return (unlike & mask & mask >> kApart & (kApart == 1 ? 0x55555555u : 0x33333333u)) != 0;
}

// The next addresses, to the lanes of this part of the mask; all ones to the others, which is no granule's.
[[ONCHIP_VECTORS, gnu::always_inline]] inline __m512i take(const std::uint64_t*& next, std::uint32_t mask) {
  const auto lanes = static_cast<__mmask8>(mask);
  const __m512i addresses = _mm512_mask_expandloadu_epi64(_mm512_set1_epi64(-1), lanes, next);
  next += std::popcount(lanes);
  return addresses;
}

[[ONCHIP_VECTORS]] PhaseCount count_by_vectors(const SharedAccess& access, const BankPhases& phases,
                                               std::uint8_t* of_set) {
  const std::uint32_t mask = access.mask;
  const std::uint64_t* next = access.addresses.data();
  __m512i lower, upper;
  if (mask == ~0u) {
    lower = low_words(_mm512_loadu_si512(next), _mm512_loadu_si512(next + 8));
    upper = low_words(_mm512_loadu_si512(next + 16), _mm512_loadu_si512(next + 24));
  } else {
    const __m512i a = take(next, mask), b = take(next, mask >> 8);
    const __m512i c = take(next, mask >> 16), d = take(next, mask >> 24);
    lower = low_words(a, b);
    upper = low_words(c, d);
  }
  int lanes = phases.lanes;
  if (lanes < kWarpLanes && access.sharing == Sharing::words_and_phases &&
      (!pairs_differ<1>(lower, upper, mask) || !pairs_differ<2>(lower, upper, mask))) {
    lanes *= 2;
  }
  lower = _mm512_srlv_epi32(lower, _mm512_set1_epi32(phases.shift));
  upper = _mm512_srlv_epi32(upper, _mm512_set1_epi32(phases.shift));
  switch (lanes) {
    case 1:
      return count_phases<1>(lower, upper, mask, phases.sets, of_set);
    case 2:
      return count_phases<2>(lower, upper, mask, phases.sets, of_set);
    case 4:
      return count_phases<4>(lower, upper, mask, phases.sets, of_set);
    case 8:
      return count_phases<8>(lower, upper, mask, phases.sets, of_set);
    case 16:
      return count_phases<16>(lower, upper, mask, phases.sets, of_set);
    default:
      return count_phases<32>(lower, upper, mask, phases.sets, of_set);
  }
}

}  // namespace

VectorCounter vector_counter() {
  const bool has_instructions = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vl") &&
                                __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bitalg") &&
                                __builtin_cpu_supports("gfni") && __builtin_cpu_supports("popcnt");
  return has_instructions ? count_by_vectors : nullptr;
}

}  // namespace onchip

#else

onchip::VectorCounter onchip::vector_counter() {
  return nullptr;
}

#endif
