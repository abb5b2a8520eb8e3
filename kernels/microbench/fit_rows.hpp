// SPDX-License-Identifier: Apache-2.0
// The rows of a microbenchmark, as the fits select them.
#pragma once

#include "kernels/microbench/microbench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onchip::microbench {

inline constexpr double kNormal95 = 1.96;

inline std::string text(double value, int digits = 3) {
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

// The half-width that makes `value` +- it hold the interval of the row.
inline double half_width(const MicrobenchRow& row) {
  return std::max(row.high - row.value, row.value - row.low);
}

inline void add_row(std::vector<CalibratedConstant>& constants, std::string key, const MicrobenchRow* row,
                    std::string method, double factor = 1) {
  if (row != nullptr) {
    constants.push_back({std::move(key), row->value * factor, half_width(*row) * factor, std::move(method)});
  }
}

// The exchange between SMs, by L2 and inside clusters; its block barriers are known already.
void fit_exchange(std::vector<CalibratedConstant>& constants, const Rows& rows, double barrier,
                  double barrier_per_warp);
void fit_l2(std::vector<CalibratedConstant>& constants, const Rows& rows);
void fit_cluster(std::vector<CalibratedConstant>& constants, const Rows& rows, double barrier, double barrier_per_warp);
void fit_cluster_sums(std::vector<CalibratedConstant>& constants, const Rows& rows);

}  // namespace onchip::microbench
