// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/blocks_layout.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/structure/layer_facts.hpp"
#include "model/feed_forward/structure/remainder_records.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
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

// Walks over the records of a layer. Eights of columns that one access reads stay together, sorted by their places
// modulo 8; those of neighbouring places make up a tile, so that blocks with the same inputs have the same tiles.
class RecordWalk {
 public:
  RecordWalk(const NetworkStructure& structure, const BlocksGeometry& geometry, int l)
      : blocks_(structure.layers[l].blocks),
        inputs_(structure.places[l].of_neuron),
        outputs_(structure.places[l + 1].of_neuron),
        geometry_(geometry) {}

  void walk(const std::function<void(int place, const RecordPlaces&)>& of) {
    const int count = blocks_.count();
    int place = 0;
    if (count > 0) {
      sort_columns(0, next_);
    }
    for (; place < count; ++place) {
      std::swap(now_, next_);
      next_ = {};
      if (place + 1 < count) {
        sort_columns(place + 1, next_);
      }
      const auto is_first = [&](int b) { return b % geometry_.warp_blocks == 0; };  // of a warp
      put(place, blocks_.rows(place), !is_first(place), place + 1 < count && !is_first(place + 1));
      of(place, record_);
    }
    // Rows of no block, and blocks of no row. Those that are written at once differ modulo 8, as far as they can.
    const std::vector<std::int32_t> rows = rows_of_no_block();
    const std::size_t left = std::size_t{1} * geometry_.warps * geometry_.warp_blocks - place,
                      eights = (rows.size() + kBlockRows - 1) / kBlockRows * 2;
    std::vector<std::int32_t> in_order(left * kBlockRows, kNoNeuron);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      in_order[i % eights * kFreePlaces + i / eights] = rows[i];
    }
    now_ = {};
    for (std::size_t b = 0; b < left; ++b) {
      put(RecordPlaces::kNoBlock, std::span<const std::int32_t>(in_order).subspan(b * kBlockRows, kBlockRows), false,
          false);
      of(place++, record_);
    }
  }

 private:
  struct Tiles {
    std::vector<std::int32_t> columns;  // [tiles, 16]
    std::vector<std::uint32_t> places;  // [tiles, 16]
  };

  // What is read where there is no column: a place of zeros, where all weights are one number, else one that has been
  // written, to be multiplied by zero.
  std::uint32_t input_place_of(std::int32_t column) const {
    if (column == kNoNeuron && geometry_.weight_bytes == 0) {
      return unread_place();
    }
    return static_cast<std::uint32_t>(inputs_[column == kNoNeuron ? 0 : column]);
  }

  // Where rows of no neuron write their zeros.
  std::uint32_t unread_place() const { return static_cast<std::uint32_t>(geometry_.places - kFreePlaces); }

  std::vector<std::int32_t> rows_of_no_block() const {
    std::vector<bool> has_block(outputs_.size());
    for (const std::int32_t row : blocks_.row) {
      if (row != kNoNeuron) {
        has_block[row] = true;
      }
    }
    std::vector<std::int32_t> rows;
    for (std::int32_t row = 0; row < std::ssize(outputs_); ++row) {
      if (!has_block[row]) {
        rows.push_back(row);
      }
    }
    std::ranges::stable_sort(rows, {}, [&](std::int32_t row) { return outputs_[row] % kFreePlaces; });
    return rows;
  }

  // A block's columns, those of an eight by its neighbours: first eights whose places are neighbours, by their places;
  // the last is a first column.
  void sort_columns(int b, Tiles& sorted) {
    const std::span<const std::int32_t> columns = blocks_.columns(b);
    eights_.clear();
    for (int i = 0; i < static_cast<int>(columns.size()); i += kFreePlaces) {
      int least = std::numeric_limits<int>::max(), most = 0;
      for (const std::int32_t column : columns.subspan(i, kFreePlaces)) {
        const int eight = column == kNoNeuron ? least : inputs_[column] / kFreePlaces;
        least = std::min(least, eight);
        most = column == kNoNeuron ? most : std::max(most, eight);
      }
      eights_.emplace_back(least < most, least, i);
    }
    std::ranges::sort(eights_);
    const auto bank = [&](std::int32_t column) { return column == kNoNeuron ? 0 : inputs_[column] % kFreePlaces; };
    for (const auto& [is_apart, least, first] : eights_) {
      const auto begin =
          sorted.columns.insert(sorted.columns.end(), columns.begin() + first, columns.begin() + first + kFreePlaces);
      for (auto at = begin; at != sorted.columns.end(); ++at) {  // stable; few, and mostly in order
        std::rotate(std::upper_bound(begin, at, *at, [&](auto a, auto c) { return bank(a) < bank(c); }), at, at + 1);
      }
    }
    for (const std::int32_t column : sorted.columns) {
      sorted.places.push_back(input_place_of(column));
    }
  }

  // Tiles in an order in which the first is the last of the block before, and the last one of the next block's, where
  // those are of the same warp.
  void put(int block, std::span<const std::int32_t> rows, bool after_before, bool before_next) {
    const auto is_equal = [](const std::uint32_t* a, const std::uint32_t* b) {
      return std::equal(a, a + kBlockColumns, b);
    };
    has_last_ = has_last_ && after_before;
    const auto rank = [&](std::size_t at) {
      if (has_last_ && is_equal(now_.places.data() + at, last_.data())) {
        return 0;
      }
      for (std::size_t n = 0; before_next && n < next_.places.size(); n += kBlockColumns) {
        if (is_equal(now_.places.data() + at, next_.places.data() + n)) {
          return 2;
        }
      }
      return 1;
    };
    std::array<std::vector<std::size_t>, 3> by_rank;
    for (std::size_t at = 0; at < now_.columns.size(); at += kBlockColumns) {
      by_rank[rank(at)].push_back(at);
    }
    record_.block = block;
    record_.rows = rows;
    record_.columns.clear();
    record_.inputs.clear();
    record_.same.clear();
    const auto put_tile = [&](const std::uint32_t* places) {
      record_.same.push_back(has_last_ && is_equal(places, last_.data()));
      record_.inputs.insert(record_.inputs.end(), places, places + kBlockColumns);
      std::copy_n(places, kBlockColumns, last_.begin());
      has_last_ = true;
    };
    for (const std::vector<std::size_t>& of_rank : by_rank) {
      for (const std::size_t at : of_rank) {
        const auto from = now_.columns.begin() + static_cast<std::ptrdiff_t>(at);
        record_.columns.insert(record_.columns.end(), from, from + kBlockColumns);
        put_tile(now_.places.data() + at);
      }
    }
    std::array<std::uint32_t, kBlockColumns> padding = last_;
    if (!has_last_ || geometry_.weight_bytes == 0) {
      padding.fill(input_place_of(kNoNeuron));
    }
    while (std::ssize(record_.same) < geometry_.tiles) {
      put_tile(padding.data());
    }
    std::ranges::transform(rows, record_.outputs.begin(), [&](std::int32_t row) {
      return row == kNoNeuron ? unread_place() : static_cast<std::uint32_t>(outputs_[row]);
    });
  }

  const Blocks& blocks_;
  const std::vector<std::int32_t>&inputs_, &outputs_;  // places
  const BlocksGeometry& geometry_;
  std::vector<std::tuple<bool, int, int>> eights_;
  Tiles now_, next_;                               // of a block, and of the one behind it
  std::array<std::uint32_t, kBlockColumns> last_;  // places of the tile that was read last
  bool has_last_ = false;
  RecordPlaces record_;
};

