// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/staged/layout.hpp"

#include "model/base/error.hpp"
#include "model/base/numeric.hpp"
#include "model/base/parallel.hpp"
#include "model/base/units.hpp"

#include <algorithm>
#include <string>

namespace onchip {
namespace {

// Where a weight of the current block goes.
struct Placed {
  std::uint32_t chunk = 0;  // of the block
  std::uint16_t index = 0;
};

class Stager {
 public:
  Stager(const SparseLayer& layer, const StagedPlan& plan)
      : weights_(layer.weights), plan_(plan), staged_(plan.staging == Staging::shared) {
    out_.inputs = weights_.columns;
    out_.outputs = weights_.rows;
    out_.block_chunk = {0};
    out_.chunk_map = {0};
    out_.slice_begin = {0};
    for (int row = 0; row < weights_.rows; ++row) {
      out_.bias.push_back(layer.bias_of(row));
      if (!staged_) {
        out_.row_length.push_back(static_cast<std::uint32_t>(weights_.row_begin[row + 1] - weights_.row_begin[row]));
      }
    }
    place_of_.resize(static_cast<std::size_t>(weights_.columns));
  }

  StagedLayer run() {
    for (int first = 0; first < weights_.rows; first += plan_.block_outputs) {
      add_block(first, std::min(first + plan_.block_outputs, weights_.rows));
    }
    return std::move(out_);
  }

 private:
  // Inputs of the rows; where each is in the footprint goes to place_of_.
  std::vector<std::int32_t> footprint(int first, int end) {
    std::vector<bool> is_read(place_of_.size());
    for (std::int64_t i = weights_.row_begin[first]; i < weights_.row_begin[end]; ++i) {
      is_read[weights_.column[i]] = true;
    }
    std::vector<std::int32_t> inputs;  // ascending
    for (std::int32_t input = 0; input < weights_.columns; ++input) {
      if (is_read[input]) {
        place_of_[input] = static_cast<std::uint32_t>(inputs.size());
        inputs.push_back(input);
      }
    }
    return inputs;
  }

  Placed placed(std::int32_t column) const {
    if (!staged_) {
      return {0, static_cast<std::uint16_t>(column)};
    }
    const auto at = place_of_[column], inputs = static_cast<std::uint32_t>(plan_.chunk_inputs());
    return {at / inputs, static_cast<std::uint16_t>(at % inputs)};
  }

  void add_block(int first, int end) {
    const std::vector<std::int32_t> inputs = footprint(first, end);
    const std::size_t of_chunk = staged_ ? static_cast<std::size_t>(plan_.chunk_inputs()) : inputs.size();
    const std::size_t chunks = inputs.empty() ? 0 : (inputs.size() + of_chunk - 1) / of_chunk;
    for (std::size_t c = 0; c < chunks; ++c) {
      if (staged_) {
        const std::size_t last = std::min(inputs.size(), (c + 1) * of_chunk);
        out_.map.insert(out_.map.end(), inputs.begin() + c * of_chunk, inputs.begin() + last);
      }
      out_.chunk_map.push_back(static_cast<std::uint32_t>(out_.map.size()));
    }
    out_.block_chunk.push_back(static_cast<std::uint32_t>(out_.chunk_map.size() - 1));
    add_slices(first, end, chunks);
  }

  void add_slices(int first, int end, std::size_t chunks) {
    const auto warps = static_cast<std::size_t>(plan_.warps());
    std::vector<std::uint32_t> length(warps * kSliceLanes * chunks);  // [row, chunk]
    const auto length_of = [&](int row, std::uint32_t chunk) -> std::uint32_t& {
      return length[static_cast<std::size_t>(row - first) * chunks + chunk];
    };
    for_each(first, end, [&](int row, std::int64_t, Placed at) { ++length_of(row, at.chunk); });
    const std::size_t first_slice = out_.slice_begin.size() - 1;
    for (std::size_t c = 0; c < chunks; ++c) {
      for (std::size_t warp = 0; warp < warps; ++warp) {
        std::uint32_t longest = 0;
        for (std::size_t lane = 0; lane < kSliceLanes; ++lane) {
          longest = std::max(longest, length[(warp * kSliceLanes + lane) * chunks + c]);
        }
        out_.slice_begin.push_back(out_.slice_begin.back() + longest);
      }
    }
    const auto zero = static_cast<std::uint16_t>(staged_ ? plan_.chunk_inputs() : 0);
    out_.index.resize(std::size_t{out_.slice_begin.back()} * kSliceLanes, zero);
    out_.value.resize(out_.index.size());
    std::ranges::fill(length, 0);
    for_each(first, end, [&](int row, std::int64_t i, Placed at) {
      const auto warp = static_cast<std::size_t>(row - first) / kSliceLanes,
                 lane = static_cast<std::size_t>(row) % kSliceLanes;
      const std::size_t entry =
          std::size_t{out_.slice_begin[first_slice + at.chunk * warps + warp]} + length_of(row, at.chunk)++;
      out_.index[entry * kSliceLanes + lane] = at.index;
      out_.value[entry * kSliceLanes + lane] = weights_.value[i];
    });
  }

  template <typename Take>
  void for_each(int first, int end, Take&& take) const {
    for (int row = first; row < end; ++row) {
      for (std::int64_t i = weights_.row_begin[row]; i < weights_.row_begin[row + 1]; ++i) {
        take(row, i, placed(weights_.column[i]));
      }
    }
  }

  const SparseMatrix& weights_;
  const StagedPlan& plan_;
  bool staged_;
  std::vector<std::uint32_t> place_of_;  // by input, of the current block
  StagedLayer out_;
};

}  // namespace

StagedLayer stage(const SparseLayer& layer, const StagedPlan& plan) {
  if (layer.weights.columns > kMostStagedInputs) {
    throw InputError("staged plans name a layer's inputs by 16 bits, at most " + std::to_string(kMostStagedInputs) +
                     " of them; there are " + std::to_string(layer.weights.columns));
  }
  return Stager(layer, plan).run();
}

StagedLayout stage_network(const FeedForward& network, const StagedPlan& plan) {
  check(plan);
  StagedLayout layout{.plan = plan, .clip = network.clip, .layers = {}};
  layout.layers.resize(static_cast<std::size_t>(network.layers()));
  std::vector<std::uint8_t> wakes(layout.layers.size());
  parallel_for(network.layers(), all_cores(), [&](int l) {
    const SparseLayer layer = network.layer(l);
    const std::string who = "layer " + std::to_string(l + 1);
    wakes[l] = wakes_zeros(layer);
    try {
      layout.layers[l] = stage(layer, plan);
      layout.layers[l].is_linear = layer.is_linear;
    } catch (const InputError& error) {
      throw InputError(who + ": " + error.what());
    }
    for (const float value : layer.weights.value) {
      if (plan.weights == StagedWeights::fp16 && round_to(Precision::fp16, value) != value) {
        throw InputError(who + " has a weight that is no fp16 number, " + format_number(value) +
                         "; take a plan with fp32 weights");
      }
    }
  });
  for (int l = 1; l < network.layers(); ++l) {
    layout.first_drop = wakes[l] ? l : layout.first_drop;
  }
  return layout;
}

}  // namespace onchip
