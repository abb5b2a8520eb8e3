// SPDX-License-Identifier: Apache-2.0
// Runs the microbenchmarks' kernels (cases.hpp), one kind after another, and keeps the rows.
#pragma once

#include "kernels/microbench/cases.hpp"
#include "kernels/microbench/microbench.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"
#include "kernels/runtime/timing.hpp"

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip::microbench {

inline constexpr int kLaunches = 15;  // samples per row at most, after one launch to warm up
inline constexpr int kPartitions = 4;
inline constexpr const char *kTimeout = "timeout", *kChecksum = "checksum";  // failures that are rows
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline std::string parameter(std::string_view name, int value) {
  return std::string(name) + "=" + std::to_string(value);
}
inline std::string parameter(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}
template <typename... Rest>
std::string join(std::string first, const Rest&... rest) {
  ((first.append(" ").append(rest)), ...);
  return first;
}

// Kernels by their defines: compiled by several threads at once, loaded when first used.
class Library {
 public:
  Library(const std::vector<CompileRequest>& requests, const MicrobenchProgress& progress);
  const Kernel& get(const CompileRequest& wanted);

 private:
  std::vector<CompiledKernel> compiled_;
  std::map<std::string, std::size_t> index_;
  std::map<std::size_t, Kernel> loaded_;
};

inline MicrobenchRow make_row(std::string bench, std::string parameters, const Timing& timing, std::string unit,
                              double predicted = kNaN) {
  return {std::move(bench), std::move(parameters), timing.median,  timing.low,
          timing.high,      std::move(unit),       timing.samples, predicted};
}

inline MicrobenchRow failed_row(std::string bench, const std::string& parameters, std::string_view why,
                                std::string unit) {
  return {std::move(bench), parameters + " failed=" + std::string(why), kNaN, kNaN, kNaN, std::move(unit), 0, kNaN};
}

// What `sample` returns, launch by launch. What it throws is the way's failure.
inline Way timed_launches(std::function<std::vector<double>()> sample) {
  Way way{.name = "launches", .sample = std::move(sample)};
  time_ways({&way, 1}, {.most_samples = kLaunches, .most_warm_ups = 1});
  return way;
}

class Runner {
 public:
  Runner(std::string_view only, const MicrobenchProgress& progress);
  std::vector<MicrobenchRow> run();

 private:
  // Cycles from the first warp's start to the last warp's end, one sample per launch of one block, over `divisor`.
  Timing block_cycles(const Kernel& kernel, int warps, void** arguments, double divisor);

  void run_shared(const SharedCase& c);
  void run_arithmetic(int operation);
  void run_clock(std::string_view under);
  void run_loop(int kibibytes);
  void run_shuffle(const ShuffleCase& c);

  // Those of the exchange (run_exchange.cpp).
  void run_grid_barrier(int sms);
  void run_chase();
  void run_signal();
  void run_exchange(const ExchangeCase& c, std::vector<double>& hertz);
  void run_sends(const SendCase& c);
  void run_sums(const SumsCase& c, bool exchanges);
  struct ClusterCase {
    CompileRequest request;
    int sms, blocks, threads, smem_bytes;  // of a cluster; of all
    std::vector<u32> expected;             // checksums, of each SM of a cluster
  };
  void run_clusters(const std::string& bench, const std::string& parameters, const ClusterCase& c,
                    const u32* initial = nullptr);
  std::vector<long long> launch_signal(int kind, int blocks, int steps, int partner, const u64* chain);
  void check_status() const;  // throws CudaError(kTimeout) if the launch before gave up waiting
  // Of block 0's clocks and its nanoseconds, as launch_signal() has them.
  static std::vector<double> cycles_and_us(const std::vector<long long>& times, double divisor);
  // Rows of a way that was timed, one for each unit; a row that says why where it failed.
  void push_rows(const std::string& bench, const std::string& parameters, const Way& way,
                 const std::vector<std::string>& units);

  std::string_view only_;
  const MicrobenchProgress& progress_;
  DeviceInfo info_;
  int smem_bytes_, lone_smem_bytes_;
  Library library_;
  Stream stream_;
  DeviceBuffer<long long> clocks_;  // [warps][2]
  DeviceBuffer<u32> sink_, status_;
  std::vector<MicrobenchRow> rows_;
};

}  // namespace onchip::microbench