class Packer {
 public:
  Packer(const NetworkStructure& structure, BlocksLayout& layout)
      : structure_(structure),
        layout_(layout),
        parts_(layout.geometry),
        remainder_(static_cast<std::size_t>(layout.geometry.warps) * layout.geometry.layers) {}

  void pack(int l, const SparseLayer& layer) {
    const BlocksGeometry& geometry = layout_.geometry;
    const Blocks& blocks = structure_.layers[l].blocks;
    for_each_record(structure_, geometry, l, [&](int place, const RecordPlaces& places) {
      std::byte* const record =
          layout_.records.data() + geometry.layer_bytes() * l + geometry.record_bytes() * geometry.parts * place;
      if (places.block == RecordPlaces::kNoBlock) {
        put_block(record, l, layer, places, {}, {});
      } else {
        put_block(record, l, layer, places, blocks.columns(places.block),
                  block_values(layer.weights, blocks, places.block));
      }
      put_remainder(place, l, places.rows);
    });
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
  // Numbers of places as records have them.
  void put_places(std::byte* to, std::span<const std::uint32_t> places, bool are_same) const {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint32_t number = places[i] | (are_same ? parts_.same : 0);
      std::memcpy(to + parts_.place_bytes * i, &number, parts_.place_bytes);
    }
  }

