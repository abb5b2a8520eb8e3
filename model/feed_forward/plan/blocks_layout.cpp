// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_layout.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/exact_rows.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

namespace onchip {
namespace {

constexpr float kLargestFeature = 32768;  // scaled: a power of two below the largest fp16
constexpr int kHalf = kBlockRows / 2;

std::uint16_t half_bits(float value) {
  return static_cast<std::uint16_t>(to_bits(Precision::fp16, value));
}

// Element of a tile [16 rows][16 inputs] in A's fragments: lane, then its registers of two halves.
std::size_t fragment_element(int row, int k) {
  const int lane = row % kHalf * 4 + k % kHalf / 2;
  const int reg = row / kHalf + 2 * (k / kHalf);
  return static_cast<std::size_t>(lane) * 8 + reg * 2 + k % 2;
}

// What a block reads, tile by tile: columns with their places. Each 8 that one access reads stay together; those of
// neighbouring places make up a tile, so that blocks with the same inputs have the same tiles.
struct TileInputs {
  std::vector<std::int32_t> columns;  // [tiles, 16]
  std::vector<std::uint32_t> places;  // [tiles, 16]
};

class Packer {
 public:
  Packer(const FeedForward& network, const NetworkStructure& structure, BlocksLayout& layout)
      : network_(network),
        structure_(structure),
        layout_(layout),
        parts_(layout.geometry),
        remainder_(static_cast<std::size_t>(layout.geometry.warps) * layout.geometry.layers) {}

  void pack(int l, const SparseLayer& layer) {
    const BlocksGeometry& geometry = layout_.geometry;
    const Blocks& blocks = structure_.layers[l].blocks;
    std::vector<bool> done(network_.outputs(l));
    std::vector<std::uint32_t> before;
    int place = 0;
    const auto record = [&] {
      return layout_.records.data() + geometry.layer_bytes() * l + geometry.record_bytes() * geometry.parts * place++;
    };
    for (int b = 0; b < blocks.count(); ++b) {
      if (place % geometry.warp_blocks == 0) {
        before.clear();
      }
      const std::vector<float> values = block_values(layer.weights, blocks, b);
      put_block(record(), l, layer, blocks.rows(b), inputs_of(blocks, b, l, before, next_columns(blocks, b, l)),
                blocks.columns(b), values, before);
      put_remainder(place, l, blocks.rows(b));
      for (const std::int32_t row : blocks.rows(b)) {
        if (row != kNoNeuron) {
          done[row] = true;
        }
      }
    }
    // Rows of no block, and blocks of no row. Those that are written at once differ modulo 8, as far as they can.
    std::vector<std::int32_t> rows;
    for (int row = 0; row < network_.outputs(l); ++row) {
      if (!done[row]) {
        rows.push_back(row);
      }
    }
    std::ranges::stable_sort(rows, {}, [&](std::int32_t row) { return place_of(l + 1, row) % kFreePlaces; });
    const std::size_t left = std::size_t{1} * geometry.warps * geometry.warp_blocks - place,
                      eights = (rows.size() + kBlockRows - 1) / kBlockRows * 2;
    std::vector<std::int32_t> in_order(left * kBlockRows, kNoNeuron);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      in_order[i % eights * kFreePlaces + i / eights] = rows[i];
    }
    for (std::size_t b = 0; b < left; ++b) {
      const auto of_block = std::span<const std::int32_t>(in_order).subspan(b * kBlockRows, kBlockRows);
      before.clear();
      put_block(record(), l, layer, of_block, {}, {}, {}, before);
      put_remainder(place, l, of_block);
    }
  }

  // After all layers.
  void put_remainders() {
    const BlocksGeometry& geometry = layout_.geometry;
    const std::size_t bytes = remainder_record_bytes(geometry.place_bytes);
    for (int warp = 0; warp < geometry.warps; ++warp) {
      for (int l = 0; l < geometry.layers; ++l) {
        const std::size_t at = static_cast<std::size_t>(l) * geometry.warps + warp;
        layout_.remainder_begin[at] = static_cast<std::uint32_t>(layout_.remainder.size() / bytes);
        layout_.remainder.insert(layout_.remainder.end(), remainder_[at].begin(), remainder_[at].end());
      }
    }
    layout_.remainder.resize(layout_.remainder.size() + (kRemainderRing + 1) * bytes);
  }

