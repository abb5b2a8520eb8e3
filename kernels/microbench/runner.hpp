// SPDX-License-Identifier: Apache-2.0
// Runs the microbenchmarks' kernels (cases.hpp), one kind after another, and keeps the rows.
#pragma once

#include "kernels/microbench/cases.hpp"
#include "kernels/microbench/microbench.hpp"
#include "kernels/runtime/compiler.hpp"
#include "kernels/runtime/device.hpp"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip::microbench {

inline constexpr int kLaunches = 15;  // samples per row, after one launch to warm up
inline constexpr int kPartitions = 4;
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

inline MicrobenchRow make_row(std::string bench, std::string parameters, const std::vector<double>& samples,
                              std::string unit, double predicted = kNaN) {
  const Timing timing = summarize(samples);
  return {std::move(bench), std::move(parameters), timing.median,  timing.low,
          timing.high,      std::move(unit),       timing.samples, predicted};
}

inline MicrobenchRow failed_row(std::string bench, const std::string& parameters, std::string_view why,
                                std::string unit) {
  return {std::move(bench), parameters + " failed=" + std::string(why), kNaN, kNaN, kNaN, std::move(unit), 0, kNaN};
}

class Runner {
 public:
  Runner(std::string_view only, const MicrobenchProgress& progress);
  std::vector<MicrobenchRow> run();

 private:
  // Cycles from the first warp's start to the last warp's end, one sample per launch of one block.
  std::vector<double> block_cycles(const Kernel& kernel, int warps, void** arguments);

  void run_shared(const SharedCase& c);
  void run_arithmetic(int operation);
  void run_clock(std::string_view under);
  void run_loop(int kibibytes);
  void run_shuffle(const ShuffleCase& c);

  // Those of the exchange (run_exchange.cpp).
  void run_grid_barrier(int sms);
  void run_chase();
  void run_signal();
  void run_exchange(const ExchangeCase& c, bool is_clustered, std::vector<double>& hertz);
  void run_sends(const SendCase& c);
  void run_sums(const SumsCase& c, bool exchanges);
  struct ClusterCase {
    CompileRequest request;
    int sms, blocks, threads, smem_bytes;  // of a cluster; of all
    std::vector<u32> expected;             // checksums, of each SM of a cluster
  };
  void run_clusters(const std::string& bench, const std::string& parameters, const ClusterCase& c,
                    const u32* initial = nullptr);
  std::optional<std::vector<long long>> launch_signal(int kind, int blocks, int steps, int partner, const u64* chain);
  void push_times(const std::string& bench, const std::string& parameters,
                  const std::vector<std::vector<long long>>& launches, double divisor);

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
