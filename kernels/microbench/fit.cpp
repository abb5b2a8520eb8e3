// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/fit_rows.hpp"
#include "kernels/microbench/least_squares.hpp"
#include "model/base/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <ranges>

namespace onchip {

namespace {

using namespace microbench;

// Cycles per instruction of an operation where warps and chains enough hide its latency.
std::optional<Timing> issue_interval(const Rows& rows, std::string_view operation) {
  std::vector<double> values;
  for (const ParsedRow* parsed : rows.select("arithmetic", "cycles", {{"operation", operation}})) {
    if (parsed->number("warps") * parsed->number("ilp") >= 32) {
      values.push_back(parsed->row->value);
    }
  }
  if (values.empty()) {
    return std::nullopt;
  }
  return summarize(values);
}

// One constant for several instructions: the middle of their intervals, which the interval covers.
void add_issue(std::vector<CalibratedConstant>& constants, const Rows& rows, std::string key,
               std::span<const std::string_view> operations) {
  double low = 1e30, high = 0;
  std::string method = "issue interval at 32 warps x chains per partition:";
  for (const std::string_view operation : operations) {
    const std::optional<Timing> interval = issue_interval(rows, operation);
    if (!interval) {
      return;
    }
    low = std::min(low, interval->low);
    high = std::max(high, interval->high);
    method += " " + std::string(operation) + " " + text(interval->median, 4);
  }
  constants.push_back({std::move(key), (low + high) / 2, (high - low) / 2, std::move(method)});
}

void fit_shared_memory(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  if (const MicrobenchRow* row = rows.find("shared", "cycles", {{"kind", "latency"}, {"width", "4"}})) {
    std::string method = "chain of dependent 4-byte loads, one warp";
    for (const std::string_view width : {"8", "16"}) {
      if (const MicrobenchRow* wide = rows.find("shared", "cycles", {{"kind", "latency"}, {"width", width}})) {
        method += "; of " + std::string(width) + " bytes " + text(wide->value, 4);
      }
    }
    add_row(constants, "timing.lds_latency", row, method);
  }

  // cycles = max(instruction, wavefront * wavefronts) where the unit is busy.
  std::vector<const MicrobenchRow*> busy;
  std::vector<double> single;
  double product = 0, square = 0;
  for (const ParsedRow* parsed : rows.select("shared", "cycles", {{"kind", "throughput"}})) {
    if (parsed->number("warps") < 16) {
      continue;
    }
    busy.push_back(parsed->row);
    if (parsed->row->predicted == 1) {
      single.push_back(parsed->row->value);
    } else if (parsed->row->predicted >= 4 && parsed->get("pattern") == "conflict") {
      product += parsed->row->value / parsed->row->predicted;  // weights of a relative error
      square += 1;
    }
  }
  if (square == 0 || single.empty()) {
    return;
  }
  const double wavefront = product / square;
  double variance = 0, error = 0, worst = 0;
  std::string worst_row;
  const Timing instruction = summarize(single);
  for (const MicrobenchRow* row : busy) {
    const double model = std::max(instruction.median, wavefront * row->predicted);
    const double relative = std::abs(model / row->value - 1);
    error += relative / static_cast<double>(busy.size());
    if (relative > worst) {
      worst = relative;
      worst_row = row->parameters;
    }
    if (row->predicted >= 4 && row->parameters.find("pattern=conflict") != std::string::npos) {
      variance += std::pow(row->value / row->predicted - wavefront, 2) / square;
    }
  }
  const std::string method =
      "loads of 4, 8 and 16 bytes at 16 and 32 warps, max(instruction, wavefront x wavefronts): mean error " +
      text(100 * error) + " %, worst " + text(100 * worst) + " % (" + worst_row + ")";
  constants.push_back({"timing.lds_wavefront", wavefront, kNormal95 * std::sqrt(variance), method});
  constants.push_back({"timing.lds_instruction", instruction.median,
                       std::max(instruction.high - instruction.median, instruction.median - instruction.low),
                       "4-byte loads of one wavefront at 16 and 32 warps"});
}

// __syncthreads over the number of warps: a straight line. Returns fixed part and part per warp.
std::array<double, 2> fit_barrier(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  const auto measured = rows.select("shuffle", "cycles", {{"kind", "barrier"}});
  const auto count = static_cast<Eigen::Index>(measured.size());
  if (count < 3) {
    return {0, 0};
  }
  Eigen::MatrixXd terms(count, 2);
  Eigen::VectorXd goal(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const ParsedRow& row = *measured[static_cast<std::size_t>(i)];
    terms.row(i) << 1, row.number("warps");
    goal[i] = row.row->value;
  }
  const Eigen::VectorXd fit = terms.colPivHouseholderQr().solve(goal);
  const double worst = (terms * fit - goal).cwiseAbs().maxCoeff();
  const std::string method =
      "straight line over " + std::to_string(count) + " block sizes, off by at most " + text(worst) + " cycles";
  constants.push_back({"timing.block_barrier", fit[0], worst, method});
  constants.push_back({"timing.block_barrier_per_warp", fit[1], worst / 32, method});
  return {fit[0], fit[1]};
}

// Loops of one warp per partition, by length: two steps up from one speed to a slower one, as the loops no longer stay
// in the cache of the partition and then in that of the SM. Beyond a step the first loops still find some of their
// instructions; what counts are the longer ones.
void fit_instructions(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  constexpr double kSlower = 1.25, kClearlyLonger = 1.1, kKibibyte = 1024;
  struct Cache {
    const char *size_key, *supply_key, *name;
  };
  constexpr std::array<Cache, 2> kCaches{
      {{"timing.instruction_cache", "timing.instruction_supply", "the cache of a partition"},
       {"timing.sm_instruction_cache", "timing.sm_instruction_supply", "the cache of the SM"}}};
  std::map<int, double> loops;  // KiB: cycles per instruction
  for (const ParsedRow* row : rows.select("loop", "cycles", {{"warps", "1"}})) {
    loops.emplace(row->number("kib"), row->row->value);
  }
  const auto slower = [&](auto first, double than) {
    return std::find_if(first, loops.end(), [&](const auto& loop) { return loop.second > kSlower * than; });
  };
  const double speed = loops.empty() ? 0 : loops.begin()->second;
  auto slow = slower(loops.begin(), speed);
  for (const Cache& cache : kCaches) {
    if (slow == loops.end()) {
      return;
    }
    const double longest = std::prev(slow)->first, shortest = slow->first;
    constants.push_back({cache.size_key, kKibibyte * (longest + shortest) / 2, kKibibyte * (shortest - longest) / 2,
                         "loops of one warp per partition: the longest in " + std::string(cache.name) + " " +
                             text(longest) + " KiB, the shortest beyond it " + text(shortest) + " KiB"});
    const auto beyond = loops.lower_bound(static_cast<int>(std::ceil(kClearlyLonger * shortest)));
    if (beyond == loops.end()) {
      return;
    }
    slow = slower(beyond, beyond->second);
    std::vector<double> cycles;
    for (const auto& [kibibytes, value] : std::ranges::subrange(beyond, slow)) {
      cycles.push_back(value);
    }
    std::ranges::sort(cycles);
    const double median = (cycles[(cycles.size() - 1) / 2] + cycles[cycles.size() / 2]) / 2;
    constants.push_back({cache.supply_key, median, std::max(cycles.back() - median, median - cycles.front()),
                         "median of loops of one warp per partition beyond " + std::string(cache.name) + ", " +
                             text(beyond->first) + " to " + text(std::prev(slow)->first) +
                             " KiB: " + text(cycles.front(), 4) + " to " + text(cycles.back(), 4)});
  }
}

}  // namespace

std::vector<CalibratedConstant> fit_constants(std::span<const MicrobenchRow> measured) {
  const Rows rows(measured);
  std::vector<CalibratedConstant> constants;
  fit_shared_memory(constants, rows);

  constexpr std::array<std::string_view, 1> kFp32{"ffma"};
  constexpr std::array<std::string_view, 1> kHalf2{"hfma2"};
  constexpr std::array<std::string_view, 1> kConversion{"half_to_float"};
  constexpr std::array<std::string_view, 1> kTensor{"hmma"};
  constexpr std::array<std::string_view, 5> kInteger{"lop3", "iadd3", "shift", "permute", "select"};
  add_issue(constants, rows, "timing.fp32_issue", kFp32);
  add_issue(constants, rows, "timing.half2_issue", kHalf2);
  add_issue(constants, rows, "timing.conversion_issue", kConversion);
  add_issue(constants, rows, "timing.integer_issue", kInteger);
  add_issue(constants, rows, "timing.tensor_issue", kTensor);
  const MicrobenchRow* arithmetic =
      rows.find("arithmetic", "cycles", {{"operation", "ffma"}, {"warps", "1"}, {"ilp", "1"}});
  add_row(constants, "timing.arithmetic_latency", arithmetic, "chain of dependent FFMA, one warp per partition");

  add_row(constants, "timing.shuffle_latency",
          rows.find("shuffle", "cycles", {{"kind", "shuffle"}, {"warps", "1"}, {"ilp", "1"}}),
          "chain of dependent shuffle + add, one warp");
  if (const MicrobenchRow* tanh =
          rows.find("shuffle", "cycles", {{"kind", "tanh"}, {"warps", "1"}, {"lanes", "mixed"}});
      tanh != nullptr && arithmetic != nullptr) {
    constants.push_back({"timing.tanh_latency", tanh->value - arithmetic->value,
                         half_width(*tanh) + half_width(*arithmetic),
                         "chain of x = tanhf(x + bias), one warp, lanes on both sides of the branch, less one FADD"});
  }
  add_row(constants, "timing.half2_latency",
          rows.find("arithmetic", "cycles", {{"operation", "hfma2"}, {"warps", "1"}, {"ilp", "1"}}),
          "chain of dependent HFMA2, one warp per partition");
  add_row(constants, "timing.tensor_latency",
          rows.find("arithmetic", "cycles", {{"operation", "hmma"}, {"warps", "1"}, {"ilp", "1"}}),
          "chain of dependent HMMA, one warp per partition");
  const MicrobenchRow* clock = rows.find("clock", "Hz", {{"under", "ffma"}});
  const MicrobenchRow* tensor_clock = rows.find("clock", "Hz", {{"under", "hmma"}});
  if (clock != nullptr && tensor_clock != nullptr) {
    const double share = std::min(tensor_clock->value / clock->value, 1.0);
    const double half = std::hypot(half_width(*clock) / clock->value, half_width(*tensor_clock) / tensor_clock->value);
    constants.push_back({"timing.tensor_clock_share", share, std::min(share * half, 1 - share),
                         "clock64 against events, one SM, of HMMA and of FFMA: " + text(tensor_clock->value / 1e6, 4) +
                             " and " + text(clock->value / 1e6, 4) + " MHz"});
  }
  fit_instructions(constants, rows);
  const std::array<double, 2> block_barrier = fit_barrier(constants, rows);

  const MicrobenchRow* barrier = nullptr;
  int most_sms = 0;
  for (const ParsedRow* parsed : rows.select("barrier", "us", {})) {
    if (parsed->number("sms") > most_sms) {
      most_sms = parsed->number("sms");
      barrier = parsed->row;
    }
  }
  add_row(constants, "timing.grid_barrier", barrier, "one counter, " + std::to_string(most_sms) + " SMs", 1e-6);
  fit_exchange(constants, rows, block_barrier[0], block_barrier[1]);
  fit_l2(constants, rows);
  fit_cluster(constants, rows, block_barrier[0], block_barrier[1]);
  fit_cluster_sums(constants, rows);
  return constants;
}

}  // namespace onchip
