// SPDX-License-Identifier: Apache-2.0
// onchip pareto: the front of one or more result files, and what happens from one of its rows to the next.
#include "experiments/command/output.hpp"
#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_reader.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"
#include "model/explore/front.hpp"
#include "model/explore/spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>

namespace onchip {
namespace {

namespace po = boost::program_options;

OptionGroup pareto_options() {
  OptionGroup group = option_group("Front");
  // clang-format off
  group.add_options()
      ("files", po::value<std::vector<std::string>>()->composing()->value_name("FILE"),
       "Read these CSV or JSON Lines files; bare words are files, too. All need the same columns.")
      ("objectives", text_option("LIST"),
       "Compare these columns, the smallest or the largest first, e.g. step_us:min,hidden:max.")
      ("within", text_option("SHARE"),
       "Show only so many rows that each of the front is within this of one that is shown, in every objective, e.g. 2%.");
  // clang-format on
  return group;
}

double read_share(const Options& options) {
  const std::string text = options.text("within");
  if (text.empty()) {
    return 0;
  }
  const bool is_percent = text.ends_with('%');
  double share = -1;
  try {
    share = parse_quantity(is_percent ? text.substr(0, text.size() - 1) : text, Dimension::count);
  } catch (const InputError&) {
    share = -1;
  }
  share /= is_percent ? 100 : 1;
  if (!(share >= 0 && share < 1)) {
    throw InputError("--within: found " + in_quotes(text) + ": expected a share such as 2%");
  }
  return share;
}

// What differs between rows of a sweep by its spec; of another file what is no answer.
std::vector<std::size_t> axis_columns(const ResultReader& file, const std::filesystem::path& path,
                                      const std::vector<std::size_t>& objectives) {
  constexpr std::array<std::string_view, 13> kAnswers{"row",      "fits",     "binding",    "step_us", "low_us",
                                                      "high_us",  "floor_us", "ms",         "low_ms",  "high_ms",
                                                      "floor_ms", "problem",  "fingerprint"};
  std::vector<std::string> axes;
  const std::filesystem::path manifest = manifest_path(path);
  if (std::filesystem::exists(manifest)) {
    const MappedFile mapped(manifest);
    const Json json = Json::parse(mapped.bytes(), nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("spec")) {
      for (const Json& axis : json["spec"].value("axes", Json::array())) {
        for (const auto& [key, unused] : axis.items()) {
          axes.push_back(key);
        }
      }
      axes.emplace_back("plan");
    }
  }
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < file.columns().size(); ++i) {
    const std::string& name = file.columns()[i];
    const bool is_axis = axes.empty() ? std::ranges::find(kAnswers, name) == kAnswers.end() && !name.ends_with("_us") &&
                                            !name.ends_with("_used") && !name.ends_with("_available")
                                      : std::ranges::find(axes, name) != axes.end();
    if (is_axis && std::ranges::find(objectives, i) == objectives.end()) {
      columns.push_back(i);
    }
  }
  return columns;
}

// What is shown of a front: its points in the order of the first objective, and where the rows stand. Rows are read
// again when they are written, as they may be many.
class FrontAnswer {
 public:
  // A row's number: which file, and where in it.
  static constexpr unsigned kOffsetBits = 48;

  std::vector<std::string> paths, columns;
  std::deque<ResultReader> files;
  std::vector<std::size_t> objectives, axes;  // columns
  std::uint64_t rows = 0, uncounted = 0, on_front = 0;
  std::vector<Point> points;
  std::vector<std::vector<std::uint64_t>> ids;  // of the rows with a point's numbers

