// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/unstructured_layout.hpp"

#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/equal_rows.hpp"
#include "model/feed_forward/plan/blocks_constants.hpp"
#include "model/feed_forward/structure/access_rows.hpp"

#include <algorithm>
#include <bit>

namespace onchip {
namespace {

constexpr int kMostShortPlaces = 1 << 16;

using Entry = std::array<std::uint32_t, 4>;

struct Item {
  std::vector<Entry> entries;
  std::uint32_t halves = 0;  // of the entries of a row, that are not padding
  std::vector<std::uint32_t> destination;
  std::vector<float> bias;
};

struct Packed {  // a layer
  std::vector<Item> items;
  std::int64_t weights = 0;
  bool wakes_zeros = false, is_linear = false;
};

// Rows that read shared memory together, step by step.
struct Access {
  std::span<const std::int32_t> rows;
  OrderedReads reads;

  std::size_t steps() const { return reads.input.size() / rows.size(); }
};

class Packer {
 public:
  Packer(const UnstructuredGeometry& geometry, ReadOrder order, Precision type)
      : tile_(geometry.tile), zeros_(geometry.zeros), copies_(geometry.copies()), order_(order), type_(type) {}

  Packed pack(const SparseLayer& layer) const {
    Packed packed{{}, layer.weights.nnz(), wakes_zeros(layer), layer.is_linear};
    const int of_access = tile_.rows_per_access(), accesses = tile_.rows_per_warp() / of_access;
    std::vector<std::span<const std::int32_t>> places;
    for (int row = 0; row < layer.weights.rows; ++row) {
      places.push_back(columns_of(layer.weights, row));
    }
    const std::vector<std::int32_t> rows = order_by_access(places, of_access);
    std::vector<Access> all;
    for (std::span<const std::int32_t> left = rows; !left.empty();) {
      const auto taken = left.first(std::min<std::size_t>(of_access, left.size()));
      all.push_back({taken, reads_of(places, taken)});
      left = left.subspan(taken.size());
    }
    std::ranges::stable_sort(all, std::greater<>(), &Access::steps);
    for (std::span<const Access> left = all; !left.empty();) {
      const auto taken = left.first(std::min<std::size_t>(accesses, left.size()));
      packed.items.push_back(item_of(layer, taken));
      left = left.subspan(taken.size());
    }
    return packed;
  }

  Item empty_item() const {
    const std::size_t rows = tile_.rows_per_warp();
    return {{}, 0, std::vector<std::uint32_t>(rows, UnstructuredLayout::kNoPlace), std::vector<float>(rows)};
  }

 private:
  OrderedReads reads_of(std::span<const std::span<const std::int32_t>> places,
                        std::span<const std::int32_t> rows) const {
    std::vector<std::span<const std::int32_t>> of_rows;
    for (const std::int32_t row : rows) {
      of_rows.push_back(places[row]);
    }
    return order_ == ReadOrder::ascending ? ordered_reads(of_rows, tile_.rows_per_access(), copies_)
                                          : bank_aware_reads(of_rows, tile_.rows_per_access());
  }

  // accesses: the one with most steps first.
  Item item_of(const SparseLayer& layer, std::span<const Access> accesses) const {
    const int of_access = tile_.rows_per_access();
    const std::size_t of_item = tile_.rows_per_warp(), steps_each = type_ == Precision::fp32 ? 2 : 4;
    Item item = empty_item();
    item.halves = static_cast<std::uint32_t>((2 * accesses.front().steps() + steps_each - 1) / steps_each);
    item.entries.resize((accesses.front().steps() + steps_each - 1) / steps_each * of_item);
    for (std::size_t at = 0; at < item.entries.size(); ++at) {  // reads nothing
      for (std::size_t step = 0; step < steps_each; ++step) {
        put(item.entries[at], step, zeros_ + static_cast<int>(at % of_access), -0.0F);
      }
    }
    std::size_t first = 0;  // row of the item
    for (const Access& access : accesses) {
      const std::size_t rows = access.rows.size();
      for (std::size_t r = 0; r < rows; ++r) {
        item.destination[first + r] = static_cast<std::uint32_t>(access.rows[r]);
        item.bias[first + r] = layer.bias_of(access.rows[r]);
      }
      for (std::size_t step = 0; step < access.steps(); ++step) {
        const auto inputs = std::span(access.reads.input).subspan(step * rows, rows);
        const auto reads = std::span(access.reads.place).subspan(step * rows, rows);
        std::uint32_t taken = 0;  // classes
        for (std::size_t r = 0; r < rows; ++r) {
          taken |= inputs[r] == kNoRead ? 0 : 1U << reads[r] % of_access;
        }
        for (std::size_t r = 0; r < rows; ++r) {
          Entry& entry = item.entries[step / steps_each * of_item + first + r];
          if (inputs[r] == kNoRead) {
            const int free = std::countr_one(taken);
            taken |= 1U << free;
            put(entry, step % steps_each, zeros_ + free, -0.0F);
          } else {
            const std::int64_t weight = layer.weights.row_begin[access.rows[r]] + inputs[r];
            put(entry, step % steps_each, reads[r], layer.weights.value[weight]);
          }
        }
      }
      first += of_access;
    }
    return item;
  }

