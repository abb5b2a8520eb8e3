// SPDX-License-Identifier: Apache-2.0
// Rows that are longer than most, shared out.
//
// A row has kSlots[row] slots in every lane of its group. What is beyond them is cut into pieces of as many slots each,
// kSlots[kRowsPerGroup + piece], and every group of the block multiplies kPieces of them, whoever's they are, before its
// own rows. Their sums meet in shared memory:
//
//   every group    gather and reduce pieces of all passes | gather the first tile | pieces -> partials | block barrier
//                  | to the lanes' sums of a row those of its pieces | reduce, finish, next tile ...
//
// Where samples take turns (pipeline.cuh), in every pass, of that pass, and the barrier is one of the warps that compute.
//
// That costs a barrier and a few loads in every step: about 0.1 us. us per step on an H200 with rows of a power law, with
// tails and with pieces (validation.csv of experiments/data): relu 2304 B=4 10 % 1.55, 1.18; relu 4096 B=4 10 % 2.38, 1.45;
// relu 5760 B=2 5 % 2.24, 1.31; lstm 1024 B=4 10 % 1.73, 1.18; lstm 2304 B=4 10 % 2.95, 2.23. The sums of a piece are stored
// only after the tile's gathers, or the compiler would hold those back; that alone took 0.1 us off.
//
// Tried on an H100 (no file is kept) and left. Slots that no row of a warp needs, a tenth to a sixth of all, left out by
// branches, four or eight at a time: 5 to 7 % fewer wavefronts, and steps that took 2 to 32 % longer (lstm 3072 B=4 10 %
// 2.63 to 2.69, relu 4096 B=4 10 % 1.37 to 1.65), for at every branch the loads under way run out. And where samples take
// turns, the pieces' sums stored after the first row's gathers and awaited at an mbarrier, so that warps need not keep
// step: lstm 3072 2.71 to 2.62 and 2.69 to 2.65.
//
// Where registers do not hold all (ONCHIP_PIECES_ANYWHERE), pieces have tails as rows have (gather.cuh), or rows have them
// and pieces none; tails of both take code for each, of which the instruction cache holds little. Pieces that are stored as
// distances begin each where it begins, with the word that says where.
//
//   partials   float [kPieces][kGroups][kBatchPadded]; piece number p * kGroups + g is the p-th of group g
//   table      int [kUnitsPerSm][kGates]: of each row the number of its first piece | how many << 16; they are neighbours

constexpr int kPieceValues = kPieces * kPassSamples;  // sums of a group's pieces, of one pass: [kPassSamples][kPieces]
static_assert((kPieces & (kPieces - 1)) == 0, "reduced together");
#ifdef ONCHIP_PIECES_ANYWHERE
static_assert(kStorage != kDense, "where a non-zero stands is not the place of its column");
#else
static_assert(kStorage == kPackedPair && !kHasTail, "any non-zero may stand in any piece, and all in registers");
#endif

__device__ __forceinline__ void load_piece_table(const Arguments& a, u32 shared, int thread) {
#ifdef ONCHIP_PIECES_ANYWHERE
  const int* const table = a.tails + (kHasTail ? kBlocks * (kTailInts + 2 * kWarps) : 0);
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
    store_shared_int(shared + kPieceTableAt + 4 * i, table[blockIdx.x * (kUnitsPerSm * kGates) + i]);
  }
#else
#pragma unroll 1
  for (int i = thread; i < kUnitsPerSm * kGates; i += kThreads) {
    store_shared_int(shared + kPieceTableAt + 4 * i, a.tails[blockIdx.x * (kUnitsPerSm * kGates) + i]);
  }
#endif
}

#ifdef ONCHIP_PIECES_ANYWHERE
template <int kPass, int kPiece = 0>
__device__ __forceinline__ void gather_pieces(Weights& w, const Step& step, float (&sum)[kPieceValues]) {
  if constexpr (kPiece < kPieces) {
    constexpr int row = kRowsPerGroup + kPiece;
    int chunks = 0;
    if constexpr (ONCHIP_PIECE_CHUNKS != 0) {
      chunks = load_shared_int(step.kept_shared + kTailsAt + 4 * ((row + 1) * kWarps + step.thread / 32));
    }
    const u32 offset = gather_registers<row, kPass, kPieces>(w, step.shared, step.lane, kPiece, sum);
    if constexpr (ONCHIP_PIECE_CHUNKS != 0) {
      gather_tail<kPass>(w, chunks, step.shared, offset, kPiece, step.thread % 32, sum);
    }
    gather_pieces<kPass, kPiece + 1>(w, step, sum);
  }
}
#else
template <int kPass, int kPiece = 0>
__device__ __forceinline__ void gather_pieces(const Weights& w, const Step& step, float (&sum)[kPieceValues]) {
  if constexpr (kPiece < kPieces) {
    gather_registers<kRowsPerGroup + kPiece, kPass, kPieces>(w, step.shared, step.lane, kPiece, sum);
    gather_pieces<kPass, kPiece + 1>(w, step, sum);
  }
}
#endif

