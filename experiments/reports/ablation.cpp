// SPDX-License-Identifier: Apache-2.0
#include "experiments/reports/ablation.hpp"

#include "model/base/error.hpp"
#include "model/base/table.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace onchip {
namespace {

Chip without(Chip chip, const Ablation& ablation) {
  for (const CostTerm* term : ablation.terms) {
    chip.cost.set(term->cost, term->neutral);
  }
  return chip;
}

// Mean errors in per cent with and without the terms of an ablation.
struct Worth {
  int points = 0;
  double with = 0, without = 0;
  double difference() const { return without - with; }
};

Worth worth(std::span<const ScoredRow> rows, std::size_t ablation,
            const std::function<bool(const ScoredRow&)>& wanted) {
  std::vector<Comparison> with, without;
  for (const ScoredRow& row : rows) {
    if (wanted(row)) {
      with.push_back(row.comparison);
      without.push_back({row.comparison.measured, row.without[ablation], 0, 0});
    }
  }
  if (with.empty()) {
    return {};
  }
  return {static_cast<int>(with.size()), score(with).mape_percent, score(without).mape_percent};
}

// Over the rows whose prediction the ablation changes, libraries' included.
Worth worth_to_users(std::span<const ScoredRow> rows, std::size_t ablation) {
  return worth(rows, ablation, [&](const ScoredRow& row) {
    const double rounding = 1e-9 * row.comparison.predicted;
    return std::abs(row.without[ablation] - row.comparison.predicted) > rounding;
  });
}

Json to_json(const Worth& worth) {
  Json json{{"points", worth.points}};
  for (const auto& [key, value] :
       {std::pair{"mape_percent", worth.with}, std::pair{"mape_without_percent", worth.without},
        std::pair{"difference_percent", worth.difference()}}) {
    json[key] = worth.points > 0 ? Json(rounded(value)) : Json(nullptr);
  }
  return json;
}

std::vector<std::string> cells(const Worth& worth, int digits) {
  if (worth.points == 0) {
    return {"0", "", "", ""};
  }
  return {std::to_string(worth.points), fixed(worth.with, digits), fixed(worth.without, digits),
          fixed(worth.difference(), digits)};
}

}  // namespace

std::vector<std::string> Ablation::names() const {
  std::vector<std::string> names;
  std::ranges::transform(terms, std::back_inserter(names),
                         [](const CostTerm* term) { return std::string(term->name); });
  return names;
}

std::vector<Ablation> read_ablations(std::span<const std::string> names) {
  std::vector<Ablation> ablations;
  if (std::ranges::find(names, kEveryTerm) != names.end()) {
    if (names.size() > 1) {
      throw InputError("--without all: expected no other --without");
    }
    for (const CostTerm& term : kCostTerms) {
      ablations.push_back({{&term}});
    }
    return ablations;
  }
  for (const std::string& name : names) {
    const auto term = std::ranges::find(kCostTerms, name, &CostTerm::name);
    if (term == kCostTerms.end()) {
      std::vector<std::string_view> known{kEveryTerm};
      std::ranges::transform(kCostTerms, std::back_inserter(known), &CostTerm::name);
      throw InputError("--without: unknown cost term '" + name + "'" + did_you_mean(name, known));
    }
    if (ablations.empty()) {
      ablations.emplace_back();
    }
    ablations.front().terms.push_back(term);
  }
  return ablations;
}

std::vector<double> predict_without(const Chip& chip, std::span<const Ablation> ablations,
                                    const std::function<double(const Chip&)>& predict) {
  std::vector<double> predicted;
  for (const Ablation& ablation : ablations) {
    predicted.push_back(predict(without(chip, ablation)));
  }
  return predicted;
}

void add_ablation(std::span<const ScoredRow> rows, const Ablation& ablation, Report& report) {
  const bool any_kernel = !std::ranges::all_of(rows, &ScoredRow::is_library);
  const Worth of_all = worth(rows, 0, [&](const ScoredRow& row) { return !any_kernel || !row.is_library; });
  const Worth of_users = worth_to_users(rows, 0);
  report.json["without"] = {{"terms", ablation.names()}, {"rows", to_json(of_all)}, {"used", to_json(of_users)}};
  Table table{{"rows", "points", "MAPE %", "without %", "difference"}, {}};
  for (const auto& [name, worth] :
       {std::pair{any_kernel ? "all kernels" : "all", &of_all}, {"that use it", &of_users}}) {
    std::vector<std::string> row = cells(*worth, 2);
    row.insert(row.begin(), name);
    table.rows.push_back(std::move(row));
  }
  std::string names;
  for (const std::string& name : ablation.names()) {
    names += (names.empty() ? "" : ", ") + name;
  }
  report.text += "\nWithout " + names + ":\n\n" + to_aligned(table);
}

Report report_worth(std::span<const ScoredRow> rows, std::span<const Ablation> ablations) {
  std::vector<std::pair<std::size_t, Worth>> lines;
  for (std::size_t i = 0; i < ablations.size(); ++i) {
    lines.emplace_back(i, worth_to_users(rows, i));
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), [](const auto& line) {
    return std::pair(line.second.points > 0, line.second.difference());
  });
  Report report;
  report.json = {{"terms", Json::array()}};
  report.csv.columns = {"term", "points", "mape_percent", "mape_without_percent", "difference_percent"};
  Table shown{{"term", "points", "MAPE %", "without %", "difference"}, {}};
  for (const auto& [i, worth] : lines) {
    const std::string term = ablations[i].names().front();
    Json json{{"term", term}};
    json.update(to_json(worth));
    report.json["terms"].push_back(std::move(json));
    for (auto& [table, digits] : {std::pair{&report.csv, 4}, std::pair{&shown, 2}}) {
      std::vector<std::string> row = cells(worth, digits);
      row.insert(row.begin(), term);
      table->rows.push_back(std::move(row));
    }
  }
  report.text = "Mean errors over the rows that use a term, with it and without:\n\n" + to_aligned(shown);
  return report;
}

}  // namespace onchip
