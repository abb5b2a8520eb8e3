// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/microbench.hpp"
#include "model/base/statistics.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/exchange/state.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace onchip {

namespace {

// ---- rows of a microbenchmark ---------------------------------------------------------------------------------------

constexpr double kNormal95 = 1.96;

std::string text(double value, int digits = 3) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
  return buffer;
}

struct ParsedRow {
  const MicrobenchRow* row;
  std::map<std::string, std::string, std::less<>> parameters;

  std::string_view get(std::string_view name) const {
    const auto place = parameters.find(name);
    return place == parameters.end() ? std::string_view() : std::string_view(place->second);
  }
  int number(std::string_view name) const { return std::atoi(std::string(get(name)).c_str()); }
};

using Wanted = std::vector<std::pair<std::string_view, std::string_view>>;

class Rows {
 public:
  explicit Rows(std::span<const MicrobenchRow> rows) {
    for (const MicrobenchRow& row : rows) {
      ParsedRow parsed{&row, {}};
      std::istringstream words(row.parameters);
      for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        if (equals != std::string::npos) {
          parsed.parameters[word.substr(0, equals)] = word.substr(equals + 1);
        }
      }
      if (row.samples > 0 && std::isfinite(row.value)) {
        rows_.push_back(std::move(parsed));
      }
    }
  }

  std::vector<const ParsedRow*> select(std::string_view bench, std::string_view unit, const Wanted& wanted) const {
    std::vector<const ParsedRow*> found;
    for (const ParsedRow& parsed : rows_) {
      if (parsed.row->bench == bench && parsed.row->unit == unit &&
          std::all_of(wanted.begin(), wanted.end(),
                      [&](const auto& want) { return parsed.get(want.first) == want.second; })) {
        found.push_back(&parsed);
      }
    }
    return found;
  }

  const MicrobenchRow* find(std::string_view bench, std::string_view unit, const Wanted& wanted) const {
    const auto found = select(bench, unit, wanted);
    return found.empty() ? nullptr : found.front()->row;
  }

 private:
  std::vector<ParsedRow> rows_;
};

// The half-width that makes the value +- it hold the interval.
double half_width(const Timing& of) {
  return std::max(of.high - of.median, of.median - of.low);
}
double half_width(const MicrobenchRow& row) {
  return half_width(Timing{row.value, row.low, row.high});
}

void add_row(std::vector<CalibratedConstant>& constants, std::string key, const MicrobenchRow* row, std::string method,
             double factor = 1) {
  if (row != nullptr) {
    constants.push_back({std::move(key), row->value * factor, half_width(*row) * factor, std::move(method)});
  }
}

// ---- constants from more measurements than there are constants ------------------------------------------------------

// What constants times their terms come to, row by row.
struct Equations {
  std::vector<std::vector<double>> terms;
  std::vector<double> goals;

  // Both relative to what was measured.
  template <typename Terms>
  void add(const Terms& of, double goal, double measured = 1) {
    std::ranges::transform(of, std::back_inserter(terms.emplace_back()), [&](double term) { return term / measured; });
    goals.push_back(goal / measured);
  }
};

struct LeastSquares {
  Eigen::VectorXd fit, errors, widths;  // of each constant; of each row, absolute; of the 95 % intervals

  std::string method(const std::string& of) const {
    return "least squares over " + std::to_string(errors.size()) + of + ": mean error " + text(100 * errors.mean()) +
           " %, worst " + text(100 * errors.maxCoeff()) + " %";
  }
};

