// SPDX-License-Identifier: Apache-2.0
#include "model/dense/geometry.hpp"

#include <algorithm>
#include <bit>

namespace onchip {

DenseGeometry::DenseGeometry(const Recurrent& of_network, const DensePlan& plan)
    : DensePlan(plan), network(of_network), gates(info(of_network.cell).gates) {
  const int element = info(network.precision).bytes;
  samples = std::max(padded_samples, network.batch);
  batch_padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(samples)));
  group_batch = samples / batch_groups;
  sample_tiles = (group_batch + 7) / 8;
  has_part_tile = group_batch > 8 && group_batch % 8 != 0;

  const int units = std::max(padded_units, network.hidden);
  units_per_sm = ((units + sms - 1) / sms + 1) / 2 * 2;  // two neighbours of a sample make a word
  state_units = sms * units_per_sm;
  blocks = sms * batch_groups;
  spans = (state_units + kSpanUnits - 1) / kSpanUnits;
  exchange_bytes = std::int64_t{spans} * kSpanUnits * group_batch * element;  // the samples of the batch alone
  state_stride = batch_groups * line_bytes(exchange_bytes, line_words);
  input_bytes = std::int64_t{state_units} * samples * gates * element;

  warp_spans = (spans + warps() - 1) / warps();
  has_uneven_spans = spans % warps() != 0;
  span_tiles = storage == Storage::structured_2_4 ? 1 : 2;
  row_tiles = (units_per_sm * gates + 15) / 16;
  warp_tiles = warp_spans * span_tiles * row_tiles;
  metadata_words = storage == Storage::bitmap && shared_tiles > 0
                       ? (shared_tiles + kTilesOfBitmap - 1) / kTilesOfBitmap + 1
                   : storage == Storage::structured_2_4 ? (warp_tiles + 1) / 2
                                                        : 0;
  register_words = 4 * (warp_tiles - shared_tiles) + metadata_words;
  const int products = row_tiles * sample_tiles;
  product_chains = products == 1 ? 4 : products == 2 ? 2 : 1;
  const int pairs = units_per_sm / 2 * group_batch;
  finished_items = gates == 1 ? pairs : (pairs + 15) / 16 * 32;

  constexpr int kGap = 4;  // rows between a warp's sums of two samples
  const std::int64_t items = finished_items;
  memory.add(DenseRegion::tiles, storage == Storage::bitmap ? std::int64_t{kBankRowBytes} * bank_words
                                                            : std::int64_t{kTileBytes} * shared_tiles * warps());
  memory.add(DenseRegion::partials, std::int64_t{4} * warps() * 8 * sample_tiles * (16 * row_tiles + kGap));
  memory.add(DenseRegion::items, 16 * items);
  memory.add(DenseRegion::input, 2 * (gates > 1 ? 8 : 4) * items, 4);
  memory.add(DenseRegion::carry, gates > 1 ? 4 * items : 0, 4);
  memory.add(DenseRegion::bias, network.cell == Cell::gru ? 4 * items : 0, 4);
  memory.add(DenseRegion::cluster, exchange == ExchangeProtocol::cluster ? 2 * exchange_bytes + 16 : 0);
}

}  // namespace onchip
