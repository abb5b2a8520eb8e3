// SPDX-License-Identifier: Apache-2.0
#include "model/explore/spec.hpp"

#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/joined.hpp"
#include "model/base/table.hpp"
#include "model/base/units.hpp"
#include "model/explore/front.hpp"
#include "model/families/workload.hpp"
#include "model/plan/plan_text.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace onchip {
namespace {

std::string trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::ranges::transform(split_text(text, separator), std::back_inserter(parts), trim);
  return parts;
}

[[noreturn]] void refuse_count(double count) {
  throw InputError(format_number(count) + " values: expected at most " + format_number(kMostValues) +
                   " on all axes together");
}

// FROM:TO:STEP, FROM:TO:xFACTOR, FROM:TO:logNUMBER; of changes of the chip's own number +0%:+50%:10% or -10%:+10%:5%.
std::vector<KeyValue> range(const Key& key, const std::vector<std::string>& parts) {
  const bool is_change = key.subject == Subject::chip && key.is_number && parts[0].ends_with('%');
  const KeyValue unchanged = is_change ? read_value(key, "+0%") : KeyValue{};
  const auto read = [&](const std::string& text) {
    if (!is_change) {
      return read_number(key, text);
    }
    if (!text.ends_with('%')) {
      throw InputError("found " + in_quotes(text) + ": expected a change such as +10%");
    }
    return read_value(key, text.starts_with('-') || text.starts_with('+') ? text : '+' + text).number;
  };
  const double from = read(parts[0]), to = read(parts[1]);
  const bool by_factor = parts[2].starts_with('x'), by_log = parts[2].starts_with("log");
  const auto refuse = [&](const std::string& what) {
    throw InputError("found " + in_quotes(parts[0] + ":" + parts[1] + ":" + parts[2]) + ": expected " + what);
  };
  const double step = by_factor || by_log ? parse_quantity(parts[2].substr(by_log ? 3 : 1), Dimension::count)
                      : is_change         ? read(parts[2]) - unchanged.number
                                          : read(parts[2]);
  double count = 0;
  constexpr double kSlack = 1e-9;  // of a step, so that the end is not lost to rounding
  if (by_log) {
    if (!(from > 0 && to > 0 && step >= 2 && step == std::floor(step))) {
      refuse("FROM:TO:logN with numbers above 0 and N of at least 2");
    }
    count = step;
  } else if (by_factor) {
    if (!(from > 0 && to >= from && step > 1)) {
      refuse("FROM:TO:xFACTOR with 0 < FROM <= TO and a factor above 1");
    }
    count = std::floor(std::log(to / from) / std::log(step) + kSlack) + 1;
  } else {
    if (!(step != 0 && (to - from) / step >= 0)) {
      refuse("FROM:TO:STEP with a step that leads from FROM to TO");
    }
    count = std::floor((to - from) / step + kSlack) + 1;
  }
  if (!(count <= static_cast<double>(kMostValues))) {
    refuse_count(count);
  }
  std::vector<KeyValue> values;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    double number = by_factor ? from * std::pow(step, i)
                    : by_log  ? from * std::pow(to / from, i / (step - 1))
                              : from + i * step;
    if (key.is_whole && !unchanged.is_factor && (by_factor || by_log)) {
      number = std::round(number);
    } else if (by_log && i + 1 == static_cast<int>(count)) {
      number = to;
    }
    number = rounded(number, by_log && i + 1 < static_cast<int>(count) ? 6 : 12);
    if (values.empty() || values.back().number != number) {
      values.push_back(unchanged.is_factor ? KeyValue{"", number, true} : value_of(key, number));
    }
  }
  return values;
}

