// SPDX-License-Identifier: Apache-2.0
// onchip pareto: the front of one or more result files, and what happens from one of its rows to the next.
#include "experiments/command/output.hpp"
#include "experiments/command/terminal.hpp"
#include "experiments/command/verbs.hpp"
#include "experiments/explore/result_reader.hpp"
#include "experiments/measurement/manifest.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/is_there.hpp"
#include "model/base/units.hpp"
#include "model/explore/front_of_rows.hpp"

#include <algorithm>
#include <deque>
#include <optional>

namespace onchip {
namespace {

// Of the sweep that the file is of, if its manifest says so.
std::vector<std::string> axes_of(const std::filesystem::path& path) {
  const std::filesystem::path manifest = manifest_path(path);
  std::vector<std::string> axes;
  if (!is_there(manifest)) {
    return axes;
  }
  const Json json = parse_json(InputFile(manifest).bytes(), manifest.string());
  if (json.is_object() && json.contains("spec")) {
    for (const Json& axis : json["spec"].value("axes", Json::array())) {
      for (const auto& [key, unused] : axis.items()) {
        axes.push_back(key);
      }
    }
  }
  return axes;
}

// The front of files, whose rows are read again when they are written, as they may be many.
struct FrontOfFiles {
  // A row's number: which file, and where in it.
  static constexpr unsigned kOffsetBits = 48;

  std::vector<std::string> paths;
  std::deque<ResultReader> files;
  std::optional<FrontsOfRows> found = {};

  const auto& fronts() const { return found->fronts(); }
  const std::string& file_of(std::uint64_t id) const { return paths[static_cast<std::size_t>(id >> kOffsetBits)]; }
  std::vector<std::string> cells_of(std::uint64_t id) {
    ResultReader& file = files[static_cast<std::size_t>(id >> kOffsetBits)];
    file.seek(id & ((std::uint64_t{1} << kOffsetBits) - 1));
    file.next();
    return file.cells();
  }
};

FrontOfFiles find_fronts(const std::vector<std::string>& paths, const FrontAsked& asked) {
  FrontOfFiles of{paths, {}};
  for (const std::string& path : paths) {
    of.files.emplace_back(path);
    if (of.files.back().columns() != of.files.front().columns()) {
      throw InputError(path + ": other columns than in " + paths.front());
    }
  }
  FrontsOfRows& found = of.found.emplace(of.files.front().columns(), asked, paths.front(), axes_of(paths.front()));
  std::vector<double> numbers(found.numbers().size());
  for (std::size_t i = 0; i < of.files.size(); ++i) {
    ResultReader& file = of.files[i];
    while (file.next()) {
      file.numbers(found.numbers(), numbers);
      found.add(numbers, found.by() ? file.cells()[*found.by()] : "", i << FrontOfFiles::kOffsetBits | file.offset());
    }
  }
  found.finish();
  return of;
}

std::string percent_text(double percent) {
  return percent == 0 ? "same" : (percent > 0 ? "+" : "") + fixed(percent, 1) + " %";
}

// One line for each point, but for those that nobody reads.
std::string to_text(FrontOfFiles& files, const FrontOfRows& answer) {
  constexpr std::size_t kMostLines = 100;
  std::string text = std::to_string(answer.rows()) + (answer.rows() == 1 ? " row: " : " rows: ") +
                     std::to_string(answer.on_front()) + " on the front, which dominate " +
                     std::to_string(answer.dominated());
  if (answer.uncounted() > 0) {
    text += "; " + std::to_string(answer.uncounted()) + " do not fit, or have no number for an objective";
  }
  std::uint64_t shown = 0;
  for (const auto& ids : answer.ids()) {
    shown += ids.size();
  }
  if (shown < answer.on_front()) {
    text += "\n" + std::to_string(shown) + " of the front stand for it";
  }
  const bool has_equals = shown > answer.ids().size();
  std::vector<std::size_t> columns = answer.objectives();
  for (const std::size_t column : answer.axes()) {
    if (answer.columns()[column] != "plan") {
      columns.push_back(column);
    }
  }
  Table table;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    table.columns.push_back(answer.columns()[columns[i]]);
    if (i < answer.objectives().size()) {
      table.columns.emplace_back("");
    }
  }
  if (has_equals) {
    table.columns.emplace_back("rows");
  }
  table.columns.emplace_back("what changed");
  std::vector<std::string> before;
  for (std::size_t point = 0; point < std::min(kMostLines, answer.ids().size()); ++point) {
    const std::vector<std::string> row = files.cells_of(answer.ids()[point].front());
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      cells.push_back(row[columns[i]]);
      if (i < answer.objectives().size()) {
        cells.push_back(point == 0 ? "" : percent_text(answer.change_percent(point, i)));
      }
    }
    if (has_equals) {
      cells.push_back(std::to_string(answer.ids()[point].size()));
    }
    cells.push_back(point == 0 ? "" : answer.changed_text(before, row));
    before = row;
  }
  text += "\n\n" + to_aligned(table);
  if (answer.ids().size() > kMostLines) {
    text += "and " + std::to_string(answer.ids().size() - kMostLines) +
            " more lines: --within 5% shows fewer of them, --format csv all\n";
  }
  return text;
}

