// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/page.hpp"

#include "experiments/explore/result_reader.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/page/figures.hpp"
#include "experiments/page/flat.hpp"
#include "experiments/page/html.hpp"
#include "experiments/page/sentence.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <algorithm>

namespace onchip {
namespace {

constexpr std::size_t kMostFileBytes = 64 << 20;  // of a file: a browser opens the page

Json parse_json(const std::string& name, std::string_view bytes) {
  try {
    return Json::parse(bytes);
  } catch (const Json::exception&) {
    throw InputError(name + ": expected CSV, JSON Lines, an SVG figure, or the JSON of an answer");
  }
}

class Page {
 public:
  std::string body;
  Figures figures;

  void add(const Result& result) {
    const bool has_rows = !result.rows.columns.empty();
    const Summary said = has_rows ? summary(result.rows) : summary(result.answer);
    body += "<section>\n<h2>" + escaped((result.svg.empty() ? said.kind + ": " : "") + result.name) + "</h2>\n";
    if (!said.sentence.empty()) {
      body += "<p class=\"answer\">" + escaped(said.sentence) + "</p>\n";
    }
    if (!result.svg.empty()) {
      add_figure({result.name, figures.embedded(result.svg, result.name, result.name), ""});
    } else if (has_rows) {
      add_rows("", with_fixed_keys(result), "");
    } else if (is_array_of_objects(result.answer)) {
      add_array("", result.answer, "");
    } else if (result.answer.is_object()) {
      add_object("", result.answer);
      add_figures(figures.draw(result.answer));
    }
    if (result.manifest.is_object()) {
      add_object("manifest", shown_manifest(result.manifest));
    }
    if (result.svg.empty()) {
      add_data(has_rows ? to_json(result.rows) : result.answer);
    }
    body += "</section>\n";
  }

  void add_title(const std::string& title) {
    if (!title.empty()) {
      body += "<h3>" + escaped(heading(title)) + "</h3>\n";
    }
  }

 private:
  // {"hidden": {"values": 8, ...}} -> a row that begins with the key.
  static Json shown_manifest(Json manifest) {
    if (manifest.contains("spec") && manifest["spec"].contains("axes")) {
      Json rows = Json::array();
      for (const Json& axis : manifest["spec"]["axes"]) {
        for (const auto& [key, values] : axis.items()) {
          Json& row = rows.emplace_back(Json{{"key", key}});
          row.update(values.is_object() ? values : Json::object());
          row.erase("fingerprint");
        }
      }
      manifest["spec"]["axes"] = rows;
    }
    return manifest;
  }

  // What the sweep's manifest says of all rows is a column, too.
  static Table with_fixed_keys(const Result& result) {
    Table rows = result.rows;
    const Json spec = result.manifest.is_object() ? result.manifest.value("spec", Json::object()) : Json::object();
    const Json fixed = spec.value("fixed", Json::object());
    for (const auto& [key, value] : fixed.items()) {
      if (value.is_string() && std::ranges::find(rows.columns, key) == rows.columns.end()) {
        rows.columns.push_back(key);
        std::ranges::for_each(rows.rows,
                              [&text = value](auto& row) { row.push_back(text.template get<std::string>()); });
      }
    }
    return rows;
  }

  void add_figure(const Figure& figure) {
    body += figure.svg.empty() ? note_html("Not drawn: " + figure.title + ". " + figure.problem)
                               : "<figure>" + figure.svg + "</figure>\n";
  }

  void add_figures(const std::vector<Figure>& drawn) {
    std::ranges::for_each(drawn, [&](const Figure& figure) { add_figure(figure); });
  }

  static void move_column(Table& table, std::string_view name, std::size_t to) {
    const auto from = static_cast<std::size_t>(std::ranges::find(table.columns, name) - table.columns.begin());
    const auto move = [&](std::vector<std::string>& cells) {
      std::rotate(cells.begin() + static_cast<long>(to), cells.begin() + static_cast<long>(from),
                  cells.begin() + static_cast<long>(from) + 1);
    };
    if (from > to && from < table.columns.size()) {
      move(table.columns);
      std::ranges::for_each(table.rows, move);
    }
  }

  void add_rows(const std::string& title, Table rows, const std::string& objectives) {
    constexpr std::size_t kFewRows = 6, kManyColumns = 8;
    move_column(rows, "verdict", 1);  // is what readers look for
    add_title(title);
    add_figures(figures.draw(rows, objectives));
    if (rows.rows.size() <= kFewRows && rows.columns.size() > kManyColumns) {
      body += side_by_side_html(rows);
    } else {
      body += table_html(rows);
    }
  }

  void add_array(const std::string& title, const Json& array, const std::string& objectives) {
    std::vector<NamedCells> rows;
    for (const Json& one : array) {
      rows.push_back(one.is_object() ? flat(one) : NamedCells{{"value", one.dump()}});
    }
    Table table = to_table(rows);
    if (std::ranges::find(table.columns, "plan") != table.columns.end()) {  // answers, which have names in figures
      move_column(table, "change", 0);
      for (const char* name : {"change", "family", "key"}) {
        table.columns[0] = table.columns[0] == name ? "case" : table.columns[0];
      }
    }
    add_rows(title, table, objectives);
  }

