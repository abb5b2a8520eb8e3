// SPDX-License-Identifier: Apache-2.0
// onchip report: results as one HTML page, to be carried into a meeting: of each file a sentence, figures, tables, the
// command, and its data as JSON.
#include "experiments/command/output.hpp"
#include "experiments/command/program.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_reader.hpp"
#include "experiments/measurement/manifest.hpp"
#include "experiments/page/answers.hpp"
#include "experiments/page/html.hpp"
#include "model/answer/json.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "model/base/joined.hpp"
#include "model/base/shipped.hpp"
#include "model/base/table.hpp"
#include "model/explore/spec.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onchip {
namespace {

// ---- figures --------------------------------------------------------------------------------------------------------

// Figures of a table's rows as SVG to stand inside a page: whichever scripts of plots/ draw what its columns hold.
struct Figure {
  std::string title;
  std::string svg;      // "" where it could not be drawn
  std::string problem;  // why not
};

// What matplotlib never writes. (The page's policy lets none of it run.)
constexpr std::array<std::string_view, 5> kNotDrawn{"<script", "<!", "<foreignObject", "javascript:", " onload="};

constexpr int kNoMatplotlib = 77;  // exit status of plots/python

constexpr std::string_view kFront = "front", kMap = "fit_map";

struct FigureKind {
  std::string script;
  const char* title;
  std::vector<std::string> columns, varied;  // that rows have, and those with several values
  std::size_t most_rows;
};

// The columns that the scripts read.
const std::vector<FigureKind>& figure_kinds() {
  constexpr std::size_t kAnyNumber = -1;
  static const std::vector<FigureKind> kAll{
      {"step_parts",
       "Where the time of a step goes",
       {"chip", "cell", "hidden", "batch", "density", "precision", "plan", "step_us", "low_us", "high_us",
        "arithmetic_us"},
       {},
       12},
      {"parity",
       "Predicted against measured step times",
       {"chip", "cell", "hidden", "batch", "density", "precision", "measured_us", "predicted_us", "low_us", "high_us"},
       {},
       kAnyNumber},
      {"fit_map", "What fits, by size and density", {"fits", "binding", "step_us"}, {"hidden", "density"}, kAnyNumber},
      {"fit_map", "What fits, by size and batch", {"fits", "binding", "step_us"}, {"hidden", "batch"}, kAnyNumber},
      {"trade_off",
       "What more of one number saves of another",
       {"case", "reached", "cost", "chip", "cell", "hidden", "batch", "density", "precision", "step_us"},
       {},
       kAnyNumber},
      {"front", "What no other row beats", {}, {}, kAnyNumber},
  };
  return kAll;
}

bool is_drawn_of(const FigureKind& kind, const Table& rows) {
  const auto has = [&](const std::string& column) {
    return std::ranges::find(rows.columns, column) != rows.columns.end();
  };
  const auto differs_from = [&](const std::string& column, const std::string* cell) {  // null: the first row's
    const auto at = static_cast<std::size_t>(std::ranges::find(rows.columns, column) - rows.columns.begin());
    return std::ranges::any_of(rows.rows,
                               [&](const auto& row) { return row[at] != (cell ? *cell : rows.rows[0][at]); });
  };
  const std::string empty;
  return !rows.rows.empty() && rows.rows.size() <= kind.most_rows && std::ranges::all_of(kind.columns, has) &&
         (!has("step_us") || differs_from("step_us", &empty)) &&
         std::ranges::all_of(kind.varied,
                             [&](const auto& column) { return has(column) && differs_from(column, nullptr); });
}

std::string file_text(const std::filesystem::path& file) {
  return std::string(InputFile(file).bytes());
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (std::size_t place = text.find(from); place != std::string::npos; place = text.find(from, place + to.size())) {
    text.replace(place, from.size(), to);
  }
}

// Takes away everything from `from` to `to`, both included.
void cut(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t begin = text.find(from); begin != std::string::npos; begin = text.find(from, begin)) {
    const std::size_t end = text.find(to, begin + from.size());
    text.erase(begin, end == std::string::npos ? end : end + to.size() - begin);
  }
}

class Figures {
 public:
  Figures() {
    scripts_ = shipped_folder("plots", "ONCHIP_PLOTS", ONCHIP_PLOTS_DIR).path;
    std::string name = (std::filesystem::temp_directory_path() / "onchip_report_XXXXXX").string();
    if (!is_there(scripts_ / "python")) {
      missing_ = "the scripts of plots/ are not here";
    } else if (::mkdtemp(name.data()) == nullptr) {
      missing_ = "there is no folder for temporary files";
    } else {
      folder_ = name;
    }
  }

