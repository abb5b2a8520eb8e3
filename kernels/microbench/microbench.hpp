// SPDX-License-Identifier: Apache-2.0
// What `onchip calibrate` measures, and how the measurements become the timing constants of a chip file. The
// microbenchmarks measure what a persistent kernel is made of, never such a kernel itself.
//
//   bench       parameters                                              value, predicted
//   shared      kind=latency width                                      cycles per dependent load
//   shared      kind=throughput width pattern conflict warps            SM cycles per warp instruction; wavefronts
//   arithmetic  operation warps ilp (warps: per partition)              partition cycles per warp instruction
//   loop        kib warps (warps: per partition)                        partition cycles per instruction of the loop
//   shuffle     kind=shuffle warps ilp | barrier warps | tanh lanes     cycles per shuffle + add, barrier, tanhf + add
//   exchange    bytes batch sms threads loads poll_delay                cycles and us per step
//   cluster     bytes sms threads                                       cycles per step, inside one cluster
//   cluster_sums  bytes sms samples threads exchanges                   cycles per round of adding up sums in clusters
//   barrier     sms                                                     cycles and us per grid barrier
//   l2          statistic                                               cycles per dependent load, over the SMs
//   signal      sms=2                                                   cycles and us from one SM to another
//   clock       under=exchange | ffma | hmma                            Hz: SM cycles per second while doing this
#pragma once

#include "kernels/runtime/compiler.hpp"

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {

struct MicrobenchRow {
  std::string bench;
  std::string parameters;               // "kind=throughput width=8 pattern=conflict conflict=2 warps=16"
  double value = 0, low = 0, high = 0;  // median and 95 % of the launches
  std::string unit;                     // "cycles", "us" or "Hz"
  int samples = 0;                      // 0: the parameters say why it failed ("failed=timeout"), value is NaN
  double predicted = std::numeric_limits<double>::quiet_NaN();  // by a rule that needs no measurement
};

// Called between two measurements: what comes next, and how far along the whole is; total is 0 while compiling.
using MicrobenchProgress = std::function<void(std::string_view what, int done, int total)>;

// Measures on the current device; needs well under a minute, and every wait inside a kernel is bounded. `only`: with
// the kernel of this file ("cluster_sums"), or empty: with all. Throws CudaError without a device, or if a
// microbenchmark does not compile or spills; InputError for a kernel that there is not.
std::vector<MicrobenchRow> run_microbenchmarks(std::string_view only, const MicrobenchProgress& progress);

// Every kernel that run_microbenchmarks compiles for a chip with so many SMs and so much shared memory per block.
std::vector<CompileRequest> microbench_requests(const std::string& architecture, int sm_count, int smem_bytes_per_block,
                                                std::string_view only = {});

// Wavefronts of one warp's load: each phase (32 lanes of up to 4 bytes, 16 of 8, 8 of 16) takes as many as the most
// loaded of 32 banks has distinct 4-byte words. `offsets`: bytes, one per lane, multiples of `width`.
int predict_wavefronts(std::span<const unsigned, 32> offsets, int width);

struct CalibratedConstant {
  std::string key;        // of the chip file: "timing.lds_latency"
  double value = 0;       // base units, as in struct Chip
  double half_width = 0;  // of the 95 % interval
  std::string method;     // how it was found, for the chip file's source
};

// The constants that the rows determine; one for which rows are missing is left out.
//
// The exchange: least squares of relative errors over all of its rows, with the formula of
// model/exchange/exchange_time.hpp that predict() evaluates; the method has the mean and the worst error. Likewise that
// inside a cluster.
std::vector<CalibratedConstant> fit_constants(std::span<const MicrobenchRow> rows);

}  // namespace onchip
