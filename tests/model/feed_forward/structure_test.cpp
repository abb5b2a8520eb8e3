// SPDX-License-Identifier: Apache-2.0
// What is found of a network's structure: by its pattern alone.
#include "model/feed_forward/structure/structure.hpp"
#include "model/feed_forward/data/radix_net.hpp"
#include "model/feed_forward/data/random_network.hpp"
#include "model/feed_forward/equal_rows.hpp"
#include "model/feed_forward/structure/known_blocks.hpp"
#include "tests/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace onchip;

namespace {

// Every weight is in its block or in the remainder, and nothing else is.
void check_whole(const SparseMatrix& weights, const LayerStructure& structure) {
  SparseMatrix sum = structure.remainder;
  std::vector<std::vector<std::pair<std::int32_t, float>>> rows(weights.rows);
  for (int row = 0; row < weights.rows; ++row) {
    for (auto i = sum.row_begin[row]; i < sum.row_begin[row + 1]; ++i) {
      rows[row].emplace_back(sum.column[i], sum.value[i]);
    }
  }
  std::set<std::int32_t> seen;
  std::int64_t in_blocks = 0;
  for (int b = 0; b < structure.blocks.count(); ++b) {
    const auto columns = structure.blocks.columns(b);
    REQUIRE(columns.size() % kBlockColumns == 0);
    const std::vector<float> values = block_values(weights, structure.blocks, b);
    for (int r = 0; r < kBlockRows; ++r) {
      const std::int32_t row = structure.blocks.rows(b)[r];
      if (row == kNoNeuron) {
        continue;
      }
      REQUIRE(seen.insert(row).second);
      for (std::size_t c = 0; c < columns.size(); ++c) {
        if (const float value = values[r * columns.size() + c]; value != 0) {
          REQUIRE(columns[c] != kNoNeuron);
          rows[row].emplace_back(columns[c], value);
          ++in_blocks;
        }
      }
    }
  }
  CHECK(in_blocks == structure.weights_in_blocks);
  SparseMatrix whole{weights.rows, weights.columns, {0}, {}, {}};
  for (auto& row : rows) {
    std::ranges::sort(row);
    for (const auto& [column, value] : row) {
      whole.column.push_back(column);
      whole.value.push_back(value);
    }
    whole.row_begin.push_back(whole.nnz());
  }
  CHECK(whole == weights);
}

void check_whole(const FeedForward& network, const NetworkStructure& structure) {
  for (int l = 0; l < network.layers(); ++l) {
    CAPTURE(l);
    check_whole(network.layer(l).weights, structure.layers[l]);
  }
  for (std::size_t l = 0; l < structure.places.size(); ++l) {
    const Places& places = structure.places[l];
    REQUIRE(std::ssize(places.of_neuron) == network.neurons[l]);
    CHECK(places.count % kFreePlaces == 0);
    std::vector<bool> is_used(places.count);
    for (const std::int32_t place : places.of_neuron) {
      REQUIRE(place >= 0);
      REQUIRE(place < places.count);
      REQUIRE(!is_used[place]);
      is_used[place] = true;
    }
  }
}

// All weights in full blocks of 16 x 32, no bank conflict, no hole.
void check_perfect(const FeedForward& network) {
  const NetworkStructure structure = find_structure(network);
  check_whole(network, structure);
  for (int l = 0; l < network.layers(); ++l) {
    CAPTURE(l);
    const LayerStructure& layer = structure.layers[l];
    CHECK(layer.blocks.count() == network.outputs(l) / 16);
    CHECK(layer.blocks.column.size() == static_cast<std::size_t>(layer.blocks.count()) * 32);
    CHECK(layer.remainder.nnz() == 0);
    CHECK(layer.weights_in_blocks == layer.blocks.elements());
    CHECK(structure.places[l].count == network.inputs(l));
  }
  const StructureSummary sum = summary(structure);
  CHECK(sum.reads.extra == 0);
  CHECK(sum.writes.extra == 0);
  CHECK(sum.reads.accesses == sum.blocks * 4);
  CHECK(sum.writes.accesses == sum.blocks * 2);
}

}  // namespace

TEST_CASE("layers of the challenge are full blocks of 16 x 32 without bank conflicts, natural and shuffled",
          "[feed_forward][fast]") {
  for (const int neurons : {1024, 4096}) {
    const FeedForward network = radix_net(neurons, neurons == 1024 ? 20 : 10);
    check_perfect(network);
    Perturbation change;
    change.shuffle = true;
    change.values = Range{0.05, 0.075};
    change.bias = Range{-0.4, -0.2};
    check_perfect(perturbed(network, change));
  }
}

TEST_CASE("layers of 16384 and 65536 neurons are full blocks without bank conflicts", "[feed_forward][slow]") {
  check_perfect(radix_net(16384, 20));
  check_perfect(radix_net(65536, 24));
}