  ~Figures() {
    std::error_code ignored;
    if (!folder_.empty()) {
      std::filesystem::remove_all(folder_, ignored);
    }
  }

  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  // `front`: the options of what draws it, where the rows are one: its objectives first.
  std::vector<Figure> draw(const Table& rows, const std::vector<std::string>& front) {
    std::vector<Figure> figures;
    bool has_map = false;
    for (FigureKind kind : figure_kinds()) {
      std::vector<std::string> options;
      if (kind.script == kFront) {
        options = front.empty() ? std::vector<std::string>{"--objectives", "hidden:max,step_us:min"} : front;
        std::ranges::transform(parse_objectives(options[1]), std::back_inserter(kind.columns), &Objective::column);
        kind.varied.assign(kind.columns.begin(), kind.columns.begin() + std::min<long>(2, std::ssize(kind.columns)));
      } else if (kind.script == kMap) {
        options = {"--rows", kind.varied[1]};
      }
      if (is_drawn_of(kind, rows) && !(kind.script == kMap && (has_map || !front.empty()))) {
        has_map = has_map || kind.script == kMap;
        draw_by(kind.script, kind.title, "csv", to_csv(rows), options, figures);
      }
    }
    // Claims name the figure that they stand in.
    const auto plot = static_cast<std::size_t>(std::ranges::find(rows.columns, "plot") - rows.columns.begin());
    std::vector<std::string> drawn;
    for (const auto& row : rows.rows) {
      constexpr std::string_view kClaims = "replication";
      const bool is_claim = std::ranges::find(rows.columns, "published_chip") != rows.columns.end();
      if (is_claim && plot < row.size() && row[plot].starts_with(kClaims) &&
          std::ranges::find(drawn, row[plot]) == drawn.end()) {
        drawn.push_back(row[plot]);
        const bool is_own = is_there(scripts_ / (row[plot] + ".py"));
        draw_by(is_own ? row[plot] : std::string(kClaims), heading(row[plot]), "csv", to_csv(rows),
                is_own ? std::vector<std::string>() : std::vector<std::string>{"--figure", row[plot]}, figures);
      }
    }
    return figures;
  }

  // That need more than its rows.
  std::vector<Figure> draw(const Json& answer) {
    std::vector<Figure> figures;
    if (answer.contains("base") && answer.contains("sensitivity")) {
      draw_by("tornado", "What 10 % more of a number of the chip changes", "json", answer.dump(), {}, figures);
    }
    return figures;
  }

  const std::string& missing() const { return missing_; }  // why nothing can be drawn; "" if it can, or was not tried

  // An SVG of matplotlib as it may stand in a page: names of its parts differ from those of the figures before it, and
  // nothing in it asks anybody. Throws InputError for what is no such file.
  std::string embedded(std::string_view svg, const std::string& title, const std::string& name) {
    std::string text(svg.substr(std::min(svg.find("<svg"), svg.size())));
    cut(text, "<metadata>", "</metadata>");
    cut(text, "<!--", "-->");
    const bool is_hostile =
        std::ranges::any_of(kNotDrawn, [&](std::string_view word) { return text.find(word) != std::string::npos; });
    if (text.empty() || is_hostile) {
      throw InputError(name + ": expected an SVG file of plots/");
    }
    cut(text, " xmlns=\"", "\"");
    cut(text, " xmlns:xlink=\"", "\"");
    const std::string prefix = "f" + std::to_string(++count_) + "-";
    for (const std::string_view place : {" id=\"", "href=\"#", "url(#"}) {
      replace_all(text, place, std::string(place) + prefix);
    }
    return "<svg role=\"img\" aria-label=\"" + escaped(title) + '"' + text.substr(4);
  }

 private:
  // Of the bytes of a file, by a script of plots/.
  void draw_by(const std::string& script, const std::string& title, const std::string& extension,
               const std::string& bytes, const std::vector<std::string>& options, std::vector<Figure>& figures) {
    const std::filesystem::path program = scripts_ / (script + ".py");
    if (!missing_.empty() || script.find('/') != std::string::npos || !is_there(program)) {
      return;
    }
    const std::filesystem::path data = folder_ / ("data." + extension), svg = folder_ / "figure.svg",
                                said = folder_ / "said.txt";
    std::ofstream(data, std::ios::binary) << bytes;
    std::vector<std::string> words{scripts_ / "python", program, "--data", data, "-o", svg};
    words.insert(words.end(), options.begin(), options.end());
    const int status = run_program(words, said, /*errors_too=*/true);
    if (status == kNoMatplotlib) {
      missing_ = "there is no python3 with matplotlib (Debian and Ubuntu: apt-get install python3-matplotlib)";
      return;
    }
    Figure& figure = figures.emplace_back(Figure{title, "", ""});
    if (status == 0) {
      figure.svg = embedded(file_text(svg), title, svg);
    } else {  // the last line that was said
      std::string reason = file_text(said);
      replace_all(reason, folder_.string() + "/", "");
      reason.erase(reason.find_last_not_of('\n') + 1);
      figure.problem = reason.substr(reason.rfind('\n') + 1);
    }
  }

  std::filesystem::path scripts_, folder_;
  std::string missing_;
  int count_ = 0;
};

