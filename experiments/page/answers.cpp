// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/answers.hpp"

#include "experiments/page/html.hpp"
#include "model/base/units.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace onchip {

namespace {

constexpr std::array<std::string_view, 3> kInlined{"network", "configuration", "row"};
constexpr std::array<std::string_view, 3> kNotShown{"schema", "version", "command"};

bool all_have(const Json& array, std::initializer_list<const char*> keys) {
  return is_array_of_objects(array) && std::ranges::all_of(array, [&](const Json& one) {
           return one.is_object() && std::ranges::all_of(keys, [&](const char* key) { return one.contains(key); });
         });
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
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, array.size()); ++i) {
    text += (i ? ", " : "") + scalar_text(array[i]);
  }
  return text + (array.size() > kMost ? " and " + std::to_string(array.size() - kMost) + " more" : "");
}

// A number where the cell is one of JSON.
Json cell_json(const std::string& cell) {
  Json number = Json::parse(cell, nullptr, /*allow_exceptions=*/false);
  return number.is_number() ? number : Json(cell);
}

void add_flat(const std::string& prefix, const Json& object, Json& cells) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key, unit = name.substr(std::min(name.rfind('_'), name.size()));
    if (prefix.empty() && std::ranges::find(kNotShown, key) != kNotShown.end()) {
      continue;
    }
    if (!value.is_structured()) {
      cells[name] = value.is_string() ? cell_json(value.get_ref<const std::string&>()) : value;
    } else if (std::ranges::find(kInlined, key) != kInlined.end() && value.is_object()) {
      add_flat(prefix, value, cells);
    } else if (key == "plan" && value.is_object() && value.contains("text")) {
      cells[name] = value["text"];
    } else if (const std::size_t at = name.find("interval_");
               at != std::string::npos && value.is_array() && value.size() == 2) {
      cells[name.substr(0, at) + "low" + unit] = value[0];
      cells[name.substr(0, at) + "high" + unit] = value[1];
    } else if (key == "terms_ms" && value.is_object()) {
      for (const auto& [term, ms] : value.items()) {
        cells[prefix + term + "_ms"] = ms;
      }
    } else if (key == "terms" && all_have(value, {"name", "us"})) {
      for (const Json& term : value) {
        cells[prefix + scalar_text(term["name"]) + "_us"] = term["us"];
      }
    } else if (key == "phases" && all_have(value, {"name", "us", "beside"})) {
      for (const Json& phase : value) {
        Json& sum = cells[prefix + scalar_text(phase["name"]) + "_us"];
        sum = (sum.is_null() ? 0 : sum.get<double>()) + (phase["beside"] == true ? 0 : phase["us"].get<double>());
      }
    } else if (all_have(value, {"name", "used", "available", "unit"})) {
      for (const Json& use : value) {
        cells[scalar_text(use["name"])] =
            scalar_text(use["used"]) + " of " + scalar_text(use["available"]) + ' ' + scalar_text(use["unit"]);
      }
    } else if (value.is_object()) {
      add_flat(name + '.', value, cells);
    } else if (!is_array_of_objects(value)) {
      cells[name] = list_text(value);
    }
  }
}

}  // namespace

bool is_array_of_objects(const Json& value) {
  return value.is_array() && !value.empty() && value[0].is_object();
}

bool is_in_flat(const std::string& key, const Json& value) {
  return !value.is_structured() || std::ranges::find(kInlined, key) != kInlined.end() || key == "plan" ||
         key.starts_with("terms") || key == "phases" || key == "resources" ||
         (value.is_array() && !is_array_of_objects(value));
}

Json flat(const Json& object) {
  Json cells = Json::object();
  add_flat("", object, cells);
  return cells;
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    auto& object = rows.emplace_back(Json::object()).get_ref<Json::object_t&>();  // columns have different names
    for (std::size_t i = 0; i < row.size(); ++i) {
      object.emplace_back(table.columns[i], cell_json(row[i]));
    }
  }
  return rows;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

FlatRows::FlatRows(std::vector<Json> rows) : rows_(std::move(rows)) {
  std::set<std::string, std::less<>> seen;
  for (const Json& row : rows_) {
    for (const auto& [column, unused] : row.items()) {
      if (seen.insert(column).second) {
        columns_.push_back(column);
      }
    }
  }
  for (const char* const column : {"chip", "cell", "hidden", "batch", "density", "precision", "plan"}) {
    names_.insert(names_.end(), varies(column) ? 1 : 0, column);
  }
}

bool FlatRows::has(std::initializer_list<std::string_view> columns) const {
  return std::ranges::all_of(
      columns, [&](std::string_view column) { return std::ranges::find(columns_, column) != columns_.end(); });
}

const Json& FlatRows::at(std::size_t row, std::string_view column) const {
  static const Json kNone;
  const auto found = rows_[row].find(std::string(column));
  return found == rows_[row].end() ? kNone : *found;
}