// are_costs: of those constants only that do not come out below zero, as no cost can; the others are 0, with intervals
// of no width.
LeastSquares least_squares(const Equations& equations, bool are_costs = false) {
  std::vector<Eigen::Index> kept(equations.terms.front().size());
  std::iota(kept.begin(), kept.end(), 0);
  const auto rows = static_cast<Eigen::Index>(equations.goals.size()), all = static_cast<Eigen::Index>(kept.size());
  const Eigen::VectorXd goals = Eigen::VectorXd::Map(equations.goals.data(), rows);
  for (;;) {
    const auto columns = static_cast<Eigen::Index>(kept.size());
    const Eigen::MatrixXd terms = Eigen::MatrixXd::NullaryExpr(
        rows, columns, [&](Eigen::Index row, Eigen::Index i) { return equations.terms[row][kept[i]]; });
    const Eigen::VectorXd fit = terms.colPivHouseholderQr().solve(goals);
    if (Eigen::Index least = 0; are_costs && fit.minCoeff(&least) < 0 && columns > 1) {
      kept.erase(kept.begin() + least);
      continue;
    }
    LeastSquares result{Eigen::VectorXd::Zero(all), (terms * fit - goals).cwiseAbs(), Eigen::VectorXd::Zero(all)};
    const double variance = result.errors.squaredNorm() / static_cast<double>(rows - columns);
    const Eigen::VectorXd spread = (variance * (terms.transpose() * terms).inverse()).diagonal().cwiseSqrt();
    for (Eigen::Index i = 0; i < columns; ++i) {
      result.fit[kept[i]] = fit[i];
      result.widths[kept[i]] = kNormal95 * spread[i];
    }
    return result;
  }
}

// Constants from `first` on, by their keys. Of "..._per_cycle" and its like the fit has cycles.
void add_fitted(std::vector<CalibratedConstant>& constants, std::initializer_list<const char*> keys,
                const LeastSquares& solved, const std::string& method, Eigen::Index first = 0) {
  for (const std::string key : keys) {
    const double fit = solved.fit[first], width = solved.widths[first];
    const bool is_rate = key.find("per_cycle") != std::string::npos;
    constants.push_back({key, is_rate ? 1 / fit : fit, is_rate ? width / (fit * fit) : width, method});
    ++first;
  }
}

// ---- inside an SM ---------------------------------------------------------------------------------------------------

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
               std::initializer_list<std::string_view> operations) {
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
  constants.push_back({"timing.lds_instruction", instruction.median, half_width(instruction),
                       "4-byte loads of one wavefront at 16 and 32 warps"});
}

