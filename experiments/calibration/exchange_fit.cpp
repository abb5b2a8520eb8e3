// SPDX-License-Identifier: Apache-2.0
#include "experiments/calibration/exchange_fit.hpp"

#include "model/base/parallel.hpp"
#include "model/base/table.hpp"
#include "sim/exchange/exchange_bench.hpp"

#include <Eigen/Dense>

#include <array>
#include <cmath>
#include <cstdio>

namespace onchip {
namespace {

// Larger states would take most of the time.
constexpr int kMostBytes = 80000;
constexpr ExchangeOptions kOptions{.warmup_steps = 2, .steps = 3, .free = false};

struct Measured {
  ExchangeBench bench;
  double cycles;
};

std::vector<Measured> measured_exchanges(std::span<const MicrobenchRow> rows) {
  std::vector<Measured> result;
  for (const MicrobenchRow& row : rows) {
    Measured measured{{}, row.value};
    int batch = 0;
    ExchangeBench& bench = measured.bench;
    const bool is_one = row.bench == "exchange" && row.unit == "cycles" && row.samples > 0 && row.value > 0 &&
                        std::sscanf(row.parameters.c_str(),
                                    "bytes=%d batch=%d sms=%d threads=%d loads=%d poll_delay=%d", &bench.state_bytes,
                                    &batch, &bench.sms, &bench.threads, &bench.loads_in_flight, &bench.poll_delay) == 6;
    if (is_one && bench.state_bytes <= kMostBytes) {
      result.push_back(measured);
    }
  }
  return result;
}

struct Constant {
  const char* key;
  Number Chip::*value;
  double first_step, last_step, least, most;
};
constexpr std::array kConstants{
    Constant{"exchange.look", &Chip::look_cycles, 32, 4, 0, 1000},
    Constant{"exchange.look_per_word", &Chip::look_per_word_cycles, 8, 1, 0, 200},
    Constant{"exchange.before_barrier", &Chip::before_barrier_cycles, 32, 4, 0, 1000},
    Constant{"l2.slices", &Chip::l2_slices, 32, 4, 2, 1024},
};
using Point = std::array<double, kConstants.size()>;

Point constants_of(const Chip& chip) {
  Point point;
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    point[i] = chip.*kConstants[i].value;
  }
  return point;
}

Chip with(Chip chip, const Point& point) {
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    (chip.*kConstants[i].value).value = point[i];
  }
  return chip;
}

class Fit {
 public:
  Fit(const Chip& chip, std::vector<Measured> measured) : chip_(chip), measured_(std::move(measured)) {}

  // Logarithms of simulated / measured.
  Eigen::VectorXd errors(const Point& point) const {
    const Chip chip = with(chip_, point);
    Eigen::VectorXd result(static_cast<Eigen::Index>(measured_.size()));
    parallel_for(static_cast<int>(measured_.size()), all_cores(), [&](int i) {
      const Measured& row = measured_[static_cast<std::size_t>(i)];
      result[i] = std::log(simulate_exchange_bench(chip, row.bench, kOptions) / row.cycles);
    });
    return result;
  }

  Point search(Point at, const std::function<void(const std::string&)>& say) const {
    double best = errors(at).squaredNorm();
    for (double scale = 1; scale >= 1.0 / 8; scale /= 2) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < kConstants.size(); ++i) {
          const double step = std::max(kConstants[i].first_step * scale, kConstants[i].last_step);
          for (const double by : {step, -step}) {
            Point next = at;
            next[i] = std::clamp(at[i] + by, kConstants[i].least, kConstants[i].most);
            const double error = next == at ? best : errors(next).squaredNorm();
            if (error < best) {
              best = error;
              at = next;
              moved = true;
              say("the simulated exchange is off by " + fixed(100 * root_mean(best), 2) + " %");
              break;
            }
          }
        }
      }
    }
    return at;
  }

 private:
  double root_mean(double sum) const { return std::sqrt(sum / static_cast<double>(measured_.size())); }

  Chip chip_;
  std::vector<Measured> measured_;
};

}  // namespace

std::vector<CalibratedConstant> fit_simulated_exchange(const Chip& chip, std::span<const MicrobenchRow> rows,
                                                       const std::function<void(const std::string&)>& say) {
  std::vector<Measured> measured = measured_exchanges(rows);
  const auto count = static_cast<Eigen::Index>(measured.size());
  constexpr Eigen::Index kTerms = kConstants.size();
  if (count < 8 * kTerms) {
    return {};
  }
  const Fit fit(chip, std::move(measured));
  const Point best = fit.search(constants_of(chip), say);
  const Eigen::VectorXd errors = fit.errors(best);

  // The 95 % intervals, as of least squares: what the errors change with each constant.
  Eigen::MatrixXd slopes(count, kTerms);
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    Point next = best;
    next[i] += kConstants[i].first_step / 2;
    slopes.col(static_cast<Eigen::Index>(i)) = (fit.errors(next) - errors) / (next[i] - best[i]);
  }
  const double variance = errors.squaredNorm() / static_cast<double>(count - kTerms);
  const Eigen::VectorXd widths =
      1.96 * (variance * (slopes.transpose() * slopes).inverse()).diagonal().cwiseAbs().cwiseSqrt();

  const Eigen::ArrayXd relative = (errors.array().exp() - 1).abs();
  const std::string method =
      "so that simulated exchanges take as long as measured ones: " + std::to_string(count) + " of up to " +
      std::to_string(kMostBytes / 1000) + " KB, mean error " + significant(100 * relative.mean(), 3) + " %, worst " +
      significant(100 * relative.maxCoeff(), 3) + " %, bias " + fixed(std::exp(errors.mean()), 3);
  std::vector<CalibratedConstant> constants;
  for (std::size_t i = 0; i < kConstants.size(); ++i) {
    // Not beyond what the chip file takes.
    const double width = std::min(widths[static_cast<Eigen::Index>(i)], 0.9 * best[i]);
    constants.push_back({kConstants[i].key, best[i], width, method});
  }
  return constants;
}

}  // namespace onchip
