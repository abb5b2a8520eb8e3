// SPDX-License-Identifier: Apache-2.0
// The state of the dense persistent kernel, in the order in which the tensor cores take it: pieces of 8 neighbouring units of
// a sample, the samples one after another; four pieces are a span.
//
//   state   [kTeams][kSpans][4][kTeamBatch][8]
//
// A lane of a warp loads a piece, 16 bytes: what it has to hold of two B fragments (16 units x 8 samples each) of
// mma.m16n8k16, if the columns of W stand in the order of spans too (model/fragments.hpp). What an SM computes of whole
// pieces lies together: it is stored in as few packets as can be.

constexpr int kTeams = ONCHIP_TEAMS;
constexpr int kTeamBatch = kBatch / kTeams;  // samples of a team
static_assert(kTeamBatch * kTeams == kBatch, "the teams share the samples out evenly");

constexpr int kPieceUnits = 8;
constexpr int kSpanUnits = 32;
constexpr int kSpans = (kStateUnits + kSpanUnits - 1) / kSpanUnits;
constexpr int kSpanBytes = kTeamBatch * kSpanUnits * kElementBytes;
constexpr int kStateBytes = kSpans * kSpanBytes;       // of a team
constexpr int kStateWords = kTeams * kStateBytes / 16;  // of all teams

// Element index of (unit, sample) in a team's state.
__device__ __forceinline__ int index_in_team(int unit, int sample) {
  return (unit / kPieceUnits * kTeamBatch + sample) * kPieceUnits + unit % kPieceUnits;
}
// The same in the states of all teams.
__device__ __forceinline__ int state_index(int unit, int sample) {
  return sample / kTeamBatch * (kStateBytes / kElementBytes) + index_in_team(unit, sample % kTeamBatch);
}