// ---- the page -------------------------------------------------------------------------------------------------------

// What a file holds: an answer, rows, or a figure.
struct Result {
  std::string name;
  Json answer, manifest;  // null: none
  std::optional<Table> rows;
  std::string svg;
};

constexpr std::size_t kMostFileBytes = 64 << 20;  // of a file: a browser opens the page

Json read_json(const std::string& name, std::string_view bytes) {
  Json json = parse_json(bytes, name);
  if (json.is_discarded()) {
    throw InputError(name + ": expected CSV, JSON Lines, an SVG figure, or the JSON of an answer");
  }
  return json;
}

class Page {
 public:
  std::string body;
  Figures figures;

  void add(const Result& result) {
    const Summary said = result.rows ? summary(*result.rows) : summary(result.answer);
    body += "<section>\n<h2>" + escaped((result.svg.empty() ? said.kind + ": " : "") + result.name) + "</h2>\n";
    if (!said.sentence.empty()) {
      body += "<p class=\"answer\">" + escaped(said.sentence) + "</p>\n";
    }
    if (!result.svg.empty()) {
      add_figure({result.name, figures.embedded(result.svg, result.name, result.name), ""});
    } else if (result.rows) {
      add_rows("", *result.rows, front_of_sweep(result.manifest));
    } else if (is_array_of_objects(result.answer)) {
      add_array("", result.answer, {});
    } else if (result.answer.is_object()) {
      add_object("", result.answer);
      add_figures(figures.draw(result.answer));
    }
    if (result.manifest.is_object()) {
      add_object("manifest", shown_manifest(result.manifest));
    }
    if (result.svg.empty()) {
      add_data(result.rows ? to_json(*result.rows) : result.answer);
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

  // Of a file that has a front and no other row.
  static std::vector<std::string> front_options(const Json& objectives, const Json& by, const Json& rows) {
    const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : ""; };
    std::vector<std::string> options;
    if (!text(objectives).empty()) {
      options = {"--objectives", text(objectives), "--of", rows.dump()};
    }
    if (!options.empty() && !text(by).empty()) {
      options.insert(options.end(), {"--by", text(by)});
    }
    return options;
  }

  static std::vector<std::string> front_of_sweep(const Json& manifest) {
    const Json spec = manifest.is_object() ? manifest.value("spec", Json::object()) : Json::object();
    return front_options(spec.value("keep_front", Json()), Json(),
                         manifest.is_object() ? manifest.value("rows", Json()) : Json());
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

  void add_rows(const std::string& title, Table rows, const std::vector<std::string>& front) {
    constexpr std::size_t kFewRows = 6, kManyColumns = 8;
    add_title(title);
    if (rows.rows.empty()) {
      return;
    }
    move_column(rows, "verdict", 1);  // is what readers look for
    add_figures(figures.draw(rows, front));
    if (rows.rows.size() <= kFewRows && rows.columns.size() > kManyColumns) {
      body += side_by_side_html(rows);
    } else {
      body += table_html(rows);
    }
  }

  void add_array(const std::string& title, const Json& array, const std::vector<std::string>& front) {
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
    add_rows(title, table, front);
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
      add_figures(figures.draw(table, {}));
      body += side_by_side_html(table);
    }
    const std::vector<std::string> front =
        front_options(object.value("objectives", Json()), object.value("by", Json()), object.value("rows", Json()));
    for (const auto& [name, array] : arrays) {
      add_array(name, *array, front);
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
    result.svg = input.bytes();
  } else if (extension != ".csv" && extension != ".jsonl") {
    result.answer = read_json(file.string(), input.bytes());
  } else {
    ResultReader reader(file);
    Table& rows = result.rows.emplace(Table{reader.columns(), {}});
    while (reader.next()) {
      rows.rows.push_back(reader.cells());
    }
    if (const std::filesystem::path manifest = manifest_path(file); is_there(manifest)) {
      result.manifest = read_json(manifest.string(), InputFile(manifest).bytes());
    }
  }
  return result;
}

// The same bytes for the same results. `commands`: what else made them, and the page.
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
  std::string body = "<h1>onchip report</h1>\n";
  if (!page.figures.missing().empty()) {
    body += note_html("Tables only, no figures: " + page.figures.missing() + ".");
  }
  return page_html("onchip: " + names, body + page.body + "<section>\n<h2>Commands</h2>\n<pre class=\"command\">" +
                                           escaped(joined(commands, "\n") + "\n") +
                                           "</pre>\n<p class=\"note\">onchip " ONCHIP_VERSION "</p>\n</section>\n");
}

std::vector<OptionGroup> report_options() {
  return {option_group(
      "Report", {{"files", "FILE...",
                  "Show these: the .json of any verb, .csv or .jsonl of rows, figures of plots/ as .svg; bare words "
                  "are files, too."},
                 {"command", "TEXT...", "Say that this command made the files, where they do not say it; repeatable."},
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
  const std::string page = report_html(results, commands);
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
