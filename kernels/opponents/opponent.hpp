// SPDX-License-Identifier: Apache-2.0
// What the sparse persistent kernel is measured against: other libraries doing the same time steps, or a part of them.
// Each says in settings() what it computes; all are loaded at run time, and what is not there or cannot run a network
// refuses with its reason.
#pragma once

#include "kernels/device.hpp"
#include "kernels/library.hpp"
#include "model/mask.hpp"
#include "model/network.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

// What an opponent raises when it cannot run a configuration, or is not there: a result, not a failure.
using OpponentRefusal = LibraryRefusal;

// A network that is ready to run: memory allocated, weights uploaded, one sequence run and its results looked at.
class Opponent {
 public:
  virtual ~Opponent() = default;

  // Enqueues all time steps. One run at a time per object; each starts from the same state.
  virtual void enqueue(cudaStream_t stream) = 0;

  // "data HALF, sums FLOAT, TENSOR_OP_MATH, double bias, cuDNN 9.19.0"
  virtual std::string settings() const = 0;

  // Fills the results with NaN. After the next run is done, check_results throws OpponentRefusal unless all of them
  // were written and are finite.
  virtual void poison_results() = 0;
  virtual void check_results() const = 0;
};

struct OpponentCandidate {
  std::string name;  // the library first: "cudnn PERSIST_STATIC B=8"
  std::function<std::unique_ptr<Opponent>(const Network&, const SparseMatrix&)> make;  // see make_opponent
};

// What is worth trying, library by library. Names are distinct.
std::vector<OpponentCandidate> opponent_candidates(const Network& network);

// `matrix`: [gates * hidden, hidden]; only what multiplies with a sparse matrix reads it. Throws OpponentRefusal with
// the library's words.
std::unique_ptr<Opponent> make_opponent(const OpponentCandidate& candidate, const Network& network,
                                        const SparseMatrix& matrix);

struct OpponentResult {
  std::string name;
  bool ran = false;
  std::string refusal;  // why not
  std::string settings;
  Timing step_us;
};

}  // namespace onchip
