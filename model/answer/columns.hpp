// SPDX-License-Identifier: Apache-2.0
// Named columns: each thing that an answer says stands once in a list, with its unit, its meaning and where its value
// comes from. The table, CSV and JSON of the answer and its part of docs/output.md are made of that list.
#pragma once

#include "model/base/json.hpp"
#include "model/base/statistics.hpp"
#include "model/base/table.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace onchip {

// What a row has under a column: nothing where there is none of it. Json: a list or null in JSON only, or an object
// whose "text" is the cell of CSV.
using ColumnValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, Json>;

// Of whatever a column's function returns.
template <typename T>
ColumnValue to_value(const T& value) {
  if constexpr (std::same_as<T, ColumnValue> || std::same_as<T, bool> || std::same_as<T, Json>) {
    return value;
  } else if constexpr (std::integral<T>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<double>(value);
  } else {
    return value ? to_value(*value) : ColumnValue();  // an optional
  }
}

enum class In : std::uint8_t { csv_and_json, csv, json };

struct ColumnInfo {
  std::string name, unit, help;  // unit: "us"; empty: a count, a share of 1 or a word
  std::string place = {};        // in JSON: "structure/fill"
  In in = In::csv_and_json;
  int digits = 6;
};

struct ColumnGroup {
  std::string rows;  // which: "training"
  std::vector<ColumnInfo> columns;
};

std::string cell_text(const ColumnValue& value, int digits);
void put_in_json(const ColumnInfo& column, const ColumnValue& value, Json& json);  // nothing where there is none
Json timing_json(const Timing& timing);
std::string list_text(const Table& one_row, std::span<const ColumnInfo> columns);

inline constexpr const char* kTimeInJson =
    "the same with its spread: `median`, `low`, `high`, `samples`, and `within_percent`, how far the median's 95 % "
    "interval reaches";

template <typename Row>
class Columns {
 public:
  // `get(row)` returns what to_value() takes. `place`: in JSON, if it is not the name.
  template <typename Get>
  void add(std::string name, std::string unit, std::string help, Get get, std::string place = {},
           In in = In::csv_and_json, int digits = 6) {
    place = place.empty() ? name : place;
    infos_.push_back({std::move(name), std::move(unit), std::move(help), std::move(place), in, digits});
    values_.push_back([get](const Row& row) { return to_value(std::invoke(get, row)); });
  }
  template <typename Get>
  void add_to_json(std::string name, std::string help, Get get, std::string place = {}) {
    add(std::move(name), "", std::move(help), get, std::move(place), In::json);
  }

  // All columns of what `get(row)` is.
  template <typename Part, typename Get>
  void add_all(const Columns<Part>& part, Get get) {
    for (std::size_t i = 0; i < part.infos().size(); ++i) {
      infos_.push_back(part.infos()[i]);
      values_.push_back([&part, i, get](const Row& row) { return part.value(std::invoke(get, row), i); });
    }
  }

  // A measured time, `get(row)` a Timing, of no samples where there is none: in CSV its median, in JSON an object. With
  // `low` and `high` CSV has its spread under these names, and its samples.
  template <typename Get>
  void add_time(const std::string& name, const std::string& unit, const std::string& help, Get get,
                const std::string& place = {}, const std::string& low = {}, const std::string& high = {}) {
    const auto if_timed = [get](auto of) {
      return [get, of](const Row& row) {
        const Timing timing = std::invoke(get, row);
        return timing.samples > 0 ? to_value(std::invoke(of, timing)) : ColumnValue();
      };
    };
    add(name, unit, help, if_timed(&Timing::median), "", In::csv);
    add(name, unit, kTimeInJson, if_timed(timing_json), place, In::json);
    if (!low.empty()) {
      add(low, unit, "2.5 % quantile of the samples", if_timed(&Timing::low), "", In::csv);
      add(high, unit, "97.5 % quantile of the samples", if_timed(&Timing::high), "", In::csv);
      add(
          "samples", "", "as many were taken", [get](const Row& row) { return std::invoke(get, row).samples; }, "",
          In::csv);
    }
  }

  ColumnGroup group(std::string rows) const { return {std::move(rows), infos_}; }
  const std::vector<ColumnInfo>& infos() const { return infos_; }
  ColumnValue value(const Row& row, std::size_t column) const { return values_[column](row); }

  // Of the names that are given, or of all.
  Table table(std::span<const Row> rows, const std::vector<std::string_view>& names = {}) const {
    Table table;
    const auto for_each = [&](auto use) {
      for (std::size_t i = 0; i < infos_.size(); ++i) {
        if (infos_[i].in != In::json && (names.empty() || std::ranges::find(names, infos_[i].name) != names.end())) {
          use(i);
        }
      }
    };
    for_each([&](std::size_t i) { table.columns.push_back(infos_[i].name); });
    for (const Row& row : rows) {
      table.rows.emplace_back();
      for_each([&](std::size_t i) { table.rows.back().push_back(cell_text(values_[i](row), infos_[i].digits)); });
    }
    return table;
  }
  std::vector<std::string> cells(const Row& row) const { return table({&row, 1}).rows.front(); }

  Json json(const Row& row) const {
    Json json = Json::object();
    for (std::size_t i = 0; i < infos_.size(); ++i) {
      if (infos_[i].in != In::csv) {
        put_in_json(infos_[i], values_[i](row), json);
      }
    }
    return json;
  }

  // For people: what there is of one row, a line each, "step_us  5.83 us".
  std::string list(const Row& row) const { return list_text(table({&row, 1}), infos_); }

 private:
  std::vector<ColumnInfo> infos_;
  std::vector<std::function<ColumnValue(const Row&)>> values_;
};

}  // namespace onchip
