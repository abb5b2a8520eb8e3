// SPDX-License-Identifier: Apache-2.0
// onchip report: results as one HTML page, to be carried into a meeting: of each file a sentence, figures, tables, the
// command, and its data as JSON.
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_reader.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/page/answers.hpp"
#include "experiments/page/figures.hpp"
#include "experiments/page/html.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "model/base/joined.hpp"
#include "model/base/shipped.hpp"
#include "model/base/table.hpp"
#include "model/explore/spec.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {
namespace {

// What a file holds: an answer, rows, or a figure.
struct Result {
  std::string name;
  Json answer, manifest;  // null: none
  bool is_rows = false;
  std::string picture;
};

constexpr std::size_t kMostFileBytes = 64 << 20;  // of a file: a browser opens the page

Json read_json(const std::string& name, std::string_view bytes) {
  Json json = parse_json(bytes, name);
  if (json.is_discarded()) {
    throw InputError(name + ": expected CSV, JSON Lines, an SVG figure, or the JSON of an answer");
  }
  return json;
}

// Of the front that rows are, if they are one: its objectives, and the column that it is found for each value of.
struct Shown {
  std::vector<Objective> objectives = {};
  std::string by = {};

  static Shown read(const Json& objectives, const Json& by) {
    Shown shown;
    if (objectives.is_string() && !objectives.get<std::string>().empty()) {
      shown = {parse_objectives(objectives.get<std::string>()), by.is_string() ? by.get<std::string>() : ""};
    }
    return shown;
  }
};

class Page {
 public:
  explicit Page(std::string explorer) : explorer_(std::move(explorer)) {}
  std::string body;

  void add(const Result& result) {
    const Json& answer = result.answer;
    const std::string said = result.is_rows ? sentence(rows_of(answer)) : sentence(answer);
    body += "<section>\n<h2>" + escaped(result.name) + "</h2>\n";
    body += said.empty() ? "" : "<p class=\"answer\">" + escaped(said) + "</p>\n";
    if (!result.picture.empty()) {
      body += "<figure><img alt=\"" + escaped(result.name) + "\" src=\"data:image/svg+xml," +
              percent_encoded(result.picture) + "\"></figure>\n</section>\n";
      return;
    }
    const Json spec = result.manifest.is_object() ? result.manifest.value("spec", Json::object()) : Json::object();
    add_json("", answer, Shown::read(spec.value("keep_front", Json()), Json()));
    if (result.manifest.is_object()) {
      body += "<h3>manifest</h3>\n";
      add_json("", result.manifest, {});
    }
    add_data(answer);
    body += "</section>\n";
  }

 private:
  void add_rows(const FlatRows& rows, const Shown& shown, bool are_cases = false) {
    constexpr std::size_t kFewRows = 6, kManyColumns = 8;
    if (rows.size() == 0) {
      return;
    }
    body += charts_html(rows, shown.objectives, shown.by);
    std::vector<HtmlColumn> columns;
    for (const std::string& name : rows.columns()) {
      columns.push_back(column_html(rows, name));
    }
    add_bars(rows, columns);
    HtmlColumn& links = columns.emplace_back(HtmlColumn{"page", {}, "", true});
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::string state = explorer_.empty() ? "" : page_state(rows, row);
      links.cells.push_back(state.empty() ? "" : "<a href=\"" + escaped(explorer_ + state) + "\">open</a>");
    }
    body += table_html(columns, are_cases || (rows.size() <= kFewRows && rows.columns().size() > kManyColumns));
  }

  // Numbers with as many digits as people read, and of many plans the family; the data have everything.
  static HtmlColumn column_html(const FlatRows& rows, const std::string& name) {
    constexpr std::size_t kLong = 40;
    HtmlColumn column{escaped(heading(name)), {}, "number"};
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const Json& value = rows.at(row, name);
      std::string text = rows.text(row, name);
      if (const double number = rows.number(row, name); value.is_number_float() && std::abs(number) < 1000) {
        text = format_number(rounded(number, 4));
      }
      if (name.ends_with("plan") && rows.size() > 2) {
        text.resize(std::min(text.find(' '), text.size()));
      }
      column.kind = !value.is_number() && !text.empty() && column.kind != "long" ? "" : column.kind;
      column.kind = text.size() > kLong ? "long" : column.kind;
      column.cells.push_back(escaped(text));
    }
    return column;
  }

  // Cases, such as base and changed of `what-if`, stand side by side; other fields are a line each, arrays a table
  // each.
  void add_json(const std::string& title, const Json& json, const Shown& shown_rows) {
    std::vector<Json> cases;
    std::vector<std::pair<std::string, const Json*>> arrays;
    collect(title, json, cases, arrays);
    add_rows(FlatRows(std::move(cases)), {}, true);
    const bool is_front = json.is_object() && json.contains("objectives");
    const Shown shown = is_front ? Shown::read(json["objectives"], json.value("by", Json())) : shown_rows;
    for (const auto& [name, array] : arrays) {
      body += name.empty() ? "" : "<h3>" + escaped(heading(name)) + "</h3>\n";
      add_rows(rows_of(*array), shown);
    }
  }

  void collect(const std::string& name, const Json& value, std::vector<Json>& cases,
               std::vector<std::pair<std::string, const Json*>>& arrays) {
    if (!value.is_object()) {
      if (is_array_of_objects(value)) {
        arrays.emplace_back(name, &value);
      }
      return;
    }
    Json own = Json::object();
    for (const auto& [key, one] : value.items()) {
      if (is_in_flat(key, one)) {
        own[key] = one;
      }
    }
    Json fields = value.contains("plan") ? Json{{"case", name.empty() ? "answer" : name}} : Json::object();
    fields.update(flat(own));
    if (value.contains("plan")) {
      cases.push_back(std::move(fields));
    } else {
      std::string line;
      const FlatRows row(std::vector<Json>(1, fields));
      for (const std::string& column : row.columns()) {
        const std::string text = row.text(0, column);
        line += text.empty() ? "" : (line.empty() ? "" : "; ") + heading(column) + ": " + text;
      }
      body += note_html((name.empty() || line.empty() ? "" : name + ": ") + line);
    }
    for (const auto& [key, one] : value.items()) {
      if (!is_in_flat(key, one)) {
        collect(name.empty() ? key : name + ' ' + key, one, cases, arrays);
      }
    }
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

  std::string explorer_;  // where the page of `onchip explore` is
};