TEST_CASE("with a tenth of the weights moved, blocks hold nine tenths", "[feed_forward][fast]") {
  for (const int neurons : {1024, 4096}) {
    Perturbation change;
    change.shuffle = true;
    change.moved = 0.1;
    const FeedForward network = perturbed(radix_net(neurons, 8), change);
    const NetworkStructure structure = find_structure(network);
    check_whole(network, structure);
    const StructureSummary sum = summary(structure);
    CHECK(static_cast<double>(sum.weights_in_blocks) > 0.89 * static_cast<double>(sum.weights));
    CHECK(static_cast<double>(sum.weights_in_blocks) > 0.88 * static_cast<double>(sum.block_elements));
    CHECK(sum.reads.extra < sum.reads.accesses / 50);
    CHECK(sum.writes.extra == 0);
  }
}

TEST_CASE("random patterns have no blocks, and their neurons stay where they are", "[feed_forward][fast]") {
  RandomNetwork drawn;
  drawn.neurons = {1024, 1024, 1000, 4096};
  const FeedForward network = random_network(drawn);
  const NetworkStructure structure = find_structure(network);
  check_whole(network, structure);
  for (const LayerStructure& layer : structure.layers) {
    CHECK(layer.blocks.count() == 0);
    CHECK(layer.weights_in_blocks == 0);
  }
  CHECK(structure.places[2].of_neuron[999] == 999);
}

TEST_CASE("whatever the network, its structure is all of it, and the same for any number of threads",
          "[feed_forward][fast]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto below = [&](unsigned count) { return static_cast<int>(random() % count); };
    RandomNetwork drawn;
    drawn.seed = seed;
    for (int layers = 2 + below(3); layers > 0; --layers) {
      drawn.neurons.push_back(1 + below(seed % 5 == 0 ? 600 : 90));
    }
    drawn.degrees = {below(2) ? DegreeLaw::power_law : DegreeLaw::uniform, 1, 1 + below(90)};
    drawn.block_rows = 1 + below(40);
    drawn.values = {0.1, 1};
    FeedForward network = random_network(drawn);
    Perturbation change;
    change.moved = below(2) ? 0.15 : 0;
    network = perturbed(network, change);
    const NetworkStructure structure = find_structure(network), again = find_structure(network, 0.5, 1);
    check_whole(network, structure);
    for (int l = 0; l < network.layers(); ++l) {
      CHECK(structure.layers[l].blocks.row == again.layers[l].blocks.row);
      CHECK(structure.layers[l].blocks.column == again.layers[l].blocks.column);
      CHECK(structure.places[l].of_neuron == again.places[l].of_neuron);
      CHECK(2 * structure.layers[l].weights_in_blocks >= structure.layers[l].blocks.elements());
    }
    CHECK(summary(structure).writes.extra == 0);
  }
}

namespace {

bool are_same(const LayerStructure& a, const LayerStructure& b) {
  return a.blocks.row == b.blocks.row && a.blocks.column == b.blocks.column &&
         a.blocks.column_begin == b.blocks.column_begin && a.remainder == b.remainder &&
         a.weights_in_blocks == b.weights_in_blocks;
}

std::vector<std::int32_t> permutation(int count, std::mt19937& random) {
  std::vector<std::int32_t> to(count);
  std::iota(to.begin(), to.end(), 0);
  std::ranges::shuffle(to, random);
  return to;
}

// Output r is that of `rows`[r], input c becomes `columns`[c]; values are drawn.
SparseMatrix permuted(const SparseMatrix& from, const std::vector<std::int32_t>& rows,
                      const std::vector<std::int32_t>& columns, std::mt19937& random) {
  SparseMatrix to{from.rows, from.columns, {0}, {}, {}};
  for (const std::int32_t row : rows) {
    std::vector<std::int32_t> of_row;
    for (const std::int32_t column : columns_of(from, row)) {
      of_row.push_back(columns[column]);
    }
    std::ranges::sort(of_row);
    to.column.insert(to.column.end(), of_row.begin(), of_row.end());
    to.row_begin.push_back(to.nnz());
  }
  to.value.resize(to.column.size());
  std::ranges::generate(to.value, [&] { return static_cast<float>(1 + random() % 8) / 8; });
  return to;
}

// One weight to an input that its row does not have.
void move_one(SparseMatrix& weights, std::mt19937& random) {
  int row = 0;
  do {
    row = static_cast<int>(random() % weights.rows);
  } while (columns_of(weights, row).empty() || std::ssize(columns_of(weights, row)) == weights.columns);
  const auto begin = weights.column.begin() + weights.row_begin[row],
             end = weights.column.begin() + weights.row_begin[row + 1];
  std::int32_t to = 0;
  do {
    to = static_cast<std::int32_t>(random() % weights.columns);
  } while (std::find(begin, end, to) != end);
  *(begin + static_cast<std::ptrdiff_t>(random() % (end - begin))) = to;
  std::sort(begin, end);
}

// Sets of 16, 32, ... rows with equal columns, in any order.
SparseMatrix drawn_in_blocks(std::mt19937& random) {
  const int sets = 2 + static_cast<int>(random() % 7), inputs = 24 + static_cast<int>(random() % 100);
  std::vector<std::vector<std::int32_t>> of_row;
  for (int set = 0; set < sets; ++set) {
    std::vector<std::int32_t> columns = permutation(inputs, random);
    columns.resize(random() % 3 == 0 ? 16 : 8 + random() % 9);  // the fewest that fill a block by half
    std::ranges::sort(columns);
    of_row.insert(of_row.end(), kBlockRows * (1 + random() % 2), columns);
  }
  of_row.resize(of_row.size() + random() % 3);  // rows of nothing
  std::ranges::shuffle(of_row, random);
  SparseMatrix weights{static_cast<int>(of_row.size()), inputs, {0}, {}, {}};
  for (const auto& columns : of_row) {
    weights.column.insert(weights.column.end(), columns.begin(), columns.end());
    weights.row_begin.push_back(weights.nnz());
  }
  weights.value.assign(weights.column.size(), 1);
  return weights;
}

}  // namespace

