// SPDX-License-Identifier: Apache-2.0
// A sweep's spec as TOML.
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/toml.hpp"
#include "model/base/units.hpp"
#include "model/explore/spec.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace onchip {
namespace {

class SpecReader {
 public:
  SpecReader(SweepSpec& spec, std::string file_name) : spec_(spec), file_name_(std::move(file_name)) {}

  void read(std::string_view text) {
    root_ = parse_toml(text, file_name_);
    for (const auto& [key, node] : in_order(root_)) {
      const std::string name(key->str());
      at_place(file_name_, key->source(), [&, &given = *node] {
        if (name == "axis") {
          read_axes(given);
        } else if (name == "where") {
          spec_.where = text_of(given);
        } else if (name == "engine") {
          spec_.engine = text_of(given);
        } else if (name == "rows") {
          spec_.rows = text_of(given);
        } else if (name == "keep_front") {
          spec_.keep_front = parse_objectives(text_of(given));
        } else if (name == "column") {
          for_each_key(given, "", [&](const std::string& column, const toml::node& expression) {
            spec_.add_column(column + "=" + text_of(expression));
          });
        } else {
          for_each_key(given, name,
                       [&](const std::string& fixed, const toml::node& value) { spec_.fix(fixed, text_of(value)); });
        }
      });
    }
  }

 private:
  using Entry = std::pair<const toml::key*, const toml::node*>;

  // As they stand in the file.
  static std::vector<Entry> in_order(const toml::table& table) {
    std::vector<Entry> entries;
    for (const auto& [key, node] : table) {
      entries.emplace_back(&key, &node);
    }
    std::ranges::stable_sort(entries, [](const Entry& a, const Entry& b) {
      const auto& x = a.first->source().begin;
      const auto& y = b.first->source().begin;
      return std::pair(x.line, x.column) < std::pair(y.line, y.column);
    });
    return entries;
  }

  static std::string text_of(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) {
      return *text;
    }
    if (node.is_integer() || node.is_floating_point()) {
      return format_number(*node.value<double>());
    }
    throw InputError("expected a text or a number");
  }

  // Tables are what dots in keys make: sm.clock.
  template <typename Use>
  void for_each_key(const toml::node& node, const std::string& name, Use&& use) const {
    if (const toml::table* table = node.as_table()) {
      for (const auto& [key, value] : in_order(*table)) {
        at_place(file_name_, key->source(), [&, &within = *key, &of = *value] {
          for_each_key(of, (name.empty() ? "" : name + ".") + std::string(within.str()), use);
        });
      }
      return;
    }
    use(name, node);
  }

  void read_axes(const toml::node& node) {
    const toml::array* axes = node.as_array();
    if (axes == nullptr || !axes->is_homogeneous(toml::node_type::table)) {
      throw InputError("expected tables: [[axis]]");
    }
    for (const toml::node& axis : *axes) {
      std::vector<std::pair<std::string, std::vector<std::string>>> keys;
      at_place(file_name_, axis.source(), [&] {
        for_each_key(axis, "", [&](const std::string& name, const toml::node& values) {
          std::vector<std::string>& texts = keys.emplace_back(name, std::vector<std::string>()).second;
          if (const toml::array* list = values.as_array()) {
            std::ranges::transform(*list, std::back_inserter(texts), text_of);
          } else {
            texts.push_back(text_of(values));
          }
          find_sweep_key(name);  // so that a wrong one has its place
        });
        if (keys.empty()) {
          throw InputError("an axis without a key");
        }
        spec_.add_axis(std::move(keys));
      });
    }
  }

  SweepSpec& spec_;
  std::string file_name_;
  toml::table root_;
};

}  // namespace

void read_spec_file(SweepSpec& spec, const std::filesystem::path& file) {
  SpecReader(spec, file.string()).read(InputFile(file).bytes());
}

}  // namespace onchip
