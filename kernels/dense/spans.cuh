// SPDX-License-Identifier: Apache-2.0
// The state of the dense persistent kernel, in the order in which the tensor cores take it: spans of 32 units, of each
// sample one after another.
//
//   state   [kTeams][kSpans][kTeamBatch][32]
//
// A lane of a warp loads 16 bytes, 8 neighbouring units of a sample: what it has to hold of two B fragments (16 units x 8
// samples each) of mma.m16n8k16, or of one (32 units) of mma.sp.m16n8k32, if the columns of W stand in the order of spans
// too (model/dense/fragments.hpp). The samples of a piece of 8 units one after another, so that what an SM stores lies together,
// were slower: a quarter of a warp's load then touches four lines (relu 4096 B=8 2.36 us instead of 1.63).

constexpr bool kIsStructured = ONCHIP_STRUCTURED;  // W is stored as 2:4
constexpr int kTeams = ONCHIP_TEAMS;
constexpr int kTeamBatch = kBatch / kTeams;  // samples of a team
static_assert(kTeamBatch * kTeams == kBatch, "the teams share the samples out evenly");

constexpr int kSpanUnits = 32;
constexpr int kSpans = (kStateUnits + kSpanUnits - 1) / kSpanUnits;
constexpr int kSpanBytes = kTeamBatch * kSpanUnits * kElementBytes;
constexpr int kStateBytes = kSpans * kSpanBytes;                      // of a team
constexpr int kTeamStride = (kStateBytes / 16 + kLineWords - 1) / kLineWords * 128;  // whole lines of L2, see planes.cuh
constexpr int kStateStride = kTeams * kTeamStride;                    // from one step to the next

constexpr int kStateWords = kStateStride / 16;

// Place of a unit in its span; see model/dense/fragments.hpp.
__device__ __forceinline__ int place_in_span(int unit) {
  const int in_span = unit % kSpanUnits;
  return kIsStructured ? (in_span & 17) | (in_span & 12) >> 1 | (in_span & 2) << 2 : in_span;
}
// Element index of (unit, sample) in a team's state.
__device__ __forceinline__ int index_in_team(int unit, int sample) {
  return (unit / kSpanUnits * kTeamBatch + sample) * kSpanUnits + place_in_span(unit);
}
// The same in the states of all teams.
__device__ __forceinline__ int state_index(int unit, int sample) {
  return sample / kTeamBatch * (kTeamStride / kElementBytes) +
         in_l2(kElementBytes * index_in_team(unit, sample % kTeamBatch)) / kElementBytes;
}
