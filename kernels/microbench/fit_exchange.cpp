// SPDX-License-Identifier: Apache-2.0
#include "kernels/microbench/fit_rows.hpp"
#include "kernels/microbench/least_squares.hpp"
#include "model/exchange/exchange_time.hpp"
#include "model/exchange/state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace onchip::microbench {

// Least squares of relative errors over the exchanges that have a poll delay, with the formula of
// model/exchange/exchange_time.hpp; its block barriers are known already. Of each exchange the delay with which it is
// quickest, as plans have it. First those of one round, as plans have them, too; what further rounds take, of the rest.
// Of one round only those measured with several delays: with one that suits others they take up to 9 % longer. Where a
// state is large, that matters less.
void fit_exchange(std::vector<CalibratedConstant>& constants, const Rows& rows, double barrier,
                  double barrier_per_warp) {
  const auto measured = rows.select("exchange", "cycles", {});
  const MicrobenchRow* clock = rows.find("clock", "Hz", {{"under", "exchange"}});
  struct Measured {
    std::array<double, 6> terms;
    double cycles, rest;  // without the block barriers
  };
  constexpr std::array<Eigen::Index, 5> kOneRound{0, 1, 2, 4, 5};
  constexpr std::array<Eigen::Index, 1> kFurther{3};
  struct Quickest {
    const ParsedRow* row = nullptr;
    int waits = 0;
  };
  std::map<std::array<int, 5>, Quickest> shapes;
  for (const ParsedRow* row : measured) {
    if (row->number("poll_delay") > 0) {
      Quickest& shape = shapes[{row->number("bytes"), row->number("batch"), row->number("sms"), row->number("threads"),
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
  if (one_round.size() < 4 * kOneRound.size() || further.size() < 4 * kFurther.size() || clock == nullptr) {
    return;
  }
  const auto fit = [](const std::vector<Measured>& of, std::span<const Eigen::Index> which) {
    Eigen::MatrixXd terms(of.size(), which.size());
    Eigen::VectorXd goal(of.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      for (std::size_t j = 0; j < which.size(); ++j) {
        terms(i, j) = of[i].terms[which[j]] / of[i].cycles;
      }
      goal[i] = of[i].rest / of[i].cycles;
    }
    return least_squares_of_costs(terms, goal);
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
  const double seconds = 1 / clock->value;
  constants.push_back({"exchange.latency", first.fit[0] * seconds, first.widths[0] * seconds, method});
  constants.push_back({"exchange.per_sm", first.fit[1], first.widths[1], method});
  constants.push_back(
      {"exchange.bytes_per_cycle_per_sm", 1 / first.fit[2], first.widths[2] / (first.fit[2] * first.fit[2]), method});
  constants.push_back({"exchange.per_word", first.fit[3], first.widths[3], method});
  constants.push_back({"exchange.per_warp", first.fit[4], first.widths[4], method});
  constants.push_back({"exchange.round_trip", rest.fit[0], rest.widths[0], of_rest});
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
  constexpr Eigen::Index kTerms = std::tuple_size_v<decltype(cluster_terms(0, 0, 0))>;
  const auto count = static_cast<Eigen::Index>(measured.size());
  if (count < 4 * kTerms) {
    return;
  }
  Eigen::MatrixXd terms(count, kTerms);
  Eigen::VectorXd goal(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const ParsedRow& row = *measured[static_cast<std::size_t>(i)];
    const double cycles = row.row->value;
    const auto threads = static_cast<int>(row.number("threads"));
    const auto of_row = cluster_terms(row.number("bytes"), static_cast<int>(row.number("sms")), threads);
    for (Eigen::Index j = 0; j < kTerms; ++j) {
      terms(i, j) = of_row[static_cast<std::size_t>(j)] / cycles;
    }
    goal[i] = 1 - 2 * (barrier + barrier_per_warp * threads / 32) / cycles;
  }
  const LeastSquares solved = least_squares(terms, goal);
  const Eigen::VectorXd &fit = solved.fit, &widths = solved.widths;
  if (fit.minCoeff() < 0 || fit[0] == 0 || fit[3] == 0) {
    return;
  }
  const std::string method = solved.method(" exchanges in clusters");
  constants.push_back({"cluster.latency", fit[0], widths[0], method});
  constants.push_back({"cluster.per_sm", fit[1], widths[1], method});
  constants.push_back({"cluster.per_warp", fit[2], widths[2], method});
  constants.push_back({"cluster.bytes_per_cycle", 1 / fit[3], widths[3] / (fit[3] * fit[3]), method});
  constants.push_back({"cluster.per_byte_and_sm", fit[4], widths[4], method});
}

// What it takes to add up the sums of a cluster's SMs, beyond as many of one SM.
void fit_cluster_sums(std::vector<CalibratedConstant>& constants, const Rows& rows) {
  std::vector<double> bytes, cycles;
  for (const ParsedRow* row : rows.select("cluster_sums", "cycles", {{"exchanges", "1"}})) {
    const MicrobenchRow* const own = rows.find("cluster_sums", "cycles",
                                               {{"exchanges", "0"},
                                                {"sms", row->get("sms")},
                                                {"samples", row->get("samples")},
                                                {"threads", row->get("threads")}});
    if (own != nullptr && row->row->value > own->value) {
      bytes.push_back(row->number("bytes"));
      cycles.push_back(row->row->value - own->value);
    }
  }
  const auto count = static_cast<Eigen::Index>(cycles.size());
  if (count < 8) {
    return;
  }
  const Eigen::ArrayXd measured = Eigen::ArrayXd::Map(cycles.data(), count);
  Eigen::MatrixXd terms(count, 2);
  terms.col(0) = 1 / measured;
  terms.col(1) = Eigen::ArrayXd::Map(bytes.data(), count) / measured;
  const LeastSquares solved = least_squares_of_costs(terms, Eigen::VectorXd::Ones(count));
  const std::string method = solved.method(" sizes of sums, with and without the exchange");
  constants.push_back({"cluster.sums", solved.fit[0], solved.widths[0], method});
  constants.push_back({"cluster.sums_per_byte", solved.fit[1], solved.widths[1], method});
}

}  // namespace onchip::microbench