// "spdnn:1024x120,shuffle=yes,spdnn:4096x120": a part that begins with a word and '=' belongs to the one before.
std::vector<std::string> with_options(std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string& part : split(text, ',')) {
    const std::size_t end = part.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    if (!parts.empty() && end > 0 && end != std::string::npos && part[end] == '=') {
      parts.back() += ',' + part;
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

std::vector<KeyValue> values_of(const Key& key, const std::string& text) {
  std::vector<KeyValue> values;
  if (text.starts_with('@')) {
    const std::size_t colon = text.rfind(':');
    const std::string column = colon == std::string::npos ? key.name : text.substr(colon + 1);
    const CsvReader file(text.substr(1, colon == std::string::npos ? colon : colon - 1));
    for (std::size_t row = 0; row < file.size(); ++row) {
      try {
        values.push_back(read_value(key, file.text(row, column)));
      } catch (const InputError& error) {
        file.fail(row, "column '" + column + "': " + error.what());
      }
    }
    return values;
  }
  for (const std::string& part : key.of == kOfFeedForward && !key.is_number ? with_options(text) : split(text, ',')) {
    const std::vector<std::string> ends = split(part, ':');
    if (ends.size() == 3 && (key.is_number || key.is_whole)) {
      std::ranges::move(range(key, ends), std::back_inserter(values));
    } else {
      values.push_back(read_value(key, part));
    }
  }
  return values;
}

// With the place, and with what only applying tells: unknown names of cells, masks, plans, chips.
KeyValues read_key(SweepSpec& spec, const std::string& name, const std::vector<std::string>& texts) {
  KeyValues read{find_sweep_key(name), {}};
  try {
    for (const std::string& text : texts) {
      std::ranges::move(values_of(read.key, text), std::back_inserter(read.values));
    }
    if (read.values.empty()) {
      throw InputError("no value");
    }
    for (const KeyValue& value : read.values) {
      if (name == "chip" && !spec.chips.contains(value.text)) {
        spec.chips.emplace(value.text, find_chip(value.text));
      } else if (name == "weights") {
        InputFile readable(value.text);
      } else if (name == "network") {
        read_network(value.text);
      }
      Draft scratch(spec.chips);
      read.key.apply(scratch, value);
    }
  } catch (const InputError& error) {
    throw InputError(name + ": " + error.what());
  }
  return read;
}

}  // namespace

// ---- what is asked for ----------------------------------------------------------------------------------------------

std::vector<Objective> parse_objectives(std::string_view text) {
  std::vector<Objective> objectives;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = std::min(part.rfind(':'), part.size());
    const std::string direction = colon < part.size() ? part.substr(colon + 1) : "min";
    if (colon == 0 || (direction != "min" && direction != "max")) {
      throw InputError("found " + in_quotes(part) +
                       ": expected COLUMN:min or COLUMN:max, several with a comma between");
    }
    objectives.push_back({part.substr(0, colon), direction == "max"});
  }
  if (objectives.size() > kMostObjectives) {
    throw InputError("found " + std::to_string(objectives.size()) + " columns: expected at most " +
                     std::to_string(kMostObjectives));
  }
  return objectives;
}

std::string to_string(const std::vector<Objective>& objectives) {
  return joined(objectives, ",", "",
                [](const Objective& objective) { return objective.column + (objective.is_largest ? ":max" : ":min"); });
}

std::uint64_t SweepSpec::size() const {
  double product = 1;
  for (const Axis& axis : axes) {
    product *= static_cast<double>(axis.size());
  }
  if (product > static_cast<double>(kMostRows)) {
    throw InputError("the axes make " + significant(product, 3) + " rows: expected at most " +
                     significant(static_cast<double>(kMostRows), 3));
  }
  return static_cast<std::uint64_t>(product);
}

const SweptInfo& SweepSpec::swept() const {
  const auto said = std::ranges::find_if(
      kSwept, [&](const SweptInfo& info) { return info.swept == Swept::training ? trains() : has(info.key); });
  return said != kSwept.end() ? *said : kSwept.front();
}

void SweepSpec::for_each_key(const std::function<void(const KeyValues&)>& use) const {
  std::ranges::for_each(fixed, use);
  for (const Axis& axis : axes) {
    std::ranges::for_each(axis.keys, use);
  }
}

bool SweepSpec::varies(std::string_view key) const {
  return std::ranges::any_of(axes, [&](const Axis& axis) {
    return std::ranges::any_of(axis.keys, [&](const KeyValues& values) { return values.key.name == key; });
  });
}

bool SweepSpec::has(std::string_view key) const {
  return varies(key) || std::ranges::any_of(fixed, [&](const KeyValues& values) { return values.key.name == key; });
}

bool SweepSpec::trains() const {
  return std::ranges::any_of(fixed, [](const KeyValues& values) {
    return values.key.name == "mode" && values.values.front().text == "train";
  });
}

