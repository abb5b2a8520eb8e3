// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/flat.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace onchip {
namespace {

constexpr std::array<std::string_view, 3> kInlined{"network", "configuration", "row"};
constexpr std::array<std::string_view, 3> kNotShown{"schema", "version", "command"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string scalar_text(const Json& value) {
  return value.is_null()           ? ""
         : value.is_string()       ? value.get<std::string>()
         : value.is_number_float() ? format_number(rounded(value.get<double>(), 9))
                                   : value.dump();
}

// Long lists are no text to read.
std::string list_text(const Json& array) {
  constexpr std::size_t kMost = 16;
  if (array.size() > kMost && std::ranges::all_of(array, [](const Json& value) { return value.is_number(); })) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const Json& value : array) {
      least = std::min(least, value.get<double>());
      most = std::max(most, value.get<double>());
    }
    return std::to_string(array.size()) + " numbers from " + significant(least, 6) + " to " + significant(most, 6);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, array.size()); ++i) {
    text += (i ? ", " : "") + (array[i].is_structured() ? array[i].dump() : scalar_text(array[i]));
  }
  return text + (array.size() > kMost ? " and " + std::to_string(array.size() - kMost) + " more" : "");
}

bool all_have(const Json& array, std::initializer_list<const char*> keys) {
  return array.is_array() && !array.empty() && std::ranges::all_of(array, [&](const Json& one) {
           return one.is_object() && one.size() == keys.size() &&
                  std::ranges::all_of(keys, [&](const char* key) { return one.contains(key); });
         });
}

bool are_terms(const Json& value) {
  return all_have(value, {"name", "us"});
}

bool are_resources(const Json& value) {
  return all_have(value, {"name", "used", "available", "unit"});
}

// {"hidden": ["1024", "2048"]} -> "hidden 1024 -> 2048"; of a plan no more than the family, as it is long.
std::string changes_text(const Json& changes) {
  std::string text;
  for (const auto& [key, values] : changes.items()) {
    std::array<std::string, 2> sides{scalar_text(values[0]), scalar_text(values[1])};
    if (key == "plan") {
      std::ranges::for_each(sides, [](std::string& side) { side.resize(std::min(side.find(' '), side.size())); });
    }
    text += text.empty() ? "" : ", ";
    text += key == "plan" && sides[0] == sides[1] ? "another plan" : key + ' ' + sides[0] + " -> " + sides[1];
  }
  return text;
}

bool are_changes(const Json& value) {
  return value.is_object() && std::ranges::all_of(value, [](const Json& one) {
           return one.is_array() && one.size() == 2 && !one[0].is_structured() && !one[1].is_structured();
         });
}

void add_flat(const std::string& prefix, const Json& object, NamedCells& cells) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    const auto with_end = [&](std::string_view end, const std::string& put) {
      return name.substr(0, name.size() - end.size()) + put;
    };
    if (prefix.empty() && is_one_of(kNotShown, key)) {
      continue;
    }
    if (!value.is_structured()) {
      cells.emplace_back(name, scalar_text(value));
    } else if (is_one_of(kInlined, key) && value.is_object()) {
      add_flat(prefix, value, cells);
    } else if (key == "plan" && value.is_object() && value.contains("text")) {
      cells.emplace_back(name, scalar_text(value["text"]));
    } else if (name.ends_with("interval_us") && value.is_array() && value.size() == 2) {
      cells.emplace_back(with_end("interval_us", "low_us"), scalar_text(value[0]));
      cells.emplace_back(with_end("interval_us", "high_us"), scalar_text(value[1]));
    } else if (are_terms(value)) {
      for (const Json& term : value) {
        cells.emplace_back((name == "terms" ? "" : with_end("terms", "")) + scalar_text(term["name"]) + "_us",
                           scalar_text(term["us"]));
      }
    } else if (are_resources(value)) {
      for (const Json& use : value) {
        cells.emplace_back(scalar_text(use["name"]), scalar_text(use["used"]) + " of " + scalar_text(use["available"]) +
                                                         ' ' + scalar_text(use["unit"]));
      }
    } else if (key == "changed" && are_changes(value)) {
      cells.emplace_back("what changed", changes_text(value));
    } else if (key == "percent" && value.is_object()) {
      for (const auto& [column, percent] : value.items()) {
        cells.emplace_back("change of " + column + "_percent", scalar_text(percent));
      }
    } else if (value.is_object()) {
      add_flat(name + '.', value, cells);
    } else if (!is_array_of_objects(value)) {
      cells.emplace_back(name, list_text(value));
    }
  }
}

}  // namespace

bool is_array_of_objects(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object();
}

bool is_flat(const std::string& key, const Json& value) {
  return !value.is_structured() || is_one_of(kInlined, key) || key == "plan" || are_terms(value) ||
         are_resources(value) || (value.is_array() && !is_array_of_objects(value));
}

NamedCells flat(const Json& object) {
  NamedCells cells;
  add_flat("", object, cells);
  return cells;
}

Table to_table(const std::vector<NamedCells>& rows) {
  Table table;
  for (const NamedCells& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back(table.columns.size());
    for (const auto& [column, text] : row) {
      const auto place = static_cast<std::size_t>(std::ranges::find(table.columns, column) - table.columns.begin());
      if (place == table.columns.size()) {
        table.columns.push_back(column);
      }
      cells.resize(table.columns.size());
      cells[place] = text;
    }
  }
  for (auto& row : table.rows) {
    row.resize(table.columns.size());
  }
  return table;
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json& object = rows.emplace_back(Json::object());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Json number = Json::parse(row[i], nullptr, /*allow_exceptions=*/false);
      object[table.columns[i]] = number.is_number() ? number : Json(row[i]);
    }
  }
  return rows;
}

}  // namespace onchip
