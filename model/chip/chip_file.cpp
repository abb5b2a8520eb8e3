// SPDX-License-Identifier: Apache-2.0
// Reading and writing chip files.
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/toml.hpp"
#include "model/chip/chip_base.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

namespace onchip {
namespace {

constexpr std::array<std::string_view, 3> kTexts{"name", "architecture", "base"};
constexpr std::array<std::string_view, 4> kFields{"value", "unit", "source", "interval"};

// "sm.count" -> "sm", "count"
std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string_view type_name(const toml::node& node) {
  return node.is_table()            ? "a table"
         : node.is_array()          ? "an array"
         : node.is_string()         ? "a string"
         : node.is_integer()        ? "an integer"
         : node.is_floating_point() ? "a number"
         : node.is_boolean()        ? "a boolean"
                                    : "a date or time";
}

// One chip file while it is read: knows its name for messages and where each key stands.
bool is_plain(std::string_view text) {
  return text.size() <= 300 && std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name)
      : file_name_(file_name), root_(parse_toml(text, file_name)) {}

  ChipFile read() {
    refuse_unknown();
    const std::optional<ChipFile> base = read_base();
    ChipFile file = base ? taken_from(*base) : ChipFile{};
    file.chip.name = read_string("name");
    if (file.chip.name.empty() || !is_plain(file.chip.name)) {
      fail(root_.get("name")->source(), "'name' is " + in_quotes(file.chip.name) + ": expected printable ASCII text");
    }
    if (!base || root_.contains("architecture")) {
      file.chip.architecture = read_string("architecture");
    }
    for (const ChipKey& row : chip_keys()) {
      if (!base) {
        file.provenance.emplace(row.key, read_number(row, number(row), file.chip.*row.member));
      } else if (const toml::node* node = find(row.key)) {
        file.provenance.find(row.key)->second = read_short(row, *node, file.chip.*row.member);
      }
    }
    if (base) {
      match_architecture(file);
      follow_all(file, *base, [&](std::string_view key) { return find(key) != nullptr; });
    }
    if (const auto problem = inconsistency(file.chip)) {
      const toml::node* node = find(problem->key);
      fail(node ? node->source() : root_.source(), problem->message);
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const toml::source_region& place, std::string_view message) const {
    fail_at(file_name_, place, message);
  }

  void refuse_unknown() const {
    std::vector<std::string_view> tables(kTexts.begin(), kTexts.end());
    for (const ChipKey& row : chip_keys()) {
      const std::string_view table = split(row.key).first;
      if (tables.back() != table) {
        tables.push_back(table);
      }
    }
    for (const auto& [table_key, node] : root_) {
      const std::string_view table_name = table_key.str();
      if (std::find(tables.begin(), tables.end(), table_name) == tables.end()) {
        fail(table_key.source(), std::string(node.is_table() ? "unknown table " : "unknown key ") +
                                     in_quotes(table_name) + did_you_mean(table_name, tables));
      }
      if (std::find(kTexts.begin(), kTexts.end(), table_name) != kTexts.end()) {
        continue;
      }
      const toml::table* table = node.as_table();
      if (!table) {
        fail(table_key.source(), in_quotes(table_name) + " is " + std::string(type_name(node)) + ": expected a table");
      }
      for (const auto& [key, unused] : *table) {
        const std::string full = std::string(table_name) + "." + std::string(key.str());
        if (!find_key(full)) {
          fail(key.source(), "unknown key " + in_quotes(full) + did_you_mean(full, key_names()));
        }
      }
    }
  }

  std::string read_string(std::string_view key) const {
    const toml::node* node = root_.get(key);
    if (!node) {
      throw InputError(file_name_, 1, 1, "missing key '" + std::string(key) + "'");
    }
    const auto* text = node->as_string();
    if (!text) {
      fail(node->source(), "'" + std::string(key) + "' is " + std::string(type_name(*node)) + ": expected a string");
    }
    return text->get();
  }

  // The chip that the file takes from what it lacks.
  std::optional<ChipFile> read_base() const {
    if (!root_.contains("base")) {
      return std::nullopt;
    }
    const std::string base = read_string("base");
    const auto& place = root_.get("base")->source();
    if (!is_plain(base)) {
      fail(place, "'base' is " + in_quotes(base) + ": expected printable ASCII text");
    }
    constexpr int kMostBases = 8;
    thread_local int depth = 0;
    if (depth == kMostBases) {
      fail(place, "'base' leads from file to file more than 8 times: does one lead back to itself?");
    }
    ++depth;
    try {
      const bool is_file = base.find('/') != std::string::npos || base.ends_with(".toml");
      ChipFile chip = find_chip(is_file ? (std::filesystem::path(file_name_).parent_path() / base).string() : base);
      --depth;
      return chip;
    } catch (const InputError& error) {
      --depth;
      fail(place, "'base': " + std::string(error.what()));
    }
  }

  // What stands behind a key or the name of a text, if anything.
  const toml::node* find(std::string_view key) const {
    const auto [table_name, name] = split(key);
    const toml::node* node = root_.get(table_name);
    return node && table_name != key ? node->as_table()->get(name) : node;
  }

  // As read_number, but also `16`, `"1300 MHz"` and without a source.
  Provenance read_short(const ChipKey& row, const toml::node& node, Number& result) const {
    Provenance provenance{std::string(base_unit(row.dimension)), "set in " + file_name_};
    if (const auto* fields = node.as_table()) {
      return read_number(row, *fields, result, provenance.source);
    }
    const auto* text = node.as_string();
    const bool is_plain = row.dimension == Dimension::count || row.dimension == Dimension::cycles;
    if (!text && !(is_plain && (node.is_integer() || node.is_floating_point()))) {
      refuse_form(row, node);
    }
    try {
      result = {text ? parse_quantity(text->get(), row.dimension) : read_value(row, node, "the value"), 0};
    } catch (const InputError& error) {
      fail(node.source(), in_quotes(row.key) + ": " + error.what());
    }
    if (const std::string problem = number_problem(row, result.value); !problem.empty()) {
      fail(node.source(), in_quotes(row.key) + " " + problem);
    }
    return provenance;
  }

  [[noreturn]] void refuse_form(const ChipKey& row, const toml::node& node) const {
    fail(node.source(), in_quotes(row.key) + " is " + std::string(type_name(node)) +
                            ": expected { value = ..., unit = \"...\", source = \"...\" }");
  }

  // Of a chip with a base: "sm_87" is compute capability 8.7, and the other way round.
  void match_architecture(ChipFile& file) const {
    Chip& chip = file.chip;
    std::string& architecture = chip.architecture;
    if (find("compute_capability.major") || find("compute_capability.minor")) {
      if (!find("architecture") && !architecture.empty()) {
        architecture =
            "sm_" + format_number(chip.compute_capability_major) + format_number(chip.compute_capability_minor);
      }
    } else if (find("architecture") && architecture.size() > 4 && architecture.starts_with("sm_") &&
               architecture.find_first_not_of("0123456789", 3) == std::string::npos) {
      const double number = std::strtod(architecture.c_str() + 3, nullptr);
      if (!(number >= 10 && number < 1000)) {
        return;  // no compute capability: a contradiction, below
      }
      chip.compute_capability_major = {std::floor(number / 10), 0};
      chip.compute_capability_minor = {std::fmod(number, 10), 0};
      for (const char* key : {"compute_capability.major", "compute_capability.minor"}) {
        file.provenance.find(std::string_view(key))->second.source = "follows architecture";
      }
    }
  }

  // The inline table of a key that must be there.
  const toml::table& number(const ChipKey& row) const {
    const auto [table_name, key] = split(row.key);
    const toml::node* table_node = root_.get(table_name);
    if (!table_node) {
      throw InputError(
          file_name_, 1, 1,
          "missing table '" + std::string(table_name) + "'; with base = \"h200\" it is taken from that chip");
    }
    const toml::table& table = *table_node->as_table();
    const toml::node* node = table.get(key);
    if (!node) {
      fail(table.source(), "missing key " + in_quotes(row.key));
    }
    const toml::table* fields = node->as_table();
    if (!fields) {
      refuse_form(row, *node);
    }
    return *fields;
  }

  double read_value(const ChipKey& row, const toml::node& node, std::string_view what) const {
    if (!node.is_integer() && !node.is_floating_point()) {
      fail(node.source(), std::string(what) + " of '" + std::string(row.key) + "' is " + std::string(type_name(node)) +
                              ": expected a number");
    }
    // toml::node::value<double> has no value for integers that a double cannot hold exactly.
    return node.is_integer() ? static_cast<double>(node.as_integer()->get()) : node.as_floating_point()->get();
  }

  // Text of the field `field`, "" if it is not there.
  std::string read_field(const ChipKey& row, const toml::table& fields, std::string_view field) const {
    const toml::node* node = fields.get(field);
    if (!node) {
      return "";
    }
    const auto* text = node->as_string();
    if (!text) {
      fail(node->source(), "'" + std::string(field) + "' of '" + std::string(row.key) + "' is " +
                               std::string(type_name(*node)) + ": expected a string");
    }
    return text->get();
  }

  Provenance read_number(const ChipKey& row, const toml::table& fields, Number& result,
                         std::string_view source = "") const {
    const std::string key = "'" + std::string(row.key) + "'";
    for (const auto& [field, unused] : fields) {
      if (std::find(kFields.begin(), kFields.end(), field.str()) == kFields.end()) {
        fail(field.source(),
             "unknown field " + in_quotes(field.str()) + " of " + key + did_you_mean(field.str(), kFields));
      }
    }
    const toml::node* value_node = fields.get("value");
    if (!value_node) {
      fail(fields.source(), key + " has no 'value'");
    }
    Provenance provenance{read_field(row, fields, "unit"), read_field(row, fields, "source")};

    double factor = 1;
    if (const toml::node* unit = fields.get("unit")) {
      factor = checked_factor(row, unit->source(), provenance.unit);
    } else if (row.dimension == Dimension::count) {
      provenance.unit = base_unit(row.dimension);
    } else {
      fail(fields.source(), key + " has no 'unit'");
    }

    const double written = read_value(row, *value_node, "'value'");
    result = {written * factor, 0};
    if (const std::string problem = number_problem(row, result.value); !problem.empty()) {
      fail(value_node->source(), key + " " + problem);
    }
    if (const toml::node* interval = fields.get("interval")) {
      result.half_width = read_half_width(row, *interval, factor, result.value);
    }
    if (!fields.contains("source")) {
      if (!source.empty()) {
        provenance.source = source;
        return provenance;
      }
      fail(fields.source(), key + " has no 'source': say where the number comes from");
    }
    if (provenance.source.find_first_not_of(" \t\r\n") == std::string::npos) {
      fail(fields.get("source")->source(), "'source' of " + key + " is empty: say where the number comes from");
    }
    return provenance;
  }

  double checked_factor(const ChipKey& row, const toml::source_region& place, std::string_view unit) const {
    try {
      return unit_factor(row.dimension, unit);
    } catch (const InputError& error) {
      fail(place, "'" + std::string(row.key) + "': " + error.what());
    }
  }

  // An interval need not be centred; the half-width returned covers its longer side.
  double read_half_width(const ChipKey& row, const toml::node& node, double factor, double value) const {
    const toml::array* bounds = node.as_array();
    const std::string key = "'" + std::string(row.key) + "'";
    if (!bounds || bounds->size() != 2) {
      fail(node.source(),
           "'interval' of " + key + " is " +
               (bounds ? "an array of " + std::to_string(bounds->size()) : std::string(type_name(node))) +
               ": expected [low, high]");
    }
    const double low = read_value(row, *bounds->get(0), "'interval'") * factor;
    const double high = read_value(row, *bounds->get(1), "'interval'") * factor;
    // In this form NaN fails, too.
    if (!(low <= value && value <= high)) {
      fail(node.source(), "'interval' of " + key + " is not around its value");
    }
    if (low < row.minimum || high > row.maximum) {
      fail(node.source(), "'interval' of " + key + " reaches beyond " + format_quantity(row.minimum, row.dimension) +
                              " to " + format_quantity(row.maximum, row.dimension));
    }
    return std::max(value - low, high - value);
  }

  std::string file_name_;
  toml::table root_;
};

}  // namespace

ChipFile load_chip_text(std::string_view text, std::string_view file_name) {
  return Reader(text, file_name).read();
}

ChipFile load_chip(const std::filesystem::path& file) {
  return load_chip_text(InputFile(file).bytes(), file.string());
}

std::string chip_text(const ChipFile& file) {
  std::string text =
      "name = " + toml_string(file.chip.name) + "\narchitecture = " + toml_string(file.chip.architecture) + '\n';
  // All keys of a table stand together in a file; in the table of keys they need not.
  std::vector<std::string_view> tables;
  const auto table_of = [](const ChipKey& row) { return row.key.substr(0, row.key.find('.')); };
  for (const ChipKey& row : chip_keys()) {
    if (std::ranges::find(tables, table_of(row)) == tables.end()) {
      tables.push_back(table_of(row));
    }
  }
  for (const std::string_view table : tables) {
    text += "\n[" + std::string(table) + "]\n";
    for (const ChipKey& row : chip_keys()) {
      if (table_of(row) != table) {
        continue;
      }
      const Number& number = file.chip.*row.member;
      const Provenance& provenance = file.provenance.find(row.key)->second;
      std::string unit = provenance.unit;
      double factor = unit_factor(row.dimension, unit);
      if (number.value / factor * factor != number.value) {
        unit = base_unit(row.dimension);
        factor = 1;
      }
      text += std::string(row.key.substr(table.size() + 1)) + " = { value = " + format_number(number.value / factor);
      text += row.dimension == Dimension::count ? "" : ", unit = " + toml_string(unit);
      if (number.half_width > 0) {
        text += ", interval = [" + format_number(std::max(number.value - number.half_width, row.minimum) / factor) +
                ", " + format_number(std::min(number.value + number.half_width, row.maximum) / factor) + "]";
      }
      text += ", source = " + toml_string(provenance.source) + " }\n";
    }
  }
  return text;
}

}  // namespace onchip
