// SPDX-License-Identifier: Apache-2.0
// A tile of joined rows (joined.cuh) where samples take turns (pipeline.cuh), and its group's share of pieces of rows,
// for which warps do not keep step as they do elsewhere (pieces.cuh):
//
//   every warp      gather pieces | gather some strips while these are reduced | pieces -> partials, arrive at an mbarrier |
//                   gather the rest
//   those in need   wait for all to have arrived | add the partials to their sums
//   every warp      reduce, finish
//
// Only units of many non-zeros are cut, a few of an SM, whose groups are neighbours: most warps wait for nobody, and some
// reduce and finish while others gather. lstm 3072 B=4 10 % with rows of a power law, on an H100 (us per step, of which no
// file is kept): 2.61 where all wait at a named barrier, 2.35 so. Where all samples are computed at once, all warps come to
// the end of a step together in any case, and the barrier is 2 to 3 % better.

// The rows of tile kTile in one pass; with those of the first tile its pieces.
template <int kTile, int kPass>
__device__ __forceinline__ void joined_tile(Weights& w, const Arguments& a, const Step& step) {
  constexpr int kStrips = strips_of<kTile>(), kBeforeStoring = kStrips < 4 ? kStrips : 4;
  const u32 tails = step.kept_shared + kTailsAt + 4 * (step.thread / 32);
#if ONCHIP_PIECES != 0
  PieceSums of_pieces;
  if constexpr (kTile == 0) {
    multiply_pieces<kPass, kPass + 1>(w, step, of_pieces);
  }
#endif
  JoinedLane lane = find_lane<kTile>(tails, step.thread);
  LaneSums sums{};
  u32 offset = gather_strips<kTile, kPass, 0, kBeforeStoring>(w, step.shared, 0, lane, sums);
#if ONCHIP_PIECES != 0
  if constexpr (kTile == 0) {
    store_pieces<kPass, kPass + 1>(step, of_pieces);
    arrive(stored(step.kept_shared, kPass), step.thread % 32);
  }
#endif
  offset = gather_strips<kTile, kPass, kBeforeStoring, kStrips>(w, step.shared, offset, lane, sums);
  gather_joined_tail<kTile, kPass>(w, step.shared, offset, lane, sums);
  float sum[kValues];
  choose(lane, sums, sum);
  mark_clock(a, step.number - a.first_step, step.thread, kGathered);
  Output outputs[kOutputs];
  fetch_outputs<kTile, kPass>(step, outputs);
  const Gates gates = find_gates<kTile>(step);
#if ONCHIP_PIECES != 0
  if (lane.awaits_pieces) {
    int pieces[kTileHeight];
    find_pieces<kTile>(step, pieces);
    await_phase(stored(step.kept_shared, kPass), (step.number - a.first_step) & 1);
    add_pieces<kPass>(step, pieces, sum);
  }
#endif
  reduce<kValues, 1>(sum, step.lane);
  mark_clock(a, step.number - a.first_step, step.thread, kReduced);
  finish<kTile, kPass>(a, step, gates, sum, outputs);
}
