// SPDX-License-Identifier: Apache-2.0
#include "model/feed_forward/data/random_network.hpp"

#include "model/base/error.hpp"
#include "model/base/random.hpp"
#include "model/feed_forward/equal_rows.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace onchip {
namespace {

// What is drawn of one seed: each has generators of its own.
enum class Stream : std::uint64_t { pattern, values, bias, order, moved, shuffle };

Random generator(std::uint64_t seed, Stream stream, int layer, int row = 0) {
  return {seed, static_cast<std::uint64_t>(stream) << 56 | static_cast<std::uint64_t>(layer) << 24 |
                    static_cast<std::uint64_t>(row)};
}

float draw(const Range& range, Random& random) {
  return static_cast<float>(range.low + (range.high - range.low) * random.unit());
}

int draw(const Degrees& degrees, Random& random) {
  if (degrees.law == DegreeLaw::uniform) {
    return degrees.low + static_cast<int>(random.below(static_cast<std::uint64_t>(degrees.high - degrees.low) + 1));
  }
  const double most = 1.0 / degrees.low, least = 1.0 / (degrees.high + 1.0);
  return std::min(degrees.high, static_cast<int>(1 / (most - random.unit() * (most - least))));
}

// `count` of `columns` columns, ascending. Those that are in or, if fewer, those that are out are drawn.
void draw_columns(int columns, int count, Random& random, std::vector<bool>& is_drawn, std::vector<std::int32_t>& to) {
  const bool in = 2 * count <= columns;
  std::vector<std::int32_t> drawn;
  for (int left = in ? count : columns - count; left > 0;) {
    const auto column = static_cast<std::int32_t>(random.below(columns));
    if (!is_drawn[column]) {
      is_drawn[column] = true;
      drawn.push_back(column);
      --left;
    }
  }
  if (in) {
    std::ranges::sort(drawn);
    to.insert(to.end(), drawn.begin(), drawn.end());
  } else {
    for (int column = 0; column < columns; ++column) {
      if (!is_drawn[column]) {
        to.push_back(column);
      }
    }
  }
  for (const std::int32_t column : drawn) {
    is_drawn[column] = false;
  }
}

std::vector<float> draw_bias(const Range& range, int outputs, std::uint64_t seed, int l) {
  if (range.low == range.high) {
    return {static_cast<float>(range.low)};
  }
  std::vector<float> bias(outputs);
  Random random = generator(seed, Stream::bias, l);
  std::ranges::generate(bias, [&] { return draw(range, random); });
  return bias;
}

void require(bool holds, const std::string& expected) {
  if (!holds) {
    throw InputError("a random network needs " + expected);
  }
}

void require_few(std::int64_t weights) {
  if (weights > kMostDrawn) {
    throw InputError("a layer of a random network has at most " + std::to_string(kMostDrawn) +
                     " weights; this one has more");
  }
}

SparseLayer random_layer(const RandomNetwork& network, int l) {
  const int inputs = network.neurons[l], outputs = network.neurons[l + 1];
  std::vector<std::int32_t> order(outputs);  // rows of one block follow each other
  std::iota(order.begin(), order.end(), 0);
  if (network.block_rows > 1) {
    Random random = generator(network.seed, Stream::order, l);
    shuffle(order, random);
  }
  std::vector<std::int32_t> set_of(outputs);
  for (int i = 0; i < outputs; ++i) {
    set_of[order[i]] = i / network.block_rows;
  }
  SparseMatrix weights{outputs, inputs, {0}, {}, {}};
  std::vector<bool> is_drawn(inputs);
  for (int row = 0; row < outputs; ++row) {
    Random random = generator(network.seed, Stream::pattern, l, set_of[row]);
    const int degree = std::min(inputs, draw(network.degrees, random));
    draw_columns(inputs, degree, random, is_drawn, weights.column);
    weights.row_begin.push_back(weights.nnz());
    require_few(weights.nnz());
  }
  Random random = generator(network.seed, Stream::values, l);
  weights.value.resize(weights.column.size());
  for (float& value : weights.value) {
    value = draw(network.values, random);
    if (network.negative > 0 && random.unit() < network.negative) {
      value = -value;
    }
  }
  return {std::move(weights), draw_bias(network.bias, outputs, network.seed, l)};
}

// Each weight with this probability to a column that the row does not have.
void move_weights(SparseMatrix& weights, double share, Random random) {
  std::vector<bool> has(weights.columns);
  std::vector<std::pair<std::int32_t, float>> entries;
  for (int row = 0; row < weights.rows; ++row) {
    const auto begin = weights.row_begin[row], end = weights.row_begin[row + 1];
    entries.clear();
    for (auto i = begin; i < end; ++i) {
      has[weights.column[i]] = true;
      entries.emplace_back(weights.column[i], weights.value[i]);
    }
    for (auto& [column, value] : entries) {
      if (random.unit() < share && end - begin < weights.columns) {
        has[column] = false;
        const std::int32_t before = column;
        do {
          column = static_cast<std::int32_t>(random.below(weights.columns));
        } while (has[column] || column == before);
        has[column] = true;
      }
    }
    std::ranges::sort(entries);
    for (auto i = begin; i < end; ++i) {
      std::tie(weights.column[i], weights.value[i]) = entries[static_cast<std::size_t>(i - begin)];
      has[weights.column[i]] = false;
    }
  }
}

// Where the neurons before (l = 0: the input's, which stay) and after a layer go.
std::vector<std::int32_t> shuffled(int neurons, std::uint64_t seed, int l) {
  std::vector<std::int32_t> to(neurons);
  std::iota(to.begin(), to.end(), 0);
  if (l > 0) {
    Random random = generator(seed, Stream::shuffle, l);
    shuffle(to, random);
  }
  return to;
}

SparseLayer with_neurons_at(const SparseLayer& layer, const std::vector<std::int32_t>& inputs,
                            const std::vector<std::int32_t>& outputs) {
  const SparseMatrix& weights = layer.weights;
  std::vector<std::int32_t> from(outputs.size());
  for (int row = 0; row < weights.rows; ++row) {
    from[outputs[row]] = row;
  }
  SparseLayer moved{{weights.rows, weights.columns, {0}, {}, {}}, layer.bias};
  moved.weights.column.reserve(weights.column.size());
  moved.weights.value.reserve(weights.value.size());
  std::vector<std::pair<std::int32_t, float>> entries;
  for (int row = 0; row < weights.rows; ++row) {
    entries.clear();
    for (auto i = weights.row_begin[from[row]]; i < weights.row_begin[from[row] + 1]; ++i) {
      entries.emplace_back(inputs[weights.column[i]], weights.value[i]);
    }
    std::ranges::sort(entries);
    for (const auto& [column, value] : entries) {
      moved.weights.column.push_back(column);
      moved.weights.value.push_back(value);
    }
    moved.weights.row_begin.push_back(moved.weights.nnz());
    if (layer.bias.size() > 1) {
      moved.bias[row] = layer.bias[from[row]];
    }
  }
  return moved;
}

}  // namespace

