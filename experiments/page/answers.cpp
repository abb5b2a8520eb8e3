// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/answers.hpp"

#include "model/base/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

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
  std::map<std::string_view, std::size_t> places;
  for (const NamedCells& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back(table.columns.size());
    for (const auto& [column, text] : row) {
      const auto [found, is_new] = places.emplace(column, table.columns.size());
      const std::size_t place = found->second;
      if (is_new) {
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
    auto& object = rows.emplace_back(Json::object()).get_ref<Json::object_t&>();  // columns have different names
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Json number = Json::parse(row[i], nullptr, /*allow_exceptions=*/false);
      object.emplace_back(table.columns[i], number.is_number() ? number : Json(row[i]));
    }
  }
  return rows;
}

// ---- sentences ------------------------------------------------------------------------------------------------------

namespace {

std::string field_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_number() ? significant(value.get<double>(), 6) : "?";
}

std::string field_text(const Json& object, const char* key) {
  return field_text(object.value(key, Json()));
}

std::optional<double> field_number(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string us_text(double time) {
  return significant(time, 3) + " µs";
}

std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string percent_change(double from, double to) {
  const double percent = 100 * (to / from - 1);
  return (percent > 0 ? "+" : "") + fixed(percent, 1) + " %";
}

// "lstm H=2304 B=4 10 % fp16 on H200"
std::string network_text(const Json& answer) {
  const Json network = answer.value("network", Json::object());
  return field_text(network, "cell") + " H=" + field_text(network, "hidden") + " B=" + field_text(network, "batch") +
         ' ' + significant(100 * field_number(network, "density").value_or(0), 4) + " % " +
         field_text(network, "precision") + " on " + field_text(answer, "chip");
}

std::string time_text(const Json& answer) {
  const std::optional<double> step = field_number(answer, "step_us");
  const Json interval = answer.value("interval_us", Json());
  if (!step) {
    return "nothing is known of its time";
  }
  const bool is_known = interval.is_array() && interval.size() == 2 && interval[0].is_number();
  return "a step takes " + us_text(*step) +
         (is_known ? " (95 %: " + significant(interval[0].get<double>(), 3) + " to " +
                         significant(interval[1].get<double>(), 3) + ")"
                   : "");
}

bool is_case(const Json& value) {
  return value.is_object() && value.contains("network") && value.contains("plan");
}

// Of what has a time; "fits" alone says so of networks without weights that stream.
bool answer_runs(const Json& answer) {
  return answer.value(answer.contains("runs") ? "runs" : "fits", Json()) == true;
}

std::string case_sentence(const Json& answer) {
  if (!answer_runs(answer)) {
    return network_text(answer) + " does not fit: too little of " + field_text(answer, "binding") + '.';
  }
  std::string sentence =
      network_text(answer) + (answer.value("fits", Json()) == true ? " fits: " : " runs: ") + time_text(answer);
  const Json terms = answer.value("terms", Json::array());
  const std::string binding = field_text(answer, "binding");
  const bool is_term =
      std::ranges::any_of(terms, [&](const Json& term) { return term.value("name", Json()) == binding; });
  sentence += is_term ? ", bound by " + binding : "; " + binding + " is the fullest resource";
  if (const auto whole = field_number(answer.value("sequence", Json::object()), "us")) {
    sentence += "; the whole sequence takes " + us_text(*whole);
  }
  return sentence + '.';
}

std::string fit_sentence(const Json& answer) {
  return "The largest network that fits: " + case_sentence(answer);
}

std::string ranking_sentence(const Json& answer) {
  for (const Json& plan : answer["plans"]) {
    if (answer_runs(plan)) {
      return "Of " + plural(answer["plans"].size(), "kind") + " of plan, " + field_text(plan, "family") +
             " is the fastest. " + case_sentence(plan);
    }
  }
  return "No kind of plan fits.";
}

std::string what_if_sentence(const Json& answer) {
  const Json& base = answer["base"];
  std::string sentence = "Base: " + case_sentence(base);
  for (const auto& [name, side] : answer.items()) {
    if (name == "base" || !is_case(side)) {
      continue;
    }
    std::string word = name;
    word[0] = static_cast<char>(word[0] >= 'a' && word[0] <= 'z' ? word[0] - 'a' + 'A' : word[0]);
    sentence += ' ' + word + ": ";
    const auto before = field_number(base, "step_us"), after = field_number(side, "step_us");
    sentence += before && after ? us_text(*after) + " (" + percent_change(*before, *after) + ")" : case_sentence(side);
    const auto most = field_number(base, "largest_hidden"), more = field_number(side, "largest_hidden");
    if (most && more && *most > 0) {
      sentence += ", and the largest network that fits has " + format_number(*more) + " hidden units instead of " +
                  format_number(*most) + " (" + percent_change(*most, *more) + ")";
    }
    sentence += '.';
  }
  if (answer.contains("target")) {
    std::string options;
    for (const Json& alone : answer.value("alone", Json::array())) {
      if (alone.value("reached", Json()) == true) {
        options += (options.empty() ? "" : ", or ") + field_text(alone, "option");
      }
    }
    sentence += answer.value("reached", Json()) != true ? " The target is not reached."
                : options.empty()                       ? " The target is reached."
                                                        : " The target is reached with " + options + '.';
  }
  return sentence;
}

std::string simulate_sentence(const Json& answer) {
  return network_text(answer) + ", replayed: " + time_text(answer) + "; predicted are " +
         us_text(answer["predicted_us"].get<double>()) + '.';
}

std::string measure_sentence(const Json& answer) {
  const auto step = field_number(answer.value("step_us", Json::object()), "median"),
             predicted = field_number(answer, "predicted_us");
  std::string sentence = network_text(answer) + ", run: ";
  if (answer.value("correct", Json()) != true) {
    return sentence + "the results are wrong.";
  }
  sentence += "the results are right";
  if (step && predicted) {
    sentence += ", a step takes " + us_text(*step) + ", and the prediction of " + us_text(*predicted) + " is off by " +
                percent_change(*step, *predicted);
  }
  return sentence + '.';
}

std::string validate_sentence(const Json& answer) {
  return plural(static_cast<std::size_t>(field_number(answer, "points").value_or(0)), "measured step") +
         ": the predictions are off by " + significant(field_number(answer, "mape_percent").value_or(NAN), 2) +
         " % on average, and " + significant(field_number(answer, "coverage_percent").value_or(NAN), 3) +
         " % lie in their 95 % interval.";
}

std::string front_sentence(const Json& answer) {
  return field_text(answer, "on_front") + " of " + field_text(answer, "rows") +
         " rows are on the front: no row is better in one objective and worse in none. They dominate " +
         field_text(answer, "dominated") + "; " + field_text(answer, "not_counted") + " do not count.";
}

// The kinds of JSON, by what only they have; the first that matches.
struct AnswerKind {
  const char* name;
  const char* key;
  std::string (*sentence)(const Json&);
};
constexpr std::array kAnswerKinds{AnswerKind{"pareto", "on_front", front_sentence},
                                  AnswerKind{"validate", "mape_percent", validate_sentence},
                                  AnswerKind{"what-if", "base", what_if_sentence},
                                  AnswerKind{"predict", "plans", ranking_sentence},
                                  AnswerKind{"simulate", "predicted_terms", simulate_sentence},
                                  AnswerKind{"measure", "correct", measure_sentence},
                                  AnswerKind{"fit", "next", fit_sentence},
                                  AnswerKind{"predict", "terms", case_sentence}};

std::size_t column_place(const Table& rows, std::string_view column) {
  return static_cast<std::size_t>(std::ranges::find(rows.columns, column) - rows.columns.begin());
}

// "9 claims: 8 replicated, 1 differs", in the order in which they are first seen; a claim may have several rows.
std::string verdicts_sentence(const Table& rows, std::size_t verdict, std::size_t claim) {
  std::vector<std::string> claims;
  std::vector<std::pair<std::string, int>> counts;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const auto& row = rows.rows[i];
    const std::string& name = claim < row.size() ? row[claim] : std::to_string(i);
    if (std::ranges::find(claims, name) != claims.end()) {
      continue;
    }
    claims.push_back(name);
    auto count = std::ranges::find(counts, row[verdict], &std::pair<std::string, int>::first);
    count = count == counts.end() ? counts.insert(count, {row[verdict], 0}) : count;
    ++count->second;
  }
  std::string text;
  for (const auto& [word, count] : counts) {
    text += (text.empty() ? ": " : ", ") + std::to_string(count) + ' ' + word;
  }
  return plural(claims.size(), "claim") + text + '.';
}

