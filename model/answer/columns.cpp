// SPDX-License-Identifier: Apache-2.0
#include "model/answer/columns.hpp"

#include "model/base/units.hpp"

#include <cmath>
#include <type_traits>

namespace onchip {

std::string cell_text(const ColumnValue& value, int digits) {
  struct Text {
    int digits;
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool is) const { return truth(is); }
    std::string operator()(std::int64_t count) const { return std::to_string(count); }
    std::string operator()(double number) const { return std::isfinite(number) ? significant(number, digits) : ""; }
    std::string operator()(const std::string& word) const { return word; }
    std::string operator()(const Json& json) const {
      return json.is_object() ? json.at("text").get<std::string>() : "";
    }
  };
  return std::visit(Text{digits}, value);
}

void put_in_json(const ColumnInfo& column, const ColumnValue& value, Json& json) {
  const auto as_json = [&](const auto& of) {
    using T = std::decay_t<decltype(of)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      return Json();
    } else if constexpr (std::is_same_v<T, double>) {
      return std::isfinite(of) ? Json(rounded(of, std::max(column.digits, 6))) : Json();
    } else {
      return Json(of);
    }
  };
  Json put = std::visit(as_json, value);
  if ((!put.is_null() || std::holds_alternative<Json>(value)) && put != Json("")) {
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

}  // namespace onchip
