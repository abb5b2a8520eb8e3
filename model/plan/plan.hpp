// SPDX-License-Identifier: Apache-2.0
// How a network is mapped on a chip: the value that the model prices, the simulator replays and the kernels launch.
//
// Sparse persistent: one block per SM, one *lane group* (lanes_per_row lanes of a warp) per hidden unit, or several
// units one after another; a unit has one row of W per gate. Units are dealt to groups by falling length of their
// longest row, so that the r-th row of every group is about equally long; each lane holds slots[r] (value, index) pairs
// of it.
//
// Where few rows are longer than most, groups have fewer slots than the longest need. What a row has beyond them is cut
// into pieces, which go to all groups of its SM, pieces of them to each, whoever's they are. Rows and pieces may have
// chunks of slots in shared memory beside those in registers, each as many as it needs.
//
// Where a thread's weights are: registers first; what they cannot hold in shared memory, in quads of four 32-bit words;
// what that cannot hold is streamed from L2 in every step, quad by quad, through a ring in shared memory.
//
// The state of several samples may be computed in passes, some samples each. Where exchange_warps do the exchange,
// passes take turns: one is computed while the state of another is on its way.
//
// Dense persistent: one block per SM, all warps of which multiply all rows of its units, each for its own share of the
// columns, by tiles of 16 rows x 16 units on the tensor cores (model/dense/fragments.hpp). A warp's tiles are in registers;
// shared_tiles of them in shared memory. The samples may be shared out to several *teams* of SMs, each with all weights
// and a state of its own. A team that is one cluster of the chip exchanges the state through distributed shared memory.
// Of a 2:4 matrix (model/workload/mask.hpp) the sparse tensor cores need only half of the weights: a tile of as many bytes then
// has 16 rows x 32 units. Of any sparse matrix the tiles in shared memory may be stored without the words that are zero
// (model/dense/bitmap.hpp).
#pragma once

#include "model/workload/mask.hpp"
#include "model/workload/network.hpp"
#include "model/workload/row_profile.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

enum class Family : std::uint8_t {
  sparse_persistent,
  dense_persistent,
  // Libraries, which read the weights anew in every step (model/library/time.hpp). Of their plans nothing is chosen
  // here.
  cublas_graph,
  cudnn,
  cusparse_graph,
};
constexpr bool is_library(Family family) {
  return family >= Family::cublas_graph;
}

enum class Storage : std::uint8_t {
  packed_pair,   // value and 16-bit index: 24 (fp8), 32 (fp16, bf16) or 48 bits (fp32) per non-zero
  dense,         // values alone, zeros included, position implied
  packed_delta,  // value and 8-bit distance from the lane's non-zero before, 16 (fp8) or 24 bits (fp16, bf16), and the
                 // lane's first place, 32 bits per row; model/sparse/delta_order.hpp
  structured_2_4,  // dense_persistent: of every four neighbouring columns of a row two values and their places, 2 bits
                   // each; model/dense/fragments.hpp
  bitmap,  // dense_persistent: as dense, but of tiles in shared memory the words of two weights that are not zero, and
           // a bit for each word; model/dense/bitmap.hpp
};

enum class RowOrder : std::uint8_t {
  natural,      // a row's non-zeros in ascending columns, lane after lane
  bank_aware,   // reordered so that lanes that load together hit different shared-memory banks
  bank_merged,  // the same, and loads whose lanes cannot do so are as few as can be (model/banks/conflict_merging.hpp)
};

enum class ExchangeProtocol : std::uint8_t {
  lamport,              // the state is its own flag: readers poll it
  atomic_barrier,       // a counter over all SMs after every step, then plain reads
  cooperative_barrier,  // the same by the algorithm of a cooperative launch's grid-wide barrier
  cluster,              // dense persistent: every SM stores its part into the shared memory of all SMs of its cluster
  bulk_copy,  // sparse persistent, samples that take turns: every SM raises a flag once its part is in L2; who
              // has seen all copies the state in bulk (compute capability 9)
};