std::string FlatRows::text(std::size_t row, std::string_view column) const {
  return scalar_text(at(row, column));
}

double FlatRows::number(std::size_t row, std::string_view column) const {
  const Json& value = at(row, column);
  return value.is_number() ? value.get<double>() : NAN;
}

bool FlatRows::is_yes(std::size_t row, std::string_view column) const {
  const std::string word = text(row, column);
  return word == "true" || word == "1";
}

bool FlatRows::varies(std::string_view column) const {
  std::set<std::string> found;
  for (std::size_t row = 0; row < size(); ++row) {
    found.insert(text(row, column));
  }
  return found.size() - found.count("") > 1;
}

std::string FlatRows::name(std::size_t row) const {
  std::string words;
  for (const std::string& column : names_) {
    const std::string value = text(row, column);
    words += (words.empty() ? "" : ", ") + column + ' ' + value.substr(0, value.find(' '));
  }
  return words;
}

FlatRows rows_of(const Json& array) {
  std::vector<Json> rows;
  for (const Json& one : array) {
    const bool is_named = one.is_object() && one.size() == 1 && one.front().is_object();  // {"hidden": {...}}
    rows.push_back(is_named          ? Json{{"key", one.begin().key()}}
                   : one.is_object() ? Json::object()
                                     : Json{{"value", one.dump()}});
    if (one.is_object()) {
      rows.back().update(flat(is_named ? one.front() : one));
    }
  }
  return FlatRows(std::move(rows));
}

// ---- sentences ------------------------------------------------------------------------------------------------------

std::string three_digits(double value) {
  return format_number(rounded(value, 3));
}