void SweepSpec::fix(const std::string& key, const std::string& text) {
  KeyValues one = read_key(*this, key, {text});
  if (one.values.size() != 1) {
    throw InputError(key + ": found " + in_quotes(text) + ": expected one value; several are an axis");
  }
  std::erase_if(fixed, [&](const KeyValues& other) { return other.key.name == key; });
  fixed.push_back(std::move(one));
}

void SweepSpec::fix(const std::string& assignment) {
  const std::size_t equals = std::min(assignment.find('='), assignment.size());
  fix(assignment.substr(0, equals), assignment.substr(std::min(equals + 1, assignment.size())));
}

void SweepSpec::add_axis(std::vector<std::pair<std::string, std::vector<std::string>>> keys) {
  Axis axis;
  for (const auto& [name, texts] : keys) {
    if (varies(name) ||
        std::ranges::any_of(axis.keys, [&, &key = name](const auto& other) { return other.key.name == key; })) {
      throw InputError("'" + name + "' is in two axes");
    }
    axis.keys.push_back(read_key(*this, name, texts));
    if (axis.keys.back().values.size() != axis.size()) {
      throw InputError("keys of one axis move together: '" + axis.keys.front().key.name + "' has " +
                       std::to_string(axis.size()) + " values, '" + name + "' " +
                       std::to_string(axis.keys.back().values.size()));
    }
  }
  std::size_t all = axis.size();
  for (const Axis& other : axes) {
    all += other.size();
  }
  if (all > kMostValues) {
    refuse_count(static_cast<double>(all));
  }
  axes.push_back(std::move(axis));
}

void SweepSpec::add_axis(const std::string& text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> keys;
  for (const std::string& part : split(text, ';')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw InputError("found " + in_quotes(part) + ": expected KEY=VALUES, e.g. hidden=512:8192:256");
    }
    keys.emplace_back(trim(part.substr(0, equals)), std::vector{part.substr(equals + 1)});
  }
  add_axis(std::move(keys));
}

void SweepSpec::add_column(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = trim(text.substr(0, equals));
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  if (name.empty() || !std::ranges::all_of(name, is_part)) {
    throw InputError("found " + in_quotes(text) + ": expected NAME=EXPRESSION, the name of letters, digits, _ and .");
  }
  columns.push_back({name, equals == std::string::npos ? name : trim(text.substr(equals + 1))});
}

namespace {

// What nobody says is usual, and stands in the rows.
void complete(SweepSpec& spec) {
  const auto usually = [&](const std::string& key, const std::string& usual) {
    if (!spec.has(key)) {
      spec.fix(key, usual);
    }
  };
  usually("chip", "h200");
  if (!spec.has("network")) {
    usually("batch", std::to_string(kUsualNetwork.batch));
    usually("precision", std::string(info(kUsualNetwork.precision).name));
    if (!spec.has("weights")) {
      usually("cell", std::string(info(kUsualNetwork.cell).name));
      usually("density", spec.trains() && !spec.has("mask") ? "1" : format_number(kUsualNetwork.density));
    }
  }
}

// Of sizes, weights and masks, that the engine and the rows can take them.
void check_rows_of(const SweepSpec& spec) {
  if (spec.has("weights")) {
    for (const char* key : {"hidden", "density", "mask"}) {
      if (spec.has(key)) {
        throw InputError("'" + std::string(key) + "' contradicts 'weights': the file has it");
      }
    }
  } else if (spec.has("tensor")) {
    throw InputError("'tensor' needs 'weights'");
  } else if (spec.swept().may_seek_size && !spec.has("hidden") &&
             (spec.has("plan") || spec.engine != "model" || spec.rows != "exact")) {
    throw InputError(
        "'hidden' is neither fixed nor an axis: only the model, with exact rows and without a plan, seeks "
        "the largest size");
  }
  if (spec.rows != "exact" && (spec.engine != "model" || spec.has("weights"))) {
    throw InputError("expected rows have no mask: they are for the model and generated weights");
  }
}

}  // namespace

