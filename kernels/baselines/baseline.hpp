// SPDX-License-Identifier: Apache-2.0
// What the sparse persistent kernel is measured against: other libraries doing the same time steps, or a part of them.
// Each says in settings() what it computes; all are loaded at run time, and what is not there or cannot run a network
// refuses with its reason.
#pragma once

#include "kernels/runtime/device.hpp"
#include "kernels/runtime/library.hpp"
#include "kernels/runtime/timing.hpp"
#include "model/workload/mask.hpp"
#include "model/workload/recurrent.hpp"

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

// What a baseline raises when it cannot run a configuration, or is not there: a result, not a failure.
using BaselineRefusal = LibraryRefusal;

// A network that is ready to run: memory allocated, weights uploaded, one sequence run and its results looked at.
class Baseline {
 public:
  virtual ~Baseline() = default;

  // Enqueues steps() time steps. One run at a time per object; each starts from the same state.
  virtual void enqueue(cudaStream_t stream) = 0;

  // Those of the network, or fewer where a step takes long; settings() says so then.
  virtual int steps() const = 0;

  // "data HALF, sums FLOAT, TENSOR_OP_MATH, double bias, cuDNN 9.19.0"
  virtual std::string settings() const = 0;

  // Fills the results with NaN. After the next run is done, check_results throws BaselineRefusal unless all of them
  // were written and are finite.
  virtual void poison_results() = 0;
  virtual void check_results() const = 0;
};

struct BaselineCandidate {
  std::string name;  // the library first: "cudnn PERSIST_STATIC B=8"
  std::function<std::shared_ptr<Baseline>(const Recurrent&, const SparseMatrix&)> make;  // see make_baseline
  bool likely = false;  // has been the fastest of its library at some size: enough where all of them take too long

  std::string library() const { return name.substr(0, name.find(' ')); }
};

// `count`, and where it is no multiple of each of these, the next ones that are. Libraries that compute dense networks
// take kernels for 16-byte loads where sizes are multiples of eight values of 16 bits: a network padded with units
// whose weights are zero computes the same, at hidden sizes drawn at random in a fifth to all of the time (drawn.csv of
// experiments/data).
std::vector<int> padded(int count, std::initializer_list<int> multiples);

// " B=8", or " B=8 H=2312" where the hidden size is padded.
std::string shape_name(const Recurrent& network, int hidden, int batch);

// What is worth trying, library by library. Names are distinct. The candidates are for one network and one matrix: what
// several have in common on the device is made once, for as long as one of them is there.
std::vector<BaselineCandidate> baseline_candidates(const Recurrent& network);

template <typename T>
class Shared {
 public:
  template <typename Make>  // returns what a std::shared_ptr<T> can be made of
  std::shared_ptr<T> get(Make&& make) {
    std::shared_ptr<T> value = held_.lock();
    if (!value) {
      held_ = value = make();
    }
    return value;
  }

 private:
  std::weak_ptr<T> held_;
};

// `matrix`: [gates * hidden, hidden]; only what multiplies with a sparse matrix reads it. Throws BaselineRefusal with
// the library's words.
std::shared_ptr<Baseline> make_baseline(const BaselineCandidate& candidate, const Recurrent& network,
                                        const SparseMatrix& matrix);

// The candidates as ways: each prepared, or with the reason why it refuses. A sample is a run of all its steps, in us
// of one step. `say`: what is being prepared.
std::vector<Way> baseline_ways(const std::vector<BaselineCandidate>& candidates, const Recurrent& network,
                               const SparseMatrix& matrix, const std::function<void(const std::string&)>& say);

// ---- another baseline's whole sequence as one CUDA graph: the device goes from kernel to kernel without the host,
// whose launches are what short steps wait for

// Captures what inner->enqueue enqueues, uploads the graph, runs it once and checks the inner baseline's results.
// Throws BaselineRefusal if it cannot be captured or has more nodes than is sensible.
std::shared_ptr<Baseline> as_graph(std::shared_ptr<Baseline> inner);

// The candidates, and behind each of them the same as a graph, named "<name> graph". Both run the same object, which is
// made once. Of the two the graph is the likely one.
std::vector<BaselineCandidate> with_graphs(const std::vector<BaselineCandidate>& candidates);

}  // namespace onchip
