// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/baseline.hpp"

#include "kernels/baselines/libraries.hpp"

#include <chrono>
#include <iterator>
#include <utility>

namespace onchip {

namespace {

// No library has a recurrent network of fp8 weights; fp16 is nearest.
Recurrent as_baselines_have_it(Recurrent network) {
  network.precision = state_type(network.precision);
  return network;
}

}  // namespace

std::vector<int> padded(int count, std::initializer_list<int> multiples) {
  std::vector<int> counts{count};
  for (const int multiple : multiples) {
    const int more = (count + multiple - 1) / multiple * multiple;
    if (more != counts.back()) {
      counts.push_back(more);
    }
  }
  return counts;
}

std::string shape_name(const Recurrent& network, int hidden, int batch) {
  return " B=" + std::to_string(batch) + (hidden == network.hidden ? "" : " H=" + std::to_string(hidden));
}

std::vector<BaselineCandidate> baseline_candidates(const Recurrent& wanted) {
  const Recurrent network = as_baselines_have_it(wanted);
  std::vector<BaselineCandidate> all;
  for (const auto candidates_of : {cudnn_candidates, cublas_candidates, cusparse_candidates}) {
    std::vector<BaselineCandidate> candidates = candidates_of(network);
    std::move(candidates.begin(), candidates.end(), std::back_inserter(all));
  }
  return all;
}

std::shared_ptr<Baseline> make_baseline(const BaselineCandidate& candidate, const Recurrent& network,
                                        const SparseMatrix& matrix) {
  try {
    device_info();  // says in a plain sentence that there is no device, before a library says it in its own way
    return candidate.make(as_baselines_have_it(network), matrix);
  } catch (const BaselineRefusal&) {
    throw;
  } catch (const CudaError& error) {  // out of memory, no device
    throw BaselineRefusal(error.what());
  }
}

std::vector<Way> baseline_ways(const std::vector<BaselineCandidate>& candidates, const Recurrent& network,
                               const SparseMatrix& matrix, const std::function<void(const std::string&)>& say) {
  using Clock = std::chrono::steady_clock;
  struct On {
    Stream stream;
    EventTimer timer;
  };
  const auto shared = std::make_shared<Shared<On>>();
  std::vector<Way> ways;
  for (const BaselineCandidate& candidate : candidates) {
    Way& way = ways.emplace_back(Way{.name = candidate.name, .computes = "whole sequence / steps"});
    way.library = candidate.library();
    say("preparing " + candidate.name);
    const Clock::time_point begin = Clock::now();
    try {
      const std::shared_ptr<Baseline> baseline = make_baseline(candidate, network, matrix);
      way.settings = baseline->settings();
      way.sample = [baseline, on = shared->get([] { return std::make_shared<On>(); })] {
        const cudaStream_t stream = on->stream.get();
        return std::vector{1e3 * on->timer.milliseconds_of(stream, [&] { baseline->enqueue(stream); }) /
                           baseline->steps()};
      };
    } catch (const BaselineRefusal& refusal) {
      way.failure = refusal.what();
    }
    way.preparation_s = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return ways;
}

// ---- as a graph -----------------------------------------------------------------------------------------------------

namespace {

// A sequence is a few nodes per step; graphs of more steps than this take seconds to make, and gigabytes.
constexpr std::size_t kMostNodes = 1 << 18;

class GraphBaseline final : public Baseline {
 public:
  explicit GraphBaseline(std::shared_ptr<Baseline> inner)
      : inner_(std::move(inner)),
        graph_(
            stream_.get(), [this] { inner_->enqueue(stream_.get()); }, kMostNodes) {
    inner_->poison_results();
    graph_.launch(stream_.get());
    stream_.synchronize();
    inner_->check_results();
  }

  void enqueue(cudaStream_t stream) override { graph_.launch(stream); }
  int steps() const override { return inner_->steps(); }
  std::string settings() const override {
    return inner_->settings() + ", CUDA graph of " + std::to_string(graph_.nodes()) + " nodes";
  }
  void poison_results() override { inner_->poison_results(); }
  void check_results() const override { inner_->check_results(); }

 private:
  std::shared_ptr<Baseline> inner_;  // owns what the graph's nodes work on, so it goes last
  Stream stream_;
  Graph graph_;
};

}  // namespace

std::shared_ptr<Baseline> as_graph(std::shared_ptr<Baseline> inner) {
  return std::make_shared<GraphBaseline>(std::move(inner));
}

std::vector<BaselineCandidate> with_graphs(const std::vector<BaselineCandidate>& candidates) {
  std::vector<BaselineCandidate> both;
  for (const BaselineCandidate& candidate : candidates) {
    const auto inner = [make = candidate.make, shared = std::make_shared<Shared<Baseline>>()](
                           const Recurrent& network, const SparseMatrix& matrix) {
      return shared->get([&] { return make(network, matrix); });
    };
    both.push_back({candidate.name, inner});
    both.push_back(
        {candidate.name + " graph",
         [inner](const Recurrent& network, const SparseMatrix& matrix) { return as_graph(inner(network, matrix)); },
         candidate.likely});
  }
  return both;
}

}  // namespace onchip