  void put(Entry& entry, std::size_t step, int place, float weight) const {
    if (type_ == Precision::fp32) {
      entry[2 * step] = static_cast<std::uint32_t>(place);
      entry[2 * step + 1] = std::bit_cast<std::uint32_t>(weight);
    } else {
      entry[step] = static_cast<std::uint32_t>(place) | to_bits(type_, weight) << 16;
    }
  }

  UnstructuredTile tile_;
  int zeros_;
  PlaceCopies copies_;
  ReadOrder order_;
  Precision type_;
};

// The narrowest type that holds all weights as they are.
Precision narrowest_type(const FeedForward& network) {
  std::vector<char> is_fp16(network.layers(), true), is_bf16(network.layers(), true);
  parallel_for(network.layers(), all_cores(), [&](int l) {
    for (const float value : network.layer(l).weights.value) {
      is_fp16[l] = is_fp16[l] && round_to(Precision::fp16, value) == value;
      is_bf16[l] = is_bf16[l] && round_to(Precision::bf16, value) == value;
    }
  });
  const int widest = 2 * std::ranges::max(network.neurons) + 3 * 32;  // with copies
  const auto all = [](const std::vector<char>& of) { return std::ranges::all_of(of, [](char is) { return is; }); };
  return widest > kMostShortPlaces ? Precision::fp32
         : all(is_fp16)            ? Precision::fp16
         : all(is_bf16)            ? Precision::bf16
                                   : Precision::fp32;
}

// The items of all layers, to the warps round-robin.
void share_out(const std::vector<Packed>& layers, const Item& empty, UnstructuredLayout::Phase& phase) {
  const std::size_t rows = empty.bias.size(), warps = phase.geometry.warps;
  for (const Packed& layer : layers) {
    const auto items = static_cast<std::uint32_t>((layer.items.size() + warps - 1) / warps);
    phase.layer_items.push_back(layer.is_linear ? items | kLinearLayer : items);
    phase.has_linear = phase.has_linear || layer.is_linear;
    phase.weights += layer.weights;
  }
  for (std::size_t warp = 0; warp < warps; ++warp) {
    phase.warp_begin.push_back(static_cast<std::uint32_t>(phase.entries.size() / rows));
    for (std::size_t l = 0; l < layers.size(); ++l) {
      for (std::size_t i = 0; i < (phase.layer_items[l] & ~kLinearLayer); ++i) {
        const std::size_t at = i * warps + warp;
        const Item& item = at < layers[l].items.size() ? layers[l].items[at] : empty;
        phase.entries.insert(phase.entries.end(), item.entries.begin(), item.entries.end());
        phase.halves.push_back(item.halves);
        phase.destination.insert(phase.destination.end(), item.destination.begin(), item.destination.end());
        phase.bias.insert(phase.bias.end(), item.bias.begin(), item.bias.end());
      }
    }
  }
  phase.warp_begin.push_back(static_cast<std::uint32_t>(phase.entries.size() / rows));
  phase.entries.resize(phase.entries.size() + (phase.geometry.ahead + 1) * rows);
  phase.halves.push_back(0);
}

}  // namespace

UnstructuredLayout pack_unstructured(const FeedForward& network, const UnstructuredPlan& plan) {
  UnstructuredLayout layout{.weight_type = narrowest_type(network), .clip = network.clip, .phases = {}};
  int first = 0;
  for (const UnstructuredPhase& of_plan : plan.phases) {
    const int layers = of_plan.end_layer - first;
    UnstructuredLayout::Phase phase;
    phase.first_layer = first;
    phase.neurons.assign(network.neurons.begin() + first, network.neurons.begin() + of_plan.end_layer + 1);
    phase.geometry = unstructured_geometry(phase.neurons, of_plan.tile, plan.warps);
    std::vector<Packed> packed(layers);
    const Packer packer(phase.geometry, plan.order, layout.weight_type);
    parallel_for(layers, all_cores(), [&](int l) { packed[l] = packer.pack(network.layer(first + l)); });
    share_out(packed, packer.empty_item(), phase);
    for (const Packed& layer : packed) {
      layout.wakes_zeros = layout.wakes_zeros || layer.wakes_zeros;
    }
    layout.phases.push_back(std::move(phase));
    first = of_plan.end_layer;
  }
  return layout;
}

}  // namespace onchip
