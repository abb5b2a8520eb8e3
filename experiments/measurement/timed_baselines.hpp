// SPDX-License-Identifier: Apache-2.0
// The baselines of a network (kernels/baselines), prepared once and timed one sample at a time, in turns with kernels.
#pragma once

#include "kernels/baselines/baseline.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace onchip {

class TimedBaselines {
 public:
  using Wanted = std::function<bool(const BaselineCandidate&)>;
  // `say`: what is being prepared.
  TimedBaselines(const std::vector<BaselineCandidate>& candidates, const Recurrent& network, const SparseMatrix& matrix,
                 const Wanted& wanted, const std::function<void(const std::string&)>& say);

  void run_each(const Stream& stream, bool warm_up);
  std::vector<BaselineResult> results() const;  // of those that refused, too

 private:
  struct Entry {
    BaselineResult result;
    std::string library;
    std::unique_ptr<Baseline> baseline;
    std::vector<double> step_us;
    double warm_up_us = 0;

    void refuse(const std::string& reason);
  };
  std::map<std::string, double> fastest_us_;  // by library
  std::vector<Entry> entries_;
};

}  // namespace onchip
