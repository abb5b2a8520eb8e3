// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/plan/unstructured_layout.hpp"

#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/feed_forward/structure/access_rows.hpp"
#include "model/feed_forward/structure/equal_rows.hpp"
#include "model/feed_forward/structure/gather_steps.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace onchip {
namespace {

constexpr int kMostShortPlaces = 1 << 16;

// A layer, packed; entries count from 0.
struct Packed {
  std::vector<std::array<std::uint32_t, 4>> entries;
  std::vector<std::uint32_t> item_end, destination;
  std::vector<float> bias;
  std::int64_t steps = 0, weights = 0;
  bool wakes_zeros = false;
};

class Packer {
 public:
  Packer(const UnstructuredGeometry& geometry, ReadOrder order, Precision type)
      : tile_(geometry.tile), zeros_(geometry.places - geometry.tile.rows_per_access()), order_(order), type_(type) {}

  Packed pack(const SparseLayer& layer) const {
    Packed packed;
    packed.weights = layer.weights.nnz();
    packed.wakes_zeros = wakes_zeros(layer);
    const std::vector<std::int32_t> rows = rows_in_order(layer.weights);
    const int of_item = tile_.rows_per_warp();
    for (int first = 0; first < layer.weights.rows; first += of_item) {
      const int count = std::min(of_item, layer.weights.rows - first);
      put_item(layer, std::span(rows).subspan(first, count), packed);
    }
    return packed;
  }

 private:
  std::vector<std::int32_t> rows_in_order(const SparseMatrix& weights) const {
    std::vector<std::span<const std::int32_t>> places;
    for (int row = 0; row < weights.rows; ++row) {
      places.push_back(columns_of(weights, row));
    }
    return order_by_access(places, tile_.rows_per_access());
  }
  // Which of its inputs each row of an access reads, step by step.
  std::vector<std::int32_t> reads_of(std::span<const std::span<const std::int32_t>> places) const {
    return order_ == ReadOrder::ascending ? read_steps(places, tile_.rows_per_access(), order_)
                                          : gather_steps(places, zeros_, tile_.rows_per_access()).entry;
  }

  void put_item(const SparseLayer& layer, std::span<const std::int32_t> rows, Packed& packed) const {
    const int of_item = tile_.rows_per_warp(), of_access = tile_.rows_per_access();
    const int steps_each = type_ == Precision::fp32 ? 2 : 4;  // of an entry of 16 bytes
    const std::size_t begin = packed.entries.size();
    for (int first = 0; first < of_item; first += of_access) {
      std::vector<std::span<const std::int32_t>> places;
      for (int r = first; r < std::min<int>(first + of_access, static_cast<int>(rows.size())); ++r) {
        places.push_back(columns_of(layer.weights, rows[r]));
      }
      const std::vector<std::int32_t> reads = reads_of(places);
      const int steps = places.empty() ? 0 : static_cast<int>(reads.size() / places.size());
      packed.steps += steps;
      const std::size_t fours = (steps + steps_each - 1) / steps_each;
      if (packed.entries.size() < begin + fours * of_item) {
        extend(packed, begin, fours);
      }
      for (int step = 0; step < steps; ++step) {
        std::uint32_t taken = 0;  // classes
        for (std::size_t r = 0; r < places.size(); ++r) {
          const std::int32_t read = reads[step * places.size() + r];
          taken |= read == kNoRead ? 0 : 1U << places[r][read] % of_access;
        }
        for (std::size_t r = 0; r < places.size(); ++r) {
          const std::int32_t read = reads[step * places.size() + r];
          const std::size_t at = begin + static_cast<std::size_t>(step / steps_each) * of_item + first + r;
          if (read == kNoRead) {
            const int free = std::countr_one(taken);
            taken |= 1U << free;
            put(packed.entries[at], step % steps_each, zeros_ + free, -0.0F);
          } else {
            const std::int64_t weight = layer.weights.row_begin[rows[first + r]] + read;
            put(packed.entries[at], step % steps_each, places[r][read], layer.weights.value[weight]);
          }
        }
      }
    }
    packed.item_end.push_back(static_cast<std::uint32_t>(packed.entries.size() / of_item));
    for (int r = 0; r < of_item; ++r) {
      const bool has_row = r < static_cast<int>(rows.size());
      packed.destination.push_back(has_row ? static_cast<std::uint32_t>(rows[r]) : UnstructuredLayout::kNoPlace);
      packed.bias.push_back(has_row ? layer.bias_of(rows[r]) : 0);
    }
  }

  // Entries that read nothing, for all rows of an item.
  void extend(Packed& packed, std::size_t begin, std::size_t fours) const {
    const int of_item = tile_.rows_per_warp();
    const std::size_t from = packed.entries.size();
    packed.entries.resize(begin + fours * of_item);
    for (std::size_t at = from; at < packed.entries.size(); ++at) {
      for (int step = 0; step < (type_ == Precision::fp32 ? 2 : 4); ++step) {
        put(packed.entries[at], step, zeros_ + static_cast<int>((at - begin) % tile_.rows_per_access()), -0.0F);
      }
    }
  }

  void put(std::array<std::uint32_t, 4>& entry, int step, int place, float weight) const {
    if (type_ == Precision::fp32) {
      entry[2 * step] = static_cast<std::uint32_t>(place);
      entry[2 * step + 1] = std::bit_cast<std::uint32_t>(weight);
    } else {
      entry[step] = static_cast<std::uint32_t>(place) | to_bits(type_, weight) << 16;
    }
  }

  UnstructuredTile tile_;
  int zeros_;
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
  const int widest = std::ranges::max(network.neurons) + 2 * 32;
  const auto all = [](const std::vector<char>& of) { return std::ranges::all_of(of, [](char is) { return is; }); };
  return widest > kMostShortPlaces ? Precision::fp32
         : all(is_fp16)            ? Precision::fp16
         : all(is_bf16)            ? Precision::bf16
                                   : Precision::fp32;
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
    phase.item_begin = {0};
    phase.layer_item = {0};
    for (const Packed& layer : packed) {
      const std::uint32_t begin = phase.item_begin.back();
      for (const std::uint32_t end : layer.item_end) {
        phase.item_begin.push_back(begin + end);
      }
      phase.layer_item.push_back(static_cast<std::uint32_t>(phase.item_begin.size() - 1));
      phase.entries.insert(phase.entries.end(), layer.entries.begin(), layer.entries.end());
      phase.destination.insert(phase.destination.end(), layer.destination.begin(), layer.destination.end());
      phase.bias.insert(phase.bias.end(), layer.bias.begin(), layer.bias.end());
      phase.steps += layer.steps;
      phase.weights += layer.weights;
      layout.wakes_zeros = layout.wakes_zeros || layer.wakes_zeros;
    }
    layout.phases.push_back(std::move(phase));
    first = of_plan.end_layer;
  }
  return layout;
}

}  // namespace onchip