 private:
  std::uint32_t spare() const { return static_cast<std::uint32_t>(layout_.geometry.places - kFreePlaces); }

  std::uint32_t place_of(int boundary, std::int32_t neuron) const {
    return neuron == kNoNeuron ? spare() : static_cast<std::uint32_t>(structure_.places[boundary].of_neuron[neuron]);
  }

  // What is read where there is no column, to be multiplied by zero: a place that has been written.
  std::uint32_t input_place_of(int l, std::int32_t column) const {
    return place_of(l, column == kNoNeuron ? 0 : column);
  }

  // Numbers of places as records have them.
  void put_places(std::byte* to, std::span<const std::uint32_t> places, bool are_same) const {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint32_t number = places[i] | (are_same ? parts_.same : 0);
      std::memcpy(to + parts_.place_bytes * i, &number, parts_.place_bytes);
    }
  }

  // Eights of a block's columns: first those whose places are neighbours, by their places; the last is a first column.
  std::vector<std::tuple<bool, int, int>> eights(const Blocks& blocks, int b, int l) const {
    std::vector<std::tuple<bool, int, int>> eights;
    const std::span<const std::int32_t> columns = blocks.columns(b);
    for (int i = 0; i < static_cast<int>(columns.size()); i += kFreePlaces) {
      int least = std::numeric_limits<int>::max(), most = 0;
      for (const std::int32_t column : columns.subspan(i, kFreePlaces)) {
        const int eight = column == kNoNeuron ? least : static_cast<int>(place_of(l, column)) / kFreePlaces;
        least = std::min(least, eight);
        most = column == kNoNeuron ? most : std::max(most, eight);
      }
      eights.emplace_back(least < most, least, i);
    }
    std::ranges::sort(eights);
    return eights;
  }

  TileInputs in_order(const Blocks& blocks, int b, int l, const std::vector<std::tuple<bool, int, int>>& eights) const {
    TileInputs inputs;
    const std::span<const std::int32_t> columns = blocks.columns(b);
    for (const auto& [is_apart, least, first] : eights) {
      std::vector<std::int32_t> eight(columns.begin() + first, columns.begin() + first + kFreePlaces);
      std::ranges::stable_sort(eight, {}, [&](std::int32_t column) { return place_of(l, column) % kFreePlaces; });
      for (const std::int32_t column : eight) {
        inputs.columns.push_back(column);
        inputs.places.push_back(input_place_of(l, column));
      }
    }
    return inputs;
  }

  // The places that the next block of the same warp reads; none: it is another warp's.
  std::vector<std::uint32_t> next_columns(const Blocks& blocks, int b, int l) const {
    if (b + 1 >= blocks.count() || (b + 1) % layout_.geometry.warp_blocks == 0) {
      return {};
    }
    return in_order(blocks, b + 1, l, eights(blocks, b + 1, l)).places;
  }