  // The fields of an object, and beside them those of objects inside it that begin with the same field, such as the
  // next size of `fit`, or base and changed of `what-if`; then what is an array in it.
  void add_object(const std::string& title, const Json& object) {
    struct Sides {
      std::string first;
      std::vector<std::string> names;
      std::vector<NamedCells> fields;
    };
    std::vector<Sides> groups;
    std::vector<std::pair<std::string, const Json*>> arrays, objects;
    const auto add_side = [&](const std::string& name, const Json& side) {
      Json shallow = Json::object();
      for (const auto& [key, value] : side.items()) {
        if (is_flat(key, value)) {
          shallow[key] = value;
        } else {
          const std::string within = name.empty() ? key : name + ' ' + key;
          (value.is_array() ? arrays : objects).emplace_back(within, &value);
        }
      }
      NamedCells fields = flat(shallow);
      if (fields.empty()) {
        return;
      }
      const auto group = std::ranges::find(groups, fields[0].first, &Sides::first);
      Sides& sides = group == groups.end() ? groups.emplace_back(Sides{fields[0].first, {}, {}}) : *group;
      sides.names.push_back(name.empty() ? "answer" : name);
      sides.fields.push_back(std::move(fields));
    };
    add_side("", object);
    for (std::size_t i = 0; i < objects.size(); ++i) {  // more are found inside
      const auto [name, value] = objects[i];
      add_side(name, *value);
    }
    add_title(title);
    for (const Sides& sides : groups) {
      if (sides.names.size() == 1 && sides.names[0] != "answer") {
        add_title(sides.names[0]);
      }
      Table table = to_table(sides.fields);
      if (std::string text = line_of(table); !text.empty()) {
        body += note_html(text);
        continue;
      }
      table.columns.insert(table.columns.begin(), "case");
      for (std::size_t i = 0; i < table.rows.size(); ++i) {
        table.rows[i].insert(table.rows[i].begin(), sides.names.size() == 1 ? "" : sides.names[i]);
      }
      add_figures(figures.draw(table, ""));
      body += side_by_side_html(table);
    }
    const Json objectives = object.value("objectives", Json());
    for (const auto& [name, array] : arrays) {
      add_array(name, *array, objectives.is_string() ? objectives.get<std::string>() : "");
    }
  }

  // A few short fields fill no table.
  static std::string line_of(const Table& table) {
    constexpr std::size_t kMostBytes = 200;
    std::string text;
    for (std::size_t i = 0; i < table.columns.size() && table.rows.size() == 1; ++i) {
      if (!table.rows[0][i].empty()) {
        text += (text.empty() ? "" : "; ") + heading(table.columns[i]) + ": " + table.rows[0][i];
      }
    }
    return text.size() > kMostBytes ? "" : text;
  }

  void add_data(const Json& data) {
    // Rows stand on a line each.
    const bool are_rows = is_array_of_objects(data);
    std::string text;
    for (const Json& row : are_rows ? data : Json::array()) {
      text += (text.empty() ? "[" : ",\n ") + row.dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    text = are_rows ? text + "]" : data.dump(1, ' ', true, Json::error_handler_t::replace);
    body += "<details><summary>Data as JSON</summary>\n<pre class=\"data\">" + escaped(text) + "</pre></details>\n";
  }
};

}  // namespace

Result read_result(const std::filesystem::path& file) {
  Result result;
  result.name = file.filename().string();
  const std::string extension = file.extension().string();
  const MappedFile mapped(file);
  if (mapped.bytes().size() > kMostFileBytes) {
    throw InputError(file.string() + ": more than 64 MiB: take 'onchip pareto' or 'sweep --keep-front' first");
  }
  if (extension == ".svg") {
    result.svg = mapped.bytes();
  } else if (extension != ".csv" && extension != ".jsonl") {
    result.answer = parse_json(file.string(), mapped.bytes());
  } else {
    ResultReader reader(file);
    result.rows.columns = reader.columns();
    while (reader.next()) {
      result.rows.rows.push_back(reader.cells());
    }
    if (const std::filesystem::path manifest = manifest_path(file); std::filesystem::exists(manifest)) {
      result.manifest = parse_json(manifest.string(), MappedFile(manifest).bytes());
    }
  }
  return result;
}

std::string report_html(const std::vector<Result>& results, std::vector<std::string> commands) {
  Page page;
  std::string names;
  std::vector<std::string> said;
  for (const Result& result : results) {
    try {
      page.add(result);
    } catch (const Json::exception&) {
      throw InputError(result.name + ": expected what onchip writes, found fields of another kind");
    }
    names += (names.empty() ? "" : ", ") + result.name;
    if (result.answer.is_object() && result.answer.value("command", Json()).is_string()) {
      said.push_back(result.answer["command"].get<std::string>());
    }
  }
  commands.insert(commands.begin(), said.begin(), said.end());
  std::string text;
  for (const std::string& command : commands) {
    text += command + '\n';
  }
  std::string body = "<h1>onchip report</h1>\n";
  if (!page.figures.missing().empty()) {
    body += note_html("Tables only, no figures: " + page.figures.missing() + ".");
  }
  return page_html("onchip: " + names, body + page.body + "<section>\n<h2>Commands</h2>\n<pre class=\"command\">" +
                                           escaped(text) +
                                           "</pre>\n<p class=\"note\">onchip " ONCHIP_VERSION "</p>\n</section>\n");
}

}  // namespace onchip
