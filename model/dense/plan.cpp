// SPDX-License-Identifier: Apache-2.0
#include "model/dense/plan.hpp"

#include "model/exchange/state.hpp"

namespace onchip {
namespace {

using P = DensePlan;

constexpr std::uint32_t kStorages = known(Storage::dense, Storage::structured_2_4, Storage::bitmap);
constexpr std::uint32_t kExchanges = known(ExchangeProtocol::lamport, ExchangeProtocol::atomic_barrier,
                                           ExchangeProtocol::cooperative_barrier, ExchangeProtocol::cluster);

constexpr Field<P> kFields[] = {
    choice<&P::storage>("storage", kStorageNames, kStorages)
        .define()
        .option("KIND",
                "Store weights dense, as bitmap (dense without the empty words of shared memory) or, of 2:4 masks for "
                "sparse tensor cores, structured_2_4."),
    choice<&P::exchange>("exchange", kExchangeNames, kExchanges)
        .define()
        .option("KIND",
                "Exchange the state by lamport, atomic_barrier, cooperative_barrier or inside one cluster of SMs."),
    number<&P::sms>("sms", 1, kMostSms).option("N", "Use this many SMs of each batch group."),
    number<&P::threads>("threads", 32, kMostDenseThreads).define(),
    number<&P::loads_in_flight>("loads_in_flight", 1, kMostDenseLoads)
        .define()
        .option("N", "Poll this many 16-byte words of the state at once per thread."),
    number<&P::line_words>("line_words", 1, kLineWords).power_of_two().usually(kLineWords).define(),
    number<&P::poll_delay>("poll_delay", 0, kMostPollDelay)
        .usually(0)
        .define()
        .option("CYCLES", "Let every warp wait so long before it first polls for the next state."),
    number<&P::shared_tiles>("shared_tiles", 0, kMostTiles).usually(0).define(),
    number<&P::bank_words>("bank_words", 0, kMostTiles).usually(0).define(),
    number<&P::batch_groups>("batch_groups", 1, kMostSamples)
        .usually(1)
        .define()
        .option("N", "Share the samples out to this many groups of SMs, each with all weights."),
    number<&P::padded_samples>("padded_samples", 0, kMostSamples).usually(0),
    number<&P::padded_units>("padded_units", 0, kMostPaddedUnits).usually(0),
};

}  // namespace

std::span<const Field<DensePlan>> fields(const DensePlan&) {
  return kFields;
}

}  // namespace onchip