// By the extension: .csv and .jsonl are rows, .svg a figure, all others JSON. Throws InputError.
Result read_result(const std::filesystem::path& file) {
  Result result;
  result.name = file.filename().string();
  const std::string extension = file.extension().string();
  InputFile input(file);
  if (input.size() > kMostFileBytes) {
    throw InputError(file.string() + ": more than 64 MiB: take 'onchip pareto' or 'sweep --keep-front' first");
  }
  if (extension == ".svg") {
    result.picture = input.bytes();
  } else if (extension != ".csv" && extension != ".jsonl") {
    result.answer = read_json(file.string(), input.bytes());
  } else {
    ResultReader reader(file);
    Table rows{reader.columns(), {}};
    while (reader.next()) {
      rows.rows.push_back(reader.cells());
    }
    result.is_rows = true;
    result.answer = to_json(rows);
    if (const std::filesystem::path manifest = manifest_path(file); is_there(manifest)) {
      result.manifest = read_json(manifest.string(), InputFile(manifest).bytes());
    }
  }
  return result;
}

// The same bytes for the same results. `commands`: what else made them, and the page.
std::string report_html(const std::vector<Result>& results, std::vector<std::string> commands,
                        const std::string& explorer) {
  Page page(explorer);
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
  return page_html("onchip: " + names, "<h1>onchip report</h1>\n" + page.body +
                                           "<section>\n<h2>Commands</h2>\n<pre class=\"command\">" +
                                           escaped(joined(commands, "\n") + "\n") +
                                           "</pre>\n<p class=\"note\">onchip " ONCHIP_VERSION "</p>\n</section>\n");
}

std::vector<OptionGroup> report_options() {
  return {option_group(
      "Report", {{"files", "FILE...",
                  "Show these: the .json of any verb, .csv or .jsonl of rows, figures of plots/ as .svg; bare words "
                  "are files, too."},
                 {"command", "TEXT...", "Say that this command made the files, where they do not say it; repeatable."},
                 {"page", "ADDRESS",
                  "Link each network to the page of 'onchip explore' there, e.g. onchip.html beside the report; the "
                  "usual one is the page that was installed."},
                 {"output,o", "FILE", "Write to a file, whole or not at all, instead of the standard output."}})};
}

int run_report(const Options& options) {
  std::vector<Result> results;
  std::vector<std::string> commands = options.list("command");
  const std::vector<std::string> files = options.list("files");
  if (files.empty()) {
    throw InputError("expected files, e.g. 'onchip report sweep.csv front.json -o report.html'");
  }
  std::ranges::transform(files, std::back_inserter(results), read_result);
  commands.push_back("onchip report " + shell_line(files));  // the same whatever the page is called
  const std::string path = options.text("output");
  std::unique_ptr<OutputFile> file;
  if (!path.empty() && path != "-") {
    file = std::make_unique<OutputFile>(path);
  }
  const std::filesystem::path installed = shipped_folder("page", "ONCHIP_PAGE", ONCHIP_PAGE_DIR).path / "onchip.html";
  const std::string explorer = options.given("page") ? options.text("page")
                               : is_there(installed) ? "file://" + std::filesystem::absolute(installed).string()
                                                     : "";
  const std::string page = report_html(results, commands, explorer);
  if (file) {
    file->write(page);
    file->commit();
  } else {
    std::cout << page;
  }
  return 0;
}

}  // namespace

const Verb kReportVerb{"report",
                       "Write answers, sweeps and fronts as one HTML page with tables and figures.",
                       "onchip report sweep.csv front.json -o report.html",
                       report_options,
                       run_report,
                       "files"};

}  // namespace onchip