enum class Tier : std::uint8_t { registers, shared_memory, streamed };

inline constexpr std::array<std::string_view, 5> kFamilyNames{"sparse_persistent", "dense_persistent", "cublas_graph",
                                                              "cudnn", "cusparse_graph"};
inline constexpr std::array<std::string_view, 5> kStorageNames{"packed_pair", "dense", "packed_delta", "structured_2_4",
                                                               "bitmap"};
inline constexpr std::array<std::string_view, 3> kRowOrderNames{"natural", "bank_aware", "bank_merged"};
inline constexpr std::array<std::string_view, 5> kExchangeNames{"lamport", "atomic_barrier", "cooperative_barrier",
                                                                "cluster", "bulk_copy"};
constexpr std::string_view name(Family family) {
  return kFamilyNames[static_cast<int>(family)];
}
constexpr std::string_view name(Storage storage) {
  return kStorageNames[static_cast<int>(storage)];
}
constexpr std::string_view name(RowOrder order) {
  return kRowOrderNames[static_cast<int>(order)];
}

inline constexpr std::array<std::string_view, 3> kTierNames{"registers", "shared_memory", "streamed"};
constexpr std::string_view name(Tier tier) {
  return kTierNames[static_cast<int>(tier)];
}
constexpr std::string_view name(ExchangeProtocol exchange) {
  return kExchangeNames[static_cast<int>(exchange)];
}

inline constexpr int kMaxRowsPerGroup = 32;
inline constexpr int kMaxTileRows = 8;
inline constexpr int kWidestLoad = 16;  // bytes
inline constexpr int kMostRingChunks = 4;
inline constexpr int kMostChunksInFlight = 4;
inline constexpr int kMostExchangeWarps = 8;
inline constexpr int kFirstThatCopiesInBulk = 9;  // compute capability
inline constexpr int kMostPieces = 4;             // of a group
inline constexpr int kMostTurns = 4;              // passes that are exchanged one by one: a block has 16 barriers
inline constexpr int kMostDelta = 127;            // packed_delta: units between neighbouring slots of a lane
inline constexpr int kEmptiedAhead = 128;         // steps from emptying a segment of the exchange to writing it
inline constexpr int kSpanUnits = 32;             // dense persistent: units whose state a warp loads at once
inline constexpr int kLineWords = 8;              // of 16 bytes, in a line of L2
inline constexpr int kTileBytes = 512;            // dense persistent: 16 rows x 16 values, fp16 or bf16
inline constexpr int kTilesOfBitmap = 8;          // of a lane, whose words of a tile are 4, in 32 bits
inline constexpr int kBankRowBytes = 128;         // a word in each bank

using Slots = std::array<int, kMaxRowsPerGroup>;  // of every row of a group

