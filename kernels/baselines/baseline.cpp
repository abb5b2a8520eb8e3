// SPDX-License-Identifier: Apache-2.0
#include "kernels/baselines/baseline.hpp"

#include "kernels/baselines/cublas.hpp"
#include "kernels/baselines/cudnn.hpp"
#include "kernels/baselines/cusparse.hpp"

#include <chrono>
#include <iterator>

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

}  // namespace onchip