void finish(SweepSpec& spec) {
  if (spec.axes.empty()) {
    throw InputError("nothing varies: expected an axis, e.g. --axis hidden=512:8192:256");
  }
  complete(spec);
  // Of the plan, first what is changed afterwards.
  std::stable_partition(spec.fixed.begin(), spec.fixed.end(),
                        [](const KeyValues& values) { return values.key.name == "plan"; });
  for (const KeyValues& values : spec.fixed) {
    if (spec.varies(values.key.name)) {
      throw InputError("'" + values.key.name + "' is fixed and an axis");
    }
  }
  spec.for_each_key([&](const KeyValues& values) {
    if (values.key.needs_plan && !spec.has("plan")) {
      throw InputError("'" + values.key.name + "' needs 'plan': the planner chooses it");
    }
  });
  for (const char* key : {"family", "tier"}) {
    if (spec.has("plan") && spec.has(key)) {
      throw InputError("'" + std::string(key) + "' contradicts 'plan', which says it");
    }
  }
  const SweptInfo& swept = spec.swept();
  if (spec.varies("mode")) {
    throw InputError("'mode' is of all rows: it is no axis");
  }
  if (spec.trains() && spec.has("network")) {
    throw InputError("'mode' contradicts 'network', a feed-forward network");
  }
  spec.for_each_key([&](const KeyValues& values) {
    const Key& key = values.key;
    if (key.name == "plan" || key.name == "family") {
      const std::string& text = values.values.front().text;
      if (has_family<Training>(text) != spec.trains()) {
        throw InputError("'" + key.name + "' is of " +
                         (spec.trains() ? "inference" : "training, which needs mode=train"));
      }
    }
    if ((key.of & bit(swept.swept)) != 0) {
      return;
    }
    const auto meant =
        std::ranges::find_if(kSwept, [&](const SweptInfo& info) { return (key.of & bit(info.swept)) != 0; });
    throw InputError("'" + key.name + "' " +
                     (swept.key.empty() ? "needs '" + std::string(meant->key) + "'"
                                        : "contradicts '" + std::string(swept.key) + "', " + std::string(swept.what)));
  });
  if (swept.is_models_only && (spec.engine != "model" || spec.rows != "exact")) {
    throw InputError("rows of " + std::string(swept.what) + " are the model's, of exact patterns");
  }
  check_rows_of(spec);
  spec.size();
}

// ---- what tells specs apart -----------------------------------------------------------------------------------------

std::string fingerprint(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; hash >>= 4) {
    text[i] = kDigits[hash & 15];
  }
  return text;
}

std::string fingerprint(const Chip& chip) {
  std::string numbers = chip.name + '\n' + chip.architecture + '\n';
  const auto add = [&](double number) { numbers += format_number(number) + '\n'; };
  for (const ChipKey& key : chip_keys()) {
    add(chip.*key.member);
    add((chip.*key.member).half_width);
  }
  for (const CostTerm& term : kCostTerms) {
    add(chip.cost[term.cost]);
  }
  return fingerprint(numbers);
}

Json to_json(const SweepSpec& spec) {
  const auto text_of = [](const KeyValue& value) {
    return value.is_factor ? format_number(value.number) + " times" : value.text;
  };
  Json json{{"fixed", Json::object()}, {"axes", Json::array()}};
  spec.for_each_key([&](const KeyValues& values) {
    for (const KeyValue& value : values.values) {
      if (values.key.name == "weights") {
        json["weights"][value.text] = fingerprint(InputFile(value.text).bytes());
      }
    }
  });
  for (const KeyValues& values : spec.fixed) {
    json["fixed"][values.key.name] = text_of(values.values.front());
  }
  for (const Axis& axis : spec.axes) {
    Json keys = Json::object();
    for (const KeyValues& values : axis.keys) {
      std::string all;
      for (const KeyValue& value : values.values) {
        all += text_of(value) + '\n';
      }
      keys[values.key.name] = {{"values", values.values.size()},
                               {"first", text_of(values.values.front())},
                               {"last", text_of(values.values.back())},
                               {"fingerprint", fingerprint(all)}};
    }
    json["axes"].push_back(std::move(keys));
  }
  json["where"] = spec.where;
  json["columns"] = Json::object();
  for (const ExtraColumn& column : spec.columns) {
    json["columns"][column.name] = column.expression;
  }
  json["engine"] = spec.engine;
  json["rows"] = spec.rows;
  if (!spec.has("hidden")) {
    json["granule"] = spec.granule;
  }
  json["keep_front"] = to_string(spec.keep_front);
  return json;
}

}  // namespace onchip