  // Tiles in an order in which the first is the last of the block before, and the last one of the next block's.
  TileInputs inputs_of(const Blocks& blocks, int b, int l, const std::vector<std::uint32_t>& before,
                       const std::vector<std::uint32_t>& next) const {
    const TileInputs sorted = in_order(blocks, b, l, eights(blocks, b, l));
    const int tiles = static_cast<int>(sorted.columns.size()) / kBlockColumns;
    const auto tile_of = [](const std::vector<std::uint32_t>& places, int t) {
      return std::span(places).subspan(std::size_t{kBlockColumns} * t, kBlockColumns);
    };
    const auto rank = [&](int t) {
      if (!before.empty() && std::ranges::equal(tile_of(sorted.places, t), before)) {
        return 0;
      }
      for (std::size_t n = 0; n < next.size() / kBlockColumns; ++n) {
        if (std::ranges::equal(tile_of(sorted.places, t), tile_of(next, static_cast<int>(n)))) {
          return 2;
        }
      }
      return 1;
    };
    std::vector<int> order(tiles);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, rank);
    TileInputs inputs;
    for (const int t : order) {
      const auto from = std::size_t{kBlockColumns} * t;
      inputs.columns.insert(inputs.columns.end(), sorted.columns.begin() + from,
                            sorted.columns.begin() + from + kBlockColumns);
      inputs.places.insert(inputs.places.end(), sorted.places.begin() + from,
                           sorted.places.begin() + from + kBlockColumns);
    }
    return inputs;
  }

  static std::uint16_t weight_bits(int l, std::int32_t row, std::int32_t column, float value) {
    const std::uint16_t bits = half_bits(value);
    if (from_bits(Precision::fp16, bits) != value) {
      throw InputError("layer " + std::to_string(l + 1) + ": the weight from neuron " + std::to_string(column + 1) +
                       " to " + std::to_string(row + 1) + " is no fp16 number: " + std::to_string(value));
    }
    return bits;
  }

  // What lies outside of the tiles of the block before `place`.
  void put_remainder(int place, int l, std::span<const std::int32_t> rows) {
    const BlocksGeometry& geometry = layout_.geometry;
    const SparseMatrix& rest = structure_.layers[l].remainder;
    if (!geometry.remainder) {
      return;
    }
    std::vector<OutsideWeight> weights;
    for (int r = 0; r < kBlockRows; ++r) {
      for (std::int64_t i = rows[r] == kNoNeuron ? 0 : rest.row_begin[rows[r]];
           rows[r] != kNoNeuron && i < rest.row_begin[rows[r] + 1]; ++i) {
        weights.push_back({place_of(l, rest.column[i]), r, weight_bits(l, rows[r], rest.column[i], rest.value[i])});
      }
    }
    const std::vector<std::byte> records = remainder_records(weights, geometry.place_bytes);
    const auto count = static_cast<std::uint32_t>(records.size() / remainder_record_bytes(geometry.place_bytes));
    std::memcpy(layout_.records.data() + geometry.layer_bytes() * l +
                    geometry.record_bytes() * (geometry.parts * place - 1) + parts_.remainder,
                &count, sizeof(count));
    std::vector<std::byte>& of_warp =
        remainder_[static_cast<std::size_t>(l) * geometry.warps + (place - 1) / geometry.warp_blocks];
    of_warp.insert(of_warp.end(), records.begin(), records.end());
  }

  // values: [16, columns]; before: places of the tile that was read last.
  void put_block(std::byte* record, int l, const SparseLayer& layer, std::span<const std::int32_t> rows,
                 const TileInputs& inputs, std::span<const std::int32_t> columns, const std::vector<float>& values,
                 std::vector<std::uint32_t>& before) const {
    std::vector<std::size_t> column_at(inputs.columns.size());
    for (std::size_t i = 0; i < inputs.columns.size(); ++i) {
      column_at[i] = std::ranges::find(columns, inputs.columns[i]) - columns.begin();
    }
    const int tiles = static_cast<int>(inputs.columns.size()) / kBlockColumns;
    for (int t = 0; t < layout_.geometry.tiles; ++t) {
      std::array<std::uint16_t, kBlockRows * kBlockColumns> fragments{};
      std::vector<std::uint32_t> places(kBlockColumns, input_place_of(l, kNoNeuron));
      if (t < tiles) {
        std::copy_n(inputs.places.begin() + std::ptrdiff_t{kBlockColumns} * t, kBlockColumns, places.begin());
        for (int k = 0; k < kBlockColumns; ++k) {
          const std::size_t at = std::size_t{kBlockColumns} * t + k;
          for (int r = 0; r < kBlockRows && inputs.columns[at] != kNoNeuron; ++r) {
            fragments[fragment_element(r, k)] =
                weight_bits(l, rows[r], inputs.columns[at], values[r * columns.size() + column_at[at]]);
          }
        }
      } else if (!before.empty()) {
        places = before;  // multiplied by zeros
      }
      std::byte* const part = record + layout_.geometry.record_bytes() * (t / layout_.geometry.part_tiles());
      const int of_part = t % layout_.geometry.part_tiles();
      std::memcpy(part + of_part * sizeof(fragments), fragments.data(), sizeof(fragments));
      put_places(part + parts_.inputs + of_part * layout_.geometry.place_bytes * kBlockColumns, places,
                 places == before);
      before = places;
    }
    record += layout_.geometry.record_bytes() * (layout_.geometry.parts - 1);  // what ends the block is in the last
    for (int r = 0; r < kBlockRows; ++r) {
      const float bias = rows[r] == kNoNeuron ? BlocksLayout::kNoRow : layer.bias_of(rows[r]) * layout_.scale;
      const std::array<std::uint32_t, 1> destination{place_of(l + 1, rows[r])};
      std::memcpy(record + parts_.biases + (r % kHalf * 2 + r / kHalf) * sizeof(float), &bias, sizeof(float));
      put_places(record + parts_.destinations + r * layout_.geometry.place_bytes, destination, false);
    }
  }

  const FeedForward& network_;
  const NetworkStructure& structure_;
  BlocksLayout& layout_;
  RecordParts parts_;
  std::vector<std::vector<std::byte>> remainder_;  // [layers, warps]: records
};

}  // namespace