std::string rows_sentence(const Table& rows) {
  const std::size_t count = rows.rows.size();
  if (const std::size_t verdict = column_place(rows, "verdict"); verdict < rows.columns.size()) {
    return verdicts_sentence(rows, verdict, column_place(rows, "claim"));
  }
  const std::size_t fits = column_place(rows, "fits"), step = column_place(rows, "step_us"),
                    hidden = column_place(rows, "hidden"), chip = column_place(rows, "chip");
  if (count == 0 || std::max(fits, step) >= rows.columns.size()) {
    return count == 0 ? "There are no rows." : plural(count, "row") + '.';
  }
  const auto number = [](const std::string& cell, double none) {
    return cell.empty() ? none : std::strtod(cell.c_str(), nullptr);
  };
  std::size_t fitting = 0;
  double largest = 0;
  std::map<std::string, double> shortest;  // of each chip
  for (const auto& row : rows.rows) {
    if (row[fits] == "true" || row[fits] == "1") {
      ++fitting;
      largest = std::max(largest, hidden < row.size() ? number(row[hidden], 0) : 0);
      double& of_chip = shortest.try_emplace(chip < row.size() ? row[chip] : "", INFINITY).first->second;
      of_chip = std::min(of_chip, number(row[step], INFINITY));
    }
  }
  std::string sentence = std::to_string(fitting) + " of " + plural(count, "row") + " fit";
  sentence += largest > 0 ? ", up to " + format_number(largest) + " hidden units" : "";
  std::string before = "; the shortest step takes ";
  for (const auto& [name, us] : shortest) {
    if (std::isfinite(us)) {
      sentence += before + us_text(us) + (shortest.size() > 1 ? " on " + name : "");
      before = ", ";
    }
  }
  return sentence + '.';
}

}  // namespace

Summary summary(const Json& answer) {
  if (answer.is_object()) {
    for (const AnswerKind& kind : kAnswerKinds) {
      if (answer.contains(kind.key)) {
        return {kind.name, kind.sentence(answer)};
      }
    }
    for (const auto& [key, value] : answer.items()) {
      if (is_array_of_objects(value)) {
        std::vector<NamedCells> rows;
        std::ranges::transform(value, std::back_inserter(rows), flat);
        return summary(to_table(rows));
      }
    }
  }
  return {"answer", ""};
}

Summary summary(const Table& rows) {
  const bool is_claims = column_place(rows, "verdict") < rows.columns.size();
  const bool is_sweep = !rows.columns.empty() && rows.columns[0] == "row";
  return {is_claims ? "reproduce" : is_sweep ? "sweep" : "rows", rows_sentence(rows)};
}

}  // namespace onchip