struct Plan {
  Family family = Family::sparse_persistent;
  Storage storage = Storage::packed_pair;
  RowOrder order = RowOrder::bank_aware;
  ExchangeProtocol exchange = ExchangeProtocol::lamport;
  int sms = 0;                   // blocks, one per SM, of a team
  int threads = 0;               // per block that compute, a multiple of 32
  int lanes_per_row = 32;        // 1, 2, 4, ... 32; gated cells: at least 4
  int rows_per_group = 1;        // units per group * gates: the gates of the first unit, then of the second, ...
  Slots slots{};                 // per lane in registers, for the r-th row of a group
  int tile_rows = 1;             // rows reduced together, a power of two; gated cells: 4, a unit's gates
  int pass_planes = 1;           // planes of the state reduced together, a power of two
  int batch_padded = 1;          // power of two
  int load_bytes = kWidestLoad;  // widest load of the state; the size of an element: a sample at a time
  int loads_in_flight = 2;       // 16-byte words of the state that a thread polls at once; dense persistent: a multiple
                                 // of twice the sample tiles
  int promote_every = 1;         // products summed in fp16 before they join the fp32 sum; 1: all sums in fp32
  int tail_chunks = 0;           // of an SM, on average; 0: all weights are in registers
  int longest_tail = 0;          // chunks of the warp that has most
  int shared_chunks = 0;         // room for them in shared memory, of an SM
  int chunks_in_flight = 1;      // that a warp takes from shared memory at once, a power of two
  int ring_chunks = 0;           // per warp, of the ring that streamed chunks come through; 0: none are streamed
  int shared_tiles = 0;          // dense persistent: of a warp's tiles, in shared memory
  int bank_words = 0;            // bitmap: room for words of these tiles in each bank of shared memory, of an SM
  int line_words = kLineWords;   // 16-byte words of the state in each line of L2, a power of two: fewer than it holds,
                                 // so that fewer SMs write the same line
  int first_look = 0;      // cycles that a warp waits, once its SM has handed out its part of the state, before it
                           // looks for the next
  int teams = 1;           // dense persistent: that share the samples out, evenly
  int pieces = 0;          // per group, a power of two: parts of rows that are too long for their own groups' slots
  int piece_slots = 0;     // per lane, of each piece
  int most_pieces = 0;     // of a row
  int row_chunks = 0;      // with pieces: of a row, at most, beyond its slots in registers; the rest is cut
  int piece_chunks = 0;    // of a piece, at most, beyond piece_slots
  int exchange_warps = 0;  // beside the threads that compute: one hands out the state of a pass, the others fetch it
                           // while another pass is computed; 0: every thread fetches its share before a step

  int block_threads() const { return threads + 32 * exchange_warps; }
  int fetching_threads() const {
    return exchange == ExchangeProtocol::bulk_copy ? 32 : exchange_warps > 0 ? 32 * (exchange_warps - 1) : threads;
  }
  int groups() const { return threads / lanes_per_row; }
  int warps() const { return threads / 32; }
  int blocks() const { return sms * teams; }
  int all_rows() const { return rows_per_group + pieces; }  // that a group multiplies
  int slots_of(int r) const { return r < rows_per_group ? slots[r] : piece_slots; }
  // The i-th of all rows in the order in which a step takes them: the pieces, then the rows of the group.
  int tail_row(int i) const { return i < pieces ? rows_per_group + i : i - pieces; }
  int slots_total() const;  // in registers, with those of the pieces
  bool has_tail() const { return tail_chunks > 0; }
  bool has_tail(int r) const {  // the r-th row of a group, or piece
    return has_tail() && (pieces == 0 || (r < rows_per_group ? row_chunks : piece_chunks) > 0);
  }
  int rows_with_tail() const {  // of a group, with its pieces
    return (has_tail(0) ? rows_per_group : 0) + (pieces > 0 && has_tail(rows_per_group) ? pieces : 0);
  }
  int streamed_chunks() const { return ring_chunks > 0 ? std::max(0, tail_chunks - shared_chunks) : 0; }  // on average
  friend bool operator==(const Plan&, const Plan&) = default;
};

// ---- sizes that follow from a plan ----------------------------------------------------------------------------------

