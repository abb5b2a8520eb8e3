// SPDX-License-Identifier: Apache-2.0
#include "experiments/page/figures.hpp"

#include "experiments/explore/spec.hpp"
#include "experiments/page/html.hpp"
#include "model/base/error.hpp"
#include "model/base/input_file.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <span>

namespace onchip {
namespace {

// What matplotlib never writes. (The page's policy lets none of it run.)
constexpr std::array<std::string_view, 5> kNotDrawn{"<script", "<!", "<foreignObject", "javascript:", " onload="};

constexpr int kNoMatplotlib = 77;  // exit status of plots/python

struct FigureKind {
  const char* script;
  const char* title;
  std::vector<std::string> columns, varied;  // that rows need; of `varied` each has more than one value
  std::size_t most_rows;
};

// The columns that the scripts read.
const std::vector<FigureKind>& figure_kinds() {
  constexpr std::size_t kAnyNumber = -1;
  static const std::vector<FigureKind> kAll{
      {"step_parts",
       "Where the time of a step goes",
       {"chip", "cell", "hidden", "batch", "density", "precision", "plan", "step_us", "low_us", "high_us", "floor_us",
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
      {"front", "What no other row beats", {}, {"hidden", "step_us"}, kAnyNumber},
  };
  return kAll;
}

// Why the figure is not of these rows, if it has other columns.
bool is_drawn_of(const FigureKind& kind, const Table& rows) {
  const auto place = [&](const std::string& column) {
    return static_cast<std::size_t>(std::ranges::find(rows.columns, column) - rows.columns.begin());
  };
  return !rows.rows.empty() && rows.rows.size() <= kind.most_rows &&
         std::ranges::all_of(kind.columns, [&](const auto& column) { return place(column) < rows.columns.size(); }) &&
         std::ranges::all_of(kind.varied, [&](const auto& column) {
           const std::size_t at = place(column);
           return at < rows.columns.size() &&
                  std::ranges::any_of(rows.rows, [&](const auto& row) { return row[at] != rows.rows[0][at]; });
         });
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
  const char* chosen = std::getenv("ONCHIP_PLOTS");
  scripts_ = chosen && *chosen ? chosen : ONCHIP_PLOTS_DIR;
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
  for (FigureKind kind : figure_kinds()) {
    const bool is_front = std::string_view(kind.script) == "front";
    const bool is_map = std::string_view(kind.script) == "fit_map";
    if (is_front && !objectives.empty()) {
      kind.varied.clear();
      std::ranges::transform(parse_objectives(objectives), std::back_inserter(kind.varied), &Objective::column);
    }
    if (!missing_.empty() || !is_drawn_of(kind, rows) || (is_map && !objectives.empty()) ||
        (!figures.empty() && figures.back().script == kind.script)) {
      continue;
    }
    const std::filesystem::path data = folder_ / "rows.csv", svg = folder_ / "figure.svg", said = folder_ / "said.txt";
    std::ofstream(data, std::ios::binary) << to_csv(rows);
    std::vector<std::string> words{
        scripts_ / "python", scripts_ / (std::string(kind.script) + ".py"), "--data", data, "-o", svg};
    if (is_front) {
      words.insert(words.end(), {"--objectives", objectives.empty() ? "hidden:max,step_us:min" : objectives});
    }
    if (is_map) {
      words.insert(words.end(), {"--rows", kind.varied[1]});
    }
    const int status = run_program(words, said);
    Figure figure{kind.script, kind.title, "", ""};
    if (status == 0) {
      figure.svg = embedded(file_text(svg), figure.title, svg);
    } else if (status == kNoMatplotlib) {
      missing_ = "there is no python3 with matplotlib (Debian and Ubuntu: apt-get install python3-matplotlib)";
      continue;
    } else {  // the last line that was said
      std::string reason = file_text(said);
      replace_all(reason, folder_.string() + "/", "");
      reason.erase(reason.find_last_not_of('\n') + 1);
      figure.problem = reason.substr(reason.rfind('\n') + 1);
    }
    figures.push_back(std::move(figure));
  }
  return figures;
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
