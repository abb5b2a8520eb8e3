// SPDX-License-Identifier: Apache-2.0
// Reading chip files.
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/chip/chip_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

// The parser is compiled in, so that the command needs no shared library; a chip file nests two deep. Its assertions
// are off, and not taken for granted either: bad TOML violates some that the code after them handles.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 8
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace onchip {
namespace {

constexpr std::array<std::string_view, 4> kFields{"value", "unit", "source", "interval"};

// "sm.count" -> "sm", "count"
std::pair<std::string_view, std::string_view> split(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

// Bytes that would break the line of a message, as \xNN.
std::string one_line(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line;
  for (const char character : text.substr(0, 300)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      line += character;
    } else {
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return line;
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

// One chip file while it is read: knows its name for messages and where each key stands.
class Reader {
 public:
  Reader(std::string_view text, std::string_view file_name) : file_name_(file_name) {
    constexpr std::size_t kLargest = std::size_t{1} << 20;
    if (text.size() > kLargest) {
      throw InputError(file_name_ + ": " + std::to_string(text.size()) + " bytes: a chip file has at most 1 MiB");
    }
    try {
      root_ = toml::parse(std::string_view(bearable(text)), file_name_);
    } catch (const toml::parse_error& error) {
      // "Error while parsing string: ..."
      constexpr std::string_view kPrefix = "Error while parsing ";
      std::string_view description = error.description();
      if (description.starts_with(kPrefix)) {
        description.remove_prefix(kPrefix.size());
      }
      fail(error.source(), "not valid TOML: " + one_line(description));
    }
  }

  ChipFile read() {
    refuse_unknown();
    ChipFile file;
    file.chip.name = read_string("name");
    if (file.chip.name.empty() || one_line(file.chip.name) != file.chip.name) {
      fail(root_.get("name")->source(), "'name' is " + in_quotes(file.chip.name) + ": expected printable ASCII text");
    }
    file.chip.architecture = read_string("architecture");
    for (const ChipKey& row : chip_keys()) {
      file.provenance.emplace(row.key, read_number(row, file.chip.*row.member));
    }
    if (const auto problem = inconsistency(file.chip)) {
      const ChipKey* row = find_key(problem->key);
      fail(row ? number(*row).source() : root_.get(problem->key)->source(), problem->message);
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const toml::source_region& place, std::string_view message) const {
    // Nodes that the parser made itself have no place.
    throw InputError(file_name_, std::max<long>(1, place.begin.line), std::max<long>(1, place.begin.column), message);
  }

  // A copy without what toml++ 3.3 does not bear although it should: it nests one table per dot, destroys them
  // recursively and searches them one by one; and where it looks for white space a character outside ASCII is undefined
  // behaviour in it.
  std::string bearable(std::string_view text) const {
    constexpr int kMostDots = 1000;
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    std::string copy(text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
    long line = 1, column = 0;
    int dots = 0;
    bool in_string = false, in_comment = false;
    char quote = 0;
    for (std::size_t i = 0; i < copy.size(); ++i) {
      char& character = copy[i];
      ++column;
      const auto refuse = [&](std::string_view message) { throw InputError(file_name_, line, column, message); };
      if (character == '\n' || character == '\r') {
        line += character == '\n' ? 1 : 0;
        column = 0;
        in_string = in_comment = false;
      } else if (static_cast<unsigned char>(character) >= 0x80) {
        if (!in_comment) {
          refuse("found byte " + in_quotes({&character, 1}) +
                 " outside of comments: expected ASCII, \\uXXXX in strings");
        }
        character = '?';
      } else if (in_string) {
        if (character == quote) {
          in_string = false;
        } else if (character == '\\' && quote == '"' && i + 1 < copy.size() &&
                   (copy[i + 1] == '"' || copy[i + 1] == '\\')) {
          ++i;
          ++column;
        }
      } else if (!in_comment) {
        if (character == '"' || character == '\'') {
          if (copy.compare(i, 3, std::string(3, character)) == 0) {
            refuse("found a string of several lines: expected one line");
          }
          in_string = true;
          quote = character;
        } else if (character == '#') {
          in_comment = true;
        } else if (character == '.' && ++dots > kMostDots) {
          refuse("more than 1000 dots outside of strings: a key has at most one");
        }
      }
    }
    return copy;
  }

  void refuse_unknown() const {
    std::vector<std::string_view> tables{"name", "architecture"};
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
      if (table_name == "name" || table_name == "architecture") {
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

  // The inline table of a key that must be there.
  const toml::table& number(const ChipKey& row) const {
    const auto [table_name, key] = split(row.key);
    const toml::node* table_node = root_.get(table_name);
    if (!table_node) {
      throw InputError(file_name_, 1, 1, "missing table '" + std::string(table_name) + "'");
    }
    const toml::table& table = *table_node->as_table();
    const toml::node* node = table.get(key);
    if (!node) {
      fail(table.source(), "missing key " + in_quotes(row.key));
    }
    const toml::table* fields = node->as_table();
    if (!fields) {
      fail(node->source(), in_quotes(row.key) + " is " + std::string(type_name(*node)) +
                               ": expected { value = ..., unit = \"...\", source = \"...\" }");
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

  Provenance read_number(const ChipKey& row, Number& result) const {
    const toml::table& fields = number(row);
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
  const MappedFile mapped(file);
  return load_chip_text(mapped.bytes(), file.string());
}

}  // namespace onchip
