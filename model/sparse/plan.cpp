// SPDX-License-Identifier: Apache-2.0
#include "model/sparse/plan.hpp"

#include "model/plan/plan_text.hpp"

#include <string>

namespace onchip {
namespace {

using P = SparsePlan;

constexpr std::uint32_t kStorages = known(Storage::packed_pair, Storage::dense, Storage::packed_delta);
constexpr std::uint32_t kExchanges = known(ExchangeProtocol::lamport, ExchangeProtocol::atomic_barrier,
                                           ExchangeProtocol::cooperative_barrier, ExchangeProtocol::bulk_copy);
constexpr int kMostThreads = 65536;

// One number for each row of a group, "3/2".
std::string slots_text(const P& plan) {
  std::string text;
  for (int r = 0; r < plan.rows_per_group; ++r) {
    text += (r ? "/" : "") + std::to_string(plan.slots[static_cast<std::size_t>(r)]);
  }
  return text;
}

void read_slots(P& plan, std::string_view text) {
  plan.rows_per_group = 0;
  for (const std::string_view slots : split_text(text, '/')) {
    if (plan.rows_per_group == static_cast<int>(plan.slots.size())) {
      throw InputError("plan: more than " + std::to_string(plan.slots.size()) + " rows per group");
    }
    plan.slots[static_cast<std::size_t>(plan.rows_per_group++)] = parse_count(slots, "slots");
  }
}

constexpr Field<P> kFields[] = {
    choice<&P::storage>("storage", kStorageNames, kStorages)
        .define()
        .option("KIND", "Store weights as packed_pair (value and index), packed_delta (value and distance) or dense."),
    choice<&P::order>("order", kRowOrderNames)
        .option(
            "KIND",
            "Order the non-zeros of a row: natural, bank_aware, or bank_merged, whose conflicts meet in few loads."),
    choice<&P::exchange>("exchange", kExchangeNames, kExchanges)
        .define()
        .option(
            "KIND",
            "Exchange the state by lamport, atomic_barrier, cooperative_barrier or, of pipelined samples, bulk_copy."),
    number<&P::sms>("sms", 1, kMostSms).option("N", "Use this many SMs."),
    number<&P::threads>("threads", 32, kMostThreads).define(),
    number<&P::lanes_per_row>("lanes_per_row", 1, 32)
        .power_of_two()
        .define()
        .option("N", "Give each row 2, 4, 8, 16 or 32 lanes of a warp."),
    list<P>("slots", slots_text, read_slots),
    number<&P::rows_per_group>("rows_per_group", 1, kMaxRowsPerGroup)
        .unsaid()
        .define()
        .option("N", "Let each group of lanes work on this many rows in turn."),
    number<&P::tile_rows>("tile_rows", 1, kMaxTileRows)
        .power_of_two()
        .usually(1)
        .define()
        .option("N", "Reduce this many rows of a group together: 1, 2, 4 or 8 (gated cells: 4)."),
    number<&P::pass_planes>("pass_planes", 1, 128).power_of_two().usually(1).define(),
    number<&P::load_bytes>("load_bytes", 2, kWidestLoad)
        .power_of_two()
        .usually(kWidestLoad)
        .option("N", "Load at most this much of a unit's state at once: 16, or 2 (fp32: 4) for one sample."),
    number<&P::loads_in_flight>("loads_in_flight", 1, kMostLoadsInFlight)
        .define()
        .option("N", "Poll this many 16-byte words of the state at once per thread."),
    number<&P::line_words>("line_words", 1, kLineWords).power_of_two().usually(kLineWords).define(),
    number<&P::poll_delay>("poll_delay", 0, kMostPollDelay)
        .usually(0)
        .define()
        .option("CYCLES", "Let every warp wait so long before it first polls for the next state."),
    number<&P::promote_every>("promote_every", 1, kMostPromoteEvery)
        .usually(1)
        .define()
        .option("N", "Sum this many products in fp16 before they join the fp32 sum."),
    number<&P::overflow_chunks>("overflow_chunks", 0, kMostChunks).usually(0),
    number<&P::longest_overflow>("longest_overflow", 0, kMostChunks).usually(0),
    number<&P::shared_chunks>("shared_chunks", 0, kMostChunks).usually(0).define(),
    number<&P::chunks_in_flight>("chunks_in_flight", 1, kMostChunksInFlight).power_of_two().usually(1).define(),
    number<&P::ring_chunks>("ring_chunks", 0, kMostRingChunks).usually(0).define(),
    number<&P::row_splits>("row_splits", 0, kMostRowSplits)
        .power_of_two()
        .usually(0)
        .define()
        .option(
            "N",
            "Split rows that are longer than most: every group of lanes takes N of the splits, 1, 2 or 4; 0: none."),
    number<&P::split_slots>("split_slots", 0, kMostSlots).usually(0),
    number<&P::most_splits>("most_splits", 0, kMostSlots).usually(0),
    number<&P::row_chunks>("row_chunks", 0, kMostChunks).usually(0),
    number<&P::split_chunks>("split_chunks", 0, kMostChunks).usually(0),
    number<&P::producer_warps>("producer_warps", 0, kMostProducerWarps)
        .usually(0)
        .define()
        .option(
            "N",
            "Let so many more warps fetch the state of some samples while the others compute other samples; 0: none."),
};

}  // namespace

std::span<const Field<SparsePlan>> fields(const SparsePlan&) {
  return kFields;
}

}  // namespace onchip