namespace {

std::string field_text(const Json& object, const char* key) {
  const Json value = object.value(key, Json());
  return value.is_string() ? value.get<std::string>() : value.is_number() ? significant(value.get<double>(), 6) : "?";
}

// A number, or the median of a measured time.
std::optional<double> field_number(const Json& object, const char* key) {
  Json value = object.value(key, Json());
  value = value.is_object() ? value.value("median", Json()) : value;
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string plural(std::size_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

// "lstm H=2304 B=4 10 % fp16 on H200", "spdnn:1024x120 on H200"
std::string network_text(const Json& answer) {
  const Json network = answer.value("network", Json());
  const std::string chip = " on " + field_text(answer, "chip");
  return network.is_object() ? field_text(network, "cell") + " H=" + field_text(network, "hidden") +
                                   " B=" + field_text(network, "batch") + ' ' +
                                   significant(100 * field_number(network, "density").value_or(1), 4) + " % " +
                                   field_text(network, "precision") + chip
                             : field_text(answer, "network") + chip;
}

bool is_case(const Json& value) {
  return value.is_object() && value.contains("network") && value.contains("plan");
}

// Of what has a time; "fits" alone says so of networks without weights that stream.
bool runs(const Json& answer) {
  return answer.value(answer.contains("runs") ? "runs" : "fits", Json(true)) == true;
}

// What takes how long: a step, an iteration of a training, the sequence of a stack without gradients, all images.
struct Time {
  const char *what, *field, *interval, *unit;
};
const Time& time_of(const Json& answer) {
  static constexpr std::array<Time, 4> kTimes{{{"a step takes ", "step_us", "interval_us", " µs"},
                                               {"an iteration takes ", "us", "interval_us", " µs"},
                                               {"a sequence takes ", "us", "interval_us", " µs"},
                                               {"all images take ", "ms", "interval_ms", " ms"}}};
  return kTimes[answer.contains("ms")                     ? 3
                : !answer.contains("phases")              ? 0
                : answer.value("stash", Json()) == "none" ? 2
                                                          : 1];
}

std::string time_text(const Json& answer) {
  const auto& [what, field, interval_field, unit] = time_of(answer);
  const std::optional<double> time = field_number(answer, field);
  const Json interval = answer.value(interval_field, Json());
  if (!time) {
    return "nothing is known of its time";
  }
  const bool is_known = interval.is_array() && interval.size() == 2 && interval[0].is_number();
  return what + three_digits(*time) + unit +
         (is_known ? " (95 %: " + three_digits(interval[0].get<double>()) + " to " +
                         three_digits(interval[1].get<double>()) + ")"
                   : "");
}

std::string case_sentence(const Json& answer) {
  if (!runs(answer)) {
    return network_text(answer) + " does not fit: too little of " + field_text(answer, "binding") + '.';
  }
  std::string text =
      network_text(answer) + (answer.value("fits", Json(true)) == true ? " fits: " : " runs: ") + time_text(answer);
  if (const auto predicted = field_number(answer, "predicted_us")) {
    text += "; predicted are " + three_digits(*predicted) + " µs";
  } else if (answer.contains("binding")) {
    text += "; the bottleneck is " + field_text(answer, "binding");
  }
  if (const auto whole = field_number(answer.value("sequence", Json::object()), "us")) {
    text += "; the whole sequence takes " + three_digits(*whole) + " µs";
  }
  return text + (answer.value("correct", Json(true)) == true ? "." : "; the results are wrong.");
}

// "9 claims: 8 replicated, 1 differs", in the order in which they are first seen; a claim may have several rows.
std::string verdicts_sentence(const FlatRows& rows) {
  std::set<std::string> claims;
  std::vector<std::pair<std::string, int>> counts;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::string claim = rows.text(row, "claim"), verdict = rows.text(row, "verdict");
    if (!claims.insert(claim.empty() ? std::to_string(row) : claim).second) {
      continue;
    }
    auto count = std::ranges::find(counts, verdict, &std::pair<std::string, int>::first);
    count = count == counts.end() ? counts.insert(count, {verdict, 0}) : count;
    ++count->second;
  }
  std::string text;
  for (const auto& [word, count] : counts) {
    text += (text.empty() ? ": " : ", ") + std::to_string(count) + ' ' + word;
  }
  return plural(claims.size(), "claim") + text + '.';
}

}  // namespace

std::string sentence(const Json& answer) {
  if (!answer.is_object()) {
    return "";
  }
  if (answer.contains("on_front")) {
    return field_text(answer, "on_front") + " of " + field_text(answer, "rows") +
           " rows are on the front: no row is better in one objective and worse in none. They dominate " +
           field_text(answer, "dominated") + "; " + field_text(answer, "not_counted") + " do not count.";
  }
  if (answer.contains("plans")) {
    const Json& plans = answer["plans"];
    const auto fastest = std::ranges::find_if(plans, [](const Json& plan) { return is_case(plan) && runs(plan); });
    return fastest == plans.end() ? "No kind of plan fits."
                                  : "Of " + plural(plans.size(), "kind") + " of plan, " +
                                        field_text(*fastest, "family") + " is the fastest. " + case_sentence(*fastest);
  }
  if (is_case(answer)) {
    return (answer.contains("next") ? "The largest network that fits: " : "") + case_sentence(answer);
  }
  std::string text;
  for (const auto& [name, side] : answer.items()) {  // base, changed, ...
    text += is_case(side) ? (text.empty() ? "" : " ") + name + ": " + case_sentence(side) : "";
    if (is_array_of_objects(side) && text.empty()) {
      return sentence(rows_of(side));
    }
  }
  return text;
}

std::string sentence(const FlatRows& rows) {
  if (rows.size() == 0) {
    return "There are no rows.";
  }
  if (rows.has({"verdict"}) || !rows.has({"fits", "step_us"})) {
    return rows.has({"verdict"}) ? verdicts_sentence(rows) : plural(rows.size(), "row") + '.';
  }
  std::size_t fitting = 0;
  double largest = 0;
  std::map<std::string, double> shortest;  // of each chip
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.is_yes(row, "fits")) {
      ++fitting;
      largest = std::fmax(largest, rows.number(row, "hidden"));
      double& of_chip = shortest.try_emplace(rows.text(row, "chip"), INFINITY).first->second;
      of_chip = std::fmin(of_chip, rows.number(row, "step_us"));
    }
  }
  std::string text = std::to_string(fitting) + " of " + plural(rows.size(), "row") + " fit";
  text += largest > 0 ? ", up to " + format_number(largest) + " hidden units" : "";
  std::string before = "; the shortest step takes ";
  for (const auto& [name, us] : shortest) {
    if (std::isfinite(us)) {
      text += before + three_digits(us) + " µs" + (shortest.size() > 1 ? " on " + name : "");
      before = ", ";
    }
  }
  return text + '.';
}

std::string page_state(const FlatRows& rows, std::size_t row) {
  std::string chip = rows.text(row, "chip"), state;
  if (chip.empty() || (rows.text(row, "hidden").empty() && rows.text(row, "network").empty())) {
    return "";
  }
  std::ranges::transform(chip, chip.begin(),
                         [](unsigned char c) { return c == ' ' ? '_' : static_cast<char>(std::tolower(c)); });
  const auto add = [&](const std::string& name, const std::string& value) {
    state += value.empty() ? "" : (state.empty() ? "#" : "&") + name + '=' + percent_encoded(value);
  };
  if (!rows.text(row, "stash").empty()) {
    add("mode", "train");
  }
  add("chip", chip);
  for (const char* const name :
       {"network", "images", "cell", "hidden", "batch", "density", "precision", "layers", "steps"}) {
    add(name, rows.text(row, name));
  }
  for (const ChipKey& key : chip_keys()) {
    if (const std::string value = rows.text(row, key.key); !value.empty()) {
      add("set", std::string(key.key) + '=' + value + ' ' + std::string(base_unit(key.dimension)));
    }
  }
  return state;
}

}  // namespace onchip
