// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/figures.hpp"

#include "experiments/page/html.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"
#include "model/base/shipped.hpp"
#include "model/explore/spec.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

namespace onchip {
namespace {

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
      {"front", "What no other row beats", {}, {"hidden", "step_us"}, kAnyNumber},
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

// The exit status of a program whose output goes to a file; 127 if it cannot be run.
int run_program(std::vector<std::string> words, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  std::ranges::transform(words, std::back_inserter(arguments), [](std::string& word) { return word.data(); });
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  int status = 127;
  if (::posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ) == 0) {
    ::waitpid(process, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 127;
  }
  ::posix_spawn_file_actions_destroy(&actions);
  return status;
}

std::string file_text(const std::filesystem::path& file) {
  return std::string(MappedFile(file).bytes());
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

}  // namespace

Figures::Figures() {
  scripts_ = shipped_folder("plots", "ONCHIP_PLOTS", ONCHIP_PLOTS_DIR).path;
  std::string name = (std::filesystem::temp_directory_path() / "onchip_report_XXXXXX").string();
  if (!std::filesystem::exists(scripts_ / "python")) {
    missing_ = "the scripts of plots/ are not here";
  } else if (::mkdtemp(name.data()) == nullptr) {
    missing_ = "there is no folder for temporary files";
  } else {
    folder_ = name;
  }
}

Figures::~Figures() {
  std::error_code ignored;
  if (!folder_.empty()) {
    std::filesystem::remove_all(folder_, ignored);
  }
}

std::vector<Figure> Figures::draw(const Table& rows, const std::string& objectives) {
  std::vector<Figure> figures;
  bool has_map = false;
  for (FigureKind kind : figure_kinds()) {
    std::vector<std::string> options;
    if (kind.script == kFront) {
      options = {"--objectives", objectives.empty() ? "hidden:max,step_us:min" : objectives};
      kind.varied.clear();
      std::ranges::transform(parse_objectives(options[1]), std::back_inserter(kind.varied), &Objective::column);
    } else if (kind.script == kMap) {
      options = {"--rows", kind.varied[1]};
    }
    if (is_drawn_of(kind, rows) && !(kind.script == kMap && (has_map || !objectives.empty()))) {
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
      const bool is_own = std::filesystem::exists(scripts_ / (row[plot] + ".py"));
      draw_by(is_own ? row[plot] : std::string(kClaims), heading(row[plot]), "csv", to_csv(rows),
              is_own ? std::vector<std::string>() : std::vector<std::string>{"--figure", row[plot]}, figures);
    }
  }
  return figures;
}

std::vector<Figure> Figures::draw(const Json& answer) {
  std::vector<Figure> figures;
  if (answer.contains("base") && answer.contains("sensitivity")) {
    draw_by("tornado", "What 10 % more of a number of the chip changes", "json", answer.dump(), {}, figures);
  }
  return figures;
}

void Figures::draw_by(const std::string& script, const std::string& title, const std::string& extension,
                      const std::string& bytes, const std::vector<std::string>& options, std::vector<Figure>& figures) {
  const std::filesystem::path program = scripts_ / (script + ".py");
  if (!missing_.empty() || script.find('/') != std::string::npos || !std::filesystem::exists(program)) {
    return;
  }
  const std::filesystem::path data = folder_ / ("data." + extension), svg = folder_ / "figure.svg",
                              said = folder_ / "said.txt";
  std::ofstream(data, std::ios::binary) << bytes;
  std::vector<std::string> words{scripts_ / "python", program, "--data", data, "-o", svg};
  words.insert(words.end(), options.begin(), options.end());
  const int status = run_program(words, said);
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

std::string Figures::embedded(std::string_view svg, const std::string& title, const std::string& name) {
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

}  // namespace onchip