  struct Weight {
    std::int32_t row, column;
    float value;
  };

  // What a kernel makes of what is written must be the weight.
  static void prove(int l, const Weight& weight, float held, std::string_view of) {
    if (held != weight.value) {
      throw InputError("layer " + std::to_string(l + 1) + ": the weight from neuron " +
                       std::to_string(weight.column + 1) + " to " + std::to_string(weight.row + 1) + " is no " +
                       std::string(of) + ": " + std::to_string(weight.value));
    }
  }

  std::uint16_t put_half(int l, const Weight& weight) const {
    const float factor = layout_.geometry.weight_factor;
    const std::uint16_t bits = half_bits(weight.value * factor);
    prove(l, weight, from_bits(Precision::fp16, bits) / factor, "fp16 number");
    return bits;
  }

  // An element of tile t of a part.
  void put_weight(std::byte* part, int t, std::size_t element, int l, const Weight& weight) const {
    const BlocksGeometry& geometry = layout_.geometry;
    if (geometry.weight_bytes == 2) {
      const std::uint16_t bits = put_half(l, weight);
      std::memcpy(part + (kBlockRows * kBlockColumns * t + element) * sizeof(bits), &bits, sizeof(bits));
    } else if (geometry.weight_bytes == 1) {
      const std::uint8_t code = to_e4m3(weight.value * geometry.weight_factor);
      prove(l, weight, from_e4m3(code) / geometry.weight_factor, "e4m3 number, scaled");
      constexpr int kOfLane = 8;
      part[2 * kBlockRows * kBlockColumns * (t / 2) + element / kOfLane * 2 * kOfLane + t % 2 * kOfLane +
           element % kOfLane] = std::byte{code};
    } else {
      prove(l, weight, from_bits(Precision::fp16, geometry.one_weight), "weight of the one value");
    }
  }

  // What lies outside of the tiles of a block.
  void put_remainder(int place, int l, std::span<const std::int32_t> rows) {
    const BlocksGeometry& geometry = layout_.geometry;
    const SparseMatrix& rest = structure_.layers[l].remainder;
    if (!geometry.remainder) {
      return;
    }
    std::vector<OutsideWeight> weights = outside_weights(structure_, l, rows);
    auto weight = weights.begin();
    for (const std::int32_t row : rows) {
      for (std::int64_t i = row == kNoNeuron ? 0 : rest.row_begin[row]; row != kNoNeuron && i < rest.row_begin[row + 1];
           ++i) {
        (weight++)->weight = put_half(l, {row, rest.column[i], rest.value[i]});
      }
    }
    const std::vector<std::byte> records = remainder_records(weights, geometry.place_bytes);
    const auto count = static_cast<std::uint32_t>(records.size() / remainder_record_bytes(geometry.place_bytes));
    std::memcpy(layout_.records.data() + geometry.layer_bytes() * l +
                    geometry.record_bytes() * (geometry.parts * (place + 1) - 1) + parts_.remainder,
                &count, sizeof(count));
    std::vector<std::byte>& of_warp =
        remainder_[static_cast<std::size_t>(l) * geometry.warps + place / geometry.warp_blocks];
    of_warp.insert(of_warp.end(), records.begin(), records.end());
  }

  // values: [16, columns]
  void put_block(std::byte* record, int l, const SparseLayer& layer, const RecordPlaces& places,
                 std::span<const std::int32_t> columns, const std::vector<float>& values) const {
    const BlocksGeometry& geometry = layout_.geometry;
    for (int t = 0; t < geometry.tiles; ++t) {
      std::byte* const part = record + geometry.record_bytes() * (t / geometry.part_tiles());
      const int of_part = t % geometry.part_tiles();
      const std::size_t first = std::size_t{kBlockColumns} * t;
      for (int k = 0; k < kBlockColumns && first < places.columns.size(); ++k) {
        const std::int32_t column = places.columns[first + k];
        const std::size_t at = std::ranges::find(columns, column) - columns.begin();
        for (int r = 0; r < kBlockRows && column != kNoNeuron; ++r) {
          if (places.rows[r] != kNoNeuron) {
            put_weight(part, of_part, fragment_element(r, k), l,
                       {places.rows[r], column, values[r * columns.size() + at]});
          }
        }
      }
      put_places(part + parts_.inputs + of_part * geometry.place_bytes * kBlockColumns,
                 std::span(places.inputs).subspan(first, kBlockColumns), places.same[t] != 0);
    }
    record += geometry.record_bytes() * (geometry.parts - 1);  // what ends the block is in the last
    for (int r = 0; r < kBlockRows; ++r) {
      const std::int32_t row = places.rows[r];
      const float bias = row == kNoNeuron ? BlocksLayout::kNoRow : layer.bias_of(row) * layout_.scale;
      std::memcpy(record + parts_.biases + (r % kHalf * 2 + r / kHalf) * sizeof(float), &bias, sizeof(float));
    }
    put_places(record + parts_.destinations, places.outputs, false);
  }