  std::uint64_t dominated() const { return rows - uncounted - on_front; }
  const std::string& file_of(std::uint64_t id) const { return paths[static_cast<std::size_t>(id >> kOffsetBits)]; }
  std::vector<std::string> cells_of(std::uint64_t id) {
    ResultReader& file = files[static_cast<std::size_t>(id >> kOffsetBits)];
    file.seek(id & ((std::uint64_t{1} << kOffsetBits) - 1));
    file.next();
    return file.cells();
  }
};

FrontAnswer find_front(const std::vector<std::string>& paths, const std::vector<Objective>& objectives, double share) {
  if (objectives.size() > kMostObjectives) {
    throw InputError("--objectives: expected at most " + std::to_string(kMostObjectives));
  }
  FrontAnswer answer;
  Front front(objectives.size());
  std::deque<ResultReader>& files = answer.files;
  answer.paths = paths;
  for (const std::string& path : paths) {
    ResultReader& file = files.emplace_back(path);
    std::vector<std::size_t> columns;
    for (const Objective& objective : objectives) {
      columns.push_back(file.index(objective.column));
    }
    if (files.size() == 1) {
      answer.columns = file.columns();
      answer.objectives = columns;
      answer.axes = axis_columns(file, path, columns);
    } else if (file.columns() != answer.columns) {
      throw InputError(path + ": other columns than in " + paths.front());
    }
    if (file.has("fits")) {
      columns.push_back(file.index("fits"));
    }
    std::vector<double> values(columns.size());
    while (file.next()) {
      ++answer.rows;
      file.numbers(columns, values);
      Point point{};
      bool counts = values.size() == objectives.size() || values.back() != 0;
      for (std::size_t i = 0; i < objectives.size(); ++i) {
        point[i] = objectives[i].is_largest ? -values[i] : values[i];
        counts &= std::isfinite(values[i]);
      }
      if (counts) {
        front.add(point, (files.size() - 1) << FrontAnswer::kOffsetBits | file.offset());
      } else {
        ++answer.uncounted;
      }
    }
  }
  std::vector<Point> points;
  std::vector<const std::vector<std::uint64_t>*> ids;
  for (const auto& [point, of_point] : front.points()) {
    points.push_back(point);
    ids.push_back(&of_point);
    answer.on_front += of_point.size();
  }
  for (const std::size_t place : thinned(points, share)) {
    answer.points.push_back(points[place]);
    answer.ids.push_back(*ids[place]);
  }
  return answer;
}

// ---- from one row to the next ---------------------------------------------------------------------------------------

double change_percent(double from, double to) {
  return from == to ? 0 : from != 0 ? 100 * (to - from) / std::abs(from) : std::numeric_limits<double>::infinity();
}

std::string percent_text(double percent) {
  return percent == 0 ? "same" : (percent > 0 ? "+" : "") + fixed(percent, 1) + " %";
}

using Cells = std::vector<std::string>;

// Of an axis's cells: "hidden 512 -> 768"; of a plan no more than the family, as it is long.
std::string changed_text(const FrontAnswer& answer, const Cells& from, const Cells& to) {
  std::string text;
  for (const std::size_t column : answer.axes) {
    const std::string& before = from[column];
    const std::string& after = to[column];
    if (before == after) {
      continue;
    }
    const bool is_plan = answer.columns[column] == "plan";
    const auto shown = [&](const std::string& cell) { return is_plan ? cell.substr(0, cell.find(' ')) : cell; };
    text += text.empty() ? "" : ", ";
    text += is_plan && shown(before) == shown(after)
                ? "another plan"
                : answer.columns[column] + ' ' + shown(before) + " -> " + shown(after);
  }
  return text;
}

double change_percent(const FrontAnswer& answer, std::size_t point, std::size_t objective) {
  return change_percent(std::abs(answer.points[point - 1][objective]), std::abs(answer.points[point][objective]));
}

// One line for each point, but for those that nobody reads.
std::string to_text(FrontAnswer& answer) {
  constexpr std::size_t kMostLines = 100;
  std::string text = std::to_string(answer.rows) + (answer.rows == 1 ? " row: " : " rows: ") +
                     std::to_string(answer.on_front) + " on the front, which dominate " +
                     std::to_string(answer.dominated());
  if (answer.uncounted > 0) {
    text += "; " + std::to_string(answer.uncounted) + " do not fit, or have no number for an objective";
  }
  std::uint64_t shown = 0;
  for (const auto& ids : answer.ids) {
    shown += ids.size();
  }
  if (shown < answer.on_front) {
    text += "\n" + std::to_string(shown) + " of the front stand for it";
  }
  const bool has_equals = shown > answer.points.size();
  std::vector<std::size_t> columns = answer.objectives;
  for (const std::size_t column : answer.axes) {
    if (answer.columns[column] != "plan") {
      columns.push_back(column);
    }
  }
  Table table;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    table.columns.push_back(answer.columns[columns[i]]);
    if (i < answer.objectives.size()) {
      table.columns.emplace_back("");
    }
  }
  if (has_equals) {
    table.columns.emplace_back("rows");
  }
  table.columns.emplace_back("what changed");
  Cells before;
  for (std::size_t point = 0; point < std::min(kMostLines, answer.points.size()); ++point) {
    const Cells row = answer.cells_of(answer.ids[point].front());
    Cells& cells = table.rows.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      cells.push_back(row[columns[i]]);
      if (i < answer.objectives.size()) {
        cells.push_back(point == 0 ? "" : percent_text(change_percent(answer, point, i)));
      }
    }
    if (has_equals) {
      cells.push_back(std::to_string(answer.ids[point].size()));
    }
    cells.push_back(point == 0 ? "" : changed_text(answer, before, row));
    before = row;
  }
  text += "\n\n" + to_aligned(table);
  if (answer.points.size() > kMostLines) {
    text += "and " + std::to_string(answer.points.size() - kMostLines) +
            " more lines: --within 5% shows fewer of them, --format csv all\n";
  }
  return text;
}

