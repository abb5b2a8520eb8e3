// SPDX-License-Identifier: Apache-2.0
#include "experiments/command/columns.hpp"

#include "model/base/units.hpp"

#include <cmath>
#include <type_traits>

namespace onchip {

std::string cell_text(const Value& value, int digits) {
  struct Text {
    int digits;
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool is) const { return truth(is); }
    std::string operator()(std::int64_t count) const { return std::to_string(count); }
    std::string operator()(double number) const { return std::isfinite(number) ? significant(number, digits) : ""; }
    std::string operator()(const std::string& word) const { return word; }
    std::string operator()(const Json& json) const { return json.at("text").get<std::string>(); }
  };
  return std::visit(Text{digits}, value);
}

void put_in_json(const ColumnInfo& column, const Value& value, Json& json) {
  const auto as_json = [](const auto& of) {
    using T = std::decay_t<decltype(of)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      return Json();
    } else if constexpr (std::is_same_v<T, double>) {
      return std::isfinite(of) ? Json(rounded(of)) : Json();
    } else {
      return Json(of);
    }
  };
  Json put = std::visit(as_json, value);
  if (!put.is_null() && put != Json("")) {
    json[Json::json_pointer('/' + column.place)] = std::move(put);
  }
}

Json timing_json(const Timing& timing) {
  Json json{{"median", rounded(timing.median)},
            {"low", rounded(timing.low)},
            {"high", rounded(timing.high)},
            {"samples", timing.samples}};
  if (std::isfinite(timing.within)) {
    json["within_percent"] = rounded(100 * timing.within, 3);
  }
  return json;
}

std::string list_text(const Table& one_row, std::span<const ColumnInfo> columns) {
  std::size_t width = 0;
  for (const std::string& name : one_row.columns) {
    width = std::max(width, name.size());
  }
  std::string text;
  for (std::size_t i = 0; i < one_row.columns.size(); ++i) {
    const std::string &name = one_row.columns[i], &cell = one_row.rows[0][i];
    if (!cell.empty()) {
      const std::string& unit = std::ranges::find(columns, name, &ColumnInfo::name)->unit;
      text += name + std::string(width + 2 - name.size(), ' ') + cell + (unit.empty() ? "" : ' ' + unit) + '\n';
    }
  }
  return text;
}

Report explain(std::span<const ColumnGroup> groups) {
  Report report{.text = {},
                .csv = {{"rows", "column", "unit", "in", "json_place", "help"}, {}},
                .json = {{"columns", Json::array()}}};
  for (const ColumnGroup& group : groups) {
    for (const ColumnInfo& column : group.columns) {
      const char* const in = column.in == In::csv ? "CSV" : column.in == In::json ? "JSON" : "CSV and JSON";
      report.csv.rows.push_back({group.rows, column.name, column.unit, in, column.place, column.help});
      Json& json = report.json["columns"].emplace_back();
      for (std::size_t i = 0; i < report.csv.columns.size(); ++i) {
        json[report.csv.columns[i]] = report.csv.rows.back()[i];
      }
    }
  }
  report.text = to_aligned(report.csv);
  return report;
}

}  // namespace onchip