TEST_CASE("a layer that is an earlier one with its inputs permuted takes that one's blocks, which a search finds, too",
          "[feed_forward][fast]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const SparseMatrix first = drawn_in_blocks(random);
    std::vector<std::int32_t> in_order(first.rows);
    std::iota(in_order.begin(), in_order.end(), 0);
    KnownBlocks known;
    CHECK(!known.known(first));
    CHECK(are_same(known.find(first), find_blocks(first)));
    const SparseMatrix inputs = permuted(first, in_order, permutation(first.columns, random), random);
    const std::optional<LayerStructure> taken = known.known(inputs);
    REQUIRE(taken);
    CHECK(are_same(*taken, find_blocks(inputs)));
    check_whole(inputs, *taken);
    // One weight elsewhere is another layer.
    SparseMatrix moved = inputs;
    move_one(moved, random);
    CHECK(!known.known(moved));
    CHECK(are_same(known.find(moved), find_blocks(moved)));
    // Outputs permuted, too: rows are equal where others were.
    const SparseMatrix outputs =
        permuted(first, permutation(first.rows, random), permutation(first.columns, random), random);
    CHECK(are_same(known.find(outputs), find_blocks(outputs)));
    // Known are all that were searched.
    const SparseMatrix again = permuted(outputs, in_order, permutation(first.columns, random), random);
    CHECK(known.known(again));
    CHECK(are_same(known.find(again), find_blocks(again)));
    CHECK(known.known(first));
  }
}

TEST_CASE("a block's columns for another's, rows as equal as before, are another layer", "[feed_forward][fast]") {
  // Sets of rows share 0 or 8 inputs with the next: chains of other lengths, as the challenge's layers are.
  const auto ring = [](int sets, int stride) {
    SparseMatrix weights{16 * sets, 8 * sets, {0}, {}, {}};
    for (int row = 0; row < weights.rows; ++row) {
      std::vector<std::int32_t> columns;
      for (const int of : {row % sets, (row + stride) % sets}) {
        for (int i = 0; i < 8; ++i) {
          columns.push_back(8 * of + i);
        }
      }
      std::ranges::sort(columns);
      weights.column.insert(weights.column.end(), columns.begin(), columns.end());
      weights.row_begin.push_back(weights.nnz());
    }
    weights.value.assign(weights.column.size(), 1);
    return weights;
  };
  KnownBlocks known;
  for (const int stride : {1, 2, 4}) {
    CHECK(!known.known(ring(8, stride)));
    CHECK(are_same(known.find(ring(8, stride)), find_blocks(ring(8, stride))));
    CHECK(known.known(ring(8, stride)));
  }
}

TEST_CASE("a layer of the challenge is known by an earlier one of its stride", "[feed_forward][fast]") {
  const FeedForward network = radix_net(1024, 18);
  KnownBlocks known;
  for (int l = 0; l < network.layers(); ++l) {
    const SparseMatrix weights = network.layer(l).weights;
    CHECK(known.known(weights).has_value() == (l >= 6));
    CHECK(are_same(known.find(weights), find_blocks(weights)));
  }
}

TEST_CASE("rows in blocks of any number are found where they lie", "[feed_forward][fast]") {
  RandomNetwork drawn;
  drawn.neurons = {512, 480};
  drawn.degrees = {DegreeLaw::uniform, 48, 48};
  drawn.block_rows = 48;
  const LayerStructure structure = find_blocks(random_network(drawn).layer(0).weights);
  CHECK(structure.blocks.count() == 30);
  CHECK(structure.weights_in_blocks == structure.blocks.elements());
  CHECK(structure.remainder.nnz() == 0);
  // A column too many is no reason for 15 empty ones.
  drawn.degrees = {DegreeLaw::uniform, 49, 49};
  const LayerStructure more = find_blocks(random_network(drawn).layer(0).weights);
  CHECK(more.weights_in_blocks == more.blocks.elements());
  CHECK(more.remainder.nnz() == 480);
  // Ten rows fill a block of 16 to 62 %.
  drawn.degrees = {DegreeLaw::uniform, 48, 48};
  drawn.block_rows = 10;
  const SparseMatrix tens = random_network(drawn).layer(0).weights;
  CHECK(find_blocks(tens).remainder.nnz() == 0);
  CHECK(find_blocks(tens, 0.75).weights_in_blocks == 0);
}
