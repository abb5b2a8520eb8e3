// SPDX-License-Identifier: Apache-2.0
// Places of the neurons between two layers in shared memory, free of bank conflicts. A place is 16 bytes, say 8 images
// of 2 bytes; 8 places that differ modulo 8 fill all banks. ldmatrix reads 8 places at once, 8 columns of a block; the
// epilogue writes 8, of 8 rows.
//
// With each neuron an edge from the 8 rows that write it to the 8 columns that read it, this is an edge colouring of a
// bipartite multigraph of degree 8, which always exists (König, 1916). Splitting it along Euler trails halves all
// degrees (Gabow, 1976): three halvings give the colour, which is the place modulo 8. Neurons that are read by the same
// blocks make up the 8 columns; those left over share 8 places with others, and only among them can conflicts remain.
#pragma once

#include "model/feed_forward/structure/blocks.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace onchip {

inline constexpr int kFreePlaces = 8;  // that one access takes without a conflict, where they differ modulo 8

// For each edge a colour of [0, 2^halvings), the same for no two edges of a node of at most so many edges; larger
// nodes have each colour equally often, or once more. The graph is bipartite: left nodes and right nodes are numbered
// apart.
std::vector<std::uint8_t> colour_edges(std::span<const std::int32_t> left, std::span<const std::int32_t> right,
                                       int halvings);

struct Places {
  std::vector<std::int32_t> of_neuron;  // [neurons], distinct
  int count = 0;                        // places, a multiple of 8: some may be empty
};

// Finds places, and puts the rows of the blocks that write the neurons, and the columns of those that read them, into
// an order in which each 8 differ modulo 8. Blocks before the first layer and after the last are empty. Without any
// block neuron i is at place i.
Places place_neurons(int neurons, Blocks& writers, Blocks& readers);

// Accesses of 8 rows or columns, and how many more it takes where places agree modulo 8.
struct Conflicts {
  std::int64_t accesses = 0, extra = 0;
};
Conflicts write_conflicts(const Blocks& writers, const Places& places);
Conflicts read_conflicts(const Blocks& readers, const Places& places);

}  // namespace onchip