BlocksLayout pack_blocks(const FeedForward& network, const NetworkStructure& structure,
                         const BlocksGeometry& geometry) {
  BlocksLayout layout;
  layout.geometry = geometry;
  layout.clip = network.clip;
  layout.scale = std::exp2(std::floor(std::log2(kLargestFeature / network.clip)));
  layout.records.resize(geometry.layer_bytes() * geometry.layers);
  layout.input_neurons.assign(geometry.places, 0xffff);
  for (int neuron = 0; neuron < geometry.inputs; ++neuron) {
    layout.input_neurons[structure.places[0].of_neuron[neuron]] = static_cast<std::uint16_t>(neuron);
    layout.input_places.push_back(static_cast<std::uint32_t>(structure.places[0].of_neuron[neuron]));
  }
  Packer packer(network, structure, layout);
  layout.remainder_begin.resize(static_cast<std::size_t>(geometry.layers) * geometry.warps);
  std::vector<BlocksLayout::Exact> exact(geometry.layers);
  std::vector<LayerFacts> facts(geometry.layers);
  parallel_for(geometry.layers, all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    packer.pack(l, layer);
    exact[l] = exact_rows(layer);
    facts[l] = facts_of(layer, network.clip);
  });
  packer.put_remainders();
  layout.exact.weight.reserve(std::accumulate(exact.begin(), exact.end(), std::size_t{0},
                                              [](std::size_t sum, const auto& of) { return sum + of.weight.size(); }));
  layout.exact.slice_begin = {0};
  layout.exact.layer_slice = {0};
  LayerFacts all;
  for (int l = 0; l < geometry.layers; ++l) {
    append(layout.exact, exact[l]);
    exact[l] = {};
    all = both(all, facts[l]);
  }
  std::uint32_t most_records = 0;
  for (std::size_t at = 0; at < layout.records.size(); at += geometry.record_bytes()) {
    most_records = std::max(most_records, remainder_count(geometry, layout.records.data() + at));
  }
  layout.monotone = all.monotone;
  layout.keeps_clipped = all.keeps_clipped;
  layout.slack = slack_of(all.longest_row, geometry.tiles + std::int64_t{kRecordTiles} * most_records);
  layout.underflow = static_cast<float>(all.largest_sum * 0x1p-24);
  return layout;
}

std::uint32_t remainder_count(const BlocksGeometry& geometry, const std::byte* record) {
  std::uint32_t count = 0;
  if (geometry.remainder) {
    std::memcpy(&count, record + RecordParts(geometry).remainder, sizeof(count));
  }
  return count;
}

}  // namespace onchip