// __syncthreads over the number of warps: a straight line. Returns fixed part and part per warp.
std::array<double, 2> fit_barrier(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  const auto measured = rows.select("shuffle", "cycles", {{"kind", "barrier"}});
  if (measured.size() < 3) {
    return {0, 0};
  }
  Equations line;
  for (const ParsedRow* row : measured) {
    line.add(std::array{1, row->number("warps")}, row->row->value);
  }
  const LeastSquares solved = least_squares(line);
  const Eigen::VectorXd& fit = solved.fit;
  const double worst = solved.errors.maxCoeff();
  const std::string method = "straight line over " + std::to_string(measured.size()) + " block sizes, off by at most " +
                             text(worst) + " cycles";
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

// ---- between SMs ----------------------------------------------------------------------------------------------------

// To the first word, of which the signal and the way through shared memory are constants of their own.
void add_first_word(std::vector<CalibratedConstant>& constants, double cycles, double width,
                    const std::string& method) {
  const auto known = [&](std::string_view key) { return std::ranges::find(constants, key, &CalibratedConstant::key); };
  if (const auto signal = known("exchange.signal"), load = known("timing.lds_latency");
      signal != constants.end() && load != constants.end()) {
    Chip parts;
    parts.signal_cycles.value = signal->value;
    parts.lds_latency_cycles.value = load->value;
    constants.push_back({"exchange.latency", std::max(0.0, cycles - first_word_cycles(parts)), width,
                         method + "; less exchange.signal and three of timing.lds_latency"});
  }
}

// Least squares of relative errors over the exchanges that have a poll delay, with the formula of
// model/exchange/exchange_time.hpp; its block barriers are known already. Of each exchange the delay with which it is
// fastest, as plans have it. First those of one round, as plans have them, too; what further rounds take, of the rest.
// Of one round only those measured with several delays: with one that suits others they take up to 9 % longer. Where a
// state is large, that matters less.
void fit_exchange(std::vector<CalibratedConstant>& constants, const Rows& rows, double barrier,
                  double barrier_per_warp) {
  const auto measured = rows.select("exchange", "cycles", {});
  struct Measured {
    std::array<double, 6> terms;
    double cycles, rest;  // without the block barriers
  };
  constexpr std::array<Eigen::Index, 5> kOneRound{0, 1, 2, 4, 5};
  constexpr std::array<Eigen::Index, 1> kFurther{3};
  struct Fastest {
    const ParsedRow* row = nullptr;
    int waits = 0;
  };
  std::map<std::array<int, 5>, Fastest> shapes;
  for (const ParsedRow* row : measured) {
    if (row->number("poll_delay") > 0) {
      Fastest& shape = shapes[{row->number("bytes"), row->number("batch"), row->number("sms"), row->number("threads"),
                               row->number("loads")}];
      shape.row = shape.row == nullptr || row->row->value < shape.row->row->value ? row : shape.row;
      ++shape.waits;
    }
  }
  constexpr int kLargeBytes = 32 << 10;
  std::vector<Measured> one_round, further;
  for (const auto& [key, shape] : shapes) {
    const ParsedRow& row = *shape.row;
    const int bytes = row.number("bytes"), sms = row.number("sms"), threads = row.number("threads");
    const auto terms = exchange_terms(CostValues{}, {static_cast<double>(bytes), sms, threads, row.number("loads"),
                                                     line_words_for(bytes / 16 / std::max(1, sms))});
    const double cycles = row.row->value;
    const Measured exchange{terms, cycles, cycles - 2 * (barrier + barrier_per_warp * threads / 32)};
    if (terms[kFurther[0]] > 0) {
      further.push_back(exchange);
    } else if (shape.waits > 1 || bytes > kLargeBytes) {
      one_round.push_back(exchange);
    }
  }
  if (one_round.size() < 4 * kOneRound.size() || further.size() < 4 * kFurther.size()) {
    return;
  }
  const auto fit = [](const std::vector<Measured>& of, std::span<const Eigen::Index> which) {
    Equations equations;
    for (const Measured& row : of) {
      std::vector<double> terms;
      std::ranges::transform(which, std::back_inserter(terms), [&](Eigen::Index i) { return row.terms[i]; });
      equations.add(terms, row.rest, row.cycles);
    }
    return least_squares(equations, /*are_costs=*/true);
  };
  const LeastSquares first = fit(one_round, kOneRound);
  if (first.fit[0] <= 0 || first.fit[2] <= 0) {
    return;  // no latency, or bytes for nothing: too few or contradictory exchanges
  }
  for (Measured& row : further) {
    for (std::size_t j = 0; j < kOneRound.size(); ++j) {
      row.rest -= first.fit[j] * row.terms[kOneRound[j]];
    }
  }
  const LeastSquares rest = fit(further, kFurther);

  std::vector<double> sorted(first.errors.begin(), first.errors.end());
  sorted.insert(sorted.end(), rest.errors.begin(), rest.errors.end());
  std::sort(sorted.begin(), sorted.end());
  const double scatter = sorted[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(sorted.size()))) - 1];
  const std::string method = first.method(" exchanges of one round that wait");
  const std::string of_rest = rest.method(" exchanges of several rounds that wait");
  add_first_word(constants, first.fit[0], first.widths[0], method);
  add_fitted(constants,
             {"exchange.per_sm", "exchange.bytes_per_cycle_per_sm", "exchange.per_word", "exchange.per_warp"}, first,
             method, 1);
  add_fitted(constants, {"exchange.round_trip"}, rest, of_rest);
  constants.push_back({"exchange.scatter", scatter, 0, "95 % quantile of the errors; " + method + "; " + of_rest});
}

// One load from L2, and a signal from SM to SM.
void fit_l2(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  const auto of = [&](std::string_view statistic) { return rows.find("l2", "cycles", {{"statistic", statistic}}); };
  constexpr const char* kMethod = "chain of dependent loads from L2, SM by SM";
  add_row(constants, "exchange.l2_latency", of("mean"), std::string(kMethod) + ", their mean");
  const MicrobenchRow *least = of("min"), *most = of("max");
  if (least != nullptr && most != nullptr && most->value >= least->value) {
    constants.push_back({"exchange.l2_latency_spread", most->value - least->value,
                         half_width(*least) + half_width(*most),
                         std::string(kMethod) + ", " + text(least->value) + " to " + text(most->value)});
  }
  add_row(constants, "exchange.signal", rows.find("signal", "cycles", {{"sms", "2"}}),
          "half a round trip between two SMs, mean over pairs");
}