int unit_bytes(const Network& network, const Plan& plan);  // one hidden unit's state of the padded batch
// The state lies in planes of what one load fetches of a unit, so that the loads reach every bank:
//   state[plane][unit][samples of the plane]
int planes(const Network& network, const Plan& plan);
int plane_unit_bytes(const Network& network, const Plan& plan);
// The state is ordered by the SM that computes it: SM s owns units [s * units_per_sm, (s + 1) * units_per_sm) of it,
// a whole number of 16-byte words, of which the last may be unused.
int units_per_sm(const Network& network, const Plan& plan);
int state_units(const Network& network, const Plan& plan);
int zero_units(const Network& network, const Plan& plan);   // units behind the state that stay zero, for padding slots
int index_shift(const Network& network, const Plan& plan);  // byte offset of a unit = stored 16-bit index << shift
std::int64_t exchange_bytes(const Network& network, const Plan& plan);  // a team's state vector, as exchanged
// In L2 the state lies in lines of line_words words each, a team's in whole ones.
std::int64_t state_stride(const Network& network, const Plan& plan);   // bytes from one state to the next
std::int64_t barrier_bytes(const Network& network, const Plan& plan);  // in L2, for barriers and flags of all SMs
// What is best for SMs that write so many words each, side by side, as measured on an H200: where many SMs write the
// same line, the exchange takes up to 0.4 us longer (kernels/recurrent/state.cuh), but more lines take longer to poll: with two
// words of each SM in a line of their own, steps were 1 % longer on average than with eight, and up to 12 %.
int line_words_for(int words_of_sm);
int best_line_words(const Network& network, const Plan& plan);
// How long to wait for the first look, for SMs that compute for so many cycles of a step, and wait for so many more
// while the state is copied; 0 where nothing is looked for, or at once. Of 34 networks on an H200 (first_look.csv of
// experiments/data), steps with this wait take at most 3 % longer than with the best, 5 % where samples take turns, and
// dense ones up to 6 %, 1 % on average. In dense plans, whose SMs are all done at nearly the same time, the wait grows
// with the bytes that all SMs together look at: the more a look in vain moves. Where samples take turns, warps that
// look anew get in the way of those that compute, so the wait grows with what a pass computes; but where passes are
// fetched more slowly than they are computed, waiting only holds the next pass up.
int best_first_look(const Network& network, const Plan& plan, double body_cycles, double staging_cycles);
std::int64_t input_bytes(const Network& network, const Plan& plan);  // of one step, in owner's order

// Shared memory serves a warp's load in phases of 32, 16 or 8 neighbouring lanes, for 4, 8 or 16 bytes per lane. The
// lanes of a group are spread over the phases, so that every phase serves all groups of the warp: their rows together
// are more even over the banks than each alone. Of a lane's number in its group, the lowest bits are the lowest of its
// thread's, the highest the highest; the group's number stands between them.
int load_phases(const Network& network, const Plan& plan);         // of a warp's load: 1, 2 or 4
int spread_over_phases(const Network& network, const Plan& plan);  // phases that a group's lanes take part in
int thread_of(const Network& network, const Plan& plan, int group, int lane);
struct GroupLane {
  int group, lane;
};
GroupLane group_lane_of(const Network& network, const Plan& plan, int thread);

// Weights are stored in bundles of so many slots in so many 32-bit words; the last of a row may be shorter.
struct Bundle {
  int slots = 1, words = 1;
};
Bundle bundle(const Network& network, const Plan& plan);
int row_words(const Network& network, const Plan& plan, int slots);
int words_of(const Network& network, const Plan& plan, int r);  // in registers, of the r-th of all_rows()
int start_words(const Plan& plan);                              // of each of these: where its first slot reads
// Slots that a row of so many non-zeros takes, of all its lanes and of each; packed_delta: with those that are expected
// to be spent on distances beyond kMostDelta.
std::int64_t slots_of_lanes(const Network& network, const Plan& plan, std::int64_t length);
int row_slots(const Network& network, const Plan& plan, std::int64_t length);
int register_words(const Network& network, const Plan& plan);  // 32-bit words of weights per thread in registers
int tile_height(const Network& network, const Plan& plan);     // rows of a tile, without the GRU's empty one
int tiles(const Network& network, const Plan& plan);
int passes(const Network& network, const Plan& plan);  // over the planes of the state, pass_planes at a time
// Whether the passes of a plan can be exchanged one by one, so that exchange warps have something to do.
bool takes_turns(const Network& network, const Plan& plan);
int fetched_words(const Network& network,
                  const Plan& plan);  // of 16 bytes, by the busiest thread, before a pass or step