  const NetworkStructure& structure_;
  BlocksLayout& layout_;
  RecordParts parts_;
  std::vector<std::vector<std::byte>> remainder_;  // [layers, warps]: records
};

// ---- rows as the kernel reads them that computes in fp32, in the order of the reference
// ------------------------------

constexpr int kSlice = 32, kAtOnce = 4;  // rows, and weights of a row, of the exact ones

// One layer's, but for `layer_slice`. Its slices begin at 0, which is left out.
BlocksLayout::Exact exact_rows(const SparseLayer& layer) {
  BlocksLayout::Exact exact;
  const SparseMatrix& weights = layer.weights;
  for (int first = 0; first < weights.rows; first += kSlice) {
    const int rows = std::min(kSlice, weights.rows - first);
    std::int64_t longest = 0;
    for (int r = 0; r < rows; ++r) {
      longest = std::max(longest, weights.row_begin[first + r + 1] - weights.row_begin[first + r]);
    }
    const std::size_t begin = exact.weight.size(), fours = (longest + kAtOnce - 1) / kAtOnce;
    exact.weight.resize(begin + fours * kSlice * kAtOnce, BlocksLayout::kNoWeight);
    for (int r = 0; r < kSlice; ++r) {
      exact.bias.push_back(r < rows ? layer.bias_of(first + r) : 0);
      for (std::int64_t k = 0; r < rows && k < weights.row_begin[first + r + 1] - weights.row_begin[first + r]; ++k) {
        const std::int64_t i = weights.row_begin[first + r] + k;
        exact.weight[begin + ((k / kAtOnce) * kSlice + r) * kAtOnce + k % kAtOnce] =
            static_cast<std::uint32_t>(weights.column[i]) | to_bits(Precision::fp16, weights.value[i]) << 16;
      }
    }
    exact.slice_begin.push_back(static_cast<std::uint32_t>(exact.weight.size() / (kSlice * kAtOnce)));
  }
  exact.rows.push_back(static_cast<std::uint32_t>(weights.rows));
  return exact;
}

// Puts a layer behind others. `all` begins with slice_begin and layer_slice of {0}.
void append(BlocksLayout::Exact& all, const BlocksLayout::Exact& layer) {
  const auto before = static_cast<std::uint32_t>(all.weight.size() / (kSlice * kAtOnce));
  all.weight.insert(all.weight.end(), layer.weight.begin(), layer.weight.end());
  all.bias.insert(all.bias.end(), layer.bias.begin(), layer.bias.end());
  for (const std::uint32_t end : layer.slice_begin) {
    all.slice_begin.push_back(before + end);
  }
  all.layer_slice.push_back(static_cast<std::uint32_t>(all.slice_begin.size() - 1));
  all.rows.push_back(layer.rows.front());
}

}  // namespace

void for_each_record(const NetworkStructure& structure, const BlocksGeometry& geometry, int l,
                     const std::function<void(int place, const RecordPlaces&)>& of) {
  RecordWalk(structure, geometry, l).walk(of);
}

std::vector<OutsideWeight> outside_weights(const NetworkStructure& structure, int l,
                                           std::span<const std::int32_t> rows) {
  const SparseMatrix& rest = structure.layers[l].remainder;
  std::vector<OutsideWeight> weights;
  for (int r = 0; r < std::ssize(rows); ++r) {
    for (std::int64_t i = rows[r] == kNoNeuron ? 0 : rest.row_begin[rows[r]];
         rows[r] != kNoNeuron && i < rest.row_begin[rows[r] + 1]; ++i) {
      const std::int32_t place = structure.places[l].of_neuron[rest.column[i]];
      weights.push_back({static_cast<std::uint32_t>(place), r, 0});
    }
  }
  return weights;
}

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
  Packer packer(structure, layout);
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