std::string to_text(FrontOfFiles& files, const std::string& by) {
  std::string text;
  for (const auto& [value, front] : files.fronts()) {
    text += text.empty() ? "" : "\n";
    text += (by.empty() ? "" : by + ' ' + value + ": ") + to_text(files, front);
  }
  return text.empty() ? "no rows\n" : text;
}

void write_csv(FrontOfFiles& files, Output& output) {
  const bool has_files = files.paths.size() > 1;
  std::vector<std::string> columns = files.files.front().columns();
  if (has_files) {
    columns.emplace_back("file");
  }
  output.append(csv_line(columns));
  for (const auto& [value, front] : files.fronts()) {
    for (const auto& ids : front.ids()) {
      for (const std::uint64_t id : ids) {
        std::vector<std::string> cells = files.cells_of(id);
        if (has_files) {
          cells.push_back(files.file_of(id));
        }
        output.append(csv_line(cells));
      }
    }
  }
}

void write_json(FrontOfFiles& files, Output& output) {
  std::string text = json_text(output.signed_answer(files.found->summary()));
  text.resize(text.rfind("\n}"));
  output.append(text + ",\n  \"front\": [");
  std::string before = "\n    ";
  for (const auto& [value, front] : files.fronts()) {
    front.for_each([&](std::uint64_t id) { return files.cells_of(id); },
                   [&](std::uint64_t id, Json row) {
                     if (files.paths.size() > 1) {
                       row["file"] = files.file_of(id);
                     }
                     output.append(before + row.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
                     before = ",\n    ";
                   });
  }
  output.append("\n  ]\n}\n");
}

std::vector<OptionGroup> pareto_options() {
  return {
      option_group(
          "Front",
          {{"files", "FILE...",
            "Read these CSV or JSON Lines files; bare words are files, too. All need the same columns."},
           {"objectives", "LIST",
            "Compare these columns, the smallest or the largest first, e.g. step_us:min,hidden:max."},
           {"by", "COLUMN", "Find a front for each value of this column, e.g. chip, instead of one of all rows."},
           {"where", "EXPRESSION",
            "Leave out rows of which this is false, as 'sweep' does: of columns that are numbers, e.g. \"batch == 4 && "
            "density < 0.2\"."},
           {"within", "SHARE",
            "Show only so many rows that each of the front is within this of one that is shown, in every objective, "
            "e.g. "
            "2%."}}),
      output_options()};
}

int run_pareto(const Options& options) {
  const std::vector<std::string> files = options.list("files");
  if (files.empty() || !options.given("objectives")) {
    throw InputError(
        "expected files and --objectives, e.g. 'onchip pareto sweep.csv --objectives step_us:min,hidden:max'");
  }
  const auto parsed = [&](const std::string& option, auto&& parse) {
    try {
      return parse(options.text(option));
    } catch (const InputError& error) {
      throw InputError("--" + option + ": " + error.what());
    }
  };
  const FrontAsked asked{parsed("objectives", parse_objectives), options.text("by"), options.text("where"),
                         parsed("within", parse_within)};
  Output output(options);
  FrontOfFiles answer = find_fronts(files, asked);
  switch (output.format()) {
    case Format::table:
      output.append(output.path().empty() ? for_terminal(to_text(answer, asked.by)) : to_text(answer, asked.by));
      break;
    case Format::csv:
      write_csv(answer, output);
      break;
    case Format::json:
      write_json(answer, output);
      break;
  }
  output.finish();
  return answer.found->sum(&FrontOfRows::on_front) > 0 ? 0 : 1;
}

}  // namespace

const Verb kParetoVerb{
    "pareto",
    "Find the rows of a sweep that no other row beats, and what each step along them costs and gains.",
    "onchip pareto sweep.csv --objectives hidden:max,step_us:min",
    pareto_options,
    run_pareto,
    "files"};

}  // namespace onchip
