// SPDX-License-Identifier: Apache-2.0
// Another baseline's whole sequence as one CUDA graph: the device goes from kernel to kernel without the host, whose
// launches are what short steps wait for.
#pragma once

#include "kernels/baselines/baseline.hpp"

namespace onchip {

// Captures what inner->enqueue enqueues, uploads the graph, runs it once and checks the inner baseline's results.
// Throws BaselineRefusal if it cannot be captured or has more nodes than is sensible.
std::shared_ptr<Baseline> as_graph(std::shared_ptr<Baseline> inner);

// The candidates, and behind each of them the same as a graph, named "<name> graph". Both run the same object, which is
// made once. Of the two the graph is the likely one.
std::vector<BaselineCandidate> with_graphs(const std::vector<BaselineCandidate>& candidates);

}  // namespace onchip
