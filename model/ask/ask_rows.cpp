// SPDX-License-Identifier: Apache-2.0
#include "model/ask/ask_rows.hpp"

#include "model/ask/ask.hpp"
#include "model/base/error.hpp"
#include "model/base/parallel.hpp"
#include "model/explore/front_of_rows.hpp"
#include "model/explore/rows.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace onchip {

int whole(const Json& value, std::string_view name, int least, int most) {
  const double number = value.get<double>();
  if (!(number >= least && number <= most) || number != std::floor(number)) {
    throw InputError(std::string(name) + ": found " + value.dump() + ": expected a whole number from " +
                     std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int>(number);
}

bool parse_rows(std::string_view text) {
  if (text != "exact" && text != "expected") {
    throw InputError("rows: found " + in_quotes(text) + ": expected exact or expected");
  }
  return text == "expected";
}

namespace {

// What each key of a question says, with the key where it is refused.
template <typename Read>
void for_each_key(const Json& object, Read&& read) {
  for (const auto& [key, value] : object.items()) {
    try {
      read(key, value);
    } catch (const Json::exception&) {
      throw InputError("question: " + key + ": found " + value.dump());
    }
  }
}

// As it is written on a command line.
std::string text_of(const Json& value) {
  return value.is_string() || value.is_object() || value.is_array() ? value.get<std::string>() : value.dump();
}

// "hidden=512:4096:512", or {"hidden": [512, 1024], "batch": "1,4"}, whose keys move together.
void add_axis(SweepSpec& spec, const Json& given) {
  if (!given.is_object()) {
    spec.add_axis(given.get<std::string>());
    return;
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;
  for (const auto& [key, values] : given.items()) {
    std::vector<std::string>& texts = keys.emplace_back(key, std::vector<std::string>()).second;
    for (const Json& value : values.is_array() ? values : Json::array({values})) {
      texts.push_back(text_of(value));
    }
  }
  if (keys.empty()) {
    throw InputError("axis: found {}: expected a key and its values");
  }
  spec.add_axis(std::move(keys));
}

void read_key(SweepSpec& spec, const std::string& key, const Json& value) {
  const auto for_each = [&](auto&& use) {
    for (const Json& one : value.get<std::vector<Json>>()) {
      use(one);
    }
  };
  if (key == "axis") {
    for_each([&](const Json& axis) { add_axis(spec, axis); });
  } else if (key == "set") {
    for_each([&](const Json& assignment) { spec.fix(assignment.get<std::string>()); });
  } else if (key == "column") {
    for_each([&](const Json& column) { spec.add_column(column.get<std::string>()); });
  } else if (key == "where") {
    spec.where = value.get<std::string>();
  } else if (key == "keep_front") {
    spec.keep_front = parse_objectives(value.get<std::string>());
  } else if (key == "rows") {
    spec.rows = value.get<std::string>();
    parse_rows(spec.rows);
  } else if (key == "granule") {
    spec.granule = whole(value, "granule", 1, kMostGranule);
  } else if ((key == "network" || key == "constraints") && value.is_object()) {
    for_each_key(value, [&](const std::string& fixed, const Json& of) { spec.fix(fixed, text_of(of)); });
  } else {
    spec.fix(key, text_of(value));
  }
}

void refuse_many(std::uint64_t rows) {
  if (rows > kMostAskedRows) {
    throw InputError(std::to_string(rows) + " rows: expected at most " + std::to_string(kMostAskedRows) +
                     "; 'onchip sweep' and 'onchip pareto' have no limit");
  }
}

void prepare(SweepSpec& spec, const ChipFile& chip) {
  if (!spec.varies("chip")) {
    spec.chips.insert_or_assign(chip.chip.name, chip);
    std::erase_if(spec.fixed, [](const KeyValues& values) { return values.key.name == "chip"; });
    spec.fixed.push_back({find_sweep_key("chip"), {{chip.chip.name}}});
  }
  finish(spec);
}

Json rows_of(SweepSpec& spec, const ChipFile& chip) {
  prepare(spec, chip);
  refuse_many(spec.size());
  return Json::parse(table_of_rows(spec, all_cores(), {}).json());
}

}  // namespace

namespace {

SweepSpec read_sweep(const Json& question) {
  SweepSpec spec;
  for_each_key(question, [&](const std::string& key, const Json& value) {
    if (key != "ask") {
      read_key(spec, key, value);
    }
  });
  return spec;
}

}  // namespace

ColumnTable ask_table(const ChipFile& chip, std::string_view question,
                      const std::function<MayGoOn(std::uint64_t rows)>& watch) {
  const Json asked = parse_json(question, "question");
  if (!asked.is_object() || asked.value("ask", Json()) != "sweep") {
    throw InputError("question: expected a sweep: {\"ask\": \"sweep\", ...}");
  }
  SweepSpec spec = read_sweep(asked);
  prepare(spec, chip);
  return table_of_rows(spec, all_cores(), watch(spec.size()));
}

Json ask_sweep(const ChipFile& chip, const Json& question) {
  SweepSpec spec = read_sweep(question);
  return versioned({{"rows", rows_of(spec, chip)}});
}

Json ask_pareto(const ChipFile& chip, const Json& question) {
  SweepSpec spec;
  FrontAsked asked;
  Json rows;
  bool asks_sweep = false;
  const bool is_of_rows = question.value("rows", Json()).is_array();  // else it is the sweep's
  for_each_key(question, [&](const std::string& key, const Json& value) {
    if (key == "objectives") {
      asked.objectives = parse_objectives(value.get<std::string>());
    } else if (key == "within") {
      asked.within = parse_within(text_of(value));
    } else if (key == "by") {
      asked.by = value.get<std::string>();
    } else if (key == "where" && is_of_rows) {
      asked.where = value.get<std::string>();
    } else if (key == "rows" && is_of_rows) {
      rows = value;
    } else if (key != "ask") {
      asks_sweep = true;
      read_key(spec, key, value);
    }
  });
  if (asked.objectives.empty()) {
    throw InputError("question: pareto needs objectives, e.g. \"step_us:min,hidden:max\"");
  }
  std::vector<std::string> axes, columns;
  if (rows.is_null()) {
    rows = rows_of(spec, chip);
    columns = RowComputer(spec, RowFormat::json_lines).columns();
    for (const Axis& axis : spec.axes) {
      for (const KeyValues& values : axis.keys) {
        axes.push_back(values.key.name);
      }
    }
  } else if (asks_sweep) {
    throw InputError("question: rows contradict the keys of a sweep");
  } else {
    for (const Json& row : rows) {
      if (!row.is_object()) {
        throw InputError("question: rows: found " + row.dump() + ": expected objects");
      }
    }
    if (!rows.empty()) {
      for (const auto& [key, unused] : rows.front().items()) {
        columns.push_back(key);
      }
    }
  }
  refuse_many(rows.size());
  const auto cells_of = [&](std::uint64_t id) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) {
      const Json& row = rows[id];
      cells.push_back(row.contains(column) ? cell_text(row[column]) : "");
    }
    return cells;
  };
  FrontsOfRows found(columns, asked, "question", axes);
  std::vector<double> numbers(found.numbers().size());
  for (std::uint64_t id = 0; id < rows.size(); ++id) {
    const std::vector<std::string> cells = cells_of(id);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t column = found.numbers()[i];
      const std::optional<double> number = cell_number(cells[column]);
      if (!number) {
        throw InputError("question: row " + std::to_string(id) + ": " + columns[column] + ": found " +
                         in_quotes(cells[column]) + ": expected a number");
      }
      numbers[i] = *number;
    }
    found.add(numbers, found.by() ? cells[*found.by()] : "", id);
  }
  found.finish();
  Json answer = versioned(found.summary());
  answer["front"] = Json::array();
  for (const auto& [value, front] : found.fronts()) {
    front.for_each(cells_of, [&](std::uint64_t, Json row) { answer["front"].push_back(std::move(row)); });
  }
  return answer;
}

}  // namespace onchip
