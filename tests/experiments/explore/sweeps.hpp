// SPDX-License-Identifier: Apache-2.0
// Sweeps that take long enough to be ended.
#pragma once

#include "tests/experiments/command.hpp"

#include <string>

namespace onchip {

inline const std::string kPlan =
    "sparse_persistent packed_pair bank_aware lamport sms=128 threads=288 lanes_per_row=16 slots=18 "
    "loads_in_flight=4 poll_delay=120 promote_every=8";
// A second and more of one thread.
inline const std::string kMany = "sweep --hidden 2304 --density 10% --plan '" + kPlan +
                                 "' --axis batch=1:16:1 --axis sm.count=132:163:1 --axis sm.clock=1GHz:2GHz:4MHz";
inline const std::string kLonger = kMany + " --axis steps=1:5:1";
inline const std::string kMpirun =
    "mpirun --allow-run-as-root --oversubscribe -x ASAN_OPTIONS=detect_leaks=0 -x TSAN_OPTIONS=report_bugs=0 -n 4";

}  // namespace onchip