// Dense persistent: the state lies in spans of kSpanUnits units, the last of which may reach beyond the last SM's
// units. A warp takes warp_spans of them, the last warps fewer or none, and multiplies each with its rows in row_tiles
// of 16 for sample_tiles of 8 samples.
int spans(const Network& network, const Plan& plan);
int warp_spans(const Network& network, const Plan& plan);
int row_tiles(const Network& network, const Plan& plan);
int team_batch(const Network& network, const Plan& plan);  // samples of a team
int sample_tiles(const Network& network, const Plan& plan);
bool has_part_tile(const Network& network, const Plan& plan);     // beside whole tiles of samples, one that is not
bool has_uneven_spans(const Network& network, const Plan& plan);  // warps have spans in different numbers
int span_tiles(const Plan& plan);  // halves of a span, each in tiles of its own; structured_2_4: 1, the whole
int warp_tiles(const Network& network, const Plan& plan);  // of weights: [warp_spans, span_tiles, row_tiles]
// Words that a thread keeps beside its weights. structured_2_4: each for two tiles; bitmap: each for eight tiles in
// shared memory, and where the thread's first word of those is.
int metadata_words(const Network& network, const Plan& plan);
// Independent sums of the same rows and samples: several where there are few, or each product would wait for the last.
int product_chains(const Network& network, const Plan& plan);
// What an SM's threads finish, one each or several: a sample of two units, of gated cells of one (kernels/dense/combine.cuh).
int finished_items(const Network& network, const Plan& plan);

// A chunk of a tail: whole bundles, of every lane of a warp.
int chunk_slots(const Network& network, const Plan& plan);
int chunk_words(const Network& network, const Plan& plan);  // per lane
int chunk_bytes(const Network& network, const Plan& plan);  // of the warp
// With pieces: slots per lane, in registers and chunks, that the r-th row of a group may take, and each piece.
int row_room(const Network& network, const Plan& plan, int r);
int piece_room(const Network& network, const Plan& plan);
// Slots of a lane over all its rows, those of the tail on average over the warps of an SM.
double mean_slots(const Network& network, const Plan& plan);

std::int64_t state_bytes(const Network& network, const Plan& plan);   // shared memory without weights
std::int64_t shared_bytes(const Network& network, const Plan& plan);  // all shared memory of a block

// ---- making plans ---------------------------------------------------------------------------------------------------

// Wishes of the user; what is not set is chosen by the planner.
struct PlanWishes {
  std::optional<Family> family;
  std::optional<Storage> storage;
  std::optional<RowOrder> order;
  std::optional<ExchangeProtocol> exchange;
  std::optional<int> sms, lanes_per_row, rows_per_group, tile_rows, load_bytes, loads_in_flight, promote_every, teams,
      first_look, exchange_warps, pieces;
  std::optional<Tier> tier;  // weights lie in this tier at most
  int spare_registers = 0;  // that a thread leaves to the compiler beyond what the model counts (kernels/recurrent/spill_free_plan.hpp)
};

// The plan with the given geometry: threads, slots and tile follow from the rows. All weights in registers, as many
// slots as the longest row of each class takes; nothing is checked against the chip.
Plan shape_plan(const Network& network, const RowProfile& rows, Storage storage, int sms, int lanes_per_row,
                int rows_per_group);

// Sets the slots of a sparse plan, as many as the longest row of each class takes.
void give_slots(const Network& network, const RowProfile& rows, Plan& plan);

// The dense persistent plan with the given geometry; all tiles in registers, nothing is checked against the chip.
// `teams` divides the batch; storage is dense, structured_2_4 or bitmap.
Plan shape_dense_plan(const Network& network, int sms, int threads, int teams = 1, Storage storage = Storage::dense);

Plan library_plan(Family family);

// "sparse_persistent packed_pair bank_aware lamport sms=132 threads=576 ..." and back; used in data files and on the
// command line; only what the family uses. parse_plan throws InputError.
std::string to_string(const Plan& plan);
Plan parse_plan(std::string_view text);

}  // namespace onchip