FeedForward random_network(const RandomNetwork& drawn) {
  require(drawn.neurons.size() > 1, "at least one layer");
  for (const int neurons : drawn.neurons) {
    require(neurons >= 1 && neurons <= kMaxDimension,
            "1 to " + std::to_string(kMaxDimension) + " neurons in each layer; found " + std::to_string(neurons));
  }
  const int least = drawn.degrees.law == DegreeLaw::power_law ? 1 : 0;
  require(drawn.degrees.low >= least && drawn.degrees.low <= drawn.degrees.high && drawn.degrees.high <= kMaxDimension,
          "degrees from " + std::to_string(least) + " to " + std::to_string(kMaxDimension) +
              ", the lower first; found " + std::to_string(drawn.degrees.low) + " to " +
              std::to_string(drawn.degrees.high));
  for (std::size_t l = 1; l < drawn.neurons.size(); ++l) {
    require_few(std::int64_t{drawn.neurons[l]} * std::min(drawn.neurons[l - 1], drawn.degrees.low));
  }
  require(drawn.block_rows >= 1, "blocks of at least one row; found " + std::to_string(drawn.block_rows));
  require(drawn.negative >= 0 && drawn.negative <= 1, "a share of negative weights from 0 to 1");
  return {"random", drawn.neurons, drawn.clip, [drawn](int l) { return random_layer(drawn, l); }};
}

FeedForward perturbed(FeedForward network, const Perturbation& change) {
  if (!(change.moved >= 0 && change.moved <= 1)) {
    throw InputError("the share of weights that are moved is from 0 to 1");
  }
  network.layer = [before = network, change](int l) {
    SparseLayer layer = before.layer(l);
    if (change.moved > 0) {
      move_weights(layer.weights, change.moved, generator(change.seed, Stream::moved, l));
    }
    if (change.values) {
      Random random = generator(change.seed, Stream::values, l);
      std::ranges::generate(layer.weights.value, [&] { return draw(*change.values, random); });
    }
    if (change.bias) {
      layer.bias = draw_bias(*change.bias, layer.weights.rows, change.seed, l);
    }
    if (change.shuffle) {
      layer = with_neurons_at(layer, shuffled(layer.weights.columns, change.seed, l),
                              shuffled(layer.weights.rows, change.seed, l + 1));
    }
    return layer;
  };
  return network;
}

}  // namespace onchip