void write_csv(FrontAnswer& answer, Output& output) {
  const bool has_files = answer.paths.size() > 1;
  Cells columns = answer.columns;
  if (has_files) {
    columns.emplace_back("file");
  }
  output.append(csv_line(columns));
  for (const auto& ids : answer.ids) {
    for (const std::uint64_t id : ids) {
      Cells cells = answer.cells_of(id);
      if (has_files) {
        cells.push_back(answer.file_of(id));
      }
      output.append(csv_line(cells));
    }
  }
}

void write_json(FrontAnswer& answer, const std::vector<Objective>& objectives, Output& output) {
  const Json summary = output.signed_answer({{"objectives", to_string(objectives)},
                                             {"rows", answer.rows},
                                             {"on_front", answer.on_front},
                                             {"dominated", answer.dominated()},
                                             {"not_counted", answer.uncounted}});
  std::string text = json_text(summary);
  text.resize(text.rfind("\n}"));
  output.append(text + ",\n  \"front\": [");
  Cells before;
  for (std::size_t point = 0; point < answer.points.size(); ++point) {
    for (const std::uint64_t id : answer.ids[point]) {
      const bool is_first = id == answer.ids[point].front();
      const Cells cells = answer.cells_of(id);
      Json one{{"row", Json::object()}, {"changed", Json::object()}, {"percent", Json::object()}};
      for (std::size_t column = 0; column < cells.size(); ++column) {
        one["row"][answer.columns[column]] = cells[column];
      }
      for (std::size_t i = 0; i < answer.objectives.size(); ++i) {
        one["percent"][answer.columns[answer.objectives[i]]] =
            point == 0 || !is_first ? Json(0) : Json(rounded(change_percent(answer, point, i)));
      }
      for (const std::size_t column : answer.axes) {
        if (!before.empty() && before[column] != cells[column]) {
          one["changed"][answer.columns[column]] = {before[column], cells[column]};
        }
      }
      if (answer.paths.size() > 1) {
        one["file"] = answer.file_of(id);
      }
      output.append((before.empty() ? "\n    " : ",\n    ") +
                    one.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
      before = cells;
    }
  }
  output.append("\n  ]\n}\n");
}

}  // namespace

int run_pareto(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto options = parse_options(verb, arguments, {pareto_options(), output_options()}, "files");
  if (!options) {
    return 0;
  }
  const std::vector<std::string> files = options->list("files");
  if (files.empty() || !options->given("objectives")) {
    throw InputError(
        "expected files and --objectives, e.g. 'onchip pareto sweep.csv --objectives step_us:min,hidden:max'");
  }
  std::vector<Objective> objectives;
  try {
    objectives = parse_objectives(options->text("objectives"));
  } catch (const InputError& error) {
    throw InputError(std::string("--objectives: ") + error.what());
  }
  const double share = read_share(*options);
  Output output(*options);
  FrontAnswer answer = find_front(files, objectives, share);
  switch (output.format()) {
    case Format::table:
      output.append(output.path().empty() ? for_terminal(to_text(answer)) : to_text(answer));
      break;
    case Format::csv:
      write_csv(answer, output);
      break;
    case Format::json:
      write_json(answer, objectives, output);
      break;
  }
  output.finish();
  return answer.on_front > 0 ? 0 : 1;
}

}  // namespace onchip