constexpr int kHeldPieces = kPieceValues > kLanesPerRow ? kPieceValues / kLanesPerRow : 1;  // by a lane, once reduced
struct PieceSums {
  float of[kPasses][kHeldPieces];
};

// This group's pieces, in passes [kPass, kEnd). Nothing is stored yet: the compiler would hold back the tile's gathers
// until it is.
template <int kPass, int kEnd>
#ifdef ONCHIP_PIECES_ANYWHERE
__device__ __forceinline__ void multiply_pieces(Weights& w, const Step& step, PieceSums& sums) {
#else
__device__ __forceinline__ void multiply_pieces(const Weights& w, const Step& step, PieceSums& sums) {
#endif
  if constexpr (kPass < kEnd) {
    float sum[kPieceValues] = {};
#ifdef ONCHIP_PIECES_ANYWHERE
    const u32 begin = w.chunk;
    gather_pieces<kPass>(w, step, sum);
    if constexpr (kPass + 1 < kEnd) {
      w.chunk = begin;  // the next pass takes the same chunks again
    }
#else
    gather_pieces<kPass>(w, step, sum);
#endif
    reduce<kPieceValues, 1>(sum, step.lane);
#pragma unroll
    for (int i = 0; i < kHeldPieces; ++i) {
      sums.of[kPass][i] = sum[i];
    }
    multiply_pieces<kPass + 1, kEnd>(w, step, sums);
  }
}

template <int kPass, int kEnd>
__device__ __forceinline__ void store_pieces(const Step& step, const PieceSums& sums) {
#pragma unroll
  for (int pass = kPass; pass < kEnd; ++pass) {
#pragma unroll
    for (int i = 0; i < kHeldPieces; ++i) {
      const int value = (step.lane & (kPieceValues - 1)) + i * kLanesPerRow;
      const int number = value % kPieces * kGroups + step.group;
      const int sample = pass * kPassSamples + value / kPieces;
      store_shared_if(step.lane < kPieceValues, step.kept_shared + kPartialsAt + 4 * (number * kBatchPadded + sample),
                      sums.of[pass][i]);
    }
  }
}

// The pieces of a tile's rows: first piece | how many << 16.
template <int kTile>
__device__ __forceinline__ void find_pieces(const Step& step, int (&pieces)[kTileHeight]) {
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    const int unit = (kGates == 1 ? kTile * kTileRows + row : kTile) * kGroups + step.group;
    const bool exists = unit < kUnitsPerSm && kTile * kTileHeight + row < kRowsPerGroup;
    const int place = kGates == 1 ? 0 : row;
    pieces[row] = load_shared_int(step.kept_shared + kPieceTableAt + 4 * ((exists ? unit : 0) * kGates + place));
    pieces[row] = exists ? pieces[row] : 0;
  }
}

// The sums of all samples of a pass, of one piece; zero if there is none.
__device__ __forceinline__ void load_partials(bool exists, u32 address, float (&v)[kPassSamples]) {
  if constexpr (kPassSamples >= 4) {
#pragma unroll
    for (int b = 0; b < kPassSamples; b += 4) {
      const Word word = load_shared_if(exists, address + 4 * b);
      v[b] = __uint_as_float(word.x);
      v[b + 1] = __uint_as_float(word.y);
      v[b + 2] = __uint_as_float(word.z);
      v[b + 3] = __uint_as_float(word.w);
    }
  } else {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      v[b] = load_shared_float_if(exists, address + 4 * b);
    }
  }
}

// Of each row of a tile the i-th piece, in lane i.
template <int kPass>
__device__ __forceinline__ void add_piece(const Step& step, const int (&pieces)[kTileHeight], int i, float (&sum)[kValues]) {
  float partials[kTileHeight][kPassSamples];
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    const int number = (pieces[row] & 0xffff) + i;
    load_partials(i < pieces[row] >> 16,
                  step.kept_shared + kPartialsAt + 4 * (number * kBatchPadded + kPass * kPassSamples), partials[row]);
  }
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
#pragma unroll
    for (int b = 0; b < kPassSamples; ++b) {
      sum[b * kTileRows + row] += partials[row][b];
    }
  }
}

// After the block's barrier: the lanes of a group share the sums of its rows' pieces out, and add them to their own,
// which are reduced together. Few rows have more pieces than a group has lanes: only those come to the loop, and the
// others' loads are on their way while the last products are added up.
template <int kPass>
__device__ __forceinline__ void add_pieces(const Step& step, const int (&pieces)[kTileHeight], float (&sum)[kValues]) {
  add_piece<kPass>(step, pieces, step.lane, sum);
  int most = 0;
#pragma unroll
  for (int row = 0; row < kTileHeight; ++row) {
    most = max(most, pieces[row] >> 16);
  }
#pragma unroll 1
  for (int first = kLanesPerRow; first < most; first += kLanesPerRow) {
    add_piece<kPass>(step, pieces, first + step.lane, sum);
  }
  __syncwarp();
}