// The same inside a cluster.
void fit_cluster(std::vector<CalibratedConstant>& constants, const Rows& rows, double barrier,
                 double barrier_per_warp) {
  const auto measured = rows.select("cluster", "cycles", {});
  if (measured.size() < 4 * std::tuple_size_v<decltype(cluster_terms(0, 0, 0))>) {
    return;
  }
  Equations equations;
  for (const ParsedRow* row : measured) {
    const int threads = row->number("threads");
    const double cycles = row->row->value;
    equations.add(cluster_terms(row->number("bytes"), row->number("sms"), threads),
                  cycles - 2 * (barrier + barrier_per_warp * threads / 32), cycles);
  }
  const LeastSquares solved = least_squares(equations);
  const Eigen::VectorXd& fit = solved.fit;
  if (fit.minCoeff() < 0 || fit[0] == 0 || fit[3] == 0) {
    return;
  }
  add_fitted(
      constants,
      {"cluster.latency", "cluster.per_sm", "cluster.per_warp", "cluster.bytes_per_cycle", "cluster.per_byte_and_sm"},
      solved, solved.method(" exchanges in clusters"));
}

// What it takes to add up the sums of a cluster's SMs, beyond as many of one SM.
void fit_cluster_sums(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  Equations equations;
  for (const ParsedRow* row : rows.select("cluster_sums", "cycles", {{"exchanges", "1"}})) {
    const MicrobenchRow* const own = rows.find("cluster_sums", "cycles",
                                               {{"exchanges", "0"},
                                                {"sms", row->get("sms")},
                                                {"samples", row->get("samples")},
                                                {"threads", row->get("threads")}});
    if (own != nullptr && row->row->value > own->value) {
      const double cycles = row->row->value - own->value;
      equations.add(std::array{1, row->number("bytes")}, cycles, cycles);
    }
  }
  if (equations.goals.size() < 8) {
    return;
  }
  const LeastSquares solved = least_squares(equations, /*are_costs=*/true);
  add_fitted(constants, {"cluster.sums", "cluster.sums_per_byte"}, solved,
             solved.method(" sizes of sums, with and without the exchange"));
}

}  // namespace

std::vector<CalibratedConstant> fit_constants(std::span<const MicrobenchRow> measured) {
  const Rows rows(measured);
  std::vector<CalibratedConstant> constants;
  fit_shared_memory(constants, rows);

  add_issue(constants, rows, "timing.fp32_issue", {"ffma"});
  add_issue(constants, rows, "timing.half2_issue", {"hfma2"});
  add_issue(constants, rows, "timing.conversion_issue", {"half_to_float"});
  add_issue(constants, rows, "timing.integer_issue", {"lop3", "iadd3", "shift", "permute", "select"});
  add_issue(constants, rows, "timing.tensor_issue", {"hmma"});
  const auto chain = [&](std::string_view operation) {
    return rows.find("arithmetic", "cycles", {{"operation", operation}, {"warps", "1"}, {"ilp", "1"}});
  };
  const MicrobenchRow* const arithmetic = chain("ffma");
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
  add_row(constants, "timing.half2_latency", chain("hfma2"), "chain of dependent HFMA2, one warp per partition");
  add_row(constants, "timing.tensor_latency", chain("hmma"), "chain of dependent HMMA, one warp per partition");
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
  add_row(constants, "host.mailbox", rows.find("mailbox", "us", {{"words", "1"}}),
          "a word there and back, the median of 20,000 in each of several launches", 1e-6);
  fit_l2(constants, rows);
  fit_exchange(constants, rows, block_barrier[0], block_barrier[1]);
  fit_cluster(constants, rows, block_barrier[0], block_barrier[1]);
  fit_cluster_sums(constants, rows);
  return constants;
}

}  // namespace onchip
