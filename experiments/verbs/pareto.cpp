// SPDX-License-Identifier: Apache-2.0
// onchip pareto: the front of one or more result files, and what happens from one of its rows to the next.
#include "experiments/command/output.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/front.hpp"
#include "experiments/explore/result_reader.hpp"
#include "experiments/explore/spec.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/units.hpp"

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
  constexpr std::array<std::string_view, 9> kAnswers{"row",     "fits",     "binding", "step_us",    "low_us",
                                                     "high_us", "floor_us", "problem", "fingerprint"};
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

struct FrontRow {
  Point point;
  std::string file;
  std::vector<std::string> cells;
};

struct FrontAnswer {
  std::vector<std::string> columns;
  std::vector<std::size_t> objectives, axes;  // columns
  std::uint64_t rows = 0, uncounted = 0, on_front = 0;
  std::vector<FrontRow> shown;  // in the order of the first objective

  std::uint64_t dominated() const { return rows - uncounted - on_front; }
};

FrontAnswer find_front(const std::vector<std::string>& paths, const std::vector<Objective>& objectives, double share) {
  if (objectives.size() > kMostObjectives) {
    throw InputError("--objectives: expected at most " + std::to_string(kMostObjectives));
  }
  // A row's number: which file, and where in it.
  constexpr unsigned kOffsetBits = 48;
  FrontAnswer answer;
  Front front(objectives.size());
  std::deque<ResultReader> files;
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
        front.add(point, (files.size() - 1) << kOffsetBits | file.offset());
      } else {
        ++answer.uncounted;
      }
    }
  }
  std::vector<Point> points;
  std::vector<const std::vector<std::uint64_t>*> ids;
  for (const auto& [point, rows] : front.points()) {
    points.push_back(point);
    ids.push_back(&rows);
    answer.on_front += rows.size();
  }
  for (const std::size_t place : thinned(points, share)) {
    for (const std::uint64_t id : *ids[place]) {
      const auto number = static_cast<std::size_t>(id >> kOffsetBits);
      ResultReader& file = files[number];
      file.seek(id & ((std::uint64_t{1} << kOffsetBits) - 1));
      file.next();
      answer.shown.push_back({points[place], paths[number], file.cells()});
    }
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

// Of an axis's cells: "hidden 512 -> 768"; of a plan no more than the family, as it is long.
std::string changed_text(const FrontAnswer& answer, const FrontRow& from, const FrontRow& to) {
  std::string text;
  for (const std::size_t column : answer.axes) {
    const std::string& before = from.cells[column];
    const std::string& after = to.cells[column];
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

std::string number(std::uint64_t count, const char* of_one, const char* of_many) {
  return std::to_string(count) + ' ' + (count == 1 ? of_one : of_many);
}

Report report_of(const FrontAnswer& answer, bool has_files) {
  Table csv{answer.columns, {}}, table;
  Json json{{"rows", answer.rows},
            {"on_front", answer.on_front},
            {"dominated", answer.dominated()},
            {"not_counted", answer.uncounted},
            {"front", Json::array()}};
  std::vector<std::size_t> shown = answer.objectives;
  for (const std::size_t column : answer.axes) {
    if (answer.columns[column] != "plan") {
      shown.push_back(column);
    }
  }
  for (std::size_t i = 0; i < shown.size(); ++i) {
    table.columns.push_back(answer.columns[shown[i]]);
    if (i < answer.objectives.size()) {
      table.columns.emplace_back("");
    }
  }
  table.columns.emplace_back("what changed");
  if (has_files) {
    csv.columns.emplace_back("file");
  }
  const FrontRow* before = nullptr;
  for (const FrontRow& row : answer.shown) {
    csv.rows.push_back(row.cells);
    if (has_files) {
      csv.rows.back().push_back(row.file);
    }
    Json one{{"row", Json::object()}, {"changed", Json::object()}, {"percent", Json::object()}};
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      one["row"][answer.columns[column]] = row.cells[column];
    }
    if (has_files) {
      one["file"] = row.file;
    }
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      cells.push_back(row.cells[shown[i]]);
      if (i < answer.objectives.size()) {
        const double percent =
            before == nullptr ? 0 : change_percent(std::abs(before->point[i]), std::abs(row.point[i]));
        cells.push_back(before == nullptr ? "" : percent_text(percent));
        one["percent"][answer.columns[shown[i]]] = before == nullptr ? Json(nullptr) : Json(rounded(percent));
      }
    }
    cells.push_back(before == nullptr ? "" : changed_text(answer, *before, row));
    for (const std::size_t column : answer.axes) {
      if (before != nullptr && before->cells[column] != row.cells[column]) {
        one["changed"][answer.columns[column]] = {before->cells[column], row.cells[column]};
      }
    }
    table.rows.push_back(std::move(cells));
    json["front"].push_back(std::move(one));
    before = &row;
  }
  std::string text = number(answer.rows, "row", "rows") + ": " + std::to_string(answer.on_front) +
                     " on the front, which dominate " + std::to_string(answer.dominated());
  if (answer.uncounted > 0) {
    text += "; " + std::to_string(answer.uncounted) + " do not fit, or have no number for an objective";
  }
  if (answer.shown.size() < answer.on_front) {
    text += "\n" + std::to_string(answer.shown.size()) + " of the front stand for it";
  }
  return {text + "\n\n" + to_aligned(table), std::move(csv), versioned(json)};
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
  const FrontAnswer answer = find_front(files, objectives, share);
  output.write(report_of(answer, files.size() > 1));
  return answer.on_front > 0 ? 0 : 1;
}

}  // namespace onchip
